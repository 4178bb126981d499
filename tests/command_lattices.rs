//! `koshi-lattice-copy`, `koshi-lattice-best-path` and `koshi-lattice-to-nbest` as a recipe runs them.

#[path = "support/command.rs"]
mod command;
#[path = "support/shared.rs"]
mod shared;

use std::collections::BTreeMap;

use command::Folder;
use shared::{read, shared};

/// A folder with the lattices below.
fn new_folder() -> Folder {
    let folder = Folder::empty();
    folder.write("lattices", LATTICES);
    folder
}

const COPY: &str = env!("CARGO_BIN_EXE_koshi-lattice-copy");
const BEST_PATH: &str = env!("CARGO_BIN_EXE_koshi-lattice-best-path");
const TO_NBEST: &str = env!("CARGO_BIN_EXE_koshi-lattice-to-nbest");

/// Compact; that of "b" is not sorted and has a dead end.
const LATTICES: &str = "\
a 
0\t1\t1\t1,2,11_12
0\t1\t2\t2,0.5,13_13
1\t2\t3\t0.5,1,14
2\t0.25,0,15

b 
0\t3\t4\t0,1,21
1\t0.5,0,
2
3\t2\t5\t0,0.25,23
3\t1\t6\t1,1,22
2\t4\t5\t0,0,24

";

#[test]
fn what_is_in_the_form_asked_for_stays_as_it_is() {
    let folder = new_folder();
    let sorted_lines = LATTICES.replace("2\n3\t2", "3\t2").replace("2\t4\t5\t0,0,24\n\n", "\n");
    folder.write("lattices", &sorted_lines);
    let run = folder.run(COPY, &["ark:lattices", "ark:binary"]).ok();
    assert_eq!(run.lines("LOG"), ["Done copying 2 lattices."]);
    folder.run(COPY, &["ark:binary", "ark:again"]).ok();
    assert_eq!(folder.bytes("again"), folder.bytes("binary"));
    folder.run(COPY, &["ark:binary", "ark,t:text"]).ok();
    folder.run(COPY, &["ark:text", "ark,t:text2"]).ok();
    assert_eq!(folder.read("text2"), folder.read("text"));
    // The state that is nowhere final and leads nowhere is still there.
    assert!(folder.read("text").contains("\n3\t1\t6\t1,1,22\n"), "{}", folder.read("text"));
    // What the head of a binary file says is passed on, and so is the sign of a zero.
    let mut bytes = folder.bytes("binary");
    let at = bytes.windows(16).position(|window| window == b"compactlattice44").unwrap() + 16 + 8;
    bytes[at..at + 8].copy_from_slice(&0x0500_0a81_0003u64.to_le_bytes());
    let one = bytes.windows(4).position(|window| window == 0.5f32.to_le_bytes()).unwrap();
    bytes[one..one + 4].copy_from_slice(&(-0.0f32).to_le_bytes());
    folder.write("kaldi", &bytes);
    folder.run(COPY, &["ark:kaldi", "ark,scp:again,again.scp"]).ok();
    assert_eq!(folder.bytes("again"), bytes);
    folder.run(COPY, &["scp:again.scp", "ark:third"]).ok();
    assert_eq!(folder.bytes("third"), bytes);
}

#[test]
fn forms_are_converted() {
    let folder = new_folder();
    folder.run(COPY, &["--write-compact=false", "ark:lattices", "ark,t:raw"]).ok();
    let wanted = "a \n0\t1\t11\t1\t1,2\n0\t2\t13\t2\t2,0.5\n1\t3\t12\t0\n2\t3\t13\t0\n3\t4\t14\t3\t0.5,1\n4\t5\t15\t0\t0.25\n5\n";
    let raw = folder.read("raw").replace("0.25,0\n", "0.25\n");
    assert!(raw.starts_with(wanted), "{raw}");
    folder.run(COPY, &["ark:raw", "ark,t:compact"]).ok();
    assert!(
        folder.read("compact").starts_with("a \n0\t1\t1\t1,2,11_12\n0\t1\t2\t2,0.5,13_13\n1\t2\t3\t0.75,1,14_15\n2\n")
    );
    folder.run(COPY, &["--write_compact=f", "ark:raw", "ark,t:raw2"]).ok();
    assert_eq!(folder.read("raw2"), folder.read("raw"));
    folder.write("cycle", "a \n0\t1\t1\t1\n1\t0\t1\t1\n1\n\n");
    folder.run(COPY, &["--write-compact=false", "ark:cycle", "ark,t:same"]).ok();
    assert_eq!(folder.read("same"), folder.read("cycle"));
    folder.run(COPY, &["ark:cycle", "ark,t:none"]).failed("cycle");
}

#[test]
fn some_utterances() {
    let folder = new_folder();
    folder.write("list", "b and more\nc\n");
    let keys = || folder.read("out").lines().filter(|line| line.ends_with(' ')).collect::<Vec<_>>().concat();
    let run = folder.run(COPY, &["--include=list", "ark:lattices", "ark,t:out"]).ok();
    assert_eq!((keys().as_str(), run.lines("LOG")), ("b ", vec!["Wrote 1 out of 2 utterances."]));
    folder.run(COPY, &["--exclude=list", "ark:lattices", "ark,t:out"]).ok();
    assert_eq!(keys(), "a ");
    folder.write("list", "0\n");
    folder.run(COPY, &["--include=list", "ark:lattices", "ark,t:out"]).failed("Wrote 0 out of 2");
    folder.run(COPY, &["--include=list", "--ignore-missing", "ark:lattices", "ark,t:out"]).ok();
    // A sorted table is not read past the last key of the list.
    let run = folder.run(COPY, &["--include=list", "ark,s:lattices", "ark,t:out"]).ok();
    assert!(run.stderr.contains("The utterance a is larger than the last key"), "{}", run.stderr);
    folder.run(COPY, &["--include=list", "--exclude=list", "ark:lattices", "ark,t:out"]).failed("should not have both");
    folder.write("list", "a\n\nb\n");
    folder.run(COPY, &["--include=list", "ark:lattices", "ark,t:out"]).failed("without an utterance");
    folder.write("nothing", "");
    folder.run(COPY, &["ark:nothing", "ark,t:out"]).failed("Done copying 0 lattices.");
    folder.run(COPY, &["--ignore-missing=true", "ark:nothing", "ark,t:out"]).ok();
    folder.run(COPY, &["ark:lattices"]).failed("2 arguments are needed");
    folder.write("broken", &LATTICES[..30]);
    folder.run(COPY, &["ark:broken", "ark,t:out"]).failed("broken: entry a");
    folder.write("broken", LATTICES.replace("\t1,2,", "\tx,2,"));
    folder.run(COPY, &["ark:broken", "ark,t:out"]).failed("broken");
    folder.run(COPY, &["ark:lattices", "ark:/dev/full"]).failed("No space left");
}

#[test]
fn best_paths_by_hand() {
    let folder = new_folder();
    folder.write("lattices", format!("{LATTICES}c \n0\t1\t1\t0,0,1\n2\n\n"));
    folder.write("words.txt", "<eps> 0\none 1\ntwo 2\nthree 3\nfour 4\nfive 5\nsix 6\n");
    let all = ["ark:lattices", "ark,t:words", "ark,t:ids"];
    let run = |options: &[&str]| folder.run(BEST_PATH, &[options, &all].concat());
    let found = run(&["--word-symbol-table=words.txt", "--write-lattices=ark,t:best"]).ok();
    assert_eq!(folder.read("words"), "a 2 3 \nb 4 5 \n");
    assert_eq!(folder.read("ids"), "a 13 13 14 15 \nb 21 23 \n");
    assert!(found.stderr.contains("\na two three \n") && found.stderr.contains("\nb four five \n"));
    assert_eq!(found.lines("WARNING"), ["Best-path failed for key c"]);
    assert_eq!(
        found.lines("LOG"),
        [
            "For utterance a, best cost 2.75 + 1.5 = 4.25",
            "For utterance b, best cost 0 + 1.25 = 1.25",
            "Overall score per frame is 0.916667 = 0.458333 [graph] + 0.458333 [acoustic] over 6 frames.",
            "Done 2 lattices, failed for 1",
        ]
    );
    assert_eq!(
        folder.read("best"),
        "a \n0\t1\t2\t2,0.5,13_13\n1\t2\t3\t0.75,1,14_15\n2\n\nb \n0\t1\t4\t0,1,21\n1\t2\t5\t0,0.25,23\n2\n\n"
    );
    // The ratio of the scales decides; costs are told as they are scaled.
    let found = run(&["--acoustic-scale=0.25", "--lm-scale=0.5"]).ok();
    assert_eq!(folder.read("words"), "a 1 3 \nb 4 5 \n");
    assert_eq!(found.lines("LOG")[0], "For utterance a, best cost 0.875 + 0.75 = 1.625");
    run(&["--acoustic-scale=0", "--write-lattices=ark,t:best"]).failed("neither scale can be 0");
    run(&["--acoustic-scale=0"]).ok();
    folder.write("words.txt", "one 1\n");
    run(&["--word-symbol-table=words.txt"]).failed("Word-id 2 not in symbol table.");
    // Both lists are optional.
    folder.run(BEST_PATH, &["ark:lattices"]).ok();
    folder.run(BEST_PATH, &["ark:lattices", "", "ark,t:only"]).ok();
    assert_eq!(folder.read("only"), "a 13 13 14 15 \nb 21 23 \n");
    folder.write("none", "c \n0\t1\t1\t0,0,1\n2\n\n");
    folder.run(BEST_PATH, &["ark:none", "ark,t:words"]).failed("Done 0 lattices, failed for 1");
    folder.run(BEST_PATH, &[]).failed("1 to 3 arguments");
}

#[test]
fn nbest_by_hand() {
    let folder = new_folder();
    folder.write("lattices", format!("{LATTICES}c \n0\t1\t1\t0,0,1\n2\n\nd \n0\t1,0,\n\n"));
    let keys = || {
        let text = folder.read("nbest");
        text.lines().filter(|line| line.ends_with(' ')).map(|line| line.trim().to_string()).collect::<Vec<_>>()
    };
    let run = folder.run(TO_NBEST, &["--n=5", "ark:lattices", "ark,t:nbest"]).ok();
    assert_eq!(keys(), ["a-1", "a-2", "b-1", "b-2", "d-1"]);
    assert_eq!(run.lines("WARNING"), ["Possibly empty lattice for utterance-id c(no N-best entries)"]);
    assert_eq!(
        run.lines("LOG"),
        ["Done applying N-best algorithm to 3 lattices with n = 5, average actual #paths is 1.66667"]
    );
    assert!(
        folder
            .read("nbest")
            .starts_with("a-1 \n0\t1\t2\t2,0.5,13_13\n1\t2\t3\t0.75,1,14_15\n2\n\na-2 \n0\t1\t1\t1,2,11_12\n")
    );
    assert!(folder.read("nbest").ends_with("d-1 \n0\t1,0,\n\n"));
    folder.run(TO_NBEST, &["ark:lattices", "ark,t:nbest"]).ok();
    assert_eq!(keys(), ["a-1", "b-1", "d-1"]);
    // Other scales, another order; the costs are written unscaled.
    folder.run(TO_NBEST, &["--lm-scale=1", "--acoustic-scale=0.1", "--n=1", "ark:lattices", "ark,t:nbest"]).ok();
    assert!(folder.read("nbest").starts_with("a-1 \n0\t1\t1\t1,2,11_12\n"));
    for bad in ["--n=0", "--n=-3", "--lm-scale=0", "--acoustic-scale=0", "--acoustic-scale=nan"] {
        folder.run(TO_NBEST, &[bad, "ark:lattices", "ark,t:nbest"]).failed("ERROR");
    }
    let random = |seed: &str| {
        folder.run(TO_NBEST, &["--random", "--n=6", seed, "ark:lattices", "ark,t:nbest"]).ok();
        assert_eq!(keys().len(), 18);
        folder.read("nbest")
    };
    assert_eq!(random("--srand=1"), random("--srand=1"));
    assert_ne!(random("--srand=1"), random("--srand=2"));
}

/// Kaldi's results on real speech from its own lattices.
#[test]
fn prompts() {
    let Some(kaldi) = shared("realdata/prompts/kaldi") else { return };
    let folder = new_folder();
    for (setting, scale) in [("typical", "0.083333"), ("wide", "0.0666667")] {
        let file = |name: &str| String::from_utf8(read(&kaldi.join(format!("{setting}.{name}")))).unwrap();
        let scale = format!("--acoustic-scale={scale}");
        for form in ["compact", "raw"] {
            let text = file(&format!("{form}-lattice.txt.gz"));
            folder.write(form, &text);
            let table = format!("ark:{form}");
            folder.run(COPY, &[&format!("--write-compact={}", form == "compact"), &table, "ark,t:text"]).ok();
            assert!(folder.read("text") == text, "{setting} {form}: the text changed");
            let run = folder.run(BEST_PATH, &[&scale, &table, "ark,t:words", "ark,t:ids"]).ok();
            assert_eq!(folder.read("words"), file("words.int"), "{setting} {form}");
            assert_eq!(folder.read("ids"), file("bestpath.tid"), "{setting} {form}");
            for (line, told) in file("bestcost").lines().zip(run.lines("LOG")) {
                // Utterance, graph cost, scaled acoustic cost, sum, frames.
                let fields: Vec<&str> = line.split(' ').collect();
                let (_, costs) = told.split_once(&format!("For utterance {}, best cost ", fields[0])).unwrap();
                let costs = costs.replace(" + ", " ").replace(" = ", " ");
                for (ours, theirs) in costs.split(' ').zip(&fields[1..4]) {
                    let (ours, theirs): (f64, f64) = (ours.parse().unwrap(), theirs.parse().unwrap());
                    assert!((ours - theirs).abs() < 2e-5 * theirs.abs() + 2e-4, "{setting} {form} {line}: {told}");
                }
            }
        }
        folder.run(TO_NBEST, &[&scale, "--n=20", "ark:compact", "ark,t:nbest"]).ok();
        folder.run(BEST_PATH, &[&scale, "ark:nbest", "ark,t:words"]).ok();
        let of = |text: String| {
            text.lines()
                .map(|line| line.split_once(' ').unwrap_or((line, "")))
                .map(|(key, words)| (key.to_string(), words.to_string()))
                .collect::<BTreeMap<_, _>>()
        };
        let (ours, theirs) = (of(folder.read("words")), of(file("nbest.words")));
        assert!(ours.keys().eq(theirs.keys()), "{setting}: the same number of paths for each utterance");
        // Six digits of text leave a few neighbours equal.
        let swapped = theirs.iter().filter(|(key, words)| ours[*key] != **words).count();
        assert!(swapped * 50 <= theirs.len(), "{setting}: {swapped} of {} paths differ", theirs.len());
    }
}
