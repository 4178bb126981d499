//! Transducers for tests: small networks that are functions of encoder row and label history, and one
//! trait over the two ways in, the crate's own items and the exported C functions.
#![allow(dead_code, unused_imports)] // each test file uses its own part

mod c;
mod exhaustive;
mod rust;
mod toy;
mod watched;

use std::sync::Arc;

use koshi::transducer::{Hypotheses, Hypothesis, Model, Phrase, TransducerConfig};

pub use c::C;
pub use exhaustive::{alignments, exhaustive_scores, sequences};
pub use koshi::ffi::koshi_status_code as Status;
pub use koshi::transducer::SearchKind;
pub use rust::Rust;
pub use toy::{Fails, Net, REFUSED, Random, Table, Toy, rows};
pub use watched::Watched;

/// A call that failed: its status, and the message with all causes where there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub status: Status,
    pub message: String,
}

pub type Outcome<T = ()> = Result<T, Fault>;

/// Encoder rows as a caller hands them over.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    pub data: &'a [f32],
    pub frames: usize,
    pub dim: usize,
    pub stride: usize,
}

impl<'a> Matrix<'a> {
    pub fn dense(data: &'a [f32], dim: usize) -> Matrix<'a> {
        assert!(data.len().is_multiple_of(dim));
        Matrix { data, frames: data.len() / dim, dim, stride: dim }
    }

    /// Rows `from..to`.
    pub fn part(self, from: usize, to: usize) -> Matrix<'a> {
        Matrix { data: &self.data[(from * self.stride).min(self.data.len())..], frames: to - from, ..self }
    }
}

/// Rows of one stream in a batch, and whether they are its last.
pub struct Item<'a, S> {
    pub stream: &'a mut S,
    pub rows: Matrix<'a>,
    pub last: bool,
}

/// A way to use transducers.
pub trait Face {
    type Transducer;
    type Stream;

    fn transducer(model: Arc<dyn Model>) -> Outcome<Self::Transducer>;
    fn set_bias(transducer: &Self::Transducer, phrases: &[Phrase<'_>]) -> Outcome;
    fn search(
        transducer: &Self::Transducer,
        config: &TransducerConfig,
        utterances: &[Matrix<'_>],
    ) -> Outcome<Vec<Outcome<Hypotheses>>>;
    fn stream(transducer: &Self::Transducer, config: &TransducerConfig) -> Outcome<Self::Stream>;
    fn push(stream: &mut Self::Stream, rows: Matrix<'_>) -> Outcome;
    fn partial(stream: &Self::Stream) -> Outcome<(Hypotheses, usize)>;
    fn commit(stream: &mut Self::Stream) -> Outcome<Hypothesis>;
    fn finish(stream: &mut Self::Stream) -> Outcome<Hypotheses>;
    /// What cancels the stream, also from inside a call for it.
    fn canceller(stream: &Self::Stream) -> Box<dyn Fn() + Send + Sync>;
    fn cancel(stream: &Self::Stream) {
        Self::canceller(stream)();
    }
    /// Messages of items are not told.
    fn advance(transducer: &Self::Transducer, items: Vec<Item<'_, Self::Stream>>) -> Outcome<Vec<Outcome>>;
}

/// One utterance alone.
pub fn search<F: Face>(model: Arc<dyn Model>, config: &TransducerConfig, rows: Matrix<'_>) -> Outcome<Hypotheses> {
    let transducer = F::transducer(model)?;
    F::search(&transducer, config, &[rows])?.pop().unwrap()
}

/// The best hypothesis of one utterance.
pub fn best<F: Face>(model: Arc<dyn Model>, config: &TransducerConfig, rows: Matrix<'_>) -> Hypothesis {
    search::<F>(model, config, rows).unwrap().list.remove(0)
}

/// All searches, with the bounds wide.
pub fn all_kinds() -> [TransducerConfig; 5] {
    let config = TransducerConfig { max_sym_exp: 4, nstep: 3, prefix_alpha: 3, ..TransducerConfig::default() };
    [
        TransducerConfig { search: SearchKind::Greedy, max_symbols_per_frame: 3, ..config },
        TransducerConfig { search: SearchKind::Default, ..config },
        TransducerConfig { search: SearchKind::Tsd, ..config },
        TransducerConfig { search: SearchKind::Alsd, ..config },
        TransducerConfig { search: SearchKind::Nsc, ..config },
    ]
}

/// Makes a test of each function, through Rust and through C.
#[macro_export]
macro_rules! over_both_transducer_faces {
    ($($name:ident)*) => {
        mod through_rust {
            $(#[test] fn $name() { super::$name::<super::transducer::Rust>(); })*
        }
        mod through_c {
            $(#[test] fn $name() { super::$name::<super::transducer::C>(); })*
        }
    };
}
