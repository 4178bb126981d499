//! Word alignment against sentences written out: a toy model, words in all its kinds of phones, and lattices in which
//! words and transition-ids have come apart.

#[path = "support/small_lattices.rs"]
mod small_lattices;
#[path = "support/toy_speech.rs"]
mod toy_speech;

use koshi::lattice::{
    AlignLexicon, AlignOutcome, Aligned, BoundaryOptions, CompactLattice, LatticeArc, LatticeWeight, LexiconOptions,
    PartsBuilder, WordBoundary,
};
use koshi::table::Input;
use proptest::prelude::*;
use small_lattices::{parts_of_compact, walks};
use toy_speech::*;

/// What a path of an aligned lattice is: labels with their transition-ids, and costs.
type Path = (Vec<Segment>, f64, f64);

fn paths(lattice: &CompactLattice) -> Vec<Path> {
    let mut paths: Vec<Path> = walks(&parts_of_compact(lattice))
        .into_iter()
        .map(|walk| {
            let segment = |&arc: &usize| (lattice.arcs[arc].olabel, lattice.arc_string(arc).to_vec());
            assert!(lattice.final_string(walk.last as u32).is_empty());
            (walk.arcs.iter().map(segment).collect(), walk.written.2, walk.written.3)
        })
        .collect();
    paths.sort_by(|a, b| a.partial_cmp(b).unwrap());
    paths
}

/// A sentence, its costs, and where it is cut into arcs: an arc for each entry with so many words and transition-ids.
#[derive(Clone, Debug)]
struct Spoken {
    segments: Vec<Segment>,
    costs: (i32, i32),
    cuts: Vec<(usize, usize)>,
}

impl Spoken {
    fn words(&self) -> Vec<i32> {
        self.segments.iter().map(|(word, _)| *word).filter(|&word| word != 0).collect()
    }

    fn ids(&self) -> Vec<i32> {
        self.segments.iter().flat_map(|(_, ids)| ids.clone()).collect()
    }

    /// What alignment should give for it.
    fn path(&self) -> Path {
        (self.segments.clone(), f64::from(self.costs.0) / 4.0, f64::from(self.costs.1) / 4.0)
    }
}

fn spoken() -> impl Strategy<Value = Spoken> {
    let cuts = prop::collection::vec((0usize..3, 0usize..12), 0..6);
    (sentence(), (-8i32..40, -8i32..40), cuts)
        .prop_map(|(segments, costs, cuts)| Spoken { segments, costs, cuts })
        .prop_filter("something is said", |spoken| !spoken.segments.is_empty())
}

/// A lattice of separate paths, in which words come up to two arcs early or late and the rest stands on the last arc
/// and in the final string.
fn lattice(all: &[Spoken]) -> CompactLattice {
    let mut builder = PartsBuilder::default();
    builder.set_start(0);
    let mut fresh = 1;
    for spoken in all {
        let (words, ids) = (spoken.words(), spoken.ids());
        let (mut words, mut ids) = (words.as_slice(), ids.as_slice());
        let (mut state, mut first) = (0, true);
        let mut arc = |word: i32, string: &[i32]| {
            let (graph, acoustic) = if first { spoken.costs } else { (0, 0) };
            first = false;
            let weight = LatticeWeight { graph: graph as f32 / 4.0, acoustic: acoustic as f32 / 4.0 };
            builder.add_arc(state, LatticeArc { next: fresh, ilabel: word, olabel: word, weight }, string).unwrap();
            state = fresh;
            fresh += 1;
        };
        for &(take_words, take_ids) in &spoken.cuts {
            let (string, rest) = ids.split_at(take_ids.min(ids.len()));
            ids = rest;
            let (now, later) = words.split_at(take_words.min(words.len()));
            words = later;
            arc(now.first().copied().unwrap_or(0), string);
            now.iter().skip(1).for_each(|&word| arc(word, &[]));
        }
        words.iter().for_each(|&word| arc(word, &[]));
        let (string, last) = ids.split_at(ids.len() / 2);
        arc(0, string);
        builder.set_final(state, LatticeWeight::ONE, last).unwrap();
    }
    CompactLattice::from_parts(builder.finish(true).unwrap()).unwrap()
}

fn align(lattice: &CompactLattice) -> Aligned {
    lattice.align_words(&transitions(), &boundary(), &BoundaryOptions::default()).unwrap()
}

fn align_by_lexicon(lattice: &CompactLattice) -> Aligned {
    lattice.align_words_by_lexicon(&transitions(), &lexicon(), &LexiconOptions::default()).unwrap()
}

/// All that is expected of `all`; of sentences that agree in all but cost only the best.
fn expected(all: &[Spoken]) -> Vec<Path> {
    let mut paths: Vec<Path> = all.iter().map(Spoken::path).collect();
    paths.sort_by(|a, b| (&a.0, a.1 + a.2).partial_cmp(&(&b.0, b.1 + b.2)).unwrap());
    paths.dedup_by(|later, earlier| later.0 == earlier.0);
    paths.sort_by(|a, b| a.partial_cmp(b).unwrap());
    paths
}

/// Sentences that are alike may win with other costs of the same sum.
fn same_paths(found: &[Path], wanted: &[Path]) -> bool {
    let close = |(a, b): (&Path, &Path)| a.0 == b.0 && (a.1 + a.2 - b.1 - b.2).abs() < 1e-3;
    let by_segments = |paths: &[Path]| {
        let mut paths = paths.to_vec();
        paths.sort_by(|a, b| a.0.cmp(&b.0));
        paths
    };
    found.len() == wanted.len() && by_segments(found).iter().zip(&by_segments(wanted)).all(close)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_arc_becomes_a_word(all in prop::collection::vec(spoken(), 1..4)) {
        let lattice = lattice(&all);
        for aligned in [align(&lattice), align_by_lexicon(&lattice)] {
            prop_assert_eq!(&aligned.outcome, &AlignOutcome::Complete);
            aligned.lattice.validate().unwrap();
            let (found, wanted) = (paths(&aligned.lattice), expected(&all));
            prop_assert!(same_paths(&found, &wanted), "{:?}\n{:?}", found, wanted);
        }
    }

    #[test]
    fn what_is_cut_off_keeps_its_words(spoken in spoken(), lost in 1usize..6) {
        let mut cut = spoken;
        let last = cut.segments.last_mut().unwrap();
        let kept = last.1.len().saturating_sub(lost).max(1);
        let whole = last.1.len() == kept || is_whole(&last.1[..kept]);
        last.1.truncate(kept);
        let lattice = lattice(&[cut.clone()]);
        let aligned = align(&lattice);
        prop_assert_eq!(aligned.outcome == AlignOutcome::Complete, whole, "{:?}", aligned.outcome);
        prop_assert_eq!(paths(&aligned.lattice), [cut.path()]);
        let best = aligned.lattice.best_path(1.0).unwrap();
        prop_assert_eq!((best.olabels, best.ilabels), (cut.words(), cut.ids()));
        // By lexicon the last word is only known to be cut off if no shorter word fits; never are words lost.
        let by_lexicon = align_by_lexicon(&lattice);
        let best = by_lexicon.lattice.best_path(1.0).unwrap();
        prop_assert_eq!((best.olabels, best.ilabels), (cut.words(), cut.ids()));
    }

    #[test]
    fn words_without_any_sound_stay(spoken in spoken(), more in prop::collection::vec(10i32..13, 1..3)) {
        let mut silent = spoken;
        silent.segments.extend(more.iter().map(|&word| (word, vec![])));
        let aligned = align(&lattice(&[silent.clone()]));
        prop_assert!(matches!(aligned.outcome, AlignOutcome::PartialWords(_)), "{:?}", aligned.outcome);
        let best = aligned.lattice.best_path(1.0).unwrap();
        prop_assert_eq!((best.olabels, best.ilabels), (silent.words(), silent.ids()));
    }
}

/// Lines that are nearly those of a table.
fn nearly_a_table() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        6 => "-?[0-9]{1,3}".boxed(),
        1 => "[0-9]{9,30}".boxed(),
        3 => "nonword|begin|end|internal|singleton".boxed(),
        1 => "[ \t\r\u{0}a-z\u{ff}]{0,3}".boxed(),
    ];
    let line = prop::collection::vec(field, 0..5).prop_map(|fields| fields.join(" "));
    prop_oneof![
        prop::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n").into_bytes()),
        prop::collection::vec(any::<u8>(), 0..100),
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in nearly_a_table()) {
        let input = || Input::from_bytes("table", bytes.clone());
        let faults = [WordBoundary::read(&mut input()).err(), AlignLexicon::read(&mut input()).err()];
        for fault in faults.into_iter().flatten() {
            let text = fault.to_string();
            let told = text.starts_with("table: byte ") && (text.contains("line ") || text.contains("UTF-8"));
            prop_assert!(told, "{text}");
        }
    }
}

/// One path: silence, a word of three phones, a word of one.
fn by_hand() -> (CompactLattice, Vec<Segment>) {
    let segments = vec![said(0, &[1], 2), said(10, &[2, 3, 4], 1), said(11, &[5], 3)];
    let spoken = Spoken { segments: segments.clone(), costs: (4, 8), cuts: vec![(2, 3)] };
    (lattice(&[spoken]), segments)
}

#[test]
fn labels_of_silence_and_of_what_is_no_word() {
    let (lattice, mut segments) = by_hand();
    assert_eq!(paths(&align(&lattice).lattice), [(segments.clone(), 1.0, 2.0)]);
    let options = BoundaryOptions { silence_label: 77, partial_word_label: 78, ..BoundaryOptions::default() };
    let aligned = lattice.align_words(&transitions(), &boundary(), &options).unwrap();
    segments[0].0 = 77;
    assert_eq!(paths(&aligned.lattice)[0].0, segments);
    // A word that the lattice does not have.
    let unsaid = Spoken { segments: vec![said(0, &[2, 3], 1)], costs: (0, 0), cuts: vec![] };
    let aligned = self::lattice(&[unsaid]).align_words(&transitions(), &boundary(), &options).unwrap();
    assert_eq!(aligned.outcome, AlignOutcome::PartialWords("the last word is cut off".to_string()));
    assert_eq!(paths(&aligned.lattice)[0].0, [said(78, &[2, 3], 1)]);
    for bad in [BoundaryOptions { silence_label: -1, ..options }, BoundaryOptions { max_expand: f32::NAN, ..options }] {
        assert!(matches!(lattice.align_words(&transitions(), &boundary(), &bad), Err(koshi::Error::Config(_))));
    }
}

#[test]
fn a_lexicon_names_new_words() {
    let (lattice, mut segments) = by_hand();
    let text = "0 99 1\n10 20 2 3 4\n10 21 2 4\n11 11 5\n";
    let lexicon = AlignLexicon::read(&mut Input::from_bytes("lexicon", text)).unwrap();
    let aligned = lattice.align_words_by_lexicon(&transitions(), &lexicon, &LexiconOptions::default()).unwrap();
    (segments[0].0, segments[1].0) = (99, 20);
    assert_eq!((aligned.outcome, paths(&aligned.lattice)), (AlignOutcome::Complete, vec![(segments, 1.0, 2.0)]));
}

#[test]
fn case_b57_a_table_that_lacks_a_phone() {
    let (lattice, _) = by_hand();
    for missing in 1..=5 {
        let lines: String = BOUNDARY
            .lines()
            .filter(|line| !line.starts_with(&missing.to_string()))
            .map(|line| format!("{line}\n"))
            .collect();
        let table = WordBoundary::read(&mut Input::from_bytes("boundary", lines)).unwrap();
        let aligned = lattice.align_words(&transitions(), &table, &BoundaryOptions::default()).unwrap();
        let why = format!("phone {missing} is not in the word-boundary table");
        assert_eq!(aligned.outcome, AlignOutcome::NotAligned(why));
        assert_eq!(aligned.lattice, lattice);
    }
}

#[test]
fn what_does_not_fit_leaves_the_lattice_alone() {
    let left_alone = |aligned: Aligned, lattice: &CompactLattice, because: &str| {
        let AlignOutcome::NotAligned(why) = &aligned.outcome else { panic!("{because}: {:?}", aligned.outcome) };
        assert!(why.contains(because), "{why}");
        assert_eq!(aligned.lattice, *lattice);
    };
    let one = |segments: Vec<Segment>| lattice(&[Spoken { segments, costs: (0, 0), cuts: vec![] }]);
    // Kinds of phones in the wrong places.
    let internal = one(vec![said(10, &[3, 4], 1), said(11, &[5], 1)]);
    left_alone(align(&internal), &internal, "begins with phone 3 (transition-id 6), whose kind is internal");
    let inside = one(vec![said(10, &[2, 1, 4], 1), said(11, &[5], 1)]);
    left_alone(align(&inside), &inside, "phone 1 (transition-id 2), whose kind is nonword, inside a word");
    let allowed = BoundaryOptions { silence_may_be_word_internal: true, ..BoundaryOptions::default() };
    let aligned = inside.align_words(&transitions(), &boundary(), &allowed).unwrap();
    assert_eq!(aligned.outcome, AlignOutcome::Complete);
    // Self-loops first, as without reordering: loops of the next phone are taken for this one's.
    let unordered = one(vec![(11, vec![9, 10]), (12, vec![3, 4, 7, 8])]);
    left_alone(align(&unordered), &unordered, "phone 2 (transition-id 3) begins before phone 5 has ended");
    let as_it_is = BoundaryOptions { reorder: false, ..BoundaryOptions::default() };
    let aligned = unordered.align_words(&transitions(), &boundary(), &as_it_is).unwrap();
    assert_eq!(aligned.outcome, AlignOutcome::Complete);
    assert_eq!(paths(&aligned.lattice)[0].0, [(11, vec![9, 10]), (12, vec![3, 4, 7, 8])]);
    // Transition-ids of another model.
    let foreign = one(vec![(11, vec![10, 9, 999])]);
    left_alone(align(&foreign), &foreign, "transition-id 999 is not in the model, which has 1 to 10");
    left_alone(align_by_lexicon(&foreign), &foreign, "transition-id 999");
    // A word, and a pronunciation, that the lexicon lacks.
    let unknown = one(vec![said(500, &[5], 1)]);
    left_alone(align_by_lexicon(&unknown), &unknown, "word 500 is not in the lexicon");
    let odd = one(vec![said(11, &[5], 1), said(10, &[5], 1), said(11, &[5], 1)]);
    let aligned = align_by_lexicon(&odd);
    assert_eq!(aligned.lattice.best_path(1.0).unwrap().olabels, [11, 10, 11]);
    assert_ne!(aligned.outcome, AlignOutcome::Complete);
}

#[test]
fn states_are_bounded() {
    // Phones that begin words which never come: nothing can be given out, and each of 2^n ways is pending.
    let mut builder = PartsBuilder::default();
    builder.set_start(0);
    for state in 0..16 {
        for ids in [[4, 3], [4, 4]] {
            let weight = LatticeWeight::ONE;
            builder.add_arc(state, LatticeArc { next: state + 1, ilabel: 0, olabel: 0, weight }, &ids).unwrap();
        }
    }
    builder.set_final(16, LatticeWeight::ONE, &[]).unwrap();
    let lattice = CompactLattice::from_parts(builder.finish(true).unwrap()).unwrap();
    let options = BoundaryOptions { max_expand: 10.0, ..BoundaryOptions::default() };
    let aligned = lattice.align_words(&transitions(), &boundary(), &options).unwrap();
    assert_eq!(aligned.outcome, AlignOutcome::NotAligned("more than 1170 states would be needed (max-expand)".into()));
    assert_eq!(aligned.lattice, lattice);
    let options = LexiconOptions { max_expand: 1.0, ..LexiconOptions::default() };
    let aligned = lattice.align_words_by_lexicon(&transitions(), &lexicon(), &options).unwrap();
    assert!(matches!(aligned.outcome, AlignOutcome::NotAligned(_)), "{:?}", aligned.outcome);
    assert_eq!(aligned.lattice, lattice);
}

#[test]
fn a_lattice_without_paths_stays_so() {
    let empty = CompactLattice::default();
    for aligned in [align(&empty), align_by_lexicon(&empty)] {
        assert_eq!((aligned.outcome, aligned.lattice), (AlignOutcome::Complete, CompactLattice::default()));
    }
}
