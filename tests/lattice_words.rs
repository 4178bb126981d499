//! Word alignment, confidences and CTM lines on real lattices, against Kaldi's.

#[path = "support/shared.rs"]
mod shared;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use koshi::lattice::{
    AlignLexicon, AlignOutcome, BoundaryOptions, CompactLattice, CompactLatticeHolder, CtmFormat, LexiconOptions,
    WordBoundary, Words, WordsConfig,
};
use koshi::table::{Input, SequentialReader, Transitions};

/// A folder of real data with a model, tables and Kaldi's results.
struct Set {
    folder: &'static str,
    model: &'static str,
    boundary: &'static str,
    frame_shift: f32,
}

const PROMPTS: Set =
    Set { folder: "realdata/prompts", model: "trans.mdl", boundary: "word_boundary.int", frame_shift: 0.01 };
const KOREAN: Set = Set {
    folder: "realdata/chain-ko",
    model: "graph/trans.mdl",
    boundary: "graph/word_boundary.int",
    frame_shift: 0.03,
};

impl Set {
    fn path(&self, file: &str) -> Option<String> {
        shared::shared(&format!("{}/{file}", self.folder)).map(|path| path.display().to_string())
    }

    fn transitions(&self) -> Option<Transitions> {
        Some(Transitions::read_file(&self.path(self.model)?).unwrap())
    }

    fn lattices(&self, file: &str) -> Option<Vec<(String, CompactLattice)>> {
        let bytes = shared::read(self.path(file)?.as_ref());
        let mut reader: SequentialReader<CompactLatticeHolder> =
            SequentialReader::from_archive(Input::from_bytes("lattices", bytes));
        let mut lattices = Vec::new();
        while let Some(entry) = reader.next().unwrap() {
            lattices.push(entry);
        }
        Some(lattices)
    }

    /// Lines of a CTM file by utterance: start, duration, word, confidence (1 where there is none).
    fn ctm(&self, file: &str) -> Option<BTreeMap<String, Vec<Line>>> {
        let text = String::from_utf8(shared::read(self.path(file)?.as_ref())).unwrap();
        Some(parse(&text))
    }
}

type Line = (f64, f64, String, f64);

fn parse(text: &str) -> BTreeMap<String, Vec<Line>> {
    let mut utterances: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| fields[at].parse::<f64>().unwrap();
        let confidence = if fields.len() > 5 { number(5) } else { 1.0 };
        let line = (number(2), number(3), fields[4].to_string(), confidence);
        utterances.entry(fields[0].to_string()).or_default().push(line);
    }
    utterances
}

fn lines(words: &Words, key: &str, format: &CtmFormat) -> Vec<Line> {
    let text = String::from_utf8(words.to_ctm(key, format, None).unwrap()).unwrap();
    parse(&text).remove(key).unwrap_or_default()
}

/// Compares all utterances of a set at one setting. At most `others` of them may have other words: where Kaldi's
/// lattice, which its file has to six digits, puts two words nearly equal, refinement may end elsewhere.
fn compare(set: &Set, setting: &str, scale: f32, others: &[&str]) -> Option<()> {
    let transitions = set.transitions()?;
    let boundary = WordBoundary::read_file(&set.path(set.boundary)?).unwrap();
    let lattices = set.lattices(&format!("kaldi/{setting}.compact-lattice.txt.gz"))?;
    let mbr = set.ctm(&format!("kaldi/{setting}.mbr.ctm"))?;
    let best = set.ctm(&format!("kaldi/{setting}.1best.ctm"))?;
    let config = WordsConfig { acoustic_scale: scale, ..WordsConfig::default() };
    let format = CtmFormat { frame_shift: set.frame_shift, ..CtmFormat::default() };
    let (mut aligning, mut decoding) = (Duration::ZERO, Duration::ZERO);
    let mut other_words = Vec::new();
    let (mut words, mut different, mut worst, mut arcs) = (0, 0, 0.0f64, 0);
    for (key, lattice) in &lattices {
        let start = Instant::now();
        let aligned = lattice.align_words(&transitions, &boundary, &BoundaryOptions::default()).unwrap();
        aligning += start.elapsed();
        assert_eq!(aligned.outcome, AlignOutcome::Complete, "{key}");
        aligned.lattice.validate().unwrap();
        arcs += aligned.lattice.num_arcs();

        let start = Instant::now();
        let found = aligned.lattice.words(&config).unwrap();
        decoding += start.elapsed();
        let (found, wanted) = (lines(&found, key, &format), mbr.get(key).cloned().unwrap_or_default());
        let same_words = found.iter().map(|line| &line.2).eq(wanted.iter().map(|line| &line.2));
        if !same_words {
            other_words.push(key.as_str());
        }
        for (found, wanted) in found.iter().zip(&wanted).filter(|_| same_words) {
            words += 1;
            different += usize::from(found != wanted);
            worst = worst.max((found.3 - wanted.3).abs());
            let near = |a: f64, b: f64| (a - b).abs() < 0.0101;
            assert!(near(found.0, wanted.0) && near(found.1, wanted.1), "{key}: {found:?} {wanted:?}");
            assert!((found.3 - wanted.3).abs() < 0.0201, "{key}: {found:?} {wanted:?}");
        }

        let found = aligned.lattice.best_words(scale, false).unwrap();
        let format = CtmFormat { digits: 3, confidences: false, ..format };
        assert_eq!(lines(&found, key, &format), best.get(key).cloned().unwrap_or_default(), "{key}");
    }
    eprintln!(
        "{} {setting}: {} lattices, {arcs} aligned arcs, {words} words, {different} lines not as Kaldi's, confidences \
         off by at most {worst:.2}; aligning {aligning:?}, decoding {decoding:?}",
        set.folder,
        lattices.len()
    );
    eprintln!("other words in {other_words:?}");
    assert!(other_words.iter().all(|key| others.contains(key)), "{other_words:?}");
    Some(())
}

#[test]
fn prompts_agree_with_kaldi() {
    let done = compare(&PROMPTS, "typical", 0.083333, &[]).and_then(|()| compare(&PROMPTS, "wide", 0.0666667, &[]));
    assert!(done.is_some() || shared::shared("realdata").is_none());
}

#[test]
fn korean_agrees_with_kaldi() {
    for setting in ["b11", "b11u", "b13", "b13u"] {
        let _ = compare(&KOREAN, setting, 1.0, &["ko40", "kolong"]);
    }
}

/// How many paths a lattice has.
fn num_paths(lattice: &CompactLattice) -> f64 {
    let mut paths = vec![0.0; lattice.num_states()];
    for state in (0..lattice.num_states()).rev() {
        let ends = f64::from(u8::from(!lattice.finals[state].is_absent()));
        paths[state] = ends + lattice.arcs_of(state as u32).iter().map(|arc| paths[arc.next as usize]).sum::<f64>();
    }
    paths[0]
}

/// The words of a path with their transition-ids, and its cost.
type Path = (Vec<(i32, Vec<i32>)>, f64);

fn all_paths(lattice: &CompactLattice) -> Vec<Path> {
    let mut paths = Vec::new();
    let mut open: Vec<(u32, Path)> = vec![(0, (Vec::new(), 0.0))];
    while let Some((state, path)) = open.pop() {
        let last = lattice.finals[state as usize];
        if !last.is_absent() {
            paths.push((path.0.clone(), path.1 + last.total(1.0)));
        }
        for at in lattice.arc_range(state) {
            let arc = lattice.arcs[at];
            let (mut words, cost) = path.clone();
            words.push((arc.olabel, lattice.arc_string(at).to_vec()));
            open.push((arc.next, (words, cost + arc.weight.total(1.0))));
        }
    }
    paths.sort_by(|a, b| a.partial_cmp(b).unwrap());
    paths
}

#[test]
fn a_lexicon_aligns_as_word_boundaries_do() {
    let Some(transitions) = PROMPTS.transitions() else { return };
    let read = |file| PROMPTS.path(file).unwrap();
    let boundary = WordBoundary::read_file(&read("word_boundary.int")).unwrap();
    let lexicon = AlignLexicon::read_file(&read("align_lexicon.int")).unwrap();
    for setting in ["typical", "wide"] {
        let lattices = PROMPTS.lattices(&format!("kaldi/{setting}.compact-lattice.txt.gz")).unwrap();
        let (mut took, mut listed) = (Duration::ZERO, 0);
        for (key, lattice) in &lattices {
            let by_boundary = lattice.align_words(&transitions, &boundary, &BoundaryOptions::default()).unwrap();
            let start = Instant::now();
            let by_lexicon =
                lattice.align_words_by_lexicon(&transitions, &lexicon, &LexiconOptions::default()).unwrap();
            took += start.elapsed();
            assert_eq!(by_lexicon.outcome, AlignOutcome::Complete, "{key}");
            by_lexicon.lattice.validate().unwrap();
            // States may come in another order, so figures are compared that do not depend on it.
            let config = WordsConfig { acoustic_scale: 0.083333, ..WordsConfig::default() };
            let [one, two] = [&by_boundary, &by_lexicon].map(|aligned| aligned.lattice.words(&config).unwrap());
            assert_eq!(num_paths(&by_boundary.lattice), num_paths(&by_lexicon.lattice), "{key}");
            assert!(one.labels().eq(two.labels()), "{key}");
            for (one, two) in one.words.iter().zip(&two.words) {
                assert!((one.confidence - two.confidence).abs() < 1e-3, "{key}: {one:?} {two:?}");
                let near = (one.start - two.start).abs() < 1e-2 && (one.frames - two.frames).abs() < 1e-2;
                assert!(near, "{key}: {one:?} {two:?}");
            }
            if num_paths(&by_boundary.lattice) <= 5000.0 {
                let [one, two] = [&by_boundary, &by_lexicon].map(|aligned| all_paths(&aligned.lattice));
                let same = |(one, two): (&Path, &Path)| one.0 == two.0 && (one.1 - two.1).abs() < 1e-2;
                assert!(one.len() == two.len() && one.iter().zip(&two).all(same), "{key}");
                listed += 1;
            }
        }
        eprintln!("{setting}: aligned by lexicon in {took:?}; all paths of {listed} lattices are the same");
        assert!(listed > 20);
    }
}
