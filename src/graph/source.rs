//! What a graph is built from: states and arcs in the order of a file, and the rule
//! that gives an input label its column.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use twox_hash::XxHash3_64;

use crate::error::{Error, Result, try_reserve};
use crate::table::Transitions;

/// An arc as a file holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphArc {
    /// Input label; 0 is epsilon.
    pub ilabel: i32,
    /// Output label; 0 is epsilon.
    pub olabel: i32,
    /// Cost.
    pub weight: f32,
    /// Destination state.
    pub next: u32,
}

/// States and arcs, walked several times while a graph is checked and laid out. Nothing
/// in it needs to be valid: [`Graph::from_source`](super::Graph::from_source) checks it.
pub trait Source {
    /// Number of states.
    fn num_states(&self) -> u32;
    /// The start state, if there is one.
    fn start(&self) -> Option<u32>;
    /// Final cost of `state`, `+inf` where it is not final.
    fn final_cost(&self, state: u32) -> f32;
    /// Arcs of `state` in file order.
    fn arcs(&self, state: u32) -> impl Iterator<Item = GraphArc>;
    /// Numbers of arcs of `state` with another ilabel than 0, and with 0. Nothing wrong comes of
    /// numbers that are not true, but an error.
    fn counts(&self, state: u32) -> (u32, u32) {
        self.arcs(state).fold(
            (0, 0),
            |(n_emit, n_eps), arc| {
                if arc.ilabel == 0 { (n_emit, n_eps + 1) } else { (n_emit + 1, n_eps) }
            },
        )
    }
    /// A walk over the states in their order is behind these.
    fn passed(&self, _states: Range<u32>) {}
    /// Compares what the source says of `state` beside its arcs with the number of them
    /// that have ilabel 0 and olabel 0.
    fn check_epsilons(&self, _state: u32, _input: u32, _output: u32) -> Result<()> {
        Ok(())
    }
}

/// States and arcs in vectors: the simplest [`Source`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VecSource {
    /// The start state, if there is one.
    pub start: Option<u32>,
    /// Final cost (`+inf` where not final) and arcs of each state.
    pub states: Vec<(f32, Vec<GraphArc>)>,
}

/// The states of `source`, which is told now and then how far the walk over them has come.
pub(super) fn walk(source: &impl Source) -> impl Iterator<Item = u32> {
    const STEP: u32 = 1 << 13;
    (0..source.num_states()).inspect(|&state| {
        if state % STEP == 0 && state > 0 {
            source.passed(state - STEP..state);
        }
    })
}

impl VecSource {
    /// States and arcs of another source.
    pub fn copy_of(source: &impl Source) -> Result<VecSource> {
        let mut copy = VecSource { start: source.start(), states: Vec::new() };
        try_reserve(&mut copy.states, source.num_states() as usize, "states")?;
        for state in 0..source.num_states() {
            let mut arcs = Vec::new();
            for arc in source.arcs(state) {
                try_reserve(&mut arcs, 1, "arcs of a state")?;
                arcs.push(arc);
            }
            copy.states.push((source.final_cost(state), arcs));
        }
        Ok(copy)
    }
}

impl Source for VecSource {
    fn num_states(&self) -> u32 {
        u32::try_from(self.states.len()).unwrap_or(u32::MAX)
    }

    fn start(&self) -> Option<u32> {
        self.start
    }

    fn final_cost(&self, state: u32) -> f32 {
        self.states.get(state as usize).map_or(f32::INFINITY, |entry| entry.0)
    }

    fn arcs(&self, state: u32) -> impl Iterator<Item = GraphArc> {
        self.states.get(state as usize).map_or(&[][..], |entry| &entry.1).iter().copied()
    }
}

/// Which column of a row an input label reads.
#[derive(Clone, Debug)]
pub enum Columns {
    /// `ilabel - 1`: labels are one-based, as in Kaldi's `DecodableInterface`.
    Labels,
    /// Entry `ilabel` of a table (entry 0 is not used; negative entries are not allowed on arcs).
    Table(Vec<i32>),
    /// The pdf of a transition-id.
    Transitions(Arc<Transitions>),
}

impl Columns {
    /// Column of a non-zero `ilabel`, or [`Error::Graph`] where it has none.
    pub fn column(&self, ilabel: i32) -> Result<u32> {
        let column = match self {
            Columns::Labels => ilabel.checked_sub(1).and_then(|label| u32::try_from(label).ok()),
            Columns::Table(table) => {
                let entry = usize::try_from(ilabel).ok().and_then(|at| table.get(at).copied());
                entry.and_then(|column| u32::try_from(column).ok())
            }
            Columns::Transitions(model) => model.pdf(ilabel),
        };
        column.ok_or_else(|| match self {
            Columns::Labels => Error::Graph(format!("ilabel {ilabel} is negative")),
            Columns::Table(table) => {
                Error::Graph(format!("ilabel {ilabel} has no column in the table of {} entries", table.len()))
            }
            Columns::Transitions(model) => {
                Error::Graph(format!("ilabel {ilabel} is not a transition-id of the model (1 to {})", model.num_ids()))
            }
        })
    }

    /// The transition model, if the rule comes from one.
    pub fn transitions(&self) -> Option<&Arc<Transitions>> {
        match self {
            Columns::Transitions(model) => Some(model),
            _ => None,
        }
    }
}

/// [`Columns`] flattened to one lookup a label, for loops over all arcs.
pub(super) enum ColumnMap<'a> {
    Labels,
    Table(Cow<'a, [i32]>),
}

/// Which rule gave labels their columns, so that a stored layout can be told from one by another rule.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct ColumnRule {
    /// XXH3 of the table of columns.
    sum: u64,
    /// Entries of the table.
    len: u32,
    /// 0 for [`Columns::Labels`], 1 for [`Columns::Table`], 2 for [`Columns::Transitions`].
    kind: u32,
}

impl ColumnRule {
    /// The rule in words.
    pub fn name(self) -> String {
        match self.kind {
            0 => "label i reads column i - 1".into(),
            1 => format!("a table of {} columns", self.len),
            _ => format!("a transition model with {} transition-ids", self.len.saturating_sub(1)),
        }
    }
}

/// What [`ColumnMap::get`] answers for a label without column.
pub(super) const NO_COLUMN: u32 = u32::MAX;

impl<'a> ColumnMap<'a> {
    pub fn new(columns: &'a Columns) -> Result<ColumnMap<'a>> {
        Ok(match columns {
            Columns::Labels => ColumnMap::Labels,
            Columns::Table(table) => ColumnMap::Table(Cow::Borrowed(table)),
            Columns::Transitions(model) => {
                let mut table = Vec::new();
                try_reserve(&mut table, model.num_ids() as usize + 1, "columns of transition-ids")?;
                table.push(-1);
                let pdf = |id| model.pdf(id).and_then(|pdf| i32::try_from(pdf).ok()).unwrap_or(-1);
                table.extend((1..=model.num_ids()).map(pdf));
                ColumnMap::Table(Cow::Owned(table))
            }
        })
    }

    /// Tells the rule from others.
    pub fn rule(&self, columns: &Columns) -> ColumnRule {
        let kind = match columns {
            Columns::Labels => 0,
            Columns::Table(_) => 1,
            Columns::Transitions(_) => 2,
        };
        let table: &[i32] = match self {
            ColumnMap::Labels => &[],
            ColumnMap::Table(table) => table,
        };
        ColumnRule { sum: XxHash3_64::oneshot(bytemuck::cast_slice(table)), len: table.len() as u32, kind }
    }

    /// Column of `ilabel`, below 2^31; [`NO_COLUMN`] if it is not positive or has none.
    #[inline(always)]
    pub fn get(&self, ilabel: i32) -> u32 {
        let column = match self {
            ColumnMap::Labels => ilabel.wrapping_sub(1),
            ColumnMap::Table(table) => table.get(ilabel as u32 as usize).copied().unwrap_or(-1),
        };
        if ilabel > 0 && column >= 0 { column as u32 } else { NO_COLUMN }
    }
}
