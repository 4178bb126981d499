//! Options of every program. Values of the wrong type are refused. Commands in the names of files are run unless the
//! program is told not to (`--allow-commands=false`); the library does not run them until it is told to.

mod common;

use std::path::Path;
use std::process::{Command, Output};

/// A name that leaves a file if it is run as a command.
const NAME: &str = "touch ran |";
const TABLE: &str = "ark:touch ran |";

/// Programs with arguments of which one is such a name.
const CALLS: &[(&str, &[&str])] = &[
    ("koshi-chain-objf", &["den", NAME, "out"]),
    ("koshi-compute-wer", &[TABLE, "ark:heard"]),
    ("koshi-graph", &["info", NAME]),
    ("koshi-latgen-faster-mapped", &[NAME, "graph", "ark:scores", "ark:out"]),
    ("koshi-lattice-1best", &[TABLE, "ark:out"]),
    ("koshi-lattice-add-penalty", &[TABLE, "ark:out"]),
    ("koshi-lattice-align-words", &["boundary", NAME, "ark:lattices", "ark:out"]),
    ("koshi-lattice-align-words-lexicon", &[NAME, "model", "ark:lattices", "ark:out"]),
    ("koshi-lattice-best-path", &[TABLE]),
    ("koshi-lattice-copy", &[TABLE, "ark:out"]),
    ("koshi-lattice-mbr-decode", &[TABLE, "ark:out"]),
    ("koshi-lattice-prune", &[TABLE, "ark:out"]),
    ("koshi-lattice-scale", &[TABLE, "ark:out"]),
    ("koshi-lattice-to-ctm-conf", &[TABLE, "out"]),
    ("koshi-lattice-to-nbest", &[TABLE, "ark:out"]),
    ("koshi-nbest-to-ctm", &[TABLE, "out"]),
    ("koshi-nnet-copy-egs", &[TABLE, "ark:out"]),
    ("koshi-nnet-copy-egs-discriminative", &[TABLE, "ark:out"]),
    // Its model is a file, whatever it is called.
    ("koshi-transducer", &[NAME]),
];

/// Runs a program of `CALLS`.
fn run(program: &str, words: &[&str], place: &Path) -> Output {
    let folder = Path::new(env!("CARGO_BIN_EXE_koshi-graph")).parent().unwrap();
    Command::new(folder.join(program)).args(words).current_dir(place).output().unwrap()
}

/// A value that is none of its type, and one that is missing, is told with the option's name before anything is done.
#[test]
fn wrong_values_are_told_with_the_options_name() {
    let place = tempfile::tempdir().unwrap();
    for (program, words) in CALLS {
        let refused = |options: &[&str], message: &str| {
            let output = run(program, &[options, *words].concat(), place.path());
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains(message) && said.contains("; --help tells how"), "{program} {options:?}: {said}");
            assert!(said.lines().count() == 1 && output.stdout.is_empty(), "{program} {options:?}: {said}");
            assert_eq!(output.status.code(), Some(1), "{program} {options:?}");
        };
        let help = String::from_utf8(run(program, &["--help"], place.path()).stderr).unwrap();
        let options = help.lines().filter_map(|line| line.strip_prefix("  --")?.split_once(' '));
        let mut numbers = 0;
        for (name, doc) in options.filter(|(_, doc)| !doc.contains("(string")) {
            refused(&[&format!("--{name}=abc")], &format!("--{name}=abc: expected "));
            if doc.contains("(int,") || doc.contains("(float,") {
                numbers += 1;
                refused(&[&format!("--{name}=")], &format!("--{name}=: expected a "));
                refused(&[&format!("--{name}"), "abc"], &format!("--{name} needs a value: --{name}=..."));
            }
        }
        assert!(numbers > 0, "{program} has --verbose: {help}");
    }
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn every_program_can_be_told_not_to_run_commands() {
    let mut programs: Vec<String> = std::fs::read_dir(common::root().join("src/bin"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_string())
        .collect();
    programs.sort();
    assert_eq!(programs, CALLS.iter().map(|call| call.0).collect::<Vec<_>>(), "each program, in order");
    for (program, words) in CALLS {
        for allowed in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let option = format!("--allow-commands={allowed}");
            let output = run(program, &[&[option.as_str()], *words].concat(), place.path());
            let said = String::from_utf8_lossy(&output.stderr);
            let refused = said.contains("commands in file names are not allowed");
            let runs = allowed && *program != "koshi-transducer";
            assert_eq!(place.path().join("ran").exists(), runs, "{program}, {allowed}: {said}");
            assert_eq!(refused, !allowed && *program != "koshi-transducer", "{program}, {allowed}: {said}");
            assert!(allowed || output.status.code() == Some(1), "{program}: {said}");
        }
    }
}

/// In a process of its own, where nobody has allowed anything.
#[test]
fn the_library_runs_no_commands_until_it_is_told_to() {
    assert!(!koshi::table::commands_allowed());
    let place = tempfile::tempdir().unwrap();
    let name = format!("touch {}/ran |", place.path().display());
    let writer = format!("| cat > {}/ran", place.path().display());
    use koshi::table::{Input, MatrixHolder, Output, RandomAccessReader, SequentialReader, TableWriter};
    let mut messages = vec![
        Input::open(&name).err(),
        SequentialReader::<MatrixHolder>::open(&format!("ark:{name}")).err(),
        SequentialReader::<MatrixHolder>::open(&format!("scp:{name}")).err(),
        RandomAccessReader::<MatrixHolder>::open(&format!("ark:{name}")).err(),
        koshi::graph::Graph::open(&name, koshi::graph::Columns::Labels).err(),
        Output::create(&writer).err(),
        TableWriter::<MatrixHolder>::open(&format!("ark:{writer}")).err(),
    ];
    // A script that is a file may name commands too: it is refused where the entry is read.
    let script = place.path().join("script");
    std::fs::write(&script, format!("a {name}\n")).unwrap();
    let mut reader = SequentialReader::<MatrixHolder>::open(&format!("scp:{}", script.display())).unwrap();
    messages.push(reader.next().err());
    for message in messages {
        let message = message.expect("a command was run").chain();
        assert!(message.contains("commands in file names are not allowed"), "{message}");
    }
    assert!(!place.path().join("ran").exists());
}
