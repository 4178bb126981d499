//! Determinization of lattices small enough to list all of their paths.

#[path = "support/brute_force.rs"]
mod brute_force;
#[path = "support/small_lattices.rs"]
mod small_lattices;

use brute_force::*;
use koshi::error::Error;
use koshi::lattice::{
    CompactLattice, DeterminizeConfig, Determinizer, Lattice, LatticeArc, LatticeWeight, Parts, PartsBuilder,
    RawLattice,
};
use koshi::table::Transitions;
use proptest::prelude::*;
use small_lattices::*;

/// A power of two: scaled sums stay exact.
const SCALE: f32 = 0.5;

fn config() -> DeterminizeConfig {
    DeterminizeConfig { beam: f32::INFINITY, acoustic_scale: SCALE, ..DeterminizeConfig::default() }
}

fn arc(next: u32, ilabel: i32, olabel: i32, graph: f32, acoustic: f32) -> LatticeArc {
    LatticeArc { next, ilabel, olabel, weight: LatticeWeight { graph, acoustic } }
}

/// A raw lattice from arcs with their source, and final states of cost 0.
fn raw(arcs: &[(u32, LatticeArc)], finals: &[u32]) -> RawLattice {
    let mut builder = PartsBuilder::default();
    builder.set_start(0);
    arcs.iter().for_each(|&(state, arc)| builder.add_arc(state, arc, &[]).unwrap());
    finals.iter().for_each(|&state| builder.set_final(state, LatticeWeight::ONE, &[]).unwrap());
    RawLattice::from_parts(builder.finish(false).unwrap()).unwrap()
}

fn strings(lattice: &CompactLattice) -> Vec<&[i32]> {
    (0..lattice.num_arcs()).map(|arc| lattice.arc_string(arc)).collect()
}

#[test]
fn a_word_spoken_in_two_ways_keeps_the_better_one() {
    // Word 7 over 1 2 (cost 3) or over 1 3 (cost 2); then word 8 over 4.
    let lattice = raw(
        &[
            (0, arc(1, 1, 7, 1.0, 2.0)),
            (1, arc(2, 2, 0, 1.0, 0.0)),
            (1, arc(2, 3, 0, 0.0, 0.0)),
            (2, arc(3, 4, 8, 0.25, 0.5)),
        ],
        &[3],
    );
    let found = lattice.determinize(None, &config()).unwrap();
    assert_eq!(found.effective_beam, f32::INFINITY);
    let compact = found.lattice;
    compact.validate().unwrap();
    assert_eq!(compact.arcs, [arc(1, 7, 7, 1.0, 2.0), arc(2, 8, 8, 0.25, 0.5)]);
    assert_eq!(strings(&compact), [&[1, 3][..], &[4]]);
    assert_eq!((compact.times.as_slice(), compact.num_frames, compact.reached_final), (&[0, 2, 3][..], 3, true));
}

#[test]
fn what_all_ways_share_is_put_first() {
    // After word 7 the paths 1 2 3 and 1 2 4 lead to different words: 1 2 stands on the arc of 7.
    let lattice = raw(
        &[
            (0, arc(1, 1, 7, 0.0, 1.0)),
            (1, arc(2, 2, 0, 0.0, 1.0)),
            (2, arc(3, 3, 0, 0.0, 1.0)),
            (2, arc(4, 4, 0, 0.0, 2.0)),
            (3, arc(5, 5, 8, 0.0, 0.0)),
            (4, arc(5, 5, 9, 0.0, 0.0)),
        ],
        &[5],
    );
    let compact = lattice.determinize(None, &config()).unwrap().lattice;
    assert_eq!(compact.arcs, [arc(1, 7, 7, 0.0, 3.0), arc(2, 8, 8, 0.0, 0.0), arc(2, 9, 9, 0.0, 1.0)]);
    assert_eq!(strings(&compact), [&[1, 2][..], &[3, 5], &[4, 5]]);
}

#[test]
fn ties_go_to_lower_graph_cost_then_shorter_then_greater_string() {
    let tie = |ways: &[&[(i32, f32, f32)]]| {
        // Each way is a chain of (transition-id, graph, acoustic) from 0 to 1 that starts with word 7.
        let mut arcs = Vec::new();
        let mut fresh = 2;
        for way in ways {
            let mut state = 0;
            for (at, &(id, graph, acoustic)) in way.iter().enumerate() {
                let next = if at + 1 == way.len() { 1 } else { fresh };
                arcs.push((state, arc(next, id, if at == 0 { 7 } else { 0 }, graph, acoustic)));
                (state, fresh) = (next, fresh + 1);
            }
        }
        let compact = raw(&arcs, &[1]).determinize(None, &config()).unwrap().lattice;
        assert_eq!((compact.num_states(), compact.num_arcs()), (2, 1));
        [compact.arc_string(0), compact.final_string(1)].concat()
    };
    // Totals at scale 0.5 are all 1.
    assert_eq!(tie(&[&[(5, 1.0, 0.0)], &[(3, 0.5, 1.0)]]), [3]);
    assert_eq!(tie(&[&[(5, 1.0, 0.0), (5, 0.0, 0.0)], &[(3, 1.0, 0.0)]]), [3]);
    assert_eq!(tie(&[&[(3, 1.0, 0.0)], &[(5, 1.0, 0.0)]]), [5]);
    assert_eq!(tie(&[&[(3, 1.0, 0.0), (9, 0.0, 0.0)], &[(5, 1.0, 0.0), (1, 0.0, 0.0)]]), [5, 1]);
}

#[test]
fn empty_lattices_stay_empty() {
    let found = RawLattice::empty(0.25).determinize(None, &config()).unwrap();
    assert!(found.lattice.is_empty());
    assert_eq!((found.lattice.acoustic_scale, found.effective_beam), (0.25, f32::INFINITY));
    assert!(Lattice::from(CompactLattice::default()).determinize(None, &config()).unwrap().lattice.is_empty());
    // A start that is final: one state, no arc.
    let point = raw(&[], &[0]).determinize(None, &config()).unwrap().lattice;
    assert_eq!((point.num_states(), point.num_arcs(), point.finals[0]), (1, 0, LatticeWeight::ONE));
}

#[test]
fn settings_out_of_range_are_refused() {
    let lattice = raw(&[(0, arc(1, 1, 7, 0.0, 1.0))], &[1]);
    for bad in [
        DeterminizeConfig { beam: -1.0, ..config() },
        DeterminizeConfig { beam: f32::NAN, ..config() },
        DeterminizeConfig { acoustic_scale: f32::INFINITY, ..config() },
        DeterminizeConfig { delta: f32::NAN, ..config() },
        DeterminizeConfig { delta: -0.5, ..config() },
    ] {
        assert!(matches!(lattice.determinize(None, &bad), Err(Error::Config(_))), "{bad:?}");
    }
}

/// Holds a determinized lattice to the listing of all paths of what it was made from.
fn check(parts: &Parts, compact: &CompactLattice, config: &DeterminizeConfig, phones: bool) {
    let scale = f64::from(config.acoustic_scale);
    let expected = language(parts, scale);
    compact.validate().unwrap();
    for state in 0..compact.num_states() as u32 {
        let words: Vec<i32> = compact.arcs_of(state).iter().map(|arc| arc.olabel).collect();
        assert!(words.windows(2).all(|two| two[0] < two[1]) && !words.contains(&0), "state {state}: {words:?}");
    }
    let paths = written_paths(&parts_of_compact(compact));
    let found = language(&parts_of_compact(compact), scale);
    assert_eq!(paths.len(), found.len(), "a word sequence stands there twice");
    let limit = least(&expected, scale) + f64::from(config.beam);
    for (words, path) in &expected {
        if total(path, scale) <= limit {
            assert_eq!(found.get(words), Some(path), "{words:?}");
        }
    }
    for (words, path) in &found {
        let truth = expected.get(words).unwrap_or_else(|| panic!("{words:?} is not in the lattice"));
        assert!(total(path, scale) >= total(truth, scale));
        // Farther away than the beam, a pass before may have dropped the better alignment.
        assert!(phones || path == truth, "{words:?}: {path:?}, {truth:?}");
    }
}

fn check_all(parts: &Parts, transitions: &Transitions, beam: f32, work: &mut Determinizer) {
    let lattice = RawLattice::from_parts(parts.clone()).unwrap();
    let config = DeterminizeConfig { beam, ..config() };
    for minimize in [false, true] {
        let config = DeterminizeConfig { minimize, ..config };
        for model in [None, Some(transitions)] {
            let found = work.determinize(&lattice, model, &config).unwrap();
            assert_eq!(found.effective_beam, beam);
            check(parts, &found.lattice, &config, model.is_some());
            if minimize {
                // The language is what counts: pushing changes no path.
                let plain = work.determinize(&lattice, model, &DeterminizeConfig { minimize: false, ..config });
                let plain = plain.unwrap().lattice;
                let all = |lattice| language(&parts_of_compact(lattice), 0.5);
                assert_eq!(all(&found.lattice), all(&plain));
                assert!(found.lattice.num_states() <= plain.num_states());
            }
        }
    }
}

#[test]
fn all_word_sequences_of_timed_lattices_keep_their_best_alignment() {
    let mut random = Random(1);
    let mut work = Determinizer::default();
    for _ in 0..6000 {
        let transitions = transitions(&mut random);
        let parts = timed_lattice(&mut random, transitions.num_ids());
        let beam = [0.0, 0.25, 1.0, 2.0, 4.0, f32::INFINITY][random.below(6) as usize];
        check_all(&parts, &transitions, beam, &mut work);
    }
}

#[test]
fn strings_are_as_long_as_the_utterance() {
    let mut random = Random(77);
    for _ in 0..1000 {
        let transitions = transitions(&mut random);
        let parts = timed_lattice(&mut random, transitions.num_ids());
        let lattice = RawLattice::from_parts(parts).unwrap();
        let compact = lattice.determinize(Some(&transitions), &config()).unwrap().lattice;
        assert_eq!(compact.times.len(), compact.num_states());
        for path in written_paths(&parts_of_compact(&compact)) {
            assert_eq!(path.1.len(), lattice.num_frames as usize);
        }
    }
}

#[test]
fn without_a_pass_on_words_all_alignments_of_the_best_phones_stay() {
    let mut random = Random(5);
    for _ in 0..1000 {
        let transitions = transitions(&mut random);
        let parts = timed_lattice(&mut random, transitions.num_ids());
        let lattice = RawLattice::from_parts(parts.clone()).unwrap();
        let config = DeterminizeConfig { word_determinize: false, ..config() };
        let compact = lattice.determinize(Some(&transitions), &config).unwrap().lattice;
        compact.validate().unwrap();
        // Nothing new, and the best of each word sequence.
        let all = written_paths(&parts);
        let kept = written_paths(&parts_of_compact(&compact));
        assert!(kept.iter().all(|path| all.contains(path)));
        assert_eq!(language(&parts_of_compact(&compact), 0.5), language(&parts, 0.5));
        // Neither pass: a change of form alone.
        let config = DeterminizeConfig { phone_determinize: false, ..config };
        let plain = lattice.determinize(Some(&transitions), &config).unwrap().lattice;
        assert_eq!(plain, lattice.to_compact().unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_word_sequences_of_any_lattice_keep_their_best_alignment(parts in raw_parts(), beam in 0u8..16, seed in 0u64..1000) {
        let mut random = Random(seed);
        let mut model = transitions(&mut random);
        while model.num_ids() < 2 {
            model = transitions(&mut random);
        }
        check_all(&parts, &model, f32::from(beam) / 4.0, &mut Determinizer::default());
    }

    #[test]
    fn compact_lattices_go_through_their_raw_form(parts in compact_parts(), beam in 0u8..16) {
        let lattice = CompactLattice::from_parts(parts.clone()).unwrap();
        let config = DeterminizeConfig { beam: f32::from(beam) / 4.0, ..config() };
        let found = Lattice::from(lattice).determinize(None, &config).unwrap();
        check(&parts, &found.lattice, &config, false);
    }
}
