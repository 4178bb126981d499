//! What a graph is built from: states and arcs in the order of a file, and the rule
//! that gives an input label its column.

use std::sync::Arc;

use crate::error::{Error, Result};
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

/// States and arcs, walked several times while a graph is checked and laid out.
pub trait Source {
    /// Number of states.
    fn num_states(&self) -> u32;
    /// The start state.
    fn start(&self) -> u32;
    /// Final cost of `state`, `+inf` where it is not final.
    fn final_cost(&self, state: u32) -> f32;
    /// Arcs of `state` in file order.
    fn arcs(&self, state: u32) -> impl Iterator<Item = GraphArc>;
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
