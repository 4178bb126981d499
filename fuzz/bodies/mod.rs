//! What the fuzz targets do with their bytes, and `tests/fuzz.rs` too, without a fuzzer. A body that returns found no
//! fault; one that panics, ends the process or never returns found one. Each says whether it took
//! the bytes for what they should be.
#![allow(dead_code)] // each target runs one of them

pub mod align_tables;
pub mod api_script;
pub mod arpa;
pub mod chain_calls;
pub mod chain_files;
pub mod chain_script;
pub mod command_options;
pub mod config_bytes;
pub mod egs_objects;
pub mod egs_read;
pub mod egs_script;
pub mod egs_tables;
pub mod face;
pub mod gpu_script;
pub mod graph_cache;
pub mod graph_read;
pub mod lattice_read;
pub mod table_archive;
pub mod table_lookup;
pub mod table_matrix;
pub mod table_names;
pub mod table_symbols;
pub mod table_transitions;
pub mod transducer_json;
pub mod transducer_list;
pub mod transducer_net;
pub mod transducer_script;
