//! Small random lattices, and the slow way to look at one: list all its paths.

#![allow(dead_code)] // each test file uses its own part

use koshi::lattice::{CompactLattice, LatticeArc, LatticeWeight, PartStrings, Parts, RawLattice, Strings};
use proptest::prelude::*;

/// A path written out: words, transition-ids, graph cost, acoustic cost. Costs are sums of
/// multiples of 1/4, so they are exact in whatever order they are added.
pub type WrittenPath = (Vec<i32>, Vec<i32>, f64, f64);

/// Multiples of 1/4 between -4 and 8, now and then absent.
fn weight() -> impl Strategy<Value = LatticeWeight> {
    let finite = (-16i32..=32, -16i32..=32);
    prop_oneof![
        12 => finite.prop_map(|(graph, acoustic)| LatticeWeight { graph: graph as f32 / 4.0, acoustic: acoustic as f32 / 4.0 }),
        1 => Just(LatticeWeight::ZERO),
    ]
}

/// Up to 7 states and 14 arcs between any two different ones along a hidden order, states
/// shuffled, some of them dead ends or out of reach; no cycles.
pub fn raw_parts() -> impl Strategy<Value = Parts> {
    (1usize..=7).prop_flat_map(|states| {
        let arc = (0..states, 0..states, 0i32..3, 0i32..3, weight());
        let arcs = prop::collection::vec(arc, 0..=14);
        let finals = prop::collection::vec((0..states, weight()), 0..=3);
        let names: Vec<usize> = (0..states).collect();
        (Just(states), 0..states, arcs, finals, Just(names).prop_shuffle()).prop_map(build)
    })
}

type Arc = (usize, usize, i32, i32, LatticeWeight);

/// Number of states, start, arcs and finals in a sorted numbering, and the name of each state.
type Draft = (usize, usize, Vec<Arc>, Vec<(usize, LatticeWeight)>, Vec<usize>);

fn build((states, start, arcs, finals, names): Draft) -> Parts {
    let mut by_state = vec![Vec::new(); states];
    for (from, to, ilabel, olabel, weight) in arcs {
        if from != to {
            let (from, to) = (from.min(to), from.max(to));
            by_state[names[from]].push(LatticeArc { next: names[to] as u32, ilabel, olabel, weight });
        }
    }
    let mut parts = Parts { start: Some(names[start / 2] as u32), ..Parts::default() };
    for arcs in by_state {
        parts.arcs.extend(arcs);
        parts.offsets.push(parts.arcs.len() as u32);
        parts.finals.push(LatticeWeight::ZERO);
    }
    for (state, weight) in finals {
        parts.finals[names[state]] = weight;
    }
    parts
}

/// As [`raw_parts`], with strings of up to 3 transition-ids.
pub fn compact_parts() -> impl Strategy<Value = Parts> {
    let string = prop::collection::vec(1i32..5, 0..=3);
    (raw_parts(), prop::collection::vec(string, 21)).prop_map(|(mut parts, strings)| {
        parts.arcs.iter_mut().for_each(|arc| arc.ilabel = arc.olabel);
        let (mut arcs, mut finals) = (Strings::default(), Strings::default());
        (0..parts.arcs.len()).for_each(|arc| arcs.push(&strings[arc]).unwrap());
        for (state, weight) in parts.finals.iter().enumerate() {
            finals.push(if weight.is_absent() { &[] } else { &strings[14 + state] }).unwrap();
        }
        parts.strings = Some(PartStrings { arcs, finals });
        parts
    })
}

/// The parts of a lattice, to list its paths.
pub fn parts_of_raw(lattice: &RawLattice) -> Parts {
    Parts {
        start: (!lattice.is_empty()).then_some(0),
        offsets: lattice.offsets.clone(),
        arcs: lattice.arcs.clone(),
        finals: lattice.finals.clone(),
        strings: None,
    }
}

/// The parts of a compact lattice, to list its paths.
pub fn parts_of_compact(lattice: &CompactLattice) -> Parts {
    let strings = PartStrings { arcs: lattice.arc_strings.clone(), finals: lattice.final_strings.clone() };
    Parts {
        start: (!lattice.is_empty()).then_some(0),
        offsets: lattice.offsets.clone(),
        arcs: lattice.arcs.clone(),
        finals: lattice.finals.clone(),
        strings: Some(strings),
    }
}

/// One path: its arcs and where it ends.
#[derive(Clone, Debug)]
pub struct Walk {
    pub arcs: Vec<usize>,
    pub last: usize,
    pub written: WrittenPath,
}

/// Every path from the start to a final state.
pub fn walks(parts: &Parts) -> Vec<Walk> {
    let mut found = Vec::new();
    if let Some(start) = parts.start {
        let empty = Walk { arcs: Vec::new(), last: start as usize, written: (Vec::new(), Vec::new(), 0.0, 0.0) };
        extend(parts, empty, &mut found);
    }
    found
}

fn extend(parts: &Parts, walk: Walk, found: &mut Vec<Walk>) {
    let state = walk.last;
    if !parts.finals[state].is_absent() {
        let mut ended = walk.clone();
        add(&mut ended.written, parts.finals[state]);
        if let Some(strings) = &parts.strings {
            ended.written.1.extend(strings.finals.get(state).unwrap());
        }
        found.push(ended);
    }
    for arc in parts.offsets[state] as usize..parts.offsets[state + 1] as usize {
        let LatticeArc { next, ilabel, olabel, weight } = parts.arcs[arc];
        if weight.is_absent() {
            continue;
        }
        let mut longer = walk.clone();
        longer.arcs.push(arc);
        longer.last = next as usize;
        add(&mut longer.written, weight);
        longer.written.0.extend(Some(olabel).filter(|&word| word != 0));
        match &parts.strings {
            Some(strings) => longer.written.1.extend(strings.arcs.get(arc).unwrap()),
            None => longer.written.1.extend(Some(ilabel).filter(|&id| id != 0)),
        }
        extend(parts, longer, found);
    }
}

fn add(path: &mut WrittenPath, weight: LatticeWeight) {
    path.2 += f64::from(weight.graph);
    path.3 += f64::from(weight.acoustic);
}

/// All paths written out, in an order of their own: a weighted set to compare.
pub fn written_paths(parts: &Parts) -> Vec<WrittenPath> {
    let mut paths: Vec<WrittenPath> = walks(parts).into_iter().map(|walk| walk.written).collect();
    paths.sort_by(|a, b| a.partial_cmp(b).unwrap());
    paths
}
