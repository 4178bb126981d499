//! Lattices: what a search gives back, and what is done with it.

mod best_path;
mod compact;
mod convert;
mod depth;
mod determinize;
mod file;
mod form;
mod lm;
mod minimize;
mod nbest;
mod oracle;
mod parts;
mod path;
mod prune;
mod push;
mod raw;
mod rescore;
mod route;
mod strings;
mod topology;
mod union;
mod weight;

pub use compact::CompactLattice;
pub use determinize::{DeterminizeConfig, Determinized, Determinizer};
pub use file::{CompactLatticeHolder, LatticeHolder, RawLatticeHolder, StoredLattice, StoredLatticeHolder};
pub use form::Lattice;
pub use lm::LanguageModel;
pub use nbest::NBest;
pub use oracle::Oracle;
pub use parts::{PartStrings, Parts, PartsBuilder};
pub use path::Path;
pub use raw::{LatticeArc, RawLattice};
pub use route::Route;
pub use strings::Strings;
pub use weight::LatticeWeight;
