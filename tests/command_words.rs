//! `koshi-lattice-align-words`, `koshi-lattice-align-words-lexicon` and `koshi-lattice-to-ctm-conf` as a recipe runs
//! them: results, refusals, exit codes, log lines.

#[path = "support/command.rs"]
mod command;
#[path = "support/toy_speech.rs"]
mod toy_speech;

use command::Folder;

const ALIGN: &str = env!("CARGO_BIN_EXE_koshi-lattice-align-words");
const ALIGN_LEXICON: &str = env!("CARGO_BIN_EXE_koshi-lattice-align-words-lexicon");
const CTM: &str = env!("CARGO_BIN_EXE_koshi-lattice-to-ctm-conf");

/// Silence of two frames, word 10 of three, then word 11 or 12 of two.
const WHOLE: &str = "\n0\t1\t10\t0.5,2,2_1_4\n1\t2\t11\t1,0,6_8\n1\t2\t12\t2,0,6_8\n2\t0,0,10_9\n\n";
/// Its arcs once aligned. Costs stand where they were read: before word 10 can be given out, since something must follow.
const ALIGNED: [&str; 5] =
    ["\t0\t0.5,2,2_1\n", "\t10\t1,0,4_6_8\n", "\t10\t2,0,4_6_8\n", "\t11\t0,0,10_9\n", "\t12\t0,0,10_9\n"];
const CUT_OFF: &str = "\n0\t1\t10\t0.5,2,2_1_4\n1\t0,0,6\n\n";
/// Begins inside a word.
const BROKEN: &str = "\n0\t1\t10\t0.5,2,6_8\n1\t0,0,10\n\n";

/// The toy model and tables, and an archive of lattices.
fn new_folder(lattices: &[(&str, &str)]) -> Folder {
    let folder = Folder::empty();
    folder.write("model", toy_speech::MODEL);
    folder.write("boundary", toy_speech::BOUNDARY);
    folder.write("lexicon", toy_speech::LEXICON);
    let archive: String = lattices.iter().map(|(key, text)| format!("{key} {text}")).collect();
    folder.write("lattices", &archive);
    folder
}

#[test]
fn lattices_are_aligned_by_either_table() {
    let folder = new_folder(&[("a", WHOLE)]);
    for (program, table) in [(ALIGN, "boundary"), (ALIGN_LEXICON, "lexicon")] {
        let run = folder.run(program, &["--verbose=2", table, "model", "ark:lattices", "ark,t:-"]).exits(0);
        assert!(run.stdout.starts_with("a \n0\t1\t0\t0.5,2,2_1\n"), "{}", run.stdout);
        assert_eq!(run.stdout.matches("_").count(), 7, "{}", run.stdout);
        assert!(ALIGNED.iter().all(|arc| run.stdout.contains(arc)), "{}", run.stdout);
        run.says(&[
            "Aligned lattice for a",
            "LOG (koshi-lattice-align-words",
            "Successfully aligned 1 lattices; 0 had errors.",
        ]);
    }
    let words = ["--silence-label=77", "boundary", "model", "ark:lattices", "ark,t:-"];
    assert!(folder.run(ALIGN, &words).exits(0).stdout.contains("0\t1\t77\t0.5,2,2_1\n"));
}

#[test]
fn what_is_cut_off_or_broken() {
    let folder = new_folder(&[("a", WHOLE), ("b", CUT_OFF), ("c", BROKEN), ("d", WHOLE), ("e", WHOLE)]);
    let words = ["boundary", "model", "ark:lattices", "ark,t:-"];
    let run = folder.run(ALIGN, &words).exits(0).says(&[
        "WARNING",
        "b: the last word, 10, is cut off",
        "Outputting partial lattice for b",
        "c: a word begins with phone 3 (transition-id 6), whose kind is internal",
        "for key c",
        "Successfully aligned 3 lattices; 2 had errors.",
    ]);
    assert!(run.stdout.contains("b \n0\t1\t0\t0.5,2,2_1\n1\t2\t10\t0,0,4_6\n2\n"), "{}", run.stdout);
    assert!(run.stdout.contains(&format!("c {BROKEN}")), "left as it was: {}", run.stdout);
    let words = ["--output-error-lats=false", "boundary", "model", "ark:lattices", "ark,t:-"];
    let run = folder.run(ALIGN, &words).exits(0).says(&["Lattice for b did not align correctly, producing no output."]);
    assert_eq!(run.stdout.matches(" \n0\t").count(), 3, "{}", run.stdout);
    // By lexicon a lattice that cannot be aligned is only written if that is asked for.
    let words = ["lexicon", "model", "ark:lattices", "ark,t:-"];
    let run = folder.run(ALIGN_LEXICON, &words).exits(0).says(&["Empty aligned lattice for c, producing no output."]);
    assert!(!run.stdout.contains("\nc "), "{}", run.stdout);
    let words = ["--output-if-empty", "lexicon", "model", "ark:lattices", "ark,t:-"];
    let run = folder.run(ALIGN_LEXICON, &words).exits(0);
    assert!(run.stdout.contains(&format!("c {BROKEN}")), "{}", run.stdout);
    // More errors than not: no success.
    let folder = new_folder(&[("b", CUT_OFF), ("c", "\n\n")]);
    let run = folder.run(ALIGN, &["boundary", "model", "ark:lattices", "ark,t:-"]).exits(1);
    run.says(&["Lattice was empty for key c", "Successfully aligned 0 lattices; 2 had errors."]);
}

#[test]
fn bad_files_and_options_are_told() {
    let folder = new_folder(&[("a", WHOLE)]);
    folder.write("bad", "1 nonword\n2 begins\n");
    folder.run(ALIGN, &["bad", "model", "ark:lattices", "ark:-"]).exits(1).says(&["ERROR", "bad: byte 10: line 2"]);
    folder.run(ALIGN_LEXICON, &["bad", "model", "ark:lattices", "ark:-"]).exits(1).says(&["bad: byte 0: line 1"]);
    folder.run(ALIGN, &["boundary", "none", "ark:lattices", "ark:-"]).exits(1).says(&["none"]);
    folder
        .run(ALIGN, &["--silence-label=-1", "boundary", "model", "ark:lattices", "ark:-"])
        .exits(1)
        .says(&["negative"]);
    folder.run(ALIGN, &["boundary"]).exits(1);
    folder.run(ALIGN, &["--help"]).exits(0).says(&["--output-error-lats", "--max-expand", "--reorder"]);
    folder.run(ALIGN_LEXICON, &["--help"]).exits(0).says(&["--output-if-empty", "--max-expand"]);
}

#[test]
fn words_with_confidences() {
    let folder = new_folder(&[("a", WHOLE), ("b", WHOLE)]);
    folder.run(ALIGN, &["boundary", "model", "ark:lattices", "ark:aligned"]).exits(0);
    folder.run(CTM, &["ark:aligned", "words.ctm"]).exits(0).says(&[
        "LOG (koshi-lattice-to-ctm-conf",
        "For utterance a, Bayes Risk 0.26894",
        ", avg. confidence per-word 0.865529",
        "Done 2 lattices.",
        "Overall average Bayes Risk per sentence is 0.26894",
        " and per word, 0.13447",
    ]);
    let of_a = "a 1 0.02 0.03 10 1.00\na 1 0.05 0.02 11 0.73\n";
    assert_eq!(folder.read("words.ctm"), format!("{of_a}{}", of_a.replace('a', "b")));

    let run = folder.run(CTM, &["--frame-shift=0.03", "--lm-scale=0", "--confidence-digits=3", "ark:aligned", "-"]);
    assert!(run.exits(0).stdout.starts_with("a 1 0.060 0.090 10 1.000\na 1 0.150 0.060 12 0.500\n"));
    let run = folder.run(CTM, &["--print-silence", "ark:aligned", "-"]).exits(0);
    assert_eq!(run.stdout.lines().next(), Some("a 1 0.00 0.02 0 1.00"));

    // Given words, and times, which must be there and change nothing.
    folder.write("best", "a 10 12\n");
    let run = folder.run(CTM, &["--decode-mbr=false", "ark:aligned", "ark:best", "-"]).exits(0);
    let given = "a 1 0.02 0.03 10 1.00\na 1 0.05 0.02 12 0.27\n";
    assert_eq!(run.stdout, given);
    run.says(&["No 1-best present for utterance b", "Done 1 lattices."]);
    folder.write("times", "a 0 1 ; 1 2\n");
    let run = folder.run(CTM, &["--decode-mbr=false", "ark:aligned", "ark:best", "ark:times", "-"]).exits(0);
    assert_eq!(run.stdout, given);
    folder.write("times", "b 0 1 ; 1 2\n");
    let run = folder.run(CTM, &["--decode-mbr=false", "ark:aligned", "ark:best", "ark:times", "-"]).exits(1);
    run.says(&["No 'times' present for utterance a", "Done 0 lattices.", "per sentence is nan and per word, nan"]);
}

#[test]
fn scales_and_files_of_ctm() {
    let folder = new_folder(&[("a", "\n0\t1\t10\t0,1,4_6_8\n0\t1\t11\t0,3,10_9_9\n1\n\n")]);
    for (scale, confidence) in
        [("--acoustic-scale=1", "0.88"), ("--acoustic-scale=0.5", "0.73"), ("--inv-acoustic-scale=2", "0.73")]
    {
        let run = folder.run(CTM, &[scale, "ark:lattices", "-"]).exits(0);
        assert_eq!(run.stdout, format!("a 1 0.00 0.03 10 {confidence}\n"));
    }
    let both = ["--acoustic-scale=0.5", "--inv-acoustic-scale=2", "ark:lattices", "-"];
    folder.run(CTM, &both).exits(1).says(&["both given"]);
    folder.run(CTM, &["ark:lattices", "ark:-"]).exits(1).says(&["should not be a wspecifier"]);
    folder.run(CTM, &["--frame-shift=0", "ark:lattices", "-"]).exits(1).says(&["frame-shift"]);
    folder.run(CTM, &["ark:lattices", "/dev/full"]).exits(1);
    folder.run(CTM, &["ark:lattices"]).exits(1).says(&["2 to 4 arguments"]);
}
