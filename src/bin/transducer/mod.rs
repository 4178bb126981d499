//! The parts of `koshi-transducer`: its options, the model that it reads, and what it prints.

mod config;
mod network;
mod output;

pub use config::Config;
pub use network::{Document, Network};
pub use output::nbest;
