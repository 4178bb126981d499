//! Compares two compact lattices that are deterministic on words as weighted languages, by
//! their product: every word sequence that both have is one path of it.
#![allow(dead_code)] // each test file uses its own part

use std::collections::BTreeMap;

use koshi::lattice::{CompactLattice, RawLattice};

/// What a comparison found. The first lattice comes first in pairs.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Cost of the best path of each.
    pub best: [f64; 2],
    /// Word sequences that only one has: of those that part from the other lattice at the same
    /// place the best one, with its cost above the best path of its lattice.
    pub only: [Vec<(Vec<i32>, f64)>; 2],
    /// Least and greatest difference of the total costs of a word sequence that both have.
    pub difference: [f64; 2],
    /// Word sequences (the best one each) on whose paths an arc or end has two different strings,
    /// by the number of the word whose arc it is.
    pub strings: Vec<(Vec<i32>, usize)>,
    /// Pairs of arcs and ends that both have.
    pub pairs: usize,
}

/// The best way to a pair of states, and the range of cost differences of all ways.
#[derive(Clone)]
struct Reached {
    words: Vec<i32>,
    cost: [f64; 2],
    difference: [f64; 2],
}

/// Compares; costs are totals at `scale`.
pub fn compare(lattices: [&CompactLattice; 2], scale: f32) -> Comparison {
    let to_end = lattices.map(|lattice| costs_to_end(lattice, scale));
    let mut found = Comparison {
        best: [0, 1].map(|side| to_end[side].first().copied().unwrap_or(f64::INFINITY)),
        difference: [f64::INFINITY, f64::NEG_INFINITY],
        ..Comparison::default()
    };
    let mut open = BTreeMap::new();
    if lattices.iter().all(|lattice| !lattice.is_empty()) {
        open.insert([0, 0], Reached { words: Vec::new(), cost: [0.0; 2], difference: [0.0; 2] });
    }
    // Arcs lead to higher states, so the lowest pair has nothing more to come.
    while let Some((states, reached)) = open.pop_first() {
        end(lattices, states, &reached, scale, &mut found);
        for (side, word, arc) in words_of_one(lattices, states) {
            let (lattice, to_end) = (lattices[side], &to_end[side]);
            let arc = &lattice.arcs[arc];
            let cost = reached.cost[side] + arc.weight.total(scale) + to_end[arc.next as usize];
            let words = [reached.words.as_slice(), &[word], &best_words(lattice, arc.next, to_end, scale)].concat();
            found.only[side].push((words, cost - found.best[side]));
        }
        for (word, arcs) in words_of_both(lattices, states) {
            found.pairs += 1;
            let arc = [0, 1].map(|side| &lattices[side].arcs[arcs[side]]);
            let mut words = reached.words.clone();
            words.push(word);
            if lattices[0].arc_string(arcs[0]) != lattices[1].arc_string(arcs[1]) {
                let rest = best_words(lattices[0], arc[0].next, &to_end[0], scale);
                found.strings.push(([words.as_slice(), &rest].concat(), words.len() - 1));
            }
            let weight = arc.map(|arc| arc.weight.total(scale));
            let cost = [0, 1].map(|side| reached.cost[side] + weight[side]);
            let difference = reached.difference.map(|difference| difference + weight[0] - weight[1]);
            let next = Reached { words, cost, difference };
            open.entry(arc.map(|arc| arc.next)).and_modify(|known: &mut Reached| merge(known, &next)).or_insert(next);
        }
    }
    found
}

fn merge(known: &mut Reached, other: &Reached) {
    let [low, high] = other.difference;
    known.difference = [known.difference[0].min(low), known.difference[1].max(high)];
    if other.cost[0] < known.cost[0] {
        known.words = other.words.clone();
    }
    known.cost = [0, 1].map(|side| known.cost[side].min(other.cost[side]));
}

fn end(lattices: [&CompactLattice; 2], states: [u32; 2], reached: &Reached, scale: f32, found: &mut Comparison) {
    let ends = [0, 1].map(|side| lattices[side].finals[states[side] as usize]);
    match ends.map(|end| end.is_absent()) {
        [true, true] => {}
        [false, false] => {
            found.pairs += 1;
            let more = ends[0].total(scale) - ends[1].total(scale);
            found.difference[0] = found.difference[0].min(reached.difference[0] + more);
            found.difference[1] = found.difference[1].max(reached.difference[1] + more);
            if lattices[0].final_string(states[0]) != lattices[1].final_string(states[1]) {
                found.strings.push((reached.words.clone(), reached.words.len()));
            }
        }
        [_, absent] => {
            let side = usize::from(!absent);
            let cost = reached.cost[side] + ends[side].total(scale);
            found.only[side].push((reached.words.clone(), cost - found.best[side]));
        }
    }
}

fn arc_of(lattice: &CompactLattice, state: u32, word: i32) -> Option<usize> {
    lattice.arc_range(state).find(|&arc| lattice.arcs[arc].olabel == word)
}

fn words_of_one(lattices: [&CompactLattice; 2], states: [u32; 2]) -> Vec<(usize, i32, usize)> {
    let mut found = Vec::new();
    for side in [0, 1] {
        for arc in lattices[side].arc_range(states[side]) {
            let word = lattices[side].arcs[arc].olabel;
            if arc_of(lattices[1 - side], states[1 - side], word).is_none() {
                found.push((side, word, arc));
            }
        }
    }
    found
}

fn words_of_both(lattices: [&CompactLattice; 2], states: [u32; 2]) -> Vec<(i32, [usize; 2])> {
    let first = lattices[0].arc_range(states[0]);
    let pair = |arc: usize| {
        let word = lattices[0].arcs[arc].olabel;
        arc_of(lattices[1], states[1], word).map(|other| (word, [arc, other]))
    };
    first.filter_map(pair).collect()
}

fn costs_to_end(lattice: &CompactLattice, scale: f32) -> Vec<f64> {
    let mut costs = vec![f64::INFINITY; lattice.num_states()];
    for state in (0..lattice.num_states()).rev() {
        let ways = lattice.arcs_of(state as u32).iter();
        let ways = ways.map(|arc| arc.weight.total(scale) + costs[arc.next as usize]);
        costs[state] = ways.fold(lattice.finals[state].total(scale), f64::min);
    }
    costs
}

fn best_words(lattice: &CompactLattice, mut state: u32, to_end: &[f64], scale: f32) -> Vec<i32> {
    let mut words = Vec::new();
    loop {
        let through = |arc: &usize| {
            let arc = &lattice.arcs[*arc];
            arc.weight.total(scale) + to_end[arc.next as usize]
        };
        let best = lattice.arc_range(state).min_by(|a, b| through(a).total_cmp(&through(b)));
        match best.filter(|arc| through(arc) < lattice.finals[state as usize].total(scale)) {
            None => return words,
            Some(arc) => {
                words.push(lattice.arcs[arc].olabel);
                state = lattice.arcs[arc].next;
            }
        }
    }
}

/// The transition-ids of a word sequence.
pub fn alignment(lattice: &CompactLattice, words: &[i32]) -> Option<Vec<i32>> {
    let (mut state, mut ids) = (0, Vec::new());
    for &word in words {
        let arc = arc_of(lattice, state, word)?;
        ids.extend_from_slice(lattice.arc_string(arc));
        state = lattice.arcs[arc].next;
    }
    ids.extend_from_slice(lattice.final_string(state));
    (!lattice.finals[state as usize].is_absent()).then_some(ids)
}

/// The cost of the best path of a raw lattice that has these words and transition-ids.
pub fn cost_of_alignment(lattice: &RawLattice, words: &[i32], ids: &[i32], scale: f32) -> Option<f64> {
    // Words and ids that are behind a state decide with it what can follow.
    let mut open = BTreeMap::from([((0u32, 0usize, 0usize), 0.0f64)]);
    let mut best: Option<f64> = None;
    while let Some(((state, word, id), cost)) = open.pop_first() {
        let last = lattice.finals[state as usize];
        if !last.is_absent() && (word, id) == (words.len(), ids.len()) {
            let total = cost + last.total(scale);
            best = Some(best.map_or(total, |best| best.min(total)));
        }
        for arc in lattice.arcs_of(state) {
            let has_word = arc.olabel != 0;
            let has_id = arc.ilabel != 0;
            if has_word && words.get(word) != Some(&arc.olabel) || has_id && ids.get(id) != Some(&arc.ilabel) {
                continue;
            }
            let next = (arc.next, word + usize::from(has_word), id + usize::from(has_id));
            let total = cost + arc.weight.total(scale);
            open.entry(next).and_modify(|known| *known = known.min(total)).or_insert(total);
        }
    }
    best
}
