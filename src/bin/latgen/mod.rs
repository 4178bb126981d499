//! The parts of `koshi-latgen-faster-mapped`: its options, what it reads, what is done with an
//! utterance, and what it writes.

mod config;
mod input;
mod job;
mod output;

pub use config::Config;
pub use input::Input;
pub use job::{Graphs, Job};
pub use output::Output;
