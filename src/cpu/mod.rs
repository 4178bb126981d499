//! Lanes on CPU threads.
//!
//! A frame takes two passes: all candidates of all emitting tokens under a running bound
//! (`expand`, four arcs at a time in `expand_sse41`), then those within the exact theta into a state hash, as tokens and links
//! (`frame`), which are closed under epsilon arcs by level (`levels`). They go to the channel's
//! `search::History`, where what survives moves to the trace.
//! Working space belongs to the thread (`lanes`), tokens and links to the `channel`; `single` times are
//! searched for channels of another backend.

mod biasing;
mod channel;
mod expand;
#[cfg(target_arch = "x86_64")]
mod expand_sse41;
mod frame;
mod hash;
mod lanes;
mod levels;
mod single;

pub use channel::LentChannel;
pub use expand::set_portable;
pub use lanes::CpuLanes;
