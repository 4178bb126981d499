//! Lanes on a GPU. Only this room names `cudarc`, and that only to load the driver's library.
//!
//! A `context` is a device; a `module` the kernels on it, a `graph` the blocks that they search. The
//! `workspace` of a decoder holds the `memory` of its lanes by the plan of `layout`, and runs a
//! launch: one block a lane, many frames. A `channel` stays on the host between launches; `lanes`
//! bring channels and workspace together.

mod api;
mod channel;
mod context;
mod graph;
mod lanes;
mod layout;
mod memory;
mod module;
mod nvrtc;
mod probe;
mod workspace;

pub use channel::CudaChannel;
pub use lanes::CudaLanes;
pub use probe::{DeviceInfo, devices};
pub use workspace::{DeviceRows, StageSeconds};
