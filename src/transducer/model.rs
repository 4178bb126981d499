//! What the caller brings: the networks.

use crate::error::{Error, Result};

/// Which network a state belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The prediction network.
    Predictor = 0,
    /// The language model.
    LanguageModel = 1,
}

impl Part {
    /// Both, in order.
    pub const ALL: [Part; 2] = [Part::Predictor, Part::LanguageModel];
}

/// What the joint network answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreKind {
    /// Any finite numbers, or `-inf`: the log-softmax over the vocabulary is taken here.
    Logits,
    /// Natural logs of probabilities, which are used as they are.
    LogProbs,
}

/// The sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Labels, the blank included; at least 2.
    pub vocab_size: usize,
    /// The blank label, below `vocab_size`.
    pub blank: i32,
    /// Columns of an encoder row; at least 1.
    pub encoder_dim: usize,
    /// Columns of an output of the prediction network; at least 1.
    pub output_dim: usize,
    /// What the joint network answers.
    pub scores: ScoreKind,
    /// Whether [`Model::lm_predict`] is there.
    pub has_lm: bool,
}

impl Shape {
    /// Largest vocabulary, and largest width of a row.
    pub const MOST: usize = 1 << 24;

    pub(super) fn check(&self) -> Result<()> {
        let most = Shape::MOST;
        if !(2..=most).contains(&self.vocab_size) {
            return Err(Error::Config(format!("vocab_size is {}; it must be 2 to {most}", self.vocab_size)));
        }
        if !usize::try_from(self.blank).is_ok_and(|blank| blank < self.vocab_size) {
            let size = self.vocab_size;
            return Err(Error::Config(format!("blank is {}; it must be a label of the {size}", self.blank)));
        }
        for (name, dim) in [("encoder_dim", self.encoder_dim), ("output_dim", self.output_dim)] {
            if !(1..=most).contains(&dim) {
                return Err(Error::Config(format!("{name} is {dim}; it must be 1 to {most}")));
            }
        }
        Ok(())
    }
}

/// The networks of a transducer. Calls come from whichever thread drives a stream, and streams of
/// one model may be driven by several threads together.
///
/// A state is a number of the model's choice. One that a call which succeeds has written to
/// `states_out` is handed back through [`Model::release_state`] exactly once; a call that fails
/// has handed out nothing.
pub trait Model: Send + Sync {
    /// The sizes; asked once.
    fn shape(&self) -> Shape;

    /// Reads one label after each of `labels.len()` histories.
    ///
    /// `states_in` are the states before the labels. A history begins with the blank label read
    /// in state 0, whatever state 0 may otherwise be: no other history reads the blank.
    /// `outputs` has a row of `output_dim` for each.
    fn predict(&self, states_in: &[u64], labels: &[i32], states_out: &mut [u64], outputs: &mut [f32]) -> Result<()>;

    /// Joins `rows` pairs of encoder row and prediction into rows of `vocab_size` scores.
    fn join(&self, encoder: &[f32], outputs: &[f32], rows: usize, scores: &mut [f32]) -> Result<()>;

    /// As [`Model::predict`], with natural logs of the next label's probability, a row of
    /// `vocab_size` for each history. The entry of the blank is not looked at.
    fn lm_predict(
        &self,
        _states_in: &[u64],
        _labels: &[i32],
        _states_out: &mut [u64],
        _log_probs: &mut [f32],
    ) -> Result<()> {
        Err(Error::Internal("a model without language model was asked for one".into()))
    }

    /// Takes a state back.
    fn release_state(&self, part: Part, state: u64);
}

impl<M: Model + ?Sized> Model for std::sync::Arc<M> {
    fn shape(&self) -> Shape {
        (**self).shape()
    }

    fn predict(&self, states_in: &[u64], labels: &[i32], states_out: &mut [u64], outputs: &mut [f32]) -> Result<()> {
        (**self).predict(states_in, labels, states_out, outputs)
    }

    fn join(&self, encoder: &[f32], outputs: &[f32], rows: usize, scores: &mut [f32]) -> Result<()> {
        (**self).join(encoder, outputs, rows, scores)
    }

    fn lm_predict(
        &self,
        states_in: &[u64],
        labels: &[i32],
        states_out: &mut [u64],
        log_probs: &mut [f32],
    ) -> Result<()> {
        (**self).lm_predict(states_in, labels, states_out, log_probs)
    }

    fn release_state(&self, part: Part, state: u64) {
        (**self).release_state(part, state);
    }
}
