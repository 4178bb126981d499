//! Lattices: what a search gives back, and what is done with it.

mod path;
mod raw;

pub use path::Path;
pub use raw::{LatticeArc, LatticeWeight, RawLattice};
