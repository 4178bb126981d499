//! The tools that hold lattices to Kaldi's are held to plain ways first.

#[path = "support/compare_lattices.rs"]
mod compare_lattices;
#[path = "support/sentences.rs"]
mod sentences;
#[path = "support/shared.rs"]
mod shared;
#[path = "support/small_lattices.rs"]
mod small_lattices;

use std::collections::{BTreeMap, BTreeSet};

use compare_lattices::compare;
use koshi::lattice::{LatticeArc, LatticeWeight, PartsBuilder, RawLattice, RawLatticeHolder};
use koshi::table::{Input, SequentialReader};
use proptest::prelude::*;
use sentences::Sentences;
use small_lattices::*;

const SCALE: f32 = 0.5;

/// Numbers that repeat for a seed (xorshift).
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// The lattice with its states and arcs in another order, and without the arcs in `lost`;
/// costs pass through `round`.
fn disturbed(lattice: &RawLattice, rng: &mut Rng, lost: &[u32], round: fn(f32) -> f32) -> RawLattice {
    let mut names: Vec<u32> = (0..lattice.num_states() as u32).collect();
    rng.shuffle(&mut names);
    let mut arcs: Vec<(u32, LatticeArc)> = Vec::new();
    for state in 0..lattice.num_states() as u32 {
        for arc in lattice.arc_range(state).filter(|&arc| lost.binary_search(&(arc as u32)).is_err()) {
            let LatticeArc { next, ilabel, olabel, weight } = lattice.arcs[arc];
            let weight = LatticeWeight { graph: round(weight.graph), acoustic: round(weight.acoustic) };
            arcs.push((names[state as usize], LatticeArc { next: names[next as usize], ilabel, olabel, weight }));
        }
    }
    rng.shuffle(&mut arcs);
    let mut builder = PartsBuilder::default();
    builder.set_start(names.first().copied().unwrap_or(0));
    for (state, arc) in arcs {
        builder.add_arc(state, arc, &[]).unwrap();
    }
    for (state, weight) in lattice.finals.iter().enumerate().filter(|(_, weight)| !weight.is_absent()) {
        let weight = LatticeWeight { graph: round(weight.graph), acoustic: round(weight.acoustic) };
        builder.set_final(names[state], weight, &[]).unwrap();
    }
    RawLattice::from_parts(builder.finish(false).unwrap()).unwrap()
}

/// As text of six digits and a small error of the sum would make it.
fn rounded(cost: f32) -> f32 {
    let text = koshi::table::format_general(f64::from(cost), 6);
    text.parse::<f32>().unwrap() + 2e-5
}

#[test]
fn extra_arcs_are_told_with_their_distance() {
    let parts = |arcs: &[(u32, u32, i32, f32)]| {
        let mut builder = PartsBuilder::default();
        builder.set_start(0);
        for &(from, next, label, graph) in arcs {
            let weight = LatticeWeight { graph, acoustic: 2.0 };
            builder.add_arc(from, LatticeArc { next, ilabel: label, olabel: 0, weight }, &[]).unwrap();
        }
        builder.set_final(2, LatticeWeight::ONE, &[]).unwrap();
        RawLattice::from_parts(builder.finish(false).unwrap()).unwrap()
    };
    let ours = parts(&[(0, 1, 1, 1.0), (1, 2, 2, 1.0), (0, 1, 3, 4.0)]);
    let theirs = parts(&[(0, 1, 1, 1.0), (1, 2, 2, 1.0), (1, 2, 4, 2.5), (1, 2, 4, 7.0)]);
    let found = compare(&ours, &theirs, SCALE);
    assert_eq!((found.arcs, found.matched, found.matched_states, found.best), ([3, 4], 2, 3, [4.0, 4.0]));
    let extra = |side: usize| found.extra[side].iter().map(|extra| extra.above_best).collect::<Vec<_>>();
    assert_eq!((extra(0), extra(1)), (vec![3.0], vec![1.5, 6.0]));
    // A cost that is off by more than the tolerance is no match, for either.
    let off = parts(&[(0, 1, 1, 1.0), (1, 2, 2, 1.002), (1, 2, 5, 1.0)]);
    let found = compare(&parts(&[(0, 1, 1, 1.0), (1, 2, 2, 1.0), (1, 2, 5, 1.0)]), &off, SCALE);
    assert_eq!((found.matched, found.extra[0].len(), found.extra[1].len()), (2, 1, 1));
    // A final cost that differs is told too.
    let mut dearer = off.clone();
    dearer.finals[2] = LatticeWeight { graph: 1.0, acoustic: 0.0 };
    let found = compare(&off, &dearer, SCALE);
    assert_eq!((found.matched, found.matched_states), (0, 0));
    assert!(found.extra.iter().all(|extra| extra.iter().any(|extra| extra.arc.is_none())));
    let empty = compare(&RawLattice::default(), &off, SCALE);
    assert_eq!((empty.matched, empty.extra[0].len(), empty.extra[1].len()), (0, 0, 4));
}

/// Two paths that begin alike: only their ends tell which state is which.
#[test]
fn later_arcs_tell_twins_apart() {
    let twins = |order: [u32; 2]| {
        let mut builder = PartsBuilder::default();
        builder.set_start(0);
        let arc = |next, ilabel| LatticeArc { next, ilabel, olabel: 0, weight: LatticeWeight::ONE };
        for branch in order {
            builder.add_arc(0, arc(branch, 1), &[]).unwrap();
            builder.add_arc(branch, arc(branch + 10, 2), &[]).unwrap();
            builder.add_arc(branch + 10, arc(30, branch as i32), &[]).unwrap();
        }
        builder.set_final(30, LatticeWeight::ONE, &[]).unwrap();
        RawLattice::from_parts(builder.finish(false).unwrap()).unwrap()
    };
    let found = compare(&twins([7, 8]), &twins([8, 7]), SCALE);
    assert_eq!((found.matched, found.matched_states, found.extra[0].len()), (6, 6, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_lattice_in_another_order_matches_whole(parts in raw_parts(), seed in 1u64..) {
        let lattice = RawLattice::from_parts(parts).unwrap();
        let other = disturbed(&lattice, &mut Rng(seed), &[], |cost| cost);
        let found = compare(&lattice, &other, SCALE);
        prop_assert_eq!(found.matched_states, lattice.num_states());
        prop_assert_eq!(found.matched, lattice.num_arcs());
        prop_assert!(found.extra.iter().all(Vec::is_empty));
    }

    #[test]
    fn sentences_are_those_of_all_paths(parts in raw_parts(), count in 0usize..6) {
        let lattice = RawLattice::from_parts(parts).unwrap();
        let mut least: BTreeMap<Vec<i32>, f64> = BTreeMap::new();
        for (words, _, graph, acoustic) in written_paths(&parts_of_raw(&lattice)) {
            let total = graph + f64::from(SCALE) * acoustic;
            let best = least.entry(words).or_insert(total);
            *best = best.min(total);
        }
        let sentences = Sentences::new(&lattice, SCALE);
        let mut expected: Vec<(Vec<i32>, f64)> = least.into_iter().collect();
        expected.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        for (words, total) in &expected {
            let cost = sentences.cost_of(words).unwrap();
            prop_assert_eq!((cost.total, cost.graph + f64::from(SCALE) * cost.acoustic), (*total, *total));
        }
        prop_assert!(sentences.cost_of(&[99]).is_none());
        let all = sentences.best_while(|_, _| true);
        prop_assert_eq!(all.iter().map(|one| one.cost.total).collect::<Vec<_>>(), expected.iter().map(|one| one.1).collect::<Vec<_>>());
        let mut sorted: Vec<_> = all.iter().map(|one| (one.words.clone(), one.cost.total)).collect();
        sorted.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        prop_assert_eq!(sorted, expected);
        prop_assert_eq!(&sentences.best(count)[..], &all[..count.min(all.len())]);
    }
}

/// Kaldi's own lattices against themselves: in another order, rounded, and with arcs lost on both sides.
#[test]
fn real_lattices_match_their_disturbed_copies() {
    let mut rng = Rng(0x5eed_0123_4567_89ab);
    let (mut arcs, mut ambiguous, mut lost_arcs) = (0, 0, 0);
    for (file, scale) in
        [("prompts/kaldi/typical", 0.083_333), ("prompts/kaldi/wide", 0.066_666_7), ("chain-ko/kaldi/b11u", 1.0)]
    {
        let Some(path) = shared::shared(&format!("realdata/{file}.raw-lattice.txt.gz")) else { return };
        let archive = Input::from_bytes(file, shared::read(&path));
        let mut reader = SequentialReader::<RawLatticeHolder>::from_archive(archive);
        while let Some((key, lattice)) = reader.next().unwrap() {
            let other = disturbed(&lattice, &mut rng, &[], rounded);
            let found = compare(&lattice, &other, scale);
            assert_eq!(
                (found.matched, found.matched_states),
                (lattice.num_arcs(), lattice.num_states()),
                "{file} {key}"
            );
            assert!(
                found.extra.iter().all(Vec::is_empty) && found.difference.iter().all(|&most| most < 1e-3 + 1e-5 * 1e4)
            );
            arcs += lattice.num_arcs();
            ambiguous += found.ambiguous;

            // One arc in fifty is lost here, others there; what both still have must match.
            let best = best_arcs(&lattice, scale);
            let mut lose =
                || (0..lattice.num_arcs() as u32).filter(|arc| rng.below(50) == 0 && !best.contains(arc)).collect();
            let lost: [Vec<u32>; 2] = [lose(), lose()];
            let [ours, theirs] = [&lost[0], &lost[1]].map(|lost| disturbed(&lattice, &mut rng, lost, |cost| cost));
            let both: Vec<u32> = {
                let mut all = lost.concat();
                all.sort_unstable();
                all.dedup();
                all
            };
            let common = disturbed(&lattice, &mut rng, &both, |cost| cost);
            let found = compare(&ours, &theirs, scale);
            assert!(found.matched >= common.num_arcs(), "{file} {key}: {} of {}", found.matched, common.num_arcs());
            assert_eq!(found.arcs, [ours.num_arcs(), theirs.num_arcs()]);
            for side in [0, 1] {
                let extra = found.extra[side].iter().filter(|extra| extra.arc.is_some()).count();
                assert_eq!(found.matched + extra, found.arcs[side], "{file} {key}");
                assert!(found.extra[side].iter().all(|extra| extra.above_best >= -1e-6));
            }
            lost_arcs += lattice.num_arcs() - common.num_arcs();
        }
    }
    eprintln!("{arcs} arcs, {ambiguous} states with more than one partner at first, {lost_arcs} arcs lost to damage");
}

/// Arcs that lie on a best path, so that damage leaves one.
fn best_arcs(lattice: &RawLattice, scale: f32) -> BTreeSet<u32> {
    let pruned = lattice.prune(0.0, scale).unwrap();
    let off_path =
        compare(&pruned, lattice, scale).extra[1].iter().filter_map(|extra| extra.arc).collect::<BTreeSet<_>>();
    (0..lattice.num_arcs() as u32).filter(|arc| !off_path.contains(arc)).collect()
}
