//! Kaldi's files: tokens, text and binary, matrices, archives, the transition model, symbols.

mod transitions;

pub use transitions::Transitions;
