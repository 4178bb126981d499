//! Training examples of Kaldi's nnet2: frames of features with the labels or the lattice to learn from them.
//!
//! - `labels`, `example`, `extract`: an [`NnetExample`], its labels frame by frame, and smaller examples cut out of it;
//! - `discriminative` (`frames`, `denominator`): a [`DiscriminativeNnetExample`], an alignment and a lattice to hold it against;
//! - `holder`: both as entries of tables, over the rspecifiers and wspecifiers of the table room;
//! - `repository` (`sync`): a bounded place where readers hand examples to trainers on other threads.
//!
//! Reading checks the form only, as Kaldi does; `check` says what is wrong with an example that has come through.

mod denominator;
mod discriminative;
mod example;
mod extract;
mod frames;
mod holder;
mod labels;
mod repository;
mod sync;

pub use denominator::DenominatorLattice;
pub use discriminative::DiscriminativeNnetExample;
pub use example::NnetExample;
pub use extract::{Cut, Extracted};
pub use frames::Frames;
pub use holder::{DiscriminativeNnetExampleHolder, NnetExampleHolder};
pub use labels::{Label, Labels};
pub use repository::{Refusal, Repository};

/// Hands examples from those who read them to those who train on them.
pub type ExamplesRepository = Repository<NnetExample>;
