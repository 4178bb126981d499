//! Kaldi's files: tokens, text and binary, matrices, archives, the transition model, symbols.
//!
//! From the bytes upwards:
//! - `names`, `commands`, `input`, `output`: what a file name stands for, and buffered bytes with a name and an offset;
//! - `basic`, `write`, `number`: tokens and numbers in binary and text;
//! - `holder`, `matrix`, `vector`, `compressed` (`compress`, `expand`), `transitions` (`topology`), `symbols`: objects;
//! - `specifier`, `archive`, `script`, `sequential`, `random`, `writer`: tables of objects with keys.
//!
//! Input is never trusted: a fault is an [`Error::Format`](crate::error::Error::Format) with the file and the byte (in
//! text the line too), and memory grows with the bytes that are there, not with a length that they declare. Each type
//! reads binary and text, whichever comes, as Kaldi does, and writes either.

mod archive;
mod basic;
mod commands;
mod compress;
mod compressed;
mod expand;
mod holder;
mod input;
mod matrix;
mod names;
mod number;
mod output;
mod random;
mod real;
mod script;
mod sequential;
mod sigpipe;
mod specifier;
mod symbols;
mod topology;
mod transitions;
mod vector;
mod write;
mod writer;

pub use commands::{commands_allowed, set_allow_commands};
pub use compressed::{CompressedMatrix, CompressedMatrixHolder, Format, Method};
pub use holder::{
    Basic, BasicHolder, BasicVectorHolder, BasicVectorVectorHolder, Holder, Int32VectorHolder, TokenHolder,
    TokenVectorHolder, read_file, write_file,
};
pub use input::Input;
pub use matrix::{Matrix, MatrixHolder};
pub use number::general as format_general;
pub use output::Output;
pub use random::RandomAccessReader;
pub use real::Real;
pub use sequential::SequentialReader;
pub use specifier::{Kind, Rspecifier, Wspecifier, parse_range};
pub use symbols::SymbolTable;
pub use transitions::{Transitions, TransitionsHolder};
pub use vector::{VectorHolder, read_vector, write_vector};
pub use writer::TableWriter;

#[cfg(test)]
mod tests;
