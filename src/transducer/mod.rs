//! Transducer (RNN-T) searches over a model of the caller's.
//!
//! The caller has a prediction network, a joint network and perhaps a language model
//! ([`Model`]); this room has what is between them: hypotheses that share their label
//! histories, merging, pruning, and the batching of model calls over hypotheses and utterances.
//! One file holds one search: [`SearchKind`] names them.
//!
//! A search is asked, step by step, which pairs of encoder row and label history it wants
//! scored (`Search::plan`), the scores of all streams are fetched together (`batch`), and the
//! search goes on with them (`Search::take`). It never calls the model itself.

mod alsd;
mod base;
mod batch;
mod bias;
mod config;
mod default;
mod extend;
mod greedy;
mod histories;
mod hypotheses;
mod model;
mod networks;
mod nsc;
mod row_scan;
mod score_row;
mod stream;
mod traces;
mod tsd;

pub use crate::search::{Phrase, Phrases};
pub use config::{SearchKind, TransducerConfig};
pub use hypotheses::{Hypotheses, Hypothesis};
pub use model::{Model, Part, ScoreKind, Shape};
pub use networks::{CallCounts, Transducer};
pub use stream::{Canceller, Stream, StreamItem, advance};
