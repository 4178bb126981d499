//! The commands that score lattices, as a recipe runs them: `koshi-lattice-scale`, `-add-penalty`, `-1best`, `-prune`,
//! `-mbr-decode`, `koshi-nbest-to-ctm` and `koshi-compute-wer`.

#[path = "support/command.rs"]
mod command;
#[path = "support/shared.rs"]
mod shared;

use command::Folder;
use shared::{read, shared};

const SCALE: &str = env!("CARGO_BIN_EXE_koshi-lattice-scale");
const PENALTY: &str = env!("CARGO_BIN_EXE_koshi-lattice-add-penalty");
const BEST: &str = env!("CARGO_BIN_EXE_koshi-lattice-1best");
const PRUNE: &str = env!("CARGO_BIN_EXE_koshi-lattice-prune");
const MBR: &str = env!("CARGO_BIN_EXE_koshi-lattice-mbr-decode");
const CTM: &str = env!("CARGO_BIN_EXE_koshi-nbest-to-ctm");
const WER: &str = env!("CARGO_BIN_EXE_koshi-compute-wer");
const BEST_PATH: &str = env!("CARGO_BIN_EXE_koshi-lattice-best-path");
const ALIGN: &str = env!("CARGO_BIN_EXE_koshi-lattice-align-words");

/// "a" says 1 3 or 2 3; in "b" a word has a rival that takes two; "c" has no path.
const LATTICES: &str = "\
a 
0\t1\t1\t1,2,11_12
0\t1\t2\t2,0.5,13_13
1\t2\t3\t0.5,1,14
2\t0.25,0,15

b 
0\t1\t4\t0,1,21
0\t2\t5\t0.25,0,22
1\t3\t0\t0,0,23
2\t3\t6\t0.25,0,24
3\t0,0,

c 
0\t1\t1\t0,0,1
2

";

fn folder() -> Folder {
    let folder = Folder::empty();
    folder.write("lattices", LATTICES);
    folder.write("two", &LATTICES[..LATTICES.find("c ").unwrap()]);
    folder.write("nothing", "");
    folder
}

#[test]
fn costs_are_scaled() {
    let folder = folder();
    let scaled = |options: &[&str]| {
        let run = folder.run(SCALE, &[options, &["ark:two", "ark,t:-"]].concat()).ok();
        assert_eq!(run.lines("LOG"), ["Done 2 lattices."]);
        run.stdout
    };
    assert_eq!(scaled(&[]).replace("\n3\n", "\n3\t0,0,\n"), &LATTICES[..LATTICES.find("c ").unwrap()]);
    let of_a = "a \n0\t1\t1\t2,1,11_12\n0\t1\t2\t4,0.25,13_13\n1\t2\t3\t1,0.5,14\n2\t0.5,0,15\n\n";
    assert!(scaled(&["--lm-scale=2", "--acoustic-scale=0.5"]).starts_with(of_a));
    assert!(scaled(&["--lm-scale=2", "--inv-acoustic-scale=2"]).starts_with(of_a));
    // One cost is added to the other: 1 + 2 * 2 and 2 + 3 * 1 for the first arc.
    let both = scaled(&["--acoustic2lm-scale=2", "--lm2acoustic-scale=3"]);
    assert!(both.starts_with("a \n0\t1\t1\t5,5,11_12\n0\t1\t2\t3,6.5,13_13\n"), "{both}");
    // What is not final stays so, also where everything is multiplied by 0.
    assert_eq!(scaled(&["--lm-scale=0", "--acoustic-scale=0"]).matches("\t0,0,").count(), 8);

    folder
        .run(SCALE, &["--acoustic-scale=2", "--inv-acoustic-scale=2", "ark:two", "ark:-"])
        .failed("acoustic-scale and inv-acoustic-scale are both given");
    folder.run(SCALE, &["--lm-scale=3e38", "ark:two", "ark:-"]).failed("lattice a: costs 2,0.5 become inf,0.5");
    folder.run(SCALE, &["--lm-scale=nan", "ark:two", "ark:-"]).failed("lattice a: costs 1,2 become NaN,2");
    folder.run(SCALE, &["ark:nothing", "ark:-"]).failed("Done 0 lattices.");
    folder.run(SCALE, &["ark:lattices"]).failed("2 arguments are needed");
    folder.run(SCALE, &["ark:two", "ark:/dev/full"]).failed("No space left");
}

#[test]
fn words_are_charged() {
    let folder = folder();
    let run = folder.run(PENALTY, &["--word-ins-penalty=0.5", "ark:two", "ark,t:-"]).ok();
    assert_eq!(run.lines("LOG"), ["Done adding word insertion penalty to 2 lattices."]);
    let of_a = "a \n0\t1\t1\t1.5,2,11_12\n0\t1\t2\t2.5,0.5,13_13\n1\t2\t3\t1,1,14\n2\t0.25,0,15\n\n";
    let of_b = "b \n0\t1\t4\t0.5,1,21\n0\t2\t5\t0.75,0,22\n1\t3\t0\t0,0,23\n2\t3\t6\t0.75,0,24\n3\n\n";
    assert_eq!(run.stdout.replace("\n3\t0,0,\n", "\n3\n"), format!("{of_a}{of_b}"));
    folder.run(PENALTY, &["--word-ins-penalty=inf", "ark:two", "ark:-"]).failed("lattice a: costs 1,2 become inf,2");
    folder.run(PENALTY, &["ark:nothing", "ark:-"]).failed("to 0 lattices.");
}

#[test]
fn best_paths_keep_their_costs() {
    let folder = folder();
    let best = |options: &[&str]| folder.run(BEST, &[options, &["ark:lattices", "ark,t:-"]].concat()).ok();
    let run = best(&[]);
    assert_eq!(run.lines("WARNING"), ["Possibly empty lattice for utterance-id c(no output)"]);
    assert_eq!(run.lines("LOG"), ["Done converting 2 to best path, 1 had errors."]);
    let of_a = "a \n0\t1\t2\t2,0.5,13_13\n1\t2\t3\t0.5,1,14\n2\t0.25,0,15\n\n";
    let of_b = "b \n0\t1\t5\t0.25,0,22\n1\t2\t6\t0.25,0,24\n2";
    assert!(run.stdout.starts_with(&format!("{of_a}{of_b}")), "{}", run.stdout);
    // Another ratio of the scales, another path of "a"; the costs are those of the input.
    let other = "a \n0\t1\t1\t1,2,11_12\n1\t2\t3\t0.5,1,14\n2\t0.25,0,15\n\n";
    assert!(best(&["--acoustic-scale=0.1"]).stdout.starts_with(other));
    assert!(best(&["--inv-acoustic-scale=10"]).stdout.starts_with(other));
    assert!(best(&["--lm-scale=10"]).stdout.starts_with(other));
    // A word is dearer than the difference of 0.5 between one word and two in "b".
    let one = best(&["--word-ins-penalty=0.75"]);
    assert!(one.stdout.contains("b \n0\t1\t4\t0,1,21\n1\t2\t0\t0,0,23\n2"), "{}", one.stdout);
    folder.run(BEST, &["--acoustic-scale=0", "ark:two", "ark:-"]).failed("exactly zero acoustic or LM scale");
    folder.run(BEST, &["ark:nothing", "ark:-"]).failed("Done converting 0 to best path, 0 had errors.");
}

#[test]
fn what_is_beyond_the_beam_goes() {
    let folder = folder();
    let prune = |options: &[&str]| folder.run(PRUNE, &[options, &["ark:two", "ark,t:-"]].concat()).ok();
    // 1 3 costs 4.75, 2 3 costs 4.25; in "b" 4 costs 1, 5 6 costs 0.5.
    let run = prune(&["--beam=0.5"]);
    assert_eq!(run.stdout.matches("\t1\t1\t").count() + run.stdout.matches("\t4\t").count(), 2, "{}", run.stdout);
    let run = prune(&["--beam=0.49"]);
    assert_eq!(
        run.stdout.replace("\n1\t2\t3\t0.5,1,14\n2\t0.25,0,15\n", "\n1\t2\t3\t0.75,1,14_15\n2\n"),
        "a \n0\t1\t2\t2,0.5,13_13\n1\t2\t3\t0.75,1,14_15\n2\n\nb \n0\t1\t5\t0.25,0,22\n1\t2\t6\t0.25,0,24\n2\n\n"
    );
    let told = run.lines("LOG");
    assert!(told[0].starts_with("For utterance a, pruned #states from ") && told[0].contains(" and #arcs from "));
    assert!(told[2].starts_with("Overall, pruned from on average ") && told[2].ends_with(" arcs, over 2 utterances."));
    assert_eq!((told.len(), told[3]), (4, "Done 2 lattices."));
    // The beam is one of scaled costs: at 0.1 it is 1 3 that is better, by 0.85.
    let run = prune(&["--beam=0.8", "--inv-acoustic-scale=10"]);
    assert!(run.stdout.starts_with("a \n0\t1\t1\t1,2,11_12\n1\t2\t3\t"), "{}", run.stdout);
    assert_eq!(run.stdout.matches("13_13").count(), 0, "{}", run.stdout);
    folder.run(PRUNE, &["--acoustic-scale=0", "ark:two", "ark:-"]).failed("Do not use a zero acoustic scale");
    folder.run(PRUNE, &["--beam=-1", "ark:two", "ark:-"]).failed("beam is -1");
}

#[test]
fn times_of_single_paths() {
    let folder = folder();
    folder.write("paths", "a \n0\t1\t0\t0,0,1_1\n1\t2\t7\t0,0,2_2_2\n2\t3\t8\t0,0,3\n3\n\n");
    let run = folder.run(CTM, &["ark:paths", "-"]).ok();
    assert_eq!(run.stdout, "a 1 0.02 0.03 7\na 1 0.05 0.01 8\n");
    assert_eq!(run.lines("LOG"), ["Converted 1 linear lattices to ctm format; 0 had errors."]);
    let run = folder.run(CTM, &["--frame-shift=0.03", "--precision=3", "--print-silence", "ark:paths", "ctm"]).ok();
    assert_eq!(run.stdout, "");
    assert_eq!(folder.read("ctm"), "a 1 0.000 0.060 0\na 1 0.060 0.090 7\na 1 0.150 0.030 8\n");
    let run = folder.run(CTM, &["ark:lattices", "-"]).exits(1);
    assert_eq!(run.lines("WARNING"), ["a", "b", "c"].map(|key| format!("Format conversion failed for key {key}")));
    // Two arcs side by side are no path though states and arcs are as many as in one.
    folder.write("fork", "a \n0\t1\t1\t0,0,1\n0\t1\t2\t0,0,1\n1\t2\t3\t0,0,1\n2\n\nb \n0\t1\t1\t0,0,1\n0\t0,0,\n1\n\n");
    folder.run(CTM, &["ark:fork", "-"]).failed("Converted 0 linear lattices to ctm format; 2 had errors.");
    folder.run(CTM, &["--precision=-1", "ark:paths", "-"]).failed("precision cannot be negative");
    folder.run(CTM, &["--frame-shift=0", "ark:paths", "-"]).failed("frame-shift is 0");
}

#[test]
fn words_of_least_expected_error() {
    let folder = folder();
    folder.write("words.txt", "<eps> 0\none 1\ntwo 2\nthree 3\n");
    folder.write("a", &LATTICES[..LATTICES.find("b ").unwrap()]);
    let all = ["ark:a", "ark,t:words", "ark,t:risks", "ark,t:bins", "ark,t:times"];
    let run =
        folder.run(MBR, &[&["--word-symbol-table=words.txt"], &all[..]].concat()).ok().says(&["\na two three \n"]);
    assert_eq!(run.lines("LOG")[0], "Done 1 lattices.");
    // 2 is better than 1 by 0.5: its posterior is 1 / (1 + e^-0.5).
    assert_eq!(run.lines("LOG")[1], "Average Bayes Risk per sentence is 0.377541 and per word, 0.18877");
    assert_eq!(folder.read("words"), "a 2 3 \n");
    assert_eq!(folder.read("risks"), "a 0.3775407 \n");
    assert_eq!(folder.read("bins"), "a [ 0 1 ] [ 2 0.6224594 1 0.3775407 ] [ 0 1 ] [ 3 1 ] [ 0 1 ] \n");
    assert_eq!(folder.read("times"), "a 0 0 ; 0 2 ; 2 2 ; 2 3 ; 3 4 \n");
    folder.run(MBR, &[&["--one-best-times"], &all[..]].concat()).ok();
    assert_eq!(folder.read("times"), "a 0 2 ; 2 3 \n");
    // Other scales, other words; tables that are not wanted, and binary ones.
    folder.run(MBR, &["--acoustic-scale=0.1", "ark:a", "ark,t:words"]).ok();
    assert_eq!(folder.read("words"), "a 1 3 \n");
    folder.run(MBR, &["--lm-scale=0", "ark:a", "", "", "ark:bins", "ark:times"]).ok();
    let (bins, times) = (folder.bytes("bins"), folder.bytes("times"));
    let number = |value: i32| [&[4u8][..], &value.to_le_bytes()].concat();
    assert_eq!(bins[..9], [b"a \0B", &number(5)[..]].concat());
    // The first bin: a word and its posterior.
    assert_eq!(bins[9..24], [number(1), number(0), number(1f32.to_bits() as i32)].concat());
    assert_eq!(times.len(), 4 + 5 + 5 * 10);
    folder.run(MBR, &["ark:nothing", "ark:-"]).failed("per sentence is nan and per word, nan");
    folder.run(MBR, &["ark:a", "ark:/dev/full"]).failed("No space left");
}

#[test]
fn errors_are_counted() {
    let folder = Folder::empty();
    folder.write("said", "a one two three\nb four\nc five six\nd seven\n");
    folder.write("heard", "a one three\nb four nine\nc five seven\n");
    let wer = |options: &[&str]| folder.run(WER, &[options, &["ark:said", "ark:heard"]].concat());
    let lines = |run: command::Run| run.ok().stdout;
    assert_eq!(
        lines(wer(&["--text", "--mode=present"])),
        "%WER 50.00 [ 3 / 6, 1 ins, 1 del, 1 sub ] [PARTIAL]\n%SER 100.00 [ 3 / 3 ]\n\
        Scored 3 sentences, 1 not present in hyp.\n"
    );
    assert_eq!(
        lines(wer(&["--text", "--mode=all"])),
        "%WER 57.14 [ 4 / 7, 1 ins, 2 del, 1 sub ] [PARTIAL]\n%SER 100.00 [ 4 / 4 ]\n\
        Scored 4 sentences, 1 not present in hyp.\n"
    );
    wer(&["--text"]).failed("No hypothesis for key d");
    wer(&["--mode=some"]).failed("--mode=some: expected strict, present or all");
    wer(&["--mode=present"]).failed("said");
    // White space is that of C, whatever else looks like it.
    folder.write("said", "a one\x0btwo\tthree\u{3000}four\u{a0}five\n");
    folder.write("heard", "a one two three\u{3000}four\u{a0}five\n");
    assert!(lines(wer(&["--text"])).starts_with("%WER 0.00 [ 0 / 3, "));
    // Numbers; two substitutions would be as few errors, and count as Kaldi counts them.
    folder.write("said", "a 1 2\n");
    folder.write("heard", "a 2 3\n");
    assert!(lines(wer(&[])).starts_with("%WER 100.00 [ 2 / 2, 1 ins, 1 del, 0 sub ]\n%SER 100.00 [ 1 / 1 ]\n"));
    folder.write("said", "a 5 6\n");
    folder.write("heard", "a 7 7 5\n");
    assert!(lines(wer(&[])).starts_with("%WER 150.00 [ 3 / 2, 1 ins, 0 del, 2 sub ]\n%SER 100.00 [ 1 / 1 ]\n"));
    folder.write("said", "a 1 2 3\n");
    folder.write("heard", "a 1 2 3\n");
    assert!(lines(wer(&[])).starts_with("%WER 0.00 [ 0 / 3, 0 ins, 0 del, 0 sub ]\n%SER 0.00 [ 0 / 1 ]\n"));
}

/// By Kaldi's names, as a recipe's own script calls them: a sweep over scales and penalties.
#[test]
fn scripts_that_call_kaldis_names() {
    let folder = folder();
    folder
        .write("links.sh", "mkdir bin && for c in \"$1\"/koshi-*; do n=${c##*/koshi-}; ln -s \"$c\" \"bin/$n\"; done");
    folder.write("text", "a one three\nb four\n");
    folder.write("words.sed", "s/ 1 / one /; s/ 2 / two /; s/ 3 / three /; s/ 4 / four /; s/ 5 / five /; s/ 6 / six /");
    folder.write(
        "score.sh",
        "set -e -o pipefail; PATH=$PWD/bin:$PATH; gzip -c two > lat.1.gz
        for lmwt in 1 10; do for wip in 0.0 0.75; do
            lattice-scale --inv-acoustic-scale=$lmwt 'ark:gunzip -c lat.*.gz|' ark:- |
                lattice-add-penalty --word-ins-penalty=$wip ark:- ark:- |
                lattice-best-path ark:- ark,t:- | sed -e 's/$/ /' -f words.sed -f words.sed |
                compute-wer --text --mode=present ark:text ark,p:- > wer_${lmwt}_$wip
        done; done 2> log
        grep -H WER wer_*",
    );
    let bins = std::path::Path::new(SCALE).parent().unwrap().to_str().unwrap();
    folder.run("bash", &["links.sh", bins]).ok();
    assert_eq!(
        folder.run("bash", &["score.sh"]).ok().stdout,
        "wer_10_0.0:%WER 0.00 [ 0 / 3, 0 ins, 0 del, 0 sub ]\n\
        wer_10_0.75:%WER 0.00 [ 0 / 3, 0 ins, 0 del, 0 sub ]\n\
        wer_1_0.0:%WER 100.00 [ 3 / 3, 1 ins, 0 del, 2 sub ]\n\
        wer_1_0.75:%WER 33.33 [ 1 / 3, 0 ins, 0 del, 1 sub ]\n"
    );
}

/// A recipe's scoring of real speech, in pipes: words at Kaldi's scale, times of the best path, minimum Bayes risk.
#[test]
fn prompts() {
    let Some(data) = shared("realdata/prompts") else { return };
    let folder = Folder::empty();
    let model = data.join("trans.mdl").display().to_string();
    let boundary = data.join("word_boundary.int").display().to_string();
    for (setting, scale) in [("typical", "0.083333"), ("wide", "0.0666667")] {
        let kaldi =
            |name: &str| String::from_utf8(read(&data.join("kaldi").join(format!("{setting}.{name}")))).unwrap();
        folder.write("lattices", kaldi("compact-lattice.txt.gz"));
        let scale = format!("--acoustic-scale={scale}");
        // As local/score.sh: scaled, charged with nothing, best paths.
        let scaled = format!("ark:{SCALE} {scale} ark:lattices ark:- | {PENALTY} --word-ins-penalty=0.0 ark:- ark:- |");
        folder.run(BEST_PATH, &[&scaled, "ark,t:words"]).ok();
        assert_eq!(folder.read("words"), kaldi("words.int"), "{setting}");
        let run = folder
            .run(WER, &[&format!("ark:{}", data.join(format!("kaldi/{setting}.words.int")).display()), "ark:words"]);
        assert!(run.ok().stdout.starts_with("%WER 0.00 [ 0 / "), "{setting}");
        // As steps/get_ctm.sh.
        let best = format!("ark:{BEST} {scale} ark:lattices ark:- | {ALIGN} {boundary} {model} ark:- ark:- |");
        folder.run(CTM, &["--precision=3", &best, "ctm"]).ok();
        assert!(folder.read("ctm") == kaldi("1best.ctm"), "{setting}: other words or times");
        // With --decode_mbr: Kaldi's words; and of lattices that are pruned to their best paths, those.
        let decoded = |last: &str| {
            folder.run(MBR, &[&format!("{scaled} {last} ark:- ark:- |"), "ark,t:mbr"]).ok();
            folder.read("mbr")
        };
        let mut from_ctm = std::collections::BTreeMap::<String, String>::new();
        for line in kaldi("mbr.ctm").lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            *from_ctm.entry(fields[0].into()).or_default() += &format!("{} ", fields[4]);
        }
        for line in decoded(&format!("{ALIGN} {boundary} {model}")).lines() {
            let (key, words) = line.split_once(' ').unwrap();
            assert_eq!(words, from_ctm.get(key).map_or("", String::as_str), "{setting} {key}");
        }
        assert!(decoded(&format!("{PRUNE} --beam=0")) == kaldi("words.int"), "{setting}");
    }
}
