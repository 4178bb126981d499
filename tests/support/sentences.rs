//! The best distinct word sequences of a raw lattice, found without determinizing it.
//!
//! The cost of a word sequence is that of its best alignment. Prefixes of sequences are
//! explored best first. A prefix is held as all states that its last word's arcs lead to,
//! each with the least cost of reaching it by exactly these words; the bound of a prefix,
//! over these states the least of cost so far and best completion, is exact, so sequences
//! come out in the order of their costs.
#![allow(dead_code)] // each test file uses its own part

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use koshi::lattice::{LatticeWeight, RawLattice};

/// Costs of a path: total at the acoustic scale, and its two parts, acoustic unscaled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    pub total: f64,
    pub graph: f64,
    pub acoustic: f64,
}

impl Cost {
    const FREE: Cost = Cost { total: 0.0, graph: 0.0, acoustic: 0.0 };

    fn plus(self, weight: LatticeWeight, scale: f32) -> Cost {
        let graph = self.graph + f64::from(weight.graph);
        let acoustic = self.acoustic + f64::from(weight.acoustic);
        Cost { total: graph + f64::from(scale) * acoustic, graph, acoustic }
    }
}

/// A word sequence with the cost of its best alignment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sentence {
    pub words: Vec<i32>,
    pub cost: Cost,
}

/// States by number with the least cost of reaching each.
type Front = BTreeMap<u32, Cost>;

fn reach(front: &mut Front, state: u32, cost: Cost) {
    let best = front.entry(state).or_insert(cost);
    if cost.total < best.total {
        *best = cost;
    }
}

/// Sentences of a lattice at an acoustic scale.
pub struct Sentences<'a> {
    lattice: &'a RawLattice,
    scale: f32,
    /// Least cost from each state to the end.
    to_end: Vec<f64>,
}

impl<'a> Sentences<'a> {
    pub fn new(lattice: &'a RawLattice, scale: f32) -> Sentences<'a> {
        let end = |weight: &LatticeWeight| match *weight == LatticeWeight::ZERO {
            true => f64::INFINITY,
            false => Cost::FREE.plus(*weight, scale).total,
        };
        let mut to_end: Vec<f64> = lattice.finals.iter().map(end).collect();
        for state in (0..lattice.num_states()).rev() {
            for arc in lattice.arcs_of(state as u32) {
                let through = Cost::FREE.plus(arc.weight, scale).total + to_end[arc.next as usize];
                to_end[state] = to_end[state].min(through);
            }
        }
        Sentences { lattice, scale, to_end }
    }

    /// Follows a prefix from its front over arcs without a word. Gives the front that each
    /// further word leads to, and the cost of ending here.
    fn expand(&self, mut front: Front) -> (BTreeMap<i32, Front>, Option<Cost>) {
        let mut by_word: BTreeMap<i32, Front> = BTreeMap::new();
        let mut end: Option<Cost> = None;
        // The lowest state first: nothing that is reached later leads to it.
        while let Some((state, cost)) = front.pop_first() {
            let last = self.lattice.finals[state as usize];
            if last != LatticeWeight::ZERO {
                let ended = cost.plus(last, self.scale);
                if end.is_none_or(|best| ended.total < best.total) {
                    end = Some(ended);
                }
            }
            for arc in self.lattice.arcs_of(state) {
                let reached = cost.plus(arc.weight, self.scale);
                let target = if arc.olabel == 0 { &mut front } else { by_word.entry(arc.olabel).or_default() };
                reach(target, arc.next, reached);
            }
        }
        (by_word, end)
    }

    /// The sequences in the order of their costs while `more` says so of the number found and the
    /// last one's total.
    pub fn best_while(&self, more: impl Fn(usize, f64) -> bool) -> Vec<Sentence> {
        let mut found: Vec<Sentence> = Vec::new();
        let mut open = BinaryHeap::new();
        if !self.lattice.is_empty() {
            let front = Front::from([(0, Cost::FREE)]);
            open.push(Entry { bound: self.bound(&front), words: Vec::new(), what: What::Prefix(front) });
        }
        while let Some(Entry { words, what, .. }) = open.pop() {
            match what {
                What::Sentence(cost) => {
                    let go_on = more(found.len() + 1, cost.total);
                    found.push(Sentence { words, cost });
                    if !go_on {
                        break;
                    }
                }
                What::Prefix(front) => {
                    let (by_word, end) = self.expand(front);
                    if let Some(cost) = end {
                        open.push(Entry { bound: cost.total, words: words.clone(), what: What::Sentence(cost) });
                    }
                    for (word, front) in by_word {
                        let words = words.iter().copied().chain([word]).collect();
                        open.push(Entry { bound: self.bound(&front), words, what: What::Prefix(front) });
                    }
                }
            }
        }
        found
    }

    /// The `count` best sequences.
    pub fn best(&self, count: usize) -> Vec<Sentence> {
        if count == 0 { Vec::new() } else { self.best_while(|found, _| found < count) }
    }

    /// The cost of one word sequence, `None` where the lattice does not have it.
    pub fn cost_of(&self, words: &[i32]) -> Option<Cost> {
        let mut front = if self.lattice.is_empty() { Front::new() } else { Front::from([(0, Cost::FREE)]) };
        for word in words {
            front = self.expand(front).0.remove(word)?;
        }
        self.expand(front).1
    }

    fn bound(&self, front: &Front) -> f64 {
        front.iter().map(|(&state, cost)| cost.total + self.to_end[state as usize]).fold(f64::INFINITY, f64::min)
    }
}

enum What {
    Prefix(Front),
    Sentence(Cost),
}

struct Entry {
    bound: f64,
    words: Vec<i32>,
    what: What,
}

impl Ord for Entry {
    /// The least bound is the greatest entry; of equal ones the lowest words.
    fn cmp(&self, other: &Entry) -> Ordering {
        other.bound.total_cmp(&self.bound).then_with(|| other.words.cmp(&self.words))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}
