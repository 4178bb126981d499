//! A grammar FST as a language model: the best of all paths that say the words.
//!
//! The states that some words may have led to are held together, each with its least cost
//! above the least of all, arcs without a word followed: what determinization would make of
//! the grammar, made only where it is asked for.

use std::collections::HashMap;

use crate::error::{Error, Result, try_filled, try_reserve};
use crate::graph::{GraphArc, Source};

const WHAT: &str = "grammar";

/// Costs above the least that differ by less than half of this are one.
const GRID: f64 = 1.0 / (1 << 20) as f64;

/// The grammar: arcs by state, those of a word first in `words` by ascending word.
#[derive(Debug)]
pub(in crate::lattice) struct Grammar {
    start: u32,
    finals: Vec<f32>,
    words: Arcs,
    /// Arcs without a word.
    silent: Arcs,
}

/// Arcs of state `s` are those from `offsets[s]` to `offsets[s + 1]`.
#[derive(Debug)]
struct Arcs {
    offsets: Vec<u32>,
    arcs: Vec<Arc>,
}

#[derive(Clone, Copy, Debug)]
struct Arc {
    word: i32,
    cost: f32,
    next: u32,
}

impl Arcs {
    fn new() -> Arcs {
        Arcs { offsets: vec![0], arcs: Vec::new() }
    }

    fn of(&self, state: u32) -> &[Arc] {
        &self.arcs[self.offsets[state as usize] as usize..self.offsets[state as usize + 1] as usize]
    }

    fn push(&mut self, arc: Arc) -> Result<()> {
        try_reserve(&mut self.arcs, 1, WHAT)?;
        self.arcs.push(arc);
        Ok(())
    }

    /// Ends the arcs of a state.
    fn end_state(&mut self) -> Result<()> {
        let end = u32::try_from(self.arcs.len());
        let end = end.map_err(|_| Error::Limit("a grammar has more than 2^32 - 1 arcs".to_string()))?;
        if let Some(arcs) = self.arcs.get_mut(self.offsets.last().copied().unwrap_or(0) as usize..) {
            // In place: a stable sort would take memory that may not be there.
            arcs.sort_unstable_by(|a, b| (a.word, a.next).cmp(&(b.word, b.next)).then(a.cost.total_cmp(&b.cost)));
        }
        try_reserve(&mut self.offsets, 1, WHAT)?;
        self.offsets.push(end);
        Ok(())
    }
}

impl Grammar {
    /// See [`LanguageModel::from_graph`](super::LanguageModel::from_graph).
    pub fn new(source: &impl Source, backoff: Option<i32>) -> Result<Grammar> {
        let states = source.num_states();
        let start = source.start().ok_or_else(|| Error::Graph("the grammar has no start state".to_string()))?;
        if start >= states {
            return Err(Error::Graph(format!("the grammar's start state is {start}; it has {states} states")));
        }
        let mut grammar = Grammar { start, finals: Vec::new(), words: Arcs::new(), silent: Arcs::new() };
        try_reserve(&mut grammar.finals, states as usize, WHAT)?;
        for state in 0..states {
            let cost = source.final_cost(state);
            if !is_cost(cost) {
                return Err(Error::Graph(format!("state {state} of the grammar has the final cost {cost}")));
            }
            grammar.finals.push(cost);
            for GraphArc { olabel, weight, next, .. } in source.arcs(state) {
                let arc = Arc { word: olabel, cost: weight, next };
                if next >= states || olabel < 0 || !is_cost(weight) {
                    let what = format!("an arc of state {state} leads to {next} with the word {olabel} at {weight}");
                    return Err(Error::Graph(format!("grammar of {states} states: {what}")));
                }
                if weight == f32::INFINITY {
                    continue;
                }
                let silent = olabel == 0 || Some(olabel) == backoff;
                if silent { grammar.silent.push(arc) } else { grammar.words.push(arc) }?;
            }
            grammar.words.end_state()?;
            grammar.silent.end_state()?;
        }
        grammar.refuse_silent_cycles()?;
        Ok(grammar)
    }

    /// Takes states away that no silent arc of a state still there leads to, until none is left.
    fn refuse_silent_cycles(&self) -> Result<()> {
        let mut arcs_in = try_filled(0u32, self.finals.len(), WHAT)?;
        for arc in &self.silent.arcs {
            arcs_in[arc.next as usize] += 1;
        }
        let mut free = Vec::new();
        try_reserve(&mut free, self.finals.len(), WHAT)?;
        free.extend((0..self.finals.len() as u32).filter(|&state| arcs_in[state as usize] == 0));
        while let Some(state) = free.pop() {
            for arc in self.silent.of(state) {
                arcs_in[arc.next as usize] -= 1;
                if arcs_in[arc.next as usize] == 0 {
                    free.push(arc.next);
                }
            }
        }
        match arcs_in.iter().position(|&count| count > 0) {
            None => Ok(()),
            Some(state) => Err(Error::Graph(format!("grammar: a cycle of arcs without a word leads to state {state}"))),
        }
    }
}

fn is_cost(cost: f32) -> bool {
    cost > f32::NEG_INFINITY
}

/// Grammar states that some words led to, by number, with costs above the least.
type Subset = Vec<(u32, f64)>;

/// Asks a grammar for costs; remembers what was asked.
pub(in crate::lattice) struct GrammarWalk<'a> {
    grammar: &'a Grammar,
    subsets: Vec<Subset>,
    numbers: HashMap<Vec<(u32, i64)>, u32>,
    steps: HashMap<(u32, i32), Option<(f64, u32)>>,
    /// Cost of each grammar state in the subset being made.
    cost: HashMap<u32, f64>,
}

impl<'a> GrammarWalk<'a> {
    pub fn new(grammar: &'a Grammar) -> Result<GrammarWalk<'a>> {
        let (subsets, cost) = (Vec::new(), HashMap::new());
        let mut walk = GrammarWalk { grammar, subsets, numbers: HashMap::new(), steps: HashMap::new(), cost };
        walk.reach(grammar.start, 0.0)?;
        // The offset of the start is given back by its first words: it stays in the subset.
        let subset = walk.take();
        walk.number(subset)?;
        Ok(walk)
    }

    pub fn start(&self) -> u32 {
        0
    }

    pub fn step(&mut self, subset: u32, word: i32) -> Result<Option<(f64, u32)>> {
        if let Some(&known) = self.steps.get(&(subset, word)) {
            return Ok(known);
        }
        let grammar = self.grammar;
        for at in 0..self.subsets[subset as usize].len() {
            let (state, cost) = self.subsets[subset as usize][at];
            let arcs = grammar.words.of(state);
            let first = arcs.partition_point(|arc| arc.word < word);
            for arc in arcs[first..].iter().take_while(|arc| arc.word == word) {
                self.reach(arc.next, cost + f64::from(arc.cost))?;
            }
        }
        let mut subset_of_word = self.take();
        let least = subset_of_word.iter().map(|&(_, cost)| cost).fold(f64::INFINITY, f64::min);
        let step = if subset_of_word.is_empty() {
            None
        } else {
            subset_of_word.iter_mut().for_each(|(_, cost)| *cost -= least);
            Some((least, self.number(subset_of_word)?))
        };
        reserve(&mut self.steps)?;
        self.steps.insert((subset, word), step);
        Ok(step)
    }

    pub fn last(&self, subset: u32) -> f64 {
        let ends = self.subsets[subset as usize].iter();
        ends.map(|&(state, cost)| cost + f64::from(self.grammar.finals[state as usize])).fold(f64::INFINITY, f64::min)
    }

    /// Notes a state and what silent arcs lead to from there, where that is better than before.
    fn reach(&mut self, state: u32, cost: f64) -> Result<()> {
        let mut open = vec![(state, cost)];
        while let Some((state, cost)) = open.pop() {
            reserve(&mut self.cost)?;
            let known = self.cost.entry(state).or_insert(f64::INFINITY);
            if cost < *known {
                *known = cost;
                let arcs = self.grammar.silent.of(state);
                try_reserve(&mut open, arcs.len(), WHAT)?;
                open.extend(arcs.iter().map(|arc| (arc.next, cost + f64::from(arc.cost))));
            }
        }
        Ok(())
    }

    /// What was reached, by state.
    fn take(&mut self) -> Subset {
        let mut subset: Subset = self.cost.drain().collect();
        subset.sort_unstable_by_key(|&(state, _)| state);
        subset
    }

    /// The number of a subset: a new one, or that of one whose costs are nearly the same.
    fn number(&mut self, subset: Subset) -> Result<u32> {
        let key: Vec<(u32, i64)> = subset.iter().map(|&(state, cost)| (state, (cost / GRID).round() as i64)).collect();
        if let Some(&known) = self.numbers.get(&key) {
            return Ok(known);
        }
        let number = self.subsets.len() as u32;
        reserve(&mut self.numbers)?;
        try_reserve(&mut self.subsets, 1, WHAT)?;
        self.numbers.insert(key, number);
        self.subsets.push(subset);
        Ok(number)
    }
}

fn reserve<K: Eq + std::hash::Hash, V>(map: &mut HashMap<K, V>) -> Result<()> {
    let asked = (map.len() as u64 + 1) * size_of::<(K, V)>() as u64;
    map.try_reserve(1).map_err(|_| Error::NoMemory { what: WHAT.to_string(), asked })
}
