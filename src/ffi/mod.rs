//! The C face, one file a handle. No algorithm lives here, and nothing may use this room.
//!
//! `include/koshi.h` is generated from these files by cbindgen, so the comments on exported
//! items are written for a C reader. The rules that all of them follow stand once at the
//! head of that header (`cbindgen.toml`). How they are kept:
//!
//! * every export runs inside `guard`: nothing unwinds, the floating-point environment is
//!   the default one and the caller's comes back;
//! * pointers are turned into Rust values by `arg`, handles by `registry`, growing
//!   structs by `config`; what only one call at a time may use is `crate::exclusive`;
//! * a result is written to the caller's memory last, when nothing can fail any more.

// The names are C's. What a pointer must be is said once, at the head of the header.
#![allow(non_camel_case_types, clippy::missing_safety_doc)]

mod arg;
mod batch;
mod callback;
mod config;
mod guard;
mod registry;

// In the order of the header; blank lines keep it.
mod version;

mod error;

mod log;

mod cuda;

mod transitions;

mod symbols;

mod graph;

mod decodable;

mod decoder_config;

mod decoder;

mod phrases;

mod channel;

mod submit;

mod listener;

mod metrics;

mod path;

mod lattice;

mod endpoint;

mod determinize;

mod growing;

mod commit;

mod lattice_form;

mod lattice_text;

mod align;

mod words;

mod language_model;

mod paths;

mod oracle;

mod buffer;

mod tables;

mod matrix;

mod reader;

mod writer;

mod egs_example;

mod egs_discriminative;

mod egs_tables;

mod egs_repository;

mod transducer_config;

mod hypotheses;

mod transducer;

mod transducer_stream;

mod supervision;

mod chain_config;

mod chain;

pub use self::align::*;
pub use self::buffer::*;
pub use self::callback::koshi_drop_fn;
pub use self::chain::*;
pub use self::chain_config::*;
pub use self::channel::*;
pub use self::commit::*;
pub use self::cuda::*;
pub use self::decodable::*;
pub use self::decoder::*;
pub use self::decoder_config::*;
pub use self::determinize::*;
pub use self::egs_discriminative::*;
pub use self::egs_example::*;
pub use self::egs_repository::*;
pub use self::egs_tables::*;
pub use self::endpoint::*;
pub use self::error::*;
pub use self::graph::*;
pub use self::growing::*;
pub use self::hypotheses::*;
pub use self::language_model::*;
pub use self::lattice::*;
pub use self::lattice_form::*;
pub use self::lattice_text::*;
pub use self::listener::*;
pub use self::log::*;
pub use self::matrix::*;
pub use self::metrics::*;
pub use self::oracle::*;
pub use self::path::*;
pub use self::paths::*;
pub use self::phrases::koshi_phrase;
pub use self::reader::*;
#[doc(hidden)]
pub use self::registry::live_handles;
pub use self::submit::*;
pub use self::supervision::*;
pub use self::symbols::*;
pub use self::tables::*;
pub use self::transducer::*;
pub use self::transducer_config::*;
pub use self::transducer_stream::*;
pub use self::transitions::*;
pub use self::version::*;
pub use self::words::*;
pub use self::writer::*;
