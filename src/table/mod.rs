//! Kaldi's files: tokens, text and binary, matrices, archives, the transition model, symbols.

mod basic;
mod commands;
mod input;
mod names;
mod number;
mod output;
mod sigpipe;
mod transitions;
mod write;

pub use commands::{commands_allowed, set_allow_commands};
pub use input::Input;
pub use number::general as format_general;
pub use output::Output;
pub use transitions::Transitions;

#[cfg(test)]
mod tests;
