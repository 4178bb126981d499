//! Lattice operations against the listing of all paths, on small random lattices.

#[path = "support/small_lattices.rs"]
mod small_lattices;

use koshi::lattice::{
    CompactLattice, Lattice, LatticeArc, LatticeWeight, Parts, PartsBuilder, Path, RawLattice, Strings,
};
use proptest::prelude::*;
use small_lattices::*;

/// A power of two: scaled sums stay exact.
const SCALE: f32 = 0.5;

fn arc(next: u32, ilabel: i32, olabel: i32, graph: f32, acoustic: f32) -> LatticeArc {
    LatticeArc { next, ilabel, olabel, weight: LatticeWeight { graph, acoustic } }
}

/// A state by hand: its arcs, and its final costs where it is final.
type State<'a> = (&'a [LatticeArc], Option<(f32, f32)>);

fn parts(start: u32, states: &[State]) -> Parts {
    let mut parts = Parts { start: Some(start), ..Parts::default() };
    for (arcs, last) in states {
        parts.arcs.extend_from_slice(arcs);
        parts.offsets.push(parts.arcs.len() as u32);
        parts.finals.push(last.map_or(LatticeWeight::ZERO, |(graph, acoustic)| LatticeWeight { graph, acoustic }));
    }
    parts
}

fn total(walk: &Walk) -> f64 {
    walk.written.2 + f64::from(SCALE) * walk.written.3
}

fn least(walks: &[Walk]) -> f64 {
    walks.iter().map(total).fold(f64::INFINITY, f64::min)
}

#[test]
fn case_b22_states_in_any_order_are_sorted() {
    // 3 -> 1 -> 2, and 0 on no path.
    let unsorted = parts(
        3,
        &[
            (&[], Some((0.0, 0.0))),
            (&[arc(2, 5, 0, 1.0, 2.0)], None),
            (&[], Some((0.5, 0.0))),
            (&[arc(1, 4, 7, 0.25, 1.0)], None),
        ],
    );
    let lattice = RawLattice::from_parts(unsorted).unwrap();
    assert_eq!(lattice.arcs, [arc(1, 4, 7, 0.25, 1.0), arc(2, 5, 0, 1.0, 2.0)]);
    assert_eq!(lattice.offsets, [0, 1, 2, 2]);
    assert_eq!(lattice.finals, [LatticeWeight::ZERO, LatticeWeight::ZERO, LatticeWeight { graph: 0.5, acoustic: 0.0 }]);
    assert_eq!((lattice.times.as_slice(), lattice.num_frames), (&[0, 1, 2][..], 2));
    assert!(lattice.reached_final);
    lattice.validate().unwrap();
}

#[test]
fn case_b22_cycles_are_refused_and_named() {
    let cyclic = parts(
        0,
        &[
            (&[arc(2, 1, 0, 0.0, 0.0)], None),
            (&[arc(2, 1, 0, 0.0, 0.0), arc(3, 1, 0, 0.0, 0.0)], None),
            (&[arc(1, 1, 0, 0.0, 0.0)], None),
            (&[], Some((0.0, 0.0))),
        ],
    );
    let message = RawLattice::from_parts(cyclic).unwrap_err().to_string();
    assert!(message.contains("cycle") && message.contains('1') && message.contains('2'), "{message}");
    assert!(!message.contains('0') && !message.contains('3'), "{message}");
    let own_loop = parts(0, &[(&[arc(0, 1, 0, 0.0, 0.0)], Some((0.0, 0.0)))]);
    assert!(RawLattice::from_parts(own_loop).unwrap_err().to_string().contains("cycle"));
    // Off every path to a final state a cycle is trimmed like any dead end.
    let off_path = parts(0, &[(&[arc(1, 1, 0, 0.0, 0.0)], Some((0.0, 0.0))), (&[arc(1, 1, 0, 0.0, 0.0)], None)]);
    assert_eq!(RawLattice::from_parts(off_path).unwrap().num_states(), 1);
}

#[test]
fn case_b07_one_final_state_without_arcs() {
    let only = parts(0, &[(&[], Some((1.5, 2.0)))]);
    let lattice = RawLattice::from_parts(only.clone()).unwrap();
    lattice.validate().unwrap();
    let expected =
        Path { graph_cost: 1.5, acoustic_cost: 2.0, acoustic_scale: SCALE, reached_final: true, ..Path::default() };
    assert_eq!(lattice.best_path(SCALE).unwrap(), expected);
    assert_eq!(lattice.prune(0.0, SCALE).unwrap(), lattice);
    let compact = lattice.to_compact().unwrap();
    compact.validate().unwrap();
    assert_eq!(compact.best_path(SCALE).unwrap(), expected);
    assert_eq!(compact.to_raw().unwrap(), lattice);
}

#[test]
fn case_b08_no_states_and_no_reachable_final() {
    let nothing = Parts::default();
    let unreachable = parts(0, &[(&[], None), (&[], Some((0.0, 0.0)))]);
    let no_final = parts(0, &[(&[arc(1, 1, 1, 0.0, 0.0)], None), (&[], None)]);
    let infinite = parts(0, &[(&[arc(1, 1, 1, f32::INFINITY, 0.0)], None), (&[], Some((0.0, 0.0)))]);
    for parts in [nothing, unreachable, no_final, infinite] {
        let lattice = RawLattice::from_parts(parts).unwrap();
        lattice.validate().unwrap();
        assert_eq!(lattice, RawLattice::default());
        let empty = Path { acoustic_scale: SCALE, ..Path::default() };
        assert_eq!(lattice.best_path(SCALE).unwrap(), empty);
        assert_eq!(lattice.prune(1.0, SCALE).unwrap(), lattice);
        let compact = lattice.to_compact().unwrap();
        compact.validate().unwrap();
        assert_eq!(compact, CompactLattice::default());
        assert_eq!(compact.best_path(SCALE).unwrap(), empty);
        assert_eq!(compact.to_raw().unwrap(), lattice);
    }
}

#[test]
fn case_b20_strings_keep_their_order() {
    let mut linear = parts(0, &[(&[arc(1, 9, 9, 1.0, 4.0)], None), (&[], Some((0.5, 0.0)))]);
    let (mut arcs, mut finals) = (Strings::default(), Strings::default());
    arcs.push(&[1, 2]).unwrap();
    finals.push(&[]).unwrap();
    finals.push(&[3]).unwrap();
    linear.strings = Some(koshi::lattice::PartStrings { arcs, finals });
    let compact = CompactLattice::from_parts(linear).unwrap();
    assert_eq!((compact.times.as_slice(), compact.num_frames), (&[0, 2][..], 3));
    assert_eq!(compact.best_path(1.0).unwrap().ilabels, [1, 2, 3]);
    let raw = compact.to_raw().unwrap();
    raw.validate().unwrap();
    assert_eq!(raw.arcs, [arc(1, 1, 9, 1.0, 4.0), arc(2, 2, 0, 0.0, 0.0), arc(3, 3, 0, 0.5, 0.0)]);
    assert_eq!(raw.finals[3], LatticeWeight::ONE);
    assert_eq!((raw.times.as_slice(), raw.num_frames), (&[0, 1, 2, 3][..], 3));
}

#[test]
fn chains_become_one_compact_arc() {
    // Kaldi's rule: a word must stand on the first arc of a chain, so state 2 stays.
    let chain = parts(
        0,
        &[
            (&[arc(1, 1, 7, 1.0, 2.0)], None),
            (&[arc(2, 2, 0, 0.5, 1.0)], None),
            (&[arc(3, 0, 8, 0.0, 0.0)], None),
            (&[], Some((0.0, 0.0))),
        ],
    );
    let compact = RawLattice::from_parts(chain).unwrap().to_compact().unwrap();
    assert_eq!(compact.arcs, [arc(1, 7, 7, 1.5, 3.0), arc(2, 8, 8, 0.0, 0.0)]);
    assert_eq!((compact.arc_string(0), compact.arc_string(1)), (&[1, 2][..], &[][..]));
    assert_eq!(compact.times, [0, 2, 2]);
}

#[test]
fn best_path_names_words_frames_and_ties() {
    let two = parts(
        0,
        &[
            (&[arc(1, 0, 4, 0.0, 0.0), arc(1, 0, 5, 0.0, 0.0)], None),
            (&[arc(2, 6, 0, 1.0, 2.0)], None),
            (&[arc(3, 7, 8, 1.0, 2.0)], Some((3.0, 0.0))),
            (&[], Some((1.0, 0.0))),
        ],
    );
    let lattice = RawLattice::from_parts(two).unwrap();
    // Both final states give 5 at scale 0.5 (2 + 3; 4 + 1): the lower one holds, and the first arc.
    let path = lattice.best_path(0.5).unwrap();
    assert_eq!(
        (path.olabels.as_slice(), path.frames.as_slice(), path.ilabels.as_slice()),
        (&[4][..], &[0][..], &[6][..])
    );
    assert_eq!((path.graph_cost, path.acoustic_cost, path.total_cost()), (4.0, 2.0, 5.0));
    let path = lattice.best_path(0.25).unwrap();
    assert_eq!(
        (path.olabels.as_slice(), path.frames.as_slice(), path.ilabels.as_slice()),
        (&[4, 8][..], &[0, 1][..], &[6, 7][..])
    );
    assert!(lattice.best_path(f32::NAN).is_err() && lattice.best_path(f32::INFINITY).is_err());
}

#[test]
fn times_that_contradict_each_other_are_left_out() {
    let uneven = parts(0, &[(&[arc(1, 1, 0, 0.0, 0.0), arc(1, 0, 0, 0.0, 0.0)], None), (&[], Some((0.0, 0.0)))]);
    let lattice = RawLattice::from_parts(uneven).unwrap();
    assert!(lattice.times.is_empty());
    assert_eq!(lattice.num_frames, 1);
    lattice.validate().unwrap();
}

#[test]
fn validate_finds_what_is_broken() {
    let whole =
        RawLattice::from_parts(parts(0, &[(&[arc(1, 1, 7, 1.0, 2.0)], None), (&[], Some((0.0, 0.0)))])).unwrap();
    let breaks: [fn(&mut RawLattice); 10] = [
        |lattice| lattice.arcs[0].next = 0,
        |lattice| lattice.arcs[0].next = 2,
        |lattice| lattice.arcs[0].ilabel = -1,
        |lattice| lattice.arcs[0].weight.graph = f32::NAN,
        |lattice| lattice.arcs[0].weight.acoustic = f32::INFINITY,
        |lattice| lattice.offsets[1] = 2,
        |lattice| lattice.finals[1] = LatticeWeight::ZERO,
        |lattice| lattice.times[1] = 2,
        |lattice| lattice.num_frames = 0,
        |lattice| lattice.offsets.truncate(1),
    ];
    for (index, damage) in breaks.into_iter().enumerate() {
        let mut broken = whole.clone();
        damage(&mut broken);
        assert!(broken.validate().is_err(), "break {index}");
    }
}

#[test]
fn scaling_keeps_infinity_and_refuses_overflow() {
    let mut lattice =
        RawLattice::from_parts(parts(0, &[(&[arc(1, 1, 7, 1.0, -2.0)], None), (&[], Some((3.0, 0.0)))])).unwrap();
    let before = lattice.clone();
    assert!(lattice.scale(f32::MAX, 1.0).is_err() && lattice.scale(1.0, f32::NAN).is_err());
    assert_eq!(lattice, before);
    lattice.scale(0.5, -0.0).unwrap();
    assert_eq!(lattice.arcs[0].weight, LatticeWeight { graph: 0.5, acoustic: 0.0 });
    assert!(lattice.arcs[0].weight.acoustic.is_sign_positive());
    assert_eq!(lattice.finals, [LatticeWeight::ZERO, LatticeWeight { graph: 1.5, acoustic: 0.0 }]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sorting_keeps_all_paths(parts in raw_parts()) {
        let lattice = RawLattice::from_parts(parts.clone()).unwrap();
        lattice.validate().unwrap();
        prop_assert_eq!(written_paths(&parts_of_raw(&lattice)), written_paths(&parts));
        // A second time nothing changes.
        prop_assert_eq!(RawLattice::from_parts(parts_of_raw(&lattice)).unwrap(), lattice);
    }

    #[test]
    fn sorting_keeps_all_compact_paths(parts in compact_parts()) {
        let lattice = CompactLattice::from_parts(parts.clone()).unwrap();
        lattice.validate().unwrap();
        prop_assert_eq!(written_paths(&parts_of_compact(&lattice)), written_paths(&parts));
        prop_assert_eq!(CompactLattice::from_parts(parts_of_compact(&lattice)).unwrap(), lattice);
    }

    #[test]
    fn conversion_keeps_the_weighted_set(parts in raw_parts(), strings in compact_parts()) {
        let raw = RawLattice::from_parts(parts).unwrap();
        let compact = raw.to_compact().unwrap();
        compact.validate().unwrap();
        prop_assert_eq!((compact.num_frames, compact.times.is_empty()), (raw.num_frames, raw.times.is_empty()));
        prop_assert_eq!(written_paths(&parts_of_compact(&compact)), written_paths(&parts_of_raw(&raw)));

        let compact = CompactLattice::from_parts(strings).unwrap();
        let raw = compact.to_raw().unwrap();
        raw.validate().unwrap();
        prop_assert_eq!((compact.num_frames, compact.times.is_empty()), (raw.num_frames, raw.times.is_empty()));
        prop_assert_eq!(written_paths(&parts_of_compact(&compact)), written_paths(&parts_of_raw(&raw)));
    }

    #[test]
    fn best_path_is_the_least_of_all(parts in raw_parts()) {
        let lattice = RawLattice::from_parts(parts.clone()).unwrap();
        let walks = walks(&parts);
        for path in [lattice.best_path(SCALE).unwrap(), lattice.to_compact().unwrap().best_path(SCALE).unwrap()] {
            prop_assert_eq!(path.reached_final, !walks.is_empty());
            if !walks.is_empty() {
                prop_assert_eq!(path.total_cost(), least(&walks));
                let written = (path.olabels, path.ilabels, path.graph_cost, path.acoustic_cost);
                prop_assert!(walks.iter().any(|walk| walk.written == written));
            }
        }
    }

    #[test]
    fn best_path_agrees_with_rustfst(parts in raw_parts()) {
        use rustfst::prelude::{TropicalWeight, VectorFst, Tr, MutableFst, shortest_distance, Semiring};
        let lattice = RawLattice::from_parts(parts).unwrap();
        let mut fst = VectorFst::<TropicalWeight>::new();
        fst.add_states(lattice.num_states());
        if !lattice.is_empty() {
            fst.set_start(0).unwrap();
        }
        for (state, arc) in lattice.arcs_with_source() {
            let weight = arc.weight.total(SCALE) as f32;
            fst.add_tr(state, Tr::new(arc.ilabel as u32, arc.olabel as u32, TropicalWeight::new(weight), arc.next)).unwrap();
        }
        for (state, weight) in lattice.finals.iter().enumerate().filter(|(_, weight)| !weight.is_absent()) {
            fst.set_final(state as u32, TropicalWeight::new(weight.total(SCALE) as f32)).unwrap();
        }
        if !lattice.is_empty() {
            let distances = shortest_distance(&fst, true).unwrap();
            prop_assert_eq!(f64::from(*distances[0].value()), lattice.best_path(SCALE).unwrap().total_cost());
        }
    }

    #[test]
    fn pruning_keeps_what_lies_on_a_path_within_the_beam(parts in compact_parts(), beam in 0u8..16) {
        let beam = f32::from(beam) / 4.0;
        let compact = CompactLattice::from_parts(parts).unwrap();
        let whole = parts_of_compact(&compact);
        let limit = least(&walks(&whole)) + f64::from(beam);
        let mut arcs = std::collections::BTreeSet::new();
        let mut ends = std::collections::BTreeSet::new();
        for walk in walks(&whole).iter().filter(|walk| total(walk) <= limit) {
            arcs.extend(walk.arcs.iter().copied());
            ends.insert(walk.last);
        }
        let pruned = compact.prune(beam, SCALE).unwrap();
        pruned.validate().unwrap();
        let kept: Vec<_> = arcs.iter().map(|&arc| (compact.arcs[arc].olabel, compact.arcs[arc].weight, compact.arc_string(arc))).collect();
        let found: Vec<_> = (0..pruned.num_arcs()).map(|arc| (pruned.arcs[arc].olabel, pruned.arcs[arc].weight, pruned.arc_string(arc))).collect();
        prop_assert_eq!(found, kept);
        prop_assert_eq!(pruned.finals.iter().filter(|weight| !weight.is_absent()).count(), ends.len());
        // All that the whole lattice has within the beam is there still.
        let within = |parts: &Parts| written_paths(parts).into_iter().filter(|path| path.2 + 0.5 * path.3 <= limit).collect::<Vec<_>>();
        prop_assert_eq!(within(&parts_of_compact(&pruned)), within(&whole));
        prop_assert_eq!(compact.prune(f32::INFINITY, SCALE).unwrap(), compact.clone());

        let raw = compact.to_raw().unwrap();
        let pruned_raw = raw.prune(beam, SCALE).unwrap();
        pruned_raw.validate().unwrap();
        prop_assert_eq!(written_paths(&parts_of_raw(&pruned_raw)), written_paths(&parts_of_compact(&pruned)));
    }

    #[test]
    fn both_forms_come_back_from_bytes(raw in raw_parts(), compact in compact_parts()) {
        let lattices = [
            Lattice::Raw(RawLattice::from_parts(raw).unwrap()),
            Lattice::Compact(CompactLattice::from_parts(compact).unwrap()),
        ];
        for lattice in lattices {
            for binary in [true, false] {
                let bytes = lattice.to_bytes(binary).unwrap();
                let again = Lattice::from_bytes(&bytes).unwrap();
                // Text without any arc or weight fits both forms and is taken for raw.
                if binary || again.is_compact() == lattice.is_compact() {
                    prop_assert_eq!(&again, &lattice);
                } else {
                    prop_assert_eq!(Lattice::Compact(again.into_compact().unwrap()), lattice.clone());
                }
            }
        }
    }
}

#[test]
fn pruning_refuses_bad_beams() {
    let lattice = RawLattice::default();
    for beam in [-1.0, f32::NAN] {
        assert!(lattice.prune(beam, 1.0).is_err());
    }
}

/// Sums of one path differ in the last bits with their order; a beam of 0 keeps the path all the same.
#[test]
fn pruning_at_beam_zero_keeps_the_best_path() {
    let mut state = 12345u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 1e4 - 700.0
    };
    let mut builder = PartsBuilder::default();
    builder.set_start(0);
    for state in 0..300 {
        for olabel in 0..3 {
            builder.add_arc(state, arc(state + 1, 1, olabel, random(), random()), &[]).unwrap();
        }
    }
    builder.set_final(300, LatticeWeight { graph: random(), acoustic: random() }, &[]).unwrap();
    let lattice = RawLattice::from_parts(builder.finish(false).unwrap()).unwrap();
    for scale in [0.083_333, 0.1, 1.0] {
        let best = lattice.best_path(scale).unwrap();
        let pruned = lattice.prune(0.0, scale).unwrap();
        pruned.validate().unwrap();
        assert_eq!((pruned.best_path(scale).unwrap(), pruned.num_arcs()), (best, 300));
        let compact = lattice.to_compact().unwrap().prune(0.0, scale).unwrap();
        assert_eq!(compact.num_frames, 300);
        compact.validate().unwrap();
    }
}
