//! The decoding graph: OpenFst readers, validation, and the arrays that the search walks.

mod blocks;
mod labels;
mod source;

pub use blocks::{Graph, HAS_EPSILONS, Header, StateView};
pub use source::{Columns, GraphArc, Source};
