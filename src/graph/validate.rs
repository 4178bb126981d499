//! What must hold of a graph before it is laid out, and what the layout needs to know.

use super::levels::epsilon_levels;
use super::source::{ColumnMap, Columns, GraphArc, NO_COLUMN, Source};
use crate::error::{Error, Result, try_reserve};

/// A graph whose states, labels, weights and epsilon arcs are in order.
#[derive(Debug)]
pub(super) struct Checked {
    /// Emitting and epsilon arcs of each state.
    pub counts: Vec<(u32, u32)>,
    /// Epsilon level of each state.
    pub levels: Vec<u32>,
    pub start: u32,
    pub totals: Totals,
}

/// Sums over a whole graph.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub num_arcs: u64,
    pub num_epsilon_arcs: u64,
    /// Arcs with another output label than 0.
    pub num_olabels: u64,
    /// Arcs whose weight is `+inf`.
    pub num_infinite_arcs: u64,
    pub num_finals: u32,
    pub max_ilabel: i32,
    pub max_olabel: i32,
    /// Columns that a row must have, and file index and ilabel of the first arc that needs the last.
    pub num_columns: u32,
    pub widest_arc: (u32, i32),
    /// Whether some state has an epsilon arc before an emitting one.
    pub mixed: bool,
}

/// Checks all that can be wrong in `source`, in one walk over its arcs. The first fault
/// in the order of the file is named: [`Error::Graph`], or what the source finds wrong in itself.
pub(super) fn check(source: &impl Source, columns: &Columns) -> Result<Checked> {
    let num_states = source.num_states();
    if num_states > i32::MAX as u32 {
        return Err(Error::Graph(format!("{num_states} states; the limit is {}", i32::MAX)));
    }
    let Some(start) = source.start() else {
        return Err(Error::Graph("the graph has no start state".into()));
    };
    if start >= num_states {
        return Err(Error::Graph(format!("start state {} is out of range: {}", start as i32, states(num_states))));
    }
    let mut walk = Walk::new(source, columns)?;
    for state in 0..num_states {
        walk.state(state)?;
    }
    if walk.max_next >= num_states || walk.fault {
        return Err(first_fault(source, columns));
    }
    let levels = epsilon_levels(num_states, &walk.epsilons)?;
    Ok(Checked { counts: walk.counts, levels, start, totals: walk.totals })
}

/// The walk. It only notes that there is some fault, so that the loop stays short.
struct Walk<'a, S> {
    source: &'a S,
    columns: ColumnMap<'a>,
    counts: Vec<(u32, u32)>,
    /// Source and destination of the epsilon arcs that are not `+inf` (those are as good as absent).
    epsilons: Vec<(u32, u32)>,
    totals: Totals,
    max_next: u32,
    fault: bool,
}

impl<'a, S: Source> Walk<'a, S> {
    fn new(source: &'a S, columns: &'a Columns) -> Result<Self> {
        let mut counts = Vec::new();
        try_reserve(&mut counts, source.num_states() as usize, "state counts")?;
        Ok(Walk {
            source,
            columns: ColumnMap::new(columns)?,
            counts,
            epsilons: Vec::new(),
            totals: Totals::default(),
            max_next: 0,
            fault: false,
        })
    }

    fn state(&mut self, state: u32) -> Result<()> {
        let (mut n_emit, mut n_eps, mut n_olabels) = (0u64, 0u64, 0u64);
        let mut signs = 0;
        for arc in self.source.arcs(state) {
            signs |= arc.ilabel | arc.olabel;
            self.max_next = self.max_next.max(arc.next);
            self.fault |= !is_cost(arc.weight);
            self.totals.num_infinite_arcs += u64::from(arc.weight == f32::INFINITY);
            self.totals.max_olabel = self.totals.max_olabel.max(arc.olabel);
            n_olabels += u64::from(arc.olabel != 0);
            if arc.ilabel == 0 {
                n_eps += 1;
                self.epsilon(state, &arc)?;
            } else {
                self.totals.max_ilabel = self.totals.max_ilabel.max(arc.ilabel);
                self.totals.mixed |= n_eps > 0;
                let column = self.columns.get(arc.ilabel);
                if column >= self.totals.num_columns {
                    self.widen(column, self.totals.num_arcs + n_emit + n_eps, arc.ilabel);
                }
                n_emit += 1;
            }
        }
        let cost = self.source.final_cost(state);
        self.fault |= signs < 0 || !is_cost(cost);
        self.totals.num_finals += u32::from(cost < f32::INFINITY);
        self.totals.num_epsilon_arcs += n_eps;
        self.totals.num_olabels += n_olabels;
        self.totals.num_arcs += n_emit + n_eps;
        if self.totals.num_arcs > u64::from(u32::MAX) {
            return Err(Error::Graph(format!("more arcs than the limit of {}", u32::MAX)));
        }
        self.counts.push((n_emit as u32, n_eps as u32));
        self.source.check_epsilons(state, n_eps as u32, (n_emit + n_eps - n_olabels) as u32)
    }

    fn epsilon(&mut self, state: u32, arc: &GraphArc) -> Result<()> {
        if arc.weight < f32::INFINITY {
            try_reserve(&mut self.epsilons, 1, "epsilon arcs")?;
            self.epsilons.push((state, arc.next));
        }
        Ok(())
    }

    #[cold]
    fn widen(&mut self, column: u32, arc: u64, ilabel: i32) {
        if column == NO_COLUMN {
            self.fault = true;
        } else {
            self.totals.num_columns = column + 1;
            self.totals.widest_arc = (arc as u32, ilabel);
        }
    }
}

/// Whether `cost` may stand on an arc or a final state: not NaN, not `-inf`.
fn is_cost(cost: f32) -> bool {
    cost > f32::NEG_INFINITY
}

/// Names the first fault of a source that [`Walk`] found one in.
fn first_fault(source: &impl Source, columns: &Columns) -> Error {
    let mut index = 0u64;
    for state in 0..source.num_states() {
        for arc in source.arcs(state) {
            if let Some(fault) = arc_fault(&arc, source.num_states(), columns) {
                return Error::Graph(format!("state {state}, arc {index}: {fault}"));
            }
            index += 1;
        }
        let cost = source.final_cost(state);
        if !is_cost(cost) {
            return Error::Graph(format!("state {state}: its final cost is {cost}"));
        }
    }
    Error::Internal("a fault of the graph was seen once, and not found again".into())
}

fn arc_fault(arc: &GraphArc, num_states: u32, columns: &Columns) -> Option<String> {
    let GraphArc { ilabel, olabel, weight, next } = *arc;
    if ilabel < 0 {
        return Some(format!("ilabel {ilabel} is negative"));
    }
    if olabel < 0 {
        return Some(format!("olabel {olabel} is negative (ilabel {ilabel})"));
    }
    if next >= num_states {
        let states = states(num_states);
        return Some(format!("next state {} is out of range: {states} (ilabel {ilabel})", next as i32));
    }
    if !is_cost(weight) {
        return Some(format!("its weight is {weight} (ilabel {ilabel})"));
    }
    if ilabel == 0 {
        return None;
    }
    columns.column(ilabel).err().map(|error| error.to_string())
}

fn states(count: u32) -> String {
    if count == 1 { "the graph has 1 state".into() } else { format!("the graph has {count} states") }
}
