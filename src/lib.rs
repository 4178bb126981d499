//! Koshi searches speech models and gives lattices back, behind a C ABI.
//!
//! The rooms, and the one way in which they may import each other:
//! `ffi, bin → decoder, chain, egs, transducer → cpu, cuda → search → lattice → graph → table`.
//! `include/koshi.h` is the interface that is kept stable; the Rust items here
//! serve the crate's own commands, tests and benches.

pub mod chain;
pub mod cpu;
pub mod cuda;
pub mod decoder;
pub mod egs;
pub mod error;
mod exclusive;
pub mod ffi;
pub mod float_env;
pub mod graph;
pub mod lattice;
mod prefetch;
pub mod quiet;
pub mod random;
pub mod search;
mod sync;
pub mod table;
pub mod transducer;
pub mod version;

pub use error::{Error, Result};
