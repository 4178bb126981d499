//! The chain (LF-MMI) objective: how much better the network's output fits what was said than anything else.
//!
//! - `den_graph` (`groups`): the denominator graph, as Kaldi lays it out and as the recursion walks it;
//! - `denominator` (`tile`, `exp`, `workshop`): its forward-backward with the leaky HMM, in probability space;
//! - `acceptor`, `supervision`, `supervision_file`, `merge`: what was said, and its files;
//! - `numerator`, `end_to_end`: forward-backward of a supervision in the log domain;
//! - `objective` (`config`, `scores`): all of it as one number and two derivatives;
//! - `gpu` (`elements`): the same with the denominator and the derivatives on a GPU.
//!
//! Rows are frame-major as in Kaldi: row `t * sequences + n` is frame `t` of sequence `n`. Results are the same bits
//! whatever the number of threads, and those of a sequence do not depend on the others of a batch. A GPU's sums over
//! states and over the groups of a pdf come in another order, fixed as well: its results are the same bits on every run,
//! and those of the CPU but for roundings (1e-5 relative).

mod acceptor;
mod config;
mod den_graph;
mod denominator;
mod elements;
mod end_to_end;
mod exp;
mod gpu;
mod groups;
mod merge;
mod numerator;
mod objective;
mod scores;
mod supervision;
mod supervision_file;
mod tile;
mod workshop;

pub use acceptor::{Acceptor, AcceptorArc};
pub use config::{ChainBackend, ChainConfig};
pub use den_graph::{DenominatorGraph, Transition};
pub use denominator::Denominator;
pub use gpu::DeviceMatrix;
pub use numerator::Numerator;
pub use objective::{Objective, chain_objective, chain_objective_device, penalize_out_of_range};
pub use scores::{Scores, ScoresMut};
pub use supervision::Supervision;
pub use supervision_file::SupervisionHolder;
