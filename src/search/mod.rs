//! What a search is, for every backend.

mod config;

pub use config::SearchConfig;
