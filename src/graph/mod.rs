//! The decoding graph: OpenFst readers, validation, and the arrays that the search walks.

mod array;
mod blocks;
mod cache;
mod cache_check;
mod early;
mod feed;
mod fill;
mod fst_bytes;
mod huge;
mod info;
mod input_labels;
mod labels;
mod layout;
mod levels;
mod mapped;
mod narrow;
mod openfst;
mod read;
mod records;
mod source;
mod state_ids;
mod text;
mod validate;
mod whole;

pub(crate) use blocks::prefetch_block;
pub use blocks::{ArcTo, FinalState, Graph, HAS_EPSILONS, Header, StateView};
pub use fst_bytes::{FstBytes, FstHolder};
pub use info::GraphInfo;
pub use source::{Columns, GraphArc, Source, VecSource};
