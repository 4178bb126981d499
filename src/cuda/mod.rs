//! The GPU: lanes of the search, and the chain objective's recursion.
//!
//! A `context` is a device; a `module` the kernels on it, a `graph` the blocks that they search. The
//! `workspace` of a decoder holds the `memory` of its lanes by the plan of `layout`, and runs a
//! launch: one block a lane, many frames; what goes in and comes out of it is put together in `staging`
//! memory, and checked as it is `handed` over. `phrases` that bias an utterance are lists in device memory. A `channel` stays on the host between launches; `lanes` bring channels and workspace together.
//!
//! A `chain_graph` is a denominator graph on a device; a `chain_call` runs the recursion on one batch, with the structs
//! of `chain_layout`.

mod api;
mod chain_call;
mod chain_graph;
mod chain_layout;
mod channel;
mod context;
mod graph;
mod handed;
mod lanes;
mod layout;
mod library;
mod memory;
mod module;
mod nvrtc;
mod phrases;
mod probe;
mod ptx;
mod staging;
mod workspace;

pub use chain_call::{ChainBatch, ChainCall, ChainDerivative, ChainMatrix, ChainMatrixMut};
pub use chain_graph::{ChainArrays, ChainGraph};
pub use chain_layout::{ChainArc, ChainGroup, ChainOutcome};
pub use channel::CudaChannel;
pub(crate) use handed::cannot_be_right;
pub use lanes::CudaLanes;
pub use probe::{DeviceInfo, devices};
pub use workspace::{DeviceRows, StageSeconds};
