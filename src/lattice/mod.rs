//! Lattices: what a search gives back, and what is done with it.

mod align;
mod best_path;
mod bias_costs;
mod compact;
mod convert;
mod depth;
mod determinize;
mod dot;
mod file;
mod form;
mod json;
mod lm;
mod mbr;
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

pub use align::{AlignLexicon, AlignOutcome, Aligned, BoundaryOptions, LexiconOptions, PhoneKind, WordBoundary};
pub use bias_costs::BiasCosts;
pub use compact::CompactLattice;
pub use determinize::{
    DeterminizeConfig, Determinized, Determinizer, Exit, Exits, IncrementalDeterminizer, LatticePiece,
};
pub use file::{CompactLatticeHolder, LatticeHolder, RawLatticeHolder, StoredLattice, StoredLatticeHolder};
pub use form::Lattice;
pub use json::WordsJson;
pub use lm::LanguageModel;
pub use mbr::{Alternative, Bin, CtmFormat, Word, Words, WordsConfig};
pub use nbest::NBest;
pub use oracle::Oracle;
pub use parts::{PartStrings, Parts, PartsBuilder};
pub use path::Path;
pub use raw::{LatticeArc, RawLattice};
pub use route::Route;
pub use strings::Strings;
pub use weight::LatticeWeight;
