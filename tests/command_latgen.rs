//! `koshi-latgen-faster-mapped` as a recipe runs it: rules, refusals, exit codes, log lines.

mod common;
#[path = "common/openfst.rs"]
mod openfst;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::graph::{arc, source};
use koshi::graph::VecSource;
use koshi::lattice::{CompactLatticeHolder, DeterminizeConfig, LatticeHolder, RawLatticeHolder};
use koshi::table::{CompressedMatrixHolder, MatrixHolder, SequentialReader, Transitions};
use openfst::{Form, vector};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_koshi-latgen-faster-mapped");
const INF: f32 = f32::INFINITY;

/// Two phones of one emitting state each: transition-ids 1 (loop) and 2 (on) have pdf 0, 3 and 4 pdf 1.
const MODEL: &str = "\
<TransitionModel>
<Topology>
<TopologyEntry>
<ForPhones> 1 2 </ForPhones>
<State> 0 <PdfClass> 0 <Transition> 0 0.5 <Transition> 1 0.5 </State>
<State> 1 </State>
</TopologyEntry>
</Topology>
<Triples> 2
1 0 0
2 0 1
</Triples>
<LogProbs>
 [ 0 -0.693147 -0.693147 -0.693147 -0.693147 ]
</LogProbs>
</TransitionModel>
";

/// What a run of the program left behind.
struct Run {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

impl Run {
    #[track_caller]
    fn ok(self) -> Run {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self
    }

    #[track_caller]
    fn failed(self, because: &str) -> Run {
        assert_eq!(self.code, Some(1), "{}", self.stderr);
        assert!(self.stderr.contains(because), "{because:?} is not in:\n{}", self.stderr);
        self
    }

    /// Texts of the log lines of a kind.
    fn lines(&self, kind: &str) -> Vec<&str> {
        self.stderr.lines().filter_map(|line| log_text(line, kind)).collect()
    }
}

/// The text of `KIND (program[version]:function():file:line) text`.
fn log_text<'l>(line: &'l str, kind: &str) -> Option<&'l str> {
    let rest = line.strip_prefix(kind)?.strip_prefix(" (koshi-latgen-faster-mapped[")?;
    let (place, text) = rest.split_once(") ")?;
    let parts: Vec<&str> = place.split(':').collect();
    let [version, function, file, number] = parts[..] else { return None };
    let good = version == concat!(env!("CARGO_PKG_VERSION"), "]")
        && function.ends_with("()")
        && file.ends_with(".rs")
        && number.parse::<u32>().is_ok();
    good.then_some(text)
}

fn run_in(folder: &Path, words: &[&str]) -> Run {
    let output = Command::new(PROGRAM).args(words).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    Run { code: output.status.code(), stdout: output.stdout, stderr }
}

/// A folder with a small model, graph and scores.
struct Small {
    folder: TempDir,
}

/// 0 -1:1-> 1 -4:2-> 2, final, beside it 0 -3:3-> 1; all costs distinct.
fn small_graph() -> VecSource {
    let first = vec![arc(1, 1, 0.5, 1), arc(3, 3, 1.25, 1)];
    source(Some(0), vec![(INF, first), (INF, vec![arc(4, 2, 0.25, 2)]), (0.125, vec![])])
}

impl Small {
    fn new() -> Small {
        let small = Small { folder: tempfile::tempdir().unwrap() };
        small.write("model", MODEL);
        small.write("graph", vector(&small_graph(), &Form::default()));
        small.write("scores", "a  [\n -1 -2\n -3 -1\n ]\nb  [\n -2 -1\n -1 -2\n ]\n");
        small.write("words.txt", "<eps> 0\none 1\ntwo 2\nthree 3\n");
        small
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Runs with these options and arguments; raw lattices unless told otherwise.
    fn run(&self, words: &[&str]) -> Run {
        let mut all = vec!["--determinize-lattice=false"];
        all.extend(words);
        run_in(self.folder.path(), &all)
    }

    /// The usual run, with more options before it.
    fn decode(&self, options: &[&str]) -> Run {
        let mut words = options.to_vec();
        words.extend(["model", "graph", "ark:scores", "ark,t:lattices", "ark,t:words", "ark,t:alignments"]);
        self.run(&words)
    }
}

#[test]
fn a_lattice_by_hand() {
    let small = Small::new();
    let run = small.decode(&["--acoustic-scale=0.5", "--word-symbol-table=words.txt"]).ok();
    // a: 0.5 + 0.5 * 1, or 1.25 + 0.5 * 2; then 0.25 + 0.5 * 1; 0.125 for the end.
    assert_eq!(small.read("words"), "a 1 2 \nb 1 2 \n");
    assert_eq!(small.read("alignments"), "a 1 4 \nb 1 4 \n");
    let lattice = |key: &str, one: f32, three: f32, last: f32| {
        format!("{key} \n0\t1\t1\t1\t0.5,{one}\n0\t1\t3\t3\t1.25,{three}\n1\t2\t4\t2\t0.25,{last}\n2\t0.125,0\n\n")
    };
    // Acoustic costs are written without the scale.
    let expected = lattice("a", 1.0, 2.0, 1.0) + &lattice("b", 2.0, 1.0, 2.0);
    assert_eq!(small.read("lattices"), expected);
    assert_eq!(
        run.lines("LOG"),
        [
            "Log-like per frame for utterance a is -0.9375 over 2 frames.",
            "Log-like per frame for utterance b is -1.4375 over 2 frames.",
            run.lines("LOG")[2],
            "Done 2 utterances, failed for 0",
            "Overall log-likelihood per frame is -1.1875 over 4 frames.",
        ]
    );
    let time = run.lines("LOG")[2].strip_prefix("Time taken ").unwrap();
    let (seconds, factor) = time.split_once("s: real-time factor assuming 100 frames/sec is ").unwrap();
    let (seconds, factor): (f64, f64) = (seconds.parse().unwrap(), factor.parse().unwrap());
    assert!(seconds > 0.0 && (factor / (seconds * 100.0 / 4.0) - 1.0).abs() < 1e-4, "{time}");
    assert!(run.stderr.contains("\na one two \n") && run.stderr.contains("\nb one two \n"));
    assert!(run.stdout.is_empty());
}

#[test]
fn b_has_the_other_first_word_at_a_larger_scale() {
    // 0.5 + 2 against 1.25 + 1; at half the scale it is 1.5 against 1.75.
    let small = Small::new();
    small.decode(&["--acoustic-scale=1"]).ok();
    assert_eq!(small.read("words"), "a 1 2 \nb 3 2 \n");
}

#[test]
fn binary_is_the_default_form() {
    let small = Small::new();
    small.run(&["model", "graph", "ark:scores", "ark:lattices", "ark:words"]).ok();
    small.decode(&[]).ok();
    let words = fs::read(small.path("words")).unwrap();
    assert_eq!(words, b"a 1 2 \nb 1 2 \n");
    let name = |name: &str| format!("ark:{}", small.path(name).display());
    small.run(&["model", "graph", "ark:scores", "ark:binary", "ark:words.b"]).ok();
    assert!(fs::read(small.path("words.b")).unwrap().starts_with(b"a \0B\x04\x02\0\0\0"));
    assert!(
        fs::read(small.path("binary")).unwrap().starts_with(b"a \xd6\xfd\xb2\x7e\x06\0\0\0vector\x08\0\0\0lattice4")
    );
    let (mut text, mut binary) = (
        SequentialReader::<RawLatticeHolder>::open(&name("lattices")).unwrap(),
        SequentialReader::<RawLatticeHolder>::open(&name("binary")).unwrap(),
    );
    for _ in 0..3 {
        assert_eq!(text.next().unwrap(), binary.next().unwrap());
    }
}

#[test]
fn words_and_alignments_are_optional() {
    let small = Small::new();
    small.run(&["model", "graph", "ark:scores", "ark,t:lattices"]).ok();
    small.run(&["model", "graph", "ark:scores", "ark,t:l2", "", "ark,t:alignments"]).ok();
    assert_eq!(small.read("alignments"), "a 1 4 \nb 1 4 \n");
    assert_eq!(small.read("l2"), small.read("lattices"));
}

#[test]
fn lattices_are_determinized_by_default() {
    let small = Small::new();
    let words = ["--acoustic-scale=0.5", "model", "graph", "ark:scores", "ark,t:lattices", "ark,t:words"];
    run_in(small.folder.path(), &words).ok();
    // Acoustic costs without the scale; the arcs of the two first words join in one state.
    let lattice = |key: &str, one: f32, three: f32, last: f32| {
        format!("{key} \n0\t1\t1\t0.5,{one},1\n0\t1\t3\t1.25,{three},3\n1\t2\t2\t0.25,{last},4\n2\t0.125,0,\n\n")
    };
    assert_eq!(small.read("lattices"), lattice("a", 1.0, 2.0, 1.0) + &lattice("b", 2.0, 1.0, 2.0));
    assert_eq!(small.read("words"), "a 1 2 \nb 1 2 \n");
    small.run(&[&["--determinize-lattice"], &words[..]].concat()).ok();
    assert_eq!(small.read("lattices"), lattice("a", 1.0, 2.0, 1.0) + &lattice("b", 2.0, 1.0, 2.0));
    // Without either pass it is a change of form alone.
    let neither = ["--determinize-lattice", "--phone-determinize=false", "--word-determinize=false"];
    small.run(&[&neither, &words[..]].concat()).ok();
    assert_eq!(small.read("lattices"), lattice("a", 1.0, 2.0, 1.0) + &lattice("b", 2.0, 1.0, 2.0));
    // Pushed costs: the best way on from state 1 costs nothing.
    small.run(&[&["--determinize-lattice", "--minimize"], &words[..]].concat()).ok();
    assert!(
        small.read("lattices").starts_with("a \n0\t1\t1\t0.875,2,1_4\n0\t1\t3\t1.625,3,3_4\n"),
        "{}",
        small.read("lattices")
    );
    small.run(&[&["--determinize-lattice", "--delta=-1"], &words[..]].concat()).failed("delta");
}

#[test]
fn determinization_within_a_cap_warns() {
    let small = Small::new();
    for max_mem in ["1", "0", "-1"] {
        let option = format!("--max-mem={max_mem}");
        let words = [&option, "--determinize-lattice", "model", "graph", "ark:scores", "ark,t:lattices", "ark,t:words"];
        let run = small.run(&words).ok();
        let warned = "Determinization finished earlier than the beam for utterance a: 0 instead of 10";
        assert_eq!(run.lines("WARNING").first().is_some_and(|line| *line == warned), max_mem == "1");
        assert_eq!(small.read("words"), "a 1 2 \nb 1 2 \n");
        assert!(small.read("lattices").starts_with("a \n0\t1\t1\t0.5,1,1\n"));
    }
}

#[test]
fn what_came_before_a_failure_is_written_behind_the_search_too() {
    let small = Small::new();
    small.write("scores", "a [ -1 -2\n -3 -1 ]\nz [ ]\nb [ -1\n -1 ]\nc [ -1 -2\n -3 -1 ]\n");
    for threads in ["--num-threads=1", "--num-threads=3"] {
        let words = ["--determinize-lattice", threads, "model", "graph", "ark:scores", "ark:l", "ark,t:words"];
        let run = small.run(&words).failed("utterance b: the matrix has 1 columns, the model has 2 pdfs");
        assert_eq!(run.lines("WARNING"), ["Zero-length utterance: z"]);
        assert_eq!(small.read("words"), "a 1 2 \n");
        if Path::new("/dev/full").exists() {
            let words = ["--determinize-lattice", threads, "model", "graph", "ark:scores", "ark,f:/dev/full"];
            small.run(&words).failed("/dev/full");
        }
    }
    small.write("scores", "a [ -1 -2\n -3 -1 ]\nb [ -1 -2\n -3");
    small.run(&["--determinize-lattice", "model", "graph", "ark:scores", "ark:l", "ark,t:words"]).failed("entry b");
    assert_eq!(small.read("words"), "a 1 2 \n");
}

#[test]
fn options_out_of_range_are_refused() {
    let small = Small::new();
    for name in ["beam", "lattice-beam", "beam-delta"] {
        for value in ["0", "-1", "inf", "nan", "-inf"] {
            small.decode(&[&format!("--{name}={value}")]).failed(&name.replace('-', "_"));
        }
    }
    for scale in ["inf", "nan"] {
        small.decode(&[&format!("--acoustic-scale={scale}")]).failed("acoustic_scale");
    }
    for (options, because) in [
        (&["--max-active=1"][..], "max_active"),
        (&["--max-active=-5"], "max-active"),
        (&["--max-active=199"], "min_active 200 is above max_active 199"),
        (&["--min-active=-1"], "min-active"),
        (&["--num-threads=0"], "num-threads"),
        (&["--num-threads=-2"], "num-threads"),
        (&["--num-threads=1000000"], "num-threads"),
        (&["--beam=wide"], "expected a number"),
        (&["--beem=13"], "--beem"),
        (&["--prune-interval=x"], "--prune-interval"),
    ] {
        small.decode(options).failed(because);
    }
    assert!(!small.path("lattices").exists(), "nothing was opened");
    small.decode(&["--max-active=199", "--min-active=199"]).ok();
}

#[test]
fn the_number_of_arguments_is_checked() {
    let small = Small::new();
    small.run(&["model", "graph", "ark:scores"]).failed("4 to 6 arguments are needed, 3 given");
    small.run(&["model", "graph", "ark:scores", "ark:l", "ark:w", "ark:a", "x"]).failed("7 given");
    let run = run_in(small.folder.path(), &[]).failed("0 given");
    assert!(run.stderr.contains("Usage: ") && run.stderr.contains("--lattice-beam"));
    small.run(&["model", "graph", "ark:scores", "ark:l", "--beam=13"]).failed("before the arguments");
}

#[test]
fn what_kaldi_accepts_is_accepted() {
    let small = Small::new();
    small.decode(&[]).ok();
    let expected = small.read("lattices");
    let ignored = [
        "--prune-interval=25",
        "--hash-ratio=2.0",
        "--memory-pool-tokens-block-size=256",
        "--memory-pool-links-block-size=256",
    ];
    let used = [
        "--beam=16",
        "--max_active=7000",
        "--Allow-Partial=F",
        "--verbose=0",
        "--num-threads=2",
        "--delta=0.000976562",
        "--max-mem=50000000",
        "--minimize=false",
        "--phone-determinize=true",
        "--word-determinize",
    ];
    small.decode(&[&ignored[..], &used].concat()).ok();
    assert_eq!(small.read("lattices"), expected);
    let help = run_in(small.folder.path(), &["--help"]).ok().stderr;
    let (_, without_effect) = help.split_once("without effect:").unwrap();
    for name in ignored {
        let name = name.split('=').next().unwrap();
        assert!(without_effect.contains(name), "{name}");
    }
    for default in ["default = 16)", "default = 2147483647)", "default = 0.1)", "default = 10)", "default = 200)"] {
        assert!(help.contains(default), "{default}");
    }
}

#[test]
fn options_come_from_files() {
    let small = Small::new();
    small.write("conf", "--acoustic-scale=1  # as b needs it\n\n--beam=13\n");
    small.decode(&["--config=conf"]).ok();
    assert_eq!(small.read("words"), "a 1 2 \nb 3 2 \n");
    small.decode(&["--acoustic-scale=0.5", "--config=conf"]).ok();
    assert_eq!(small.read("words"), "a 1 2 \nb 1 2 \n");
    small.decode(&["--config=nowhere"]).failed("nowhere");
}

#[test]
fn the_command_line_is_printed() {
    let small = Small::new();
    let run = small.decode(&["--beam=13"]).ok();
    assert!(run.stderr.lines().next().unwrap().ends_with(
        "--determinize-lattice=false --beam=13 model graph ark:scores ark,t:lattices ark,t:words ark,t:alignments "
    ));
    let run = small.decode(&["--print-args=false"]).ok();
    assert!(run.stderr.starts_with("LOG ("), "{}", run.stderr);
}

#[test]
fn verbose_tells_the_costs() {
    let small = Small::new();
    let run = small.decode(&["--acoustic-scale=0.5", "--verbose=2"]).ok();
    assert_eq!(run.lines("VLOG[2]")[0], "Cost for utterance a is 0.875 + 1");
    assert!(small.decode(&["--verbose=1"]).ok().lines("VLOG[2]").is_empty());
}

#[test]
fn a_narrow_matrix_stops_the_run() {
    for threads in ["--num-threads=1", "--num-threads=3"] {
        let small = Small::new();
        small.write("scores", "a [ -1 -2\n -3 -1 ]\nb [ -1\n -1 ]\nc [ -1 -2\n -3 -1 ]\n");
        small.decode(&[threads]).failed("utterance b: the matrix has 1 columns, the model has 2 pdfs");
        assert_eq!(small.read("words"), "a 1 2 \n", "what came before it is there");
    }
}

#[test]
fn a_wide_matrix_is_fine() {
    let small = Small::new();
    small.decode(&[]).ok();
    let expected = small.read("lattices");
    small.write("scores", "a [ -1 -2 9\n -3 -1 9 ]\nb [ -2 -1 9\n -1 -2 9 ]\n");
    small.decode(&[]).ok();
    assert_eq!(small.read("lattices"), expected);
}

#[test]
fn a_graph_that_uses_few_columns_does_not_make_a_narrow_matrix_right() {
    let small = Small::new();
    small.write("graph", vector(&source(Some(0), vec![(0.0, vec![arc(1, 1, 0.5, 0)])]), &Form::default()));
    small.write("scores", "a [ -1\n -3 ]\n");
    small.decode(&[]).failed("the matrix has 1 columns");
}

#[test]
fn case_b02_an_utterance_of_no_rows_fails_and_the_rest_goes_on() {
    let small = Small::new();
    small.write("scores", "z [ ]\na [ -1 -2\n -3 -1 ]\ny [ ]\n");
    let run = small.decode(&[]).ok();
    assert_eq!(run.lines("WARNING"), ["Zero-length utterance: z", "Zero-length utterance: y"]);
    assert!(run.lines("LOG").contains(&"Done 1 utterances, failed for 2"));
    assert_eq!(small.read("words"), "a 1 2 \n");
    small.write("scores", "z [ ]\n");
    small.decode(&["--allow-partial=true"]).failed("Done 0 utterances, failed for 1");
}

#[test]
fn case_b25_an_utterance_without_tokens_fails_and_the_rest_goes_on() {
    let small = Small::new();
    small.write("scores", "n [ -1 -2\n -inf -inf ]\na [ -1 -2\n -3 -1 ]\nlong [ -1 -1\n -1 -1\n -1 -1 ]\n");
    for partial in ["--allow-partial=false", "--allow-partial=true"] {
        let run = small.decode(&[partial]).ok();
        let warnings = run.lines("WARNING");
        assert_eq!(warnings[0], "Failed to decode utterance with id n: frame 1: no tokens survived");
        assert_eq!(warnings[1], "Failed to decode utterance with id long: frame 2: no tokens survived");
        assert!(run.lines("LOG").contains(&"Done 1 utterances, failed for 2"));
        assert_eq!(small.read("words"), "a 1 2 \n");
    }
}

#[test]
fn case_b13_an_utterance_without_final_state() {
    let small = Small::new();
    small.write("scores", "short [ -1 -2 ]\na [ -1 -2\n -3 -1 ]\n");
    let run = small.decode(&[]).ok();
    let warnings = run.lines("WARNING");
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("Not producing output for utterance short since no final-state reached"));
    assert!(run.lines("LOG").contains(&"Done 1 utterances, failed for 1"));
    assert_eq!(small.read("words"), "a 1 2 \n");

    let run = small.decode(&["--allow-partial"]).ok();
    let expected = ["Outputting partial output for utterance short since no final-state reached"];
    assert_eq!(run.lines("WARNING"), expected);
    assert!(run.lines("LOG").contains(&"Done 2 utterances, failed for 0"));
    assert_eq!(small.read("words"), "short 1 \na 1 2 \n");
    assert!(small.read("lattices").starts_with("short \n0\t1\t1\t1\t0.5,1\n0\t1\t3\t3\t1.25,2\n1\n\n"));

    small.write("scores", "short [ -1 -2 ]\n");
    small.decode(&[]).failed("Overall log-likelihood per frame is nan over 0 frames.");
    assert_eq!(small.read("lattices"), "");
}

#[test]
fn case_b24_scores_that_are_no_numbers_stop_the_run() {
    let small = Small::new();
    for bad in ["nan", "inf"] {
        small.write("scores", format!("a [ -1 -2\n -3 -1 ]\nb [ -1 -2\n -3 {bad} ]\nc [ -1 -2\n -3 -1 ]\n"));
        small.decode(&[]).failed("utterance b: frame 1, column 1");
        assert_eq!(small.read("words"), "a 1 2 \n");
    }
}

#[test]
fn one_graph_an_utterance() {
    let small = Small::new();
    let other = source(Some(0), vec![(INF, vec![arc(3, 7, 0.5, 1)]), (INF, vec![arc(2, 0, 0.5, 2)]), (0.0, vec![])]);
    let graphs =
        [b"b ", &vector(&other, &Form::default())[..], b"missing \n0 1 1 1\n1\n\na \n0 1 1 1\n1 2 4 5 0.5\n2\n\n"];
    small.write("graphs", graphs.concat());
    small.write("graphs.scp", format!("a {0}:{1}\n", small.path("graphs").display(), graphs[0].len()));
    for threads in ["--num-threads=1", "--num-threads=2"] {
        let run = small.run(&[threads, "model", "ark:graphs", "ark:scores", "ark,t:lattices", "ark,t:words"]).ok();
        assert_eq!(small.read("words"), "b 7 \na 1 5 \n");
        assert_eq!(run.lines("WARNING"), ["Not decoding utterance missing because no loglikes available."]);
        assert!(run.lines("LOG").contains(&"Done 2 utterances, failed for 1"));
    }
    small.run(&["model", "scp:graphs.scp", "ark:scores", "ark,t:lattices", "ark,t:words"]).ok();
    assert_eq!(small.read("words"), "a 7 \n");
}

#[test]
fn a_broken_graph_of_a_table_stops_the_run() {
    let small = Small::new();
    small.write("graphs", "a \n0 1 1 1\n1 2 4 5 0.5\n2\n\nb \n0 0 0 1\n0\n\n");
    let run = small.run(&["model", "ark:graphs", "ark:scores", "ark,t:lattices", "ark,t:words"]);
    run.failed("utterance b: graphs: ");
    assert_eq!(small.read("words"), "a 1 5 \n");
}

#[test]
fn broken_inputs_end_with_status_1() {
    let small = Small::new();
    small.run(&["nowhere", "graph", "ark:scores", "ark:l"]).failed("nowhere");
    small.run(&["scores", "graph", "ark:scores", "ark:l"]).failed("scores");
    small.run(&["model", "nowhere", "ark:scores", "ark:l"]).failed("nowhere");
    small.run(&["model", "model", "ark:scores", "ark:l"]).failed("model: byte 0");
    small.run(&["model", "graph", "ark:nowhere", "ark:l"]).failed("nowhere");
    small.run(&["model", "graph", "scores", "ark:l"]).failed("scores");
    small.run(&["model", "graph", "ark:scores", "l"]).failed("\"l\"");
    small.run(&["model", "graph", "ark:scores", "ark:no/such/folder/l"]).failed("no/such/folder/l");
    small.decode(&["--word-symbol-table=nowhere"]).failed("nowhere");

    small.write("scores", "a [ -1 -2\n -3 -1 ]\nb [ -1 -2\n -3");
    small.decode(&[]).failed("entry b");
    assert_eq!(small.read("words"), "a 1 2 \n");

    let small = Small::new();
    small.write("graph", vector(&source(Some(0), vec![(0.0, vec![arc(0, 0, -0.5, 0)])]), &Form::default()));
    small.decode(&[]).failed("epsilon");
    small.write("graph", vector(&source(Some(0), vec![(0.0, vec![arc(5, 0, 0.0, 0)])]), &Form::default()));
    small.decode(&[]).failed("ilabel 5 is not a transition-id");
}

#[test]
fn a_word_without_a_symbol_stops_the_run() {
    let small = Small::new();
    small.write("words.txt", "<eps> 0\none 1\n");
    small.decode(&["--word-symbol-table=words.txt"]).failed("Word-id 2 not in symbol table");
}

#[test]
fn commands_are_allowed_in_names() {
    let small = Small::new();
    small.decode(&[]).ok();
    let (lattices, words) = (small.read("lattices"), small.read("words"));
    small.run(&["cat model|", "cat graph |", "ark:cat scores |", "ark,t:|cat > l2", "ark,t:| cat > w2"]).ok();
    assert_eq!((small.read("l2"), small.read("w2")), (lattices, words));
    // A command that fails is an error, when it reads and when it writes.
    small.run(&["model", "graph", "ark:cat scores; exit 3 |", "ark:l"]).failed("exit status: 3");
    small.run(&["model", "graph", "ark:scores", "ark:|cat > l; exit 4"]).failed("exit status: 4");
    small.run(&["model", "graph", "ark:scores", "ark:l", "ark:|cat > w; exit 5"]).failed("exit status: 5");
    small.run(&["model", "graph", "ark:scores", "ark:l", "ark:w", "ark:|cat > a; exit 6"]).failed("exit status: 6");
    small.run(&["cat model; exit 7 |", "graph", "ark:scores", "ark:l"]).failed("exit status: 7");
}

/// The writing end of a pipe that nobody reads.
fn closed_pipe() -> std::io::PipeWriter {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer
}

#[test]
fn case_b77_a_failed_write_is_status_1() {
    let small = Small::new();
    if Path::new("/dev/full").exists() {
        for at in 3..6 {
            let mut words = vec!["model", "graph", "ark:scores", "ark:l", "ark:w", "ark:a"];
            words[at] = "ark:/dev/full";
            small.run(&words).failed("/dev/full");
            words[at] = "ark,f:/dev/full";
            small.run(&words).failed("/dev/full");
        }
    }
    // The reader of our output is gone: no signal ends us, and no success is told.
    let output = Command::new(PROGRAM)
        .args(["--determinize-lattice=false", "model", "graph", "ark:scores", "ark:-"])
        .current_dir(small.folder.path())
        .stdout(closed_pipe())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Rust opens /dev/null where a standard stream came closed: results must not get lost in there.
#[test]
#[cfg(target_os = "linux")]
fn closed_standard_streams_are_no_success() {
    let small = Small::new();
    let run = |streams: &str, scores: &str, lattices: &str| {
        let script = format!("exec \"$@\" {streams}");
        let output = Command::new("sh")
            .args(["-c", &script, "sh", PROGRAM, "--determinize-lattice=false", "model", "graph", scores, lattices])
            .current_dir(small.folder.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        Run { code: output.status.code(), stdout: output.stdout, stderr }
    };
    run(">&-", "ark:scores", "ark:-").failed("standard output");
    run(">&-", "ark:scores", "ark:| cat").failed("the command failed");
    run("<&-", "ark:-", "ark:l").failed("standard input");
    run("<scores >&-", "ark:-", "ark:l").ok();
    run("<&- >l", "ark:scores", "ark:-").ok();
}

#[test]
fn standard_error_may_be_gone() {
    let small = Small::new();
    let status = Command::new(PROGRAM)
        .args(["--determinize-lattice=false", "model", "graph", "ark:scores", "ark,t:l", "ark,t:w"])
        .current_dir(small.folder.path())
        .stderr(closed_pipe())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(small.read("w"), "a 1 2 \nb 1 2 \n");
}

#[test]
fn no_memory_is_status_1() {
    let small = Small::new();
    // From too little to start at all, through too little for a table, to enough. Whatever
    // fails, it is with status 1.
    let mut codes = Vec::new();
    for kilobytes in (2_000..60_000).step_by(1_500) {
        let limited = format!("ulimit -v {kilobytes} && exec \"$@\"");
        let output = Command::new("sh")
            .args(["-c", &limited, "sh", PROGRAM, "--determinize-lattice=false", "--num-threads=4"])
            .args(["model", "graph", "ark:scores", "ark:l"])
            .current_dir(small.folder.path())
            .output()
            .unwrap();
        // Where not even the program can be loaded it is the system that speaks, not its first line.
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if text.contains("koshi-latgen-faster-mapped --determinize-lattice=false") {
            codes.push(output.status.code());
            assert!(matches!(output.status.code(), Some(0 | 1)), "{kilobytes}: {:?} {text}", output.status);
        }
    }
    assert!(codes.contains(&Some(0)) && codes.contains(&Some(1)), "{codes:?}");
}

#[test]
fn standard_input_and_output() {
    let small = Small::new();
    small.decode(&[]).ok();
    let scores = fs::File::open(small.path("scores")).unwrap();
    let output = Command::new(PROGRAM)
        .args(["--determinize-lattice=false", "--", "model", "graph", "ark:-", "ark,t:-"])
        .current_dir(small.folder.path())
        .stdin(scores)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), small.read("lattices"));
}

#[test]
fn lattices_with_a_script() {
    let small = Small::new();
    small.run(&["model", "graph", "ark:scores", "ark,scp:l.ark,l.scp"]).ok();
    small.decode(&[]).ok();
    // The script names the archive as it was given, so read from that folder.
    let script = small.read("l.scp").replace("l.ark", &small.path("l.ark").display().to_string());
    small.write("l.scp", script);
    let mut reader =
        SequentialReader::<LatticeHolder>::open(&format!("scp:{}", small.path("l.scp").display())).unwrap();
    let mut text =
        SequentialReader::<LatticeHolder>::open(&format!("ark:{}", small.path("lattices").display())).unwrap();
    for key in ["a", "b"] {
        let (found, lattice) = reader.next().unwrap().unwrap();
        assert_eq!((found.as_str(), lattice), (key, text.next().unwrap().unwrap().1));
    }
    assert!(reader.next().unwrap().is_none());
}

/// Options of the demo's references.
const DEMO: [&str; 5] =
    ["--determinize-lattice=false", "--beam=13", "--lattice-beam=6", "--max-active=7000", "--acoustic-scale=0.083333"];

fn demo() -> PathBuf {
    common::root().join("examples/data/prompts")
}

#[test]
fn real_speech_gives_kaldis_words() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| format!("ark,t:{}", folder.path().join(name).display());
    let words = ["--word-symbol-table=words.txt", "trans.mdl", "HCLG.fst", "ark:loglikes.ark"];
    let run = run_in(&demo(), &[&DEMO[..], &words, &[&out("l"), &out("w")]].concat()).ok();
    assert_eq!(
        fs::read_to_string(folder.path().join("w")).unwrap(),
        fs::read_to_string(demo().join("expected.words.int")).unwrap()
    );
    assert!(run.stderr.contains("\nallison-conf-muted you are now muted \n"));
    let log = run.lines("LOG");
    assert_eq!(log.iter().filter(|line| line.starts_with("Log-like per frame for utterance ")).count(), 12);
    assert!(log.contains(&"Done 12 utterances, failed for 0"));
    assert!(log.last().unwrap().ends_with(" over 2044 frames."));
}

#[test]
fn any_number_of_threads_writes_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut outputs = Vec::new();
    for threads in [1, 2, 5] {
        let name = |name: &str| folder.path().join(format!("{name}{threads}"));
        let out = |table: &str| format!("ark:{}", name(table).display());
        let threads = format!("--num-threads={threads}");
        let words = ["trans.mdl", "HCLG.fst", "ark:loglikes.ark", &out("l"), &out("w"), &out("a")];
        let run = run_in(&demo(), &[&DEMO[..], &["--word-symbol-table=words.txt", &threads], &words].concat()).ok();
        let files = ["l", "w", "a"].map(|table| fs::read(name(table)).unwrap());
        let told = |line: &&str| !["Time taken", "Decoded with"].iter().any(|start| line.starts_with(start));
        let log: Vec<String> = run.lines("LOG").into_iter().filter(told).map(str::to_string).collect();
        outputs.push((files, log));
    }
    assert!(outputs[0].0[0].len() > 100_000);
    assert!(outputs[1] == outputs[0] && outputs[2] == outputs[0]);
}

/// Determinized on one thread behind the search, or on those that search.
#[test]
fn determinized_lattices_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().unwrap();
    let table = |name: &str| format!("ark:{}", folder.path().join(name).display());
    let run = |name: &str, options: &[&str]| {
        let words = ["trans.mdl", "HCLG.fst", "ark:loglikes.ark", &table(name)];
        run_in(&demo(), &[&DEMO[..], options, &words].concat()).ok();
        fs::read(folder.path().join(name)).unwrap()
    };
    let one = run("one", &["--determinize-lattice"]);
    assert!(one.len() > 10_000);
    assert!(run("four", &["--determinize-lattice", "--num-threads=4"]) == one);
    // They are what the library makes of the raw ones.
    run("raw", &[]);
    let transitions = Transitions::read_file(demo().join("trans.mdl").to_str().unwrap()).unwrap();
    let config = DeterminizeConfig { beam: 6.0, acoustic_scale: 0.083333, ..DeterminizeConfig::default() };
    let mut raw = SequentialReader::<RawLatticeHolder>::open(&table("raw")).unwrap();
    let mut compact = SequentialReader::<CompactLatticeHolder>::open(&table("one")).unwrap();
    while let Some((key, lattice)) = raw.next().unwrap() {
        let expected = lattice.determinize(Some(&transitions), &config).unwrap().lattice;
        assert_eq!(compact.next().unwrap().unwrap(), (key, expected));
    }
    assert!(compact.next().unwrap().is_none());
}

#[test]
fn scores_in_all_of_kaldis_forms() {
    // The bundled scores are compressed; written out as floats they are the same.
    let folder = tempfile::tempdir().unwrap();
    let rspecifier = format!("ark:{}", demo().join("loglikes.ark").display());
    let mut reader = SequentialReader::<CompressedMatrixHolder>::open(&rspecifier).unwrap();
    let _ = reader.next().unwrap().unwrap();
    let floats = folder.path().join("floats");
    let wspecifier = format!("ark:{}", floats.display());
    let mut writer = koshi::table::TableWriter::<MatrixHolder<f32>>::open(&wspecifier).unwrap();
    let mut reader = SequentialReader::<MatrixHolder<f32>>::open(&rspecifier).unwrap();
    while let Some((key, matrix)) = reader.next().unwrap() {
        writer.write(&key, &matrix).unwrap();
    }
    writer.close().unwrap();
    let mut lattices = Vec::new();
    for scores in [rspecifier, format!("ark:{}", floats.display())] {
        let out = folder.path().join("lattices");
        let words = ["trans.mdl", "HCLG.fst", &scores, &format!("ark:{}", out.display())];
        run_in(&demo(), &[&DEMO[..], &words].concat()).ok();
        lattices.push(fs::read(out).unwrap());
    }
    assert!(lattices[0] == lattices[1]);
}

/// A CTC network's graph: input label i reads column i - 1, whatever a model would say.
#[test]
fn without_a_model_labels_are_columns() {
    let small = Small::new();
    small.write("four", "a  [\n -1 -9 -2 -9\n -9 -9 -9 -1\n ]\nb  [\n -2 -9 -1 -9\n -9 -9 -9 -2\n ]\n");
    let tables = |of: &str| ["lattices", "words", "alignments"].map(|table| format!("ark,t:{table}{of}"));
    let run = |options: &[&str], arguments: &[&str], of: &str| {
        let tables = tables(of);
        small.run(&[&["--acoustic-scale=0.5"], options, arguments, &tables.each_ref().map(|table| &**table)].concat())
    };
    for determinize in ["--determinize-lattice=false", "--phone-determinize=false", "--determinize-lattice"] {
        run(&[determinize], &["model", "graph", "ark:scores"], "1").ok();
        run(&[determinize, "--labels-are-columns"], &["graph", "ark:four"], "2").ok();
        for table in ["lattices", "words", "alignments"] {
            assert_eq!(small.read(&format!("{table}2")), small.read(&format!("{table}1")), "{determinize} {table}");
        }
    }
    let six = ["model", "graph", "ark:four", "ark:a", "ark:b", "ark:c"];
    small.run(&[&["--labels-are-columns"][..], &six].concat()).failed("3 to 5 arguments are needed, 6 given");
    small.run(&["--labels-are-columns", "graph", "ark:scores", "ark:/dev/null"]).failed("column");
}

/// In processes that find the software device by LD_LIBRARY_PATH.
#[test]
fn a_gpu_writes_the_same() {
    let small = Small::new();
    let rows: String = (0..20).map(|key| format!("u{key:02}  [\n -{} -2\n -3 -1.{key}\n ]\n", key + 1)).collect();
    small.write("many", rows);
    let driver = common::soft::build(None);
    let run_on = |scores: &str, options: &[&str], soft: &str, out: &str| {
        let mut command = Command::new(PROGRAM);
        command.args(options).args(["model", "graph", scores, &format!("ark,t:{out}")]);
        command.current_dir(small.folder.path()).stdin(Stdio::null());
        command.env("LD_LIBRARY_PATH", &driver).env("KOSHI_SOFT", common::with_kernels(soft));
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        Run { code: output.status.code(), stdout: output.stdout, stderr }
    };
    let run = |options: &[&str], soft: &str, out: &str| run_on("ark:many", options, soft, out);
    run(&[], "", "cpu").ok();
    run(&["--use-gpu=yes", "--num-threads=3"], "", "gpu").ok();
    assert_eq!(small.read("gpu"), small.read("cpu"));
    run(&["--use-gpu=yes"], "", "one").ok();
    assert_eq!(small.read("one"), small.read("cpu"));
    run(&["--use-gpu=optional", "--num-threads=2"], "devices=0", "without").ok();
    assert_eq!(small.read("without"), small.read("cpu"));
    run(&["--use-gpu=yes"], "devices=0", "none").failed("cuInit answered 100");
    run(&["--use-gpu=perhaps"], "", "none").failed("use-gpu is \"perhaps\"; it can be yes, no or optional");

    // What befalls an utterance is told and counted as on the CPU.
    small.write(
        "bad",
        "a  [\n -1 -2\n -3 -1\n ]\nb  [\n -inf -inf\n -1 -1\n ]\nc  [\n -1 -2\n ]\nd  [\n -1 -2\n -3 -1\n ]\n",
    );
    let bad = |options: &[&str], out: &str| run_on("ark:bad", options, "", out);
    let (cpu, gpu) = (bad(&[], "cpu").ok(), bad(&["--use-gpu=yes"], "gpu").ok());
    assert_eq!(gpu.lines("WARNING"), cpu.lines("WARNING"));
    assert!(cpu.lines("LOG").contains(&"Done 2 utterances, failed for 2"), "{}", cpu.stderr);
    assert!(gpu.lines("LOG").contains(&"Done 2 utterances, failed for 2"), "{}", gpu.stderr);
    assert_eq!(small.read("gpu"), small.read("cpu"));
}
