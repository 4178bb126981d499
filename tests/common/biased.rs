//! Phrases as their definition reads, and the graph that a biased search is a search of: its states
//! are all pairs of a graph state and a bias state.
#![allow(dead_code)] // each test file uses its own part

use koshi::graph::{GraphArc, VecSource};
use koshi::search::Phrase;

use super::graph::Rng;
use super::reference::{Arc, End, Searched};

/// Phrases with their bonuses.
pub type List = Vec<(Vec<i32>, f32)>;

/// A list as the library takes it.
pub fn phrases(list: &List) -> Vec<Phrase<'_>> {
    list.iter().map(|(labels, bonus)| Phrase { labels, bonus: *bonus }).collect()
}

/// Phrases over few labels, so that they overlap, begin and end each other.
pub fn random_list(rng: &mut Rng) -> List {
    let phrase = |rng: &mut Rng| {
        let labels = (0..1 + rng.below(4)).map(|_| 1 + rng.below(4) as i32).collect();
        (labels, rng.below(25) as f32 * 0.25 - 2.0)
    };
    (0..1 + rng.below(5)).map(|_| phrase(rng)).collect()
}

/// What has been said of a list's phrases: the longest end of it that begins one.
struct States<'a> {
    list: &'a List,
    /// In the order in which the phrases, label by label, first reach them.
    said: Vec<Vec<i32>>,
}

impl States<'_> {
    fn new(list: &List) -> States<'_> {
        let mut said = vec![Vec::new()];
        for (labels, _) in list {
            for end in 1..=labels.len() {
                if !said.contains(&labels[..end].to_vec()) {
                    said.push(labels[..end].to_vec());
                }
            }
        }
        States { list, said }
    }

    /// The most that is held of any phrase.
    fn held(&self, state: usize) -> f32 {
        let parts = self.list.iter().flat_map(|(labels, bonus)| {
            let n = labels.len();
            let begun = (0..n).filter(|&k| self.said[state].ends_with(&labels[..k]));
            begun.map(move |k| *bonus * k as f32 / n as f32)
        });
        parts.fold(0.0, f32::max)
    }

    /// The state behind a label, and what the label adds to the score.
    fn step(&self, state: usize, label: i32) -> (usize, f32) {
        let mut said = self.said[state].clone();
        said.push(label);
        let kept: f32 = self.list.iter().filter(|(labels, _)| said.ends_with(labels)).map(|(_, bonus)| bonus).sum();
        let begins = (0..=said.len()).map(|from| &said[from..]);
        let next = begins.filter_map(|end| self.said.iter().position(|known| known == end)).next().unwrap();
        (next, kept + self.held(next) - self.held(state))
    }
}

/// The pairs of a graph's states and the bias states of all lists, where arcs lead into those of the
/// list `now`; what tokens of another list hold is given back on the way.
pub fn paired(graph: &VecSource, lists: &[List], now: usize) -> Searched {
    let plain = Searched::plain(graph);
    let lists: Vec<States> = lists.iter().map(States::new).collect();
    let first: Vec<usize> = (0..lists.len()).map(|at| lists[..at].iter().map(|list| list.said.len()).sum()).collect();
    let biases: Vec<(usize, usize)> =
        lists.iter().enumerate().flat_map(|(at, list)| (0..list.said.len()).map(move |state| (at, state))).collect();
    let id = |state: u32, bias: usize| state * biases.len() as u32 + bias as u32;
    let step = |bias: usize, olabel: i32| {
        let (list, state) = biases[bias];
        let (from, back) = if list == now { (state, 0.0) } else { (0, lists[list].held(state)) };
        let (to, gain) = if olabel == 0 { (from, 0.0) } else { lists[now].step(from, olabel) };
        (first[now] + to, back - gain)
    };
    let mut paired = Searched { start: id(plain.start, first[0]), biased: true, ..Searched::default() };
    for state in 0..plain.arcs.len() {
        for (bias, &(list, in_list)) in biases.iter().enumerate() {
            let arcs = plain.arcs[state].iter().map(|arc| {
                let (to, cost) = step(bias, arc.given.olabel);
                let given = GraphArc { weight: arc.graph + cost, next: id(arc.given.next, to), ..arc.given };
                Arc { given, bias: cost, rank: id(arc.rank, bias), ..*arc }
            });
            paired.arcs.push(arcs.collect());
            paired.ends.push(End { held: lists[list].held(in_list), ..plain.ends[state] });
            paired.levels.push(plain.levels[state]);
        }
    }
    paired
}
