//! `koshi-nnet-copy-egs` and `koshi-nnet-copy-egs-discriminative` as a recipe runs them.

#[path = "support/shared.rs"]
mod shared;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use koshi::egs::{Labels, NnetExample, NnetExampleHolder};
use koshi::table::{CompressedMatrix, Method, SequentialReader, TableWriter};
use tempfile::TempDir;

const COPY: &str = env!("CARGO_BIN_EXE_koshi-nnet-copy-egs");
const COPY_DISCRIMINATIVE: &str = env!("CARGO_BIN_EXE_koshi-nnet-copy-egs-discriminative");

/// Runs a command; gives its exit status and what it said.
fn run(program: &str, folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(program).args(words).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[track_caller]
fn ok(program: &str, folder: &Path, words: &[&str]) -> String {
    let (code, said) = run(program, folder, words);
    assert_eq!(code, Some(0), "{said}");
    said
}

#[track_caller]
fn refused(program: &str, folder: &Path, words: &[&str], because: &str) {
    let (code, said) = run(program, folder, words);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(because), "{because:?} is not in:\n{said}");
}

/// Example `number` of so many labelled frames, with 2 rows before and 3 behind them.
fn example(number: i32, frames: i32) -> NnetExample {
    let pdfs: Vec<i32> = (0..frames).map(|frame| number * 100 + frame).collect();
    let rows = (frames + 5) as usize;
    let data: Vec<f32> = (0..rows * 2).map(|at| at as f32 + number as f32 / 8.0).collect();
    let input_frames = CompressedMatrix::compress(&data, rows, 2, 2, Method::Auto).unwrap();
    NnetExample { labels: Labels::simple(&pdfs).unwrap(), input_frames, left_context: 2, spk_info: vec![] }
}

/// A folder with `in.ark`: examples k0, k1, ... of 4, 3, 4, 3, ... labelled frames.
fn folder(count: i32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("ark:{}", folder.path().join("in.ark").display());
    let mut writer = TableWriter::<NnetExampleHolder>::open(&name).unwrap();
    for number in 0..count {
        writer.write(&format!("k{number}"), &example(number, 4 - number % 2)).unwrap();
    }
    writer.close().unwrap();
    folder
}

fn entries(folder: &Path, name: &str) -> Vec<(String, NnetExample)> {
    let mut reader =
        SequentialReader::<NnetExampleHolder>::open(&format!("ark:{}", folder.join(name).display())).unwrap();
    std::iter::from_fn(|| reader.next().unwrap()).collect()
}

fn keys(folder: &Path, name: &str) -> Vec<String> {
    entries(folder, name).into_iter().map(|(key, _)| key).collect()
}

#[test]
fn copies_are_the_same_bytes_and_may_be_text() {
    let folder = folder(5);
    let folder = folder.path();
    let said = ok(COPY, folder, &["ark:in.ark", "ark,scp:out.ark,out.scp"]);
    assert!(said.contains("LOG (koshi-nnet-copy-egs["), "{said}");
    assert!(said.contains(") Read 5 neural-network training examples, wrote 5\n"), "{said}");
    assert!(fs::read(folder.join("in.ark")).unwrap() == fs::read(folder.join("out.ark")).unwrap());
    ok(COPY, folder, &["scp:out.scp", "ark,t:text"]);
    assert!(fs::read_to_string(folder.join("text")).unwrap().starts_with("k0 <NnetExample> <Lab1> [ 0 1 2 3 ]\n"));
    ok(COPY, folder, &["ark:cat text |", "ark:| cat > piped"]);
    assert_eq!(keys(folder, "piped"), ["k0", "k1", "k2", "k3", "k4"]);
}

#[test]
fn outputs_take_turns_or_are_chosen_at_random() {
    let folder = folder(40);
    let folder = folder.path();
    ok(COPY, folder, &["ark:in.ark", "ark:1", "ark:2", "ark:3"]);
    assert_eq!(keys(folder, "1")[..3], ["k0", "k3", "k6"]);
    assert_eq!(keys(folder, "3")[..2], ["k2", "k5"]);
    let chosen = |seed: &str| {
        ok(COPY, folder, &["--random", &format!("--srand={seed}"), "ark:in.ark", "ark:1", "ark:2"]);
        (keys(folder, "1"), keys(folder, "2"))
    };
    let (one, two) = chosen("7");
    assert_eq!(one.len() + two.len(), 40);
    assert!(one.len() > 8 && two.len() > 8, "{one:?}");
    let numbers: Vec<u32> = one.iter().map(|key| key[1..].parse().unwrap()).collect();
    assert!(numbers.windows(2).any(|two| two[0] + 2 != two[1]), "in turn: {numbers:?}");
    assert_eq!(chosen("7"), (one.clone(), two));
    assert_ne!(chosen("8").0, one);
}

#[test]
fn keep_proportion_counts_copies() {
    let folder = folder(200);
    let folder = folder.path();
    ok(COPY, folder, &["--keep-proportion=2", "ark:in.ark", "ark:out"]);
    assert_eq!(keys(folder, "out")[..4], ["k0", "k0", "k1", "k1"]);
    ok(COPY, folder, &["--keep_proportion=0.25", "--srand=3", "ark:in.ark", "ark:out"]);
    let kept = keys(folder, "out").len();
    assert!((20..80).contains(&kept), "{kept}");
    refused(
        COPY,
        folder,
        &["--keep-proportion=0", "ark:in.ark", "ark:out"],
        "Read 200 neural-network training examples, wrote 0",
    );
    for bad in ["-1", "nan", "inf"] {
        refused(COPY, folder, &[&format!("--keep-proportion={bad}"), "ark:in.ark", "ark:out"], "keep-proportion");
    }
}

#[test]
fn frames_and_contexts_are_cut() {
    let folder = folder(6);
    let folder = folder.path();
    // Every other example has no frame 3.
    ok(COPY, folder, &["--frame=3", "--left-context=1", "--right-context=0", "ark:in.ark", "ark:out"]);
    let found = entries(folder, "out");
    assert_eq!(found.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["k0", "k2", "k4"]);
    for (_, example) in &found {
        assert_eq!((example.labels.num_frames(), example.input_frames.rows(), example.left_context), (1, 2, 1));
        assert_eq!(example.label(0).unwrap().pdf % 100, 3);
    }
    let random = |seed: &str| {
        ok(COPY, folder, &["--frame=random", &format!("--srand={seed}"), "ark:in.ark", "ark:out"]);
        entries(folder, "out").iter().map(|(_, example)| example.label(0).unwrap().pdf % 100).collect::<Vec<_>>()
    };
    assert_eq!(random("1"), random("1"));
    assert_eq!(random("1").len(), 6);
    assert!((2..30).any(|seed| random(&seed.to_string()) != random("1")));
    let said = ok(COPY, folder, &["--left-context=9", "--right-context=1", "ark:in.ark", "ark:out"]);
    assert_eq!(said.matches("Requested left-context 9 exceeds input left-context 2, will not warn again.").count(), 1);
    assert!(!said.contains("right-context 1 exceeds"), "{said}");
    assert_eq!(entries(folder, "out")[1].1.input_frames.rows(), 2 + 3 + 1);
    for (bad, because) in [
        ("--frame=-1", "frame is"),
        ("--frame=two", "frame is"),
        ("--left-context=-2", "left-context is -2"),
        ("--right-context=-2", "right-context is -2"),
        ("--frames=1", "there is no option --frames"),
    ] {
        refused(COPY, folder, &[bad, "ark:in.ark", "ark:out"], because);
    }
}

#[test]
fn what_is_broken_is_told() {
    let folder = folder(3);
    let folder = folder.path();
    refused(COPY, folder, &["ark:in.ark"], "at least 2 arguments are needed, 1 given");
    refused(COPY, folder, &[], "Usage: koshi-nnet-copy-egs");
    refused(COPY, folder, &["ark:nowhere", "ark:out"], "nowhere");
    refused(COPY, folder, &["in.ark", "ark:out"], "not a table to read");
    let bytes = fs::read(folder.join("in.ark")).unwrap();
    fs::write(folder.join("cut"), &bytes[..bytes.len() - 5]).unwrap();
    refused(COPY, folder, &["ark:cut", "ark:out"], "cut: byte");
    ok(COPY, folder, &["p,ark:cut", "ark:out"]);
    assert_eq!(keys(folder, "out"), ["k0", "k1"]);
    fs::write(folder.join("empty"), "").unwrap();
    refused(COPY, folder, &["ark:empty", "ark:out"], "wrote 0");
    if Path::new("/dev/full").exists() {
        refused(COPY, folder, &["ark:in.ark", "ark:/dev/full"], "/dev/full");
    }
    refused(COPY_DISCRIMINATIVE, folder, &["ark:in.ark", "ark:out"], "expected <DiscriminativeNnetExample>");
    let help = run(COPY_DISCRIMINATIVE, folder, &["--help"]);
    assert!(help.0 == Some(0) && help.1.contains("--keep-proportion") && !help.1.contains("--frame"), "{}", help.1);
}

/// A small archive of discriminative examples, as text.
const DISCRIMINATIVE: &str = "u <DiscriminativeNnetExample> <Weight> 0.5 <NumAli> [ 4 5 ]\n\n\
    0\t1\t3\t1.5,-2.25,4_5\n1\n\n<InputFrames>  [\n  1 2 \n  3 4 ]\n<LeftContext> 0 <SpkInfo>  [ ]\n\
    </DiscriminativeNnetExample> v <DiscriminativeNnetExample> <Weight> 1 <NumAli> [ 7 ]\n\n\
    0\t1\t0\t0,1.234567,7\n1\n\n<InputFrames>  [\n  1 2 \n  3 4 ]\n<LeftContext> 1 <SpkInfo>  [ ]\n\
    </DiscriminativeNnetExample> ";

#[test]
fn discriminative_copies_have_new_keys() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("in"), DISCRIMINATIVE).unwrap();
    let said = ok(COPY_DISCRIMINATIVE, folder, &["ark:in", "ark,t:out"]);
    assert!(
        said.contains("Read 2 discriminative neural-network training examples, wrote 2, consisting of 3 frames."),
        "{said}"
    );
    let wanted = DISCRIMINATIVE.replace("u <D", "0 <D").replace("v <D", "1 <D");
    assert_eq!(fs::read_to_string(folder.join("out")).unwrap(), wanted);
    ok(COPY_DISCRIMINATIVE, folder, &["ark:in", "ark:bin"]);
    ok(COPY_DISCRIMINATIVE, folder, &["--keep-proportion=2", "ark:bin", "ark:1", "ark:2"]);
    for name in ["1", "2"] {
        let name = format!("ark:{}", folder.join(name).display());
        let mut reader = SequentialReader::<koshi::egs::DiscriminativeNnetExampleHolder>::open(&name).unwrap();
        let found: Vec<_> = std::iter::from_fn(|| reader.next().unwrap()).collect();
        assert_eq!(found.iter().map(|(_, example)| example.num_ali.len()).collect::<Vec<_>>(), [2, 1]);
        found.iter().for_each(|(_, example)| example.check().unwrap());
    }
}

/// What Kaldi's own commands made of the same files.
#[test]
fn as_kaldi_copies() {
    let Some(oracles) = shared::shared("oracles/egs") else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = |name: &str| format!("ark:{}", oracles.join(name).display());
    let same = |name: &str, wanted: &str| {
        assert!(fs::read(folder.join(name)).unwrap() == fs::read(oracles.join(wanted)).unwrap(), "{wanted}");
    };
    ok(COPY_DISCRIMINATIVE, folder, &[&source("discriminative/examples.ark"), "ark:d.ark"]);
    same("d.ark", "discriminative/copied.ark");
    ok(COPY_DISCRIMINATIVE, folder, &[&source("discriminative/examples.ark"), "ark,t:d.txt"]);
    same("d.txt", "discriminative/copied.txt");
    for name in ["nnet_examples", "handmade/examples"] {
        ok(COPY, folder, &[&source(&format!("{name}.ark")), "ark:out.ark"]);
        same("out.ark", &format!("{name}.ark"));
        ok(COPY, folder, &[&source(&format!("{name}.ark")), "ark,t:out.txt"]);
        same("out.txt", &format!("{name}.txt"));
    }
    ok(COPY, folder, &[&source("old/old_binary.ark"), "ark:old.ark"]);
    same("old.ark", "old/rewritten_binary.ark");
}
