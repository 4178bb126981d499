//! What a search is, for every backend: options, rules, the trace and its backward pass.
//!
//! Definitions used throughout, costs being negative natural logs:
//! `ac = -(acoustic_scale * ll)`, `candidate = a(src) + (weight + ac)` for an emitting arc and
//! `alpha(src) + weight` for an epsilon arc; `theta` bounds the candidates of a frame; a link's
//! `extra = candidate - alpha(dst)`. All of it is IEEE binary32, one rounding an operation.

mod aging;
mod backtrace;
mod backward;
mod best_lattice;
mod best_path;
mod bias;
mod capacity;
mod commit;
mod config;
mod emission;
mod endpoint;
mod ends;
mod history;
mod lanes;
mod phrases;
mod rows;
mod stable;
mod stats;
mod stretch;
mod trace;
mod window;

pub use backtrace::{Name, Place, Step};
pub use backward::Room;
pub use bias::{Bias, Steps, bias_state};
pub use capacity::largest_fitting;
pub use commit::{CommitConfig, CommittedLattice, LOOK};
pub use config::SearchConfig;
pub use emission::Emission;
pub use endpoint::{Endpoint, EndpointAction, EndpointConfig, EndpointRule, EndpointRules, Silence};
pub use ends::Ends;
pub use history::History;
pub use lanes::{ChannelState, Holds, LaneChannel, LaneWork, Lanes, TimeSearch};
pub use phrases::{Phrase, Phrases};
pub use rows::{Rows, first_unusable, scale_row};
pub use stats::SearchStats;
pub use trace::{EPSILON, Mark, Trace, TraceLink};
pub use window::{Link, Time, TimeStart, Window, grow};
