//! What a graph is like, for reports: sizes, and the parts that no search can use.

use super::blocks::{Graph, HAS_EPSILONS};
use super::labels::Bits;
use crate::error::{Result, try_reserve};

/// Figures of a graph. Arcs and final costs of `+inf` are in `num_arcs`,
/// `num_epsilon_arcs`, the labels and the columns; everywhere else they count as absent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphInfo {
    /// States.
    pub num_states: u32,
    /// Arcs, epsilon ones included.
    pub num_arcs: u32,
    /// Arcs with ilabel 0.
    pub num_epsilon_arcs: u32,
    /// Arcs with a weight of `+inf`.
    pub num_infinite_arcs: u32,
    /// Final states.
    pub num_finals: u32,
    /// States that no path from the start reaches.
    pub num_unreachable: u32,
    /// States from which no path leads to a final state.
    pub num_dead_ends: u32,
    /// Arcs of the longest path of epsilon arcs.
    pub max_level: u32,
    /// The largest input label, 0 if there is none.
    pub max_ilabel: i32,
    /// The largest output label, 0 if there is none.
    pub max_olabel: i32,
    /// Least number of columns that a row of log-likelihoods must have.
    pub num_columns: u32,
    /// Bytes in memory.
    pub memory: u64,
}

impl Graph {
    /// Figures of the graph. The first call walks all arcs to find the parts that are out of
    /// reach; it takes about 8 bytes a state and 4 an arc for that time, and fails if they
    /// cannot be had.
    pub fn info(&self) -> Result<GraphInfo> {
        let (num_unreachable, num_dead_ends) = match self.out_of_reach.get() {
            Some(&counts) => counts,
            None => {
                let walk = Walk::new(self)?;
                let counts = (self.num_states - walk.forward()?, self.num_states - walk.backward()?);
                *self.out_of_reach.get_or_init(|| counts)
            }
        };
        Ok(GraphInfo {
            num_states: self.num_states,
            num_arcs: self.num_arcs(),
            num_epsilon_arcs: self.num_epsilon_arcs(),
            num_infinite_arcs: self.totals.num_infinite_arcs as u32,
            num_finals: self.finals.len() as u32,
            num_unreachable,
            num_dead_ends,
            max_level: self.max_level,
            max_ilabel: self.totals.max_ilabel,
            max_olabel: self.totals.max_olabel,
            num_columns: self.num_columns(),
            memory: self.memory() as u64,
        })
    }
}

/// Walks over the arcs that are not `+inf`, with states by number instead of id.
struct Walk<'g> {
    graph: &'g Graph,
    ids: Vec<u32>,
    /// The ids, as a set: the rank of an id is its state's number.
    blocks: Bits,
}

impl<'g> Walk<'g> {
    fn new(graph: &'g Graph) -> Result<Walk<'g>> {
        let mut ids = Vec::new();
        try_reserve(&mut ids, graph.num_states as usize, "state ids")?;
        ids.extend(graph.ids());
        let mut blocks = Bits::new(graph.words.len() / 2, "state ids")?;
        ids.iter().for_each(|&id| blocks.set(id as usize));
        blocks.count()?;
        Ok(Walk { graph, ids, blocks })
    }

    fn number(&self, dst: u32) -> u32 {
        self.blocks.rank((dst & !HAS_EPSILONS) as usize)
    }

    /// Numbers of the states that arcs of `state` lead to.
    fn next(&self, state: u32) -> impl Iterator<Item = u32> {
        let view = self.graph.state(self.ids[state as usize]);
        let emitting = view.weights.iter().zip(view.dsts);
        let arcs = emitting.chain(view.eps_weights.iter().zip(view.eps_dsts));
        arcs.filter(|arc| *arc.0 < f32::INFINITY).map(|arc| self.number(*arc.1))
    }

    /// How many states can be reached from the start.
    fn forward(&self) -> Result<u32> {
        let mut search = Search::new(self.ids.len())?;
        search.reach(self.number(self.graph.start));
        while let Some(state) = search.waiting.pop() {
            self.next(state).for_each(|next| search.reach(next));
        }
        Ok(search.found)
    }

    /// How many states a final state can be reached from.
    fn backward(&self) -> Result<u32> {
        // The arcs turned round: the sources of the arcs into state s are from[first[s]..first[s + 1]].
        let num_states = self.ids.len();
        let mut first: Vec<u32> = Vec::new();
        try_reserve(&mut first, num_states + 1, "arcs turned round")?;
        first.resize(num_states + 1, 0);
        let mut from: Vec<u32> = Vec::new();
        try_reserve(&mut from, self.graph.num_arcs() as usize, "arcs turned round")?;
        from.resize(self.graph.num_arcs() as usize, 0);
        for state in 0..num_states as u32 {
            self.next(state).for_each(|next| first[next as usize] += 1);
        }
        let mut sum = 0;
        for end in &mut first {
            sum += *end;
            *end = sum;
        }
        for state in 0..num_states as u32 {
            self.next(state).for_each(|next| {
                first[next as usize] -= 1;
                from[first[next as usize] as usize] = state;
            });
        }
        let mut search = Search::new(num_states)?;
        self.graph.finals.iter().for_each(|last| search.reach(self.number(last.id)));
        while let Some(state) = search.waiting.pop() {
            let (begin, end) = (first[state as usize] as usize, first[state as usize + 1] as usize);
            from[begin..end].iter().for_each(|&before| search.reach(before));
        }
        Ok(search.found)
    }
}

/// The states found by a walk, and those of them that are still to be looked at.
struct Search {
    seen: Bits,
    waiting: Vec<u32>,
    found: u32,
}

impl Search {
    fn new(num_states: usize) -> Result<Search> {
        let mut waiting = Vec::new();
        try_reserve(&mut waiting, num_states, "states found")?; // each waits once at most
        Ok(Search { seen: Bits::new(num_states, "states found")?, waiting, found: 0 })
    }

    fn reach(&mut self, state: u32) {
        if !self.seen.get(state as usize) {
            self.seen.set(state as usize);
            self.waiting.push(state);
            self.found += 1;
        }
    }
}
