//! An n-gram model with backoff, as states for histories and arcs for words.

use std::collections::HashMap;

use crate::error::{Error, Result, try_reserve};
use crate::graph::{GraphArc, VecSource};

const WHAT: &str = "language model";

/// The state of the empty history.
const ROOT: u32 = 0;

/// The model. A state is a history that some n-gram begins with, or that has a backoff weight.
#[derive(Debug)]
pub(in crate::lattice) struct NGram {
    /// Arcs of state `s` are those from `offsets[s]` to `offsets[s + 1]`, by ascending word.
    offsets: Vec<u32>,
    arcs: Vec<WordArc>,
    /// The shorter history of each state and the cost of going there; the root has itself.
    backoffs: Vec<(u32, f32)>,
    /// Cost of ending; [`f32::NAN`] where the state does not list it.
    ends: Vec<f32>,
    start: u32,
    /// Stands for words that are not listed.
    unknown: Option<i32>,
}

#[derive(Clone, Copy, Debug)]
struct WordArc {
    word: i32,
    cost: f32,
    next: u32,
}

impl NGram {
    pub fn start(&self) -> u32 {
        self.start
    }

    fn arc(&self, state: u32, word: i32) -> Option<&WordArc> {
        let arcs = &self.arcs[self.offsets[state as usize] as usize..self.offsets[state as usize + 1] as usize];
        arcs.binary_search_by_key(&word, |arc| arc.word).ok().map(|at| &arcs[at])
    }

    /// The cost of `word`, and where it leads: down the backoffs to the first state that lists it.
    pub fn step(&self, state: u32, word: i32) -> Option<(f64, u32)> {
        let listed = self.arc(ROOT, word).is_some();
        let word = if listed { word } else { self.unknown? };
        let (mut state, mut cost) = (state, 0.0);
        loop {
            if let Some(arc) = self.arc(state, word) {
                let cost = cost + f64::from(arc.cost);
                return (cost < f64::INFINITY).then_some((cost, arc.next));
            }
            if state == ROOT {
                return None;
            }
            let (shorter, weight) = self.backoffs[state as usize];
            (state, cost) = (shorter, cost + f64::from(weight));
        }
    }

    /// The cost of ending; `+inf` where not even the empty history lists it.
    pub fn last(&self, mut state: u32) -> f64 {
        let mut cost = 0.0;
        loop {
            let end = self.ends[state as usize];
            if !end.is_nan() {
                return cost + f64::from(end);
            }
            if state == ROOT {
                return f64::INFINITY;
            }
            let (shorter, weight) = self.backoffs[state as usize];
            (state, cost) = (shorter, cost + f64::from(weight));
        }
    }

    /// See [`LanguageModel::to_graph`](super::LanguageModel::to_graph).
    pub fn to_graph(&self, backoff: i32) -> Result<VecSource> {
        let mut graph = VecSource { start: Some(self.start), states: Vec::new() };
        try_reserve(&mut graph.states, self.ends.len(), WHAT)?;
        for (state, &end) in self.ends.iter().enumerate() {
            let listed = &self.arcs[self.offsets[state] as usize..self.offsets[state + 1] as usize];
            let mut arcs = Vec::new();
            try_reserve(&mut arcs, listed.len() + 1, WHAT)?;
            // A model may have a word for what is unknown that the symbols lack: it has no label.
            let labelled = listed.iter().filter(|arc| arc.word > 0);
            let arc = |arc: &WordArc| GraphArc { ilabel: arc.word, olabel: arc.word, weight: arc.cost, next: arc.next };
            arcs.extend(labelled.map(arc));
            if state as u32 != ROOT {
                let (next, weight) = self.backoffs[state];
                arcs.push(GraphArc { ilabel: backoff, olabel: 0, weight, next });
            }
            graph.states.push((if end.is_nan() { f32::INFINITY } else { end }, arcs));
        }
        Ok(graph)
    }
}

/// What words stand for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    pub begin: i32,
    pub end: i32,
    pub unknown: i32,
}

/// Why an n-gram was not taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Refused {
    /// It is there already.
    Twice,
    /// What it begins with is not listed, or a mark stands where none can.
    Orphan,
}

/// Gathers n-grams, shorter ones first.
pub(super) struct Builder {
    nodes: Vec<Node>,
    /// The n-gram that one word more makes of an n-gram.
    longer: HashMap<(u32, i32), u32>,
    pub marks: Marks,
}

/// An n-gram.
#[derive(Clone, Copy)]
struct Node {
    /// The n-gram without its last word.
    before: u32,
    word: i32,
    cost: f32,
    backoff: f32,
    /// Whether a longer n-gram begins with it.
    goes_on: bool,
}

impl Builder {
    pub fn new(marks: Marks) -> Builder {
        let root = Node { before: ROOT, word: 0, cost: 0.0, backoff: 0.0, goes_on: true };
        Builder { nodes: vec![root], longer: HashMap::new(), marks }
    }

    /// Adds an n-gram of at least one word with its costs.
    pub fn add(&mut self, words: &[i32], cost: f32, backoff: f32) -> Result<Result<(), Refused>> {
        let Some((&word, before)) = words.split_last() else { return Ok(Err(Refused::Orphan)) };
        let late = words.iter().skip(1).any(|&word| word == self.marks.begin);
        if late || before.contains(&self.marks.end) {
            return Ok(Err(Refused::Orphan));
        }
        let mut at = ROOT;
        for &word in before {
            match self.longer.get(&(at, word)) {
                Some(&next) => at = next,
                None => return Ok(Err(Refused::Orphan)),
            }
        }
        if self.longer.contains_key(&(at, word)) {
            return Ok(Err(Refused::Twice));
        }
        let number = u32::try_from(self.nodes.len()).ok().filter(|&number| number < u32::MAX);
        let number =
            number.ok_or_else(|| Error::Limit("a language model has more than 2^32 - 2 n-grams".to_string()))?;
        let asked = (self.longer.len() as u64 + 1) * 16;
        self.longer.try_reserve(1).map_err(|_| Error::NoMemory { what: WHAT.to_string(), asked })?;
        try_reserve(&mut self.nodes, 1, WHAT)?;
        self.longer.insert((at, word), number);
        // The begin of a sentence is never said.
        let cost = if word == self.marks.begin { f32::INFINITY } else { cost };
        self.nodes.push(Node { before: at, word, cost, backoff, goes_on: false });
        self.nodes[at as usize].goes_on = true;
        Ok(Ok(()))
    }

    /// The longest listed n-gram that `node` ends with and that is shorter: found through that of
    /// the n-gram before, since those of shorter n-grams are known.
    fn shorter(&self, node: &Node, shorter: &[u32]) -> u32 {
        let mut before = node.before;
        while before != ROOT {
            before = shorter[before as usize];
            if let Some(&found) = self.longer.get(&(before, node.word)) {
                return found;
            }
        }
        ROOT
    }

    pub fn build(self) -> Result<NGram> {
        let count = self.nodes.len();
        let (mut shorter, mut state_of, mut states) = (Vec::new(), Vec::new(), Vec::new());
        try_reserve(&mut shorter, count, WHAT)?;
        try_reserve(&mut state_of, count, WHAT)?;
        for (number, node) in self.nodes.iter().enumerate() {
            shorter.push(self.shorter(node, &shorter));
            // A history that nothing begins with and that costs nothing to leave is as good as its end.
            if node.goes_on || node.backoff != 0.0 {
                try_reserve(&mut states, 1, WHAT)?;
                state_of.push(states.len() as u32);
                states.push(number as u32);
            } else {
                state_of.push(state_of[shorter[number] as usize]);
            }
        }
        let mut model = NGram {
            offsets: crate::error::try_filled(0, states.len() + 1, WHAT)?,
            arcs: Vec::new(),
            backoffs: Vec::new(),
            ends: crate::error::try_filled(f32::NAN, states.len(), WHAT)?,
            start: self.longer.get(&(ROOT, self.marks.begin)).map_or(ROOT, |&begin| state_of[begin as usize]),
            unknown: self.longer.contains_key(&(ROOT, self.marks.unknown)).then_some(self.marks.unknown),
        };
        try_reserve(&mut model.backoffs, states.len(), WHAT)?;
        let backoff = |&node: &u32| (state_of[shorter[node as usize] as usize], self.nodes[node as usize].backoff);
        model.backoffs.extend(states.iter().map(backoff));
        self.arcs(&state_of, &mut model)?;
        Ok(model)
    }

    fn arcs(&self, state_of: &[u32], model: &mut NGram) -> Result<()> {
        let mut arcs: Vec<(u32, WordArc)> = Vec::new();
        try_reserve(&mut arcs, self.nodes.len(), WHAT)?;
        for (number, node) in self.nodes.iter().enumerate().skip(1) {
            let from = state_of[node.before as usize];
            if node.word == self.marks.end {
                model.ends[from as usize] = node.cost;
            } else if node.word != self.marks.begin {
                arcs.push((from, WordArc { word: node.word, cost: node.cost, next: state_of[number] }));
            }
        }
        arcs.sort_unstable_by_key(|(from, arc)| (*from, arc.word));
        for (from, _) in &arcs {
            model.offsets[*from as usize + 1] += 1;
        }
        for state in 1..model.offsets.len() {
            model.offsets[state] += model.offsets[state - 1];
        }
        try_reserve(&mut model.arcs, arcs.len(), WHAT)?;
        model.arcs.extend(arcs.iter().map(|(_, arc)| *arc));
        Ok(())
    }
}
