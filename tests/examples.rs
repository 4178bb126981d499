//! The programs of `examples/`, and one of `benches/`: what they print and write is right.

mod common;
#[path = "../examples/decode_prompts.rs"]
#[allow(dead_code)] // its `main`
mod decode_prompts;

use std::fs;
use std::path::{Path, PathBuf};

use common::c::{Language, Program};
use koshi::lattice::LatticeHolder;
use koshi::table::SequentialReader;

fn data() -> PathBuf {
    common::root().join("examples/data/prompts")
}

fn read(name: &str) -> String {
    fs::read_to_string(data().join(name)).unwrap()
}

/// Words of each utterance that Kaldi finds.
fn expected() -> Vec<(String, Vec<i32>)> {
    let entry = |line: &str| {
        let mut fields = line.split_whitespace();
        let key = fields.next().unwrap().to_string();
        (key, fields.map(|word| word.parse().unwrap()).collect())
    };
    read("expected.words.int").lines().map(entry).collect()
}

/// Holds an archive of lattices to the utterances of the data and their best words.
fn assert_lattices(path: &Path) {
    let mut reader = SequentialReader::<LatticeHolder>::open(&format!("ark:{}", path.display())).unwrap();
    for (key, words) in expected() {
        let (found, lattice) = reader.next().unwrap().unwrap();
        assert_eq!(found, key);
        assert_eq!(lattice.best_path(0.083333).unwrap().olabels, words, "{key}");
    }
    assert!(reader.next().unwrap().is_none());
}

/// The text of words by their numbers.
fn names(words: &[i32]) -> String {
    let table = read("words.txt");
    let name = |word: &i32| {
        let entry = |line: &str| {
            line.split_once(' ').filter(|(_, id)| *id == word.to_string()).map(|(name, _)| name.to_string())
        };
        table.lines().find_map(entry).unwrap().to_lowercase()
    };
    words.iter().map(name).collect::<Vec<_>>().join(" ")
}

#[test]
fn decode_prompts_tells_words_wer_and_speed() {
    let folder = tempfile::tempdir().unwrap();
    let lattices = folder.path().join("lattices");
    let mut out = Vec::new();
    let found = decode_prompts::run(&data(), &lattices, &mut out).unwrap();
    assert_eq!(found, expected());
    assert_lattices(&lattices);

    let out = String::from_utf8(out).unwrap();
    let mut lines = out.lines();
    let references = read("text");
    for ((key, words), reference) in expected().iter().zip(references.lines()) {
        assert_eq!(lines.next(), Some(key.as_str()));
        let said = reference.strip_prefix(key).unwrap().trim();
        assert_eq!(lines.next(), Some(format!("    said     {said}").as_str()));
        assert_eq!(lines.next(), Some(format!("    decoded  {}", names(words)).as_str()));
    }
    // The figure of the model that the data was made with.
    assert_eq!(lines.next(), Some(""));
    assert_eq!(lines.next(), Some("WER 10.9 %"));
    assert_eq!(lines.next(), Some("6 errors in 55 words"));
    let speed = lines.next().unwrap();
    assert!(speed.starts_with("2044 frames in ") && speed.ends_with(" frames a second"), "{speed}");
    assert_eq!(lines.next(), Some(format!("lattices written to {}", lattices.display()).as_str()));
    assert_eq!(lines.next(), None);
}

#[test]
fn decode_prompts_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let message = decode_prompts::run(folder.path(), &folder.path().join("l"), &mut Vec::new()).unwrap_err();
    assert!(message.contains("text"), "{message}");
    fs::write(folder.path().join("text"), "").unwrap();
    let message = decode_prompts::run(folder.path(), &folder.path().join("l"), &mut Vec::new()).unwrap_err();
    assert!(message.starts_with("KOSHI_E_IO: ") && message.contains("trans.mdl"), "{message}");
}

#[test]
fn decode_c_prints_the_words() {
    let folder = tempfile::tempdir().unwrap();
    let expected: String =
        expected().iter().map(|(key, words)| format!("{key} {}\n", names(words)).replace(" \n", "\n")).collect();
    let file = |name: &str| data().join(name).display().to_string();
    let scores = format!("ark:{}", file("loglikes.ark"));
    for language in [Language::C99, Language::Cpp17] {
        let program = Program::compile(&common::root().join("examples/decode.c"), language);
        let lattices = folder.path().join("lattices");
        let out = format!("ark:{}", lattices.display());
        let words = program.succeed(&[&file("trans.mdl"), &file("HCLG.fst"), &file("words.txt"), &scores, &out]);
        assert_eq!(words, expected);
        assert_lattices(&lattices);
        // What is wrong is told, and is no success.
        let refused = program.run(&[&file("trans.mdl"), &file("trans.mdl"), &file("words.txt"), &scores, &out]);
        assert!(!refused.status.success());
        let message = String::from_utf8(refused.stderr).unwrap();
        assert!(message.starts_with("KOSHI_E_FORMAT: ") && message.contains("trans.mdl: byte 0"), "{message}");
        assert!(!program.run(&[]).status.success());
    }
}

#[test]
fn telephony_decodes_all_calls() {
    let file = |name: &str| data().join(name).display().to_string();
    let scores = format!("ark:{}", file("loglikes.ark"));
    let files = [file("trans.mdl"), file("HCLG.fst"), file("words.txt"), scores];
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    for language in [Language::C99, Language::Cpp17] {
        let program = Program::compile(&common::root().join("examples/telephony.c"), language);
        // Twice each of the twelve prompts, once.
        let out = program.succeed(&[&["--calls", "24", "--seconds", "0"][..], &files].concat());
        for (at, (key, words)) in expected().iter().chain(&expected()).enumerate() {
            let said = format!(" call {at} said {}", names(words)).trim_end().to_string();
            assert!(out.lines().any(|line| line.ends_with(&said)), "{key}: {said} is not in {out}");
            assert!(out.lines().any(|line| line.contains(&format!(" call {at} ... "))) || words.is_empty(), "{out}");
        }
        assert!(out.contains("24 calls for ") && out.contains(" 24 prompts, ") && !out.contains("failed"), "{out}");
        assert!(out.contains("\n4088 frames in batches of ") && out.contains("\nlatency p50 "), "{out}");
        let out = program
            .succeed(&[&["--quiet", "--calls", "3", "--seconds", "0.5", "--packet", "0.05"], &files[..]].concat());
        assert!(out.starts_with("3 calls for ") && out.lines().count() == 4, "{out}");
        for wrong in [&["--calls", "0"][..], &["--calls"], &["--what"]] {
            assert!(!program.run(&[wrong, &files].concat()).status.success());
        }
    }
}

#[test]
fn stream_cuts_a_line_into_segments() {
    let file = |name: &str| data().join(name).display().to_string();
    let scores = format!("ark:{}", file("loglikes.ark"));
    let files = [file("trans.mdl"), file("HCLG.fst"), file("words.txt"), scores];
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let program = Program::compile(&common::root().join("examples/stream.cc"), Language::Cpp17);
    let out = program.succeed(&[&files[..], &["1,2,3,4,5,6,7,8,9,10"]].concat());
    let (partial, closed): (Vec<&str>, Vec<&str>) = out.lines().partition(|line| line.starts_with("... "));
    assert!(partial.contains(&"... you are now muted") || partial.contains(&"... YOU ARE NOW MUTED"), "{out}");
    // The segments follow each other from beginning to end: 2,044 frames, with speech throughout.
    let mut end = 0.0;
    for (at, line) in closed.iter().enumerate() {
        let (times, _) = line.split_once(" s, ").unwrap();
        let (from, to) = times.split_once(" to ").unwrap();
        let (from, to): (f64, f64) = (from.parse().unwrap(), to.parse().unwrap());
        assert!(from == end && to > from, "{out}");
        assert_eq!(line.contains(" end of stream: "), at + 1 == closed.len(), "{out}");
        end = to;
    }
    assert!(closed.len() > 1 && end == 20.44, "{out}");
    let wrong = program.run(&[&files[..], &["9999"]].concat());
    assert!(wrong.status.code() == Some(1) && String::from_utf8_lossy(&wrong.stderr).contains("9999"));
    assert_eq!(program.run(&files[1..]).status.code(), Some(2));
}

#[test]
fn lattice_dot_draws_a_lattice() {
    let folder = tempfile::tempdir().unwrap();
    let lattices = folder.path().join("lattices");
    decode_prompts::run(&data(), &lattices, &mut Vec::new()).unwrap();
    let program = Program::compile(&common::root().join("examples/lattice_dot.c"), Language::C99);
    let (table, words) = (format!("ark:{}", lattices.display()), data().join("words.txt").display().to_string());
    let (key, best) = expected().into_iter().find(|(key, _)| key == "allison-conf-muted").unwrap();
    let text = program.succeed(&[&table, &words, &key, "0"]);
    assert!(text.starts_with("digraph lattice {\n") && text.ends_with("}\n"), "{text}");
    // Within a beam of 0 there is the best path alone: its words stand on the arcs in order.
    let drawn: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once("[label = \"").filter(|(arc, _)| arc.contains("->")))
        .map(|(_, label)| label.split("\\n").next().unwrap())
        .filter(|word| *word != "<eps>")
        .collect();
    assert_eq!(drawn.join(" ").to_lowercase(), names(&best));
    if let Ok(mut dot) = std::process::Command::new("dot").arg("-Tsvg").stdin(std::process::Stdio::piped()).spawn() {
        use std::io::Write;
        dot.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(dot.wait().unwrap().success());
    }
    let missing = program.run(&[&table, &words, "nobody", "0"]);
    assert!(!missing.status.success() && String::from_utf8(missing.stderr).unwrap().contains("no lattice of nobody"));
    assert!(!program.run(&[]).status.success());
}

/// The program that times the first frame of a graph is not measured here, but it works.
#[test]
#[cfg(target_os = "linux")]
fn first_frame_times_a_cache_file() {
    use std::sync::Arc;

    use koshi::graph::{Columns, Graph};
    use koshi::table::Transitions;

    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("HCLG.koshi");
    let model = data().join("trans.mdl").display().to_string();
    let columns = Columns::Transitions(Arc::new(Transitions::read_file(&model).unwrap()));
    Graph::read(data().join("HCLG.fst"), columns).unwrap().write_cache(&cache).unwrap();
    let program = Program::compile(&common::root().join("benches/first_frame.c"), Language::C99);
    let cache = cache.display().to_string();
    assert!(program.succeed(&[&model, &cache]).starts_with("as it is: "));
    assert!(program.succeed(&["--cold", &model, &cache]).starts_with("cold: "));
    assert!(!program.run(&["--cold", &model]).status.success());
    assert!(!program.run(&[&model, &model]).status.success());
}
