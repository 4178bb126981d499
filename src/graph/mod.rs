//! The decoding graph: OpenFst readers, validation, and the arrays that the search walks.

mod blocks;
mod labels;
mod layout;
mod levels;
mod source;
mod validate;

pub use blocks::{Graph, HAS_EPSILONS, Header, StateView};
pub use source::{Columns, GraphArc, Source, VecSource};

use crate::error::Result;

impl Graph {
    /// Checks a graph in memory and lays it out. What is refused, and with which message, is
    /// the same as for files: see `Graph::read`.
    pub fn from_source(source: &impl Source, columns: Columns) -> Result<Graph> {
        Graph::build(source, validate::check(source, &columns)?, &columns)
    }
}
