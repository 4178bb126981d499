//! A model with what its streams share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::bias;
use super::config::TransducerConfig;
use super::hypotheses::Hypotheses;
use super::model::{Model, Part, Shape};
use super::stream::{Stream, StreamItem, advance};
use crate::error::{Result, try_reserve};
use crate::search::{Phrase, Phrases, Rows};

/// How often a model was called, and for how many rows, since the transducer was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Calls of `predict` that succeeded.
    pub predict_calls: u64,
    /// Histories in them.
    pub predict_rows: u64,
    /// Calls of `join` that succeeded.
    pub join_calls: u64,
    /// Pairs in them.
    pub join_rows: u64,
    /// Calls of `lm_predict` that succeeded.
    pub lm_calls: u64,
    /// Histories in them.
    pub lm_rows: u64,
    /// States that the model has handed out and not got back.
    pub states: u64,
}

#[derive(Default)]
struct Counters {
    predict: [AtomicU64; 2],
    lm: [AtomicU64; 2],
    join: [AtomicU64; 2],
    states: AtomicU64,
}

/// A model, ready to be searched by any number of streams.
pub struct Transducer {
    model: Box<dyn Model>,
    shape: Shape,
    phrases: RwLock<Option<Arc<Phrases>>>,
    counters: Counters,
}

impl Transducer {
    /// [`crate::Error::Config`] names a size that is outside its range.
    pub fn new(model: Box<dyn Model>) -> Result<Arc<Transducer>> {
        let shape = model.shape();
        shape.check()?;
        Ok(Arc::new(Transducer { model, shape, phrases: RwLock::new(None), counters: Counters::default() }))
    }

    /// The sizes of the model.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Makes some phrases more likely, in streams that are made from now on; those that were set before are gone.
    pub fn set_phrases(&self, phrases: &[Phrase<'_>]) -> Result<()> {
        let made = match phrases {
            [] => None,
            _ => Some(Arc::new(bias::phrases(phrases, self.shape.vocab_size, self.shape.blank)?)),
        };
        *self.phrases.write() = made;
        Ok(())
    }

    pub(super) fn phrases(&self) -> Option<Arc<Phrases>> {
        self.phrases.read().clone()
    }

    /// An utterance whose rows will come piece by piece.
    pub fn new_stream(self: &Arc<Transducer>, config: &TransducerConfig) -> Result<Stream> {
        Stream::new(Arc::clone(self), config)
    }

    /// Searches whole utterances together. Each has its own result; an error here is about the call itself.
    pub fn search(
        self: &Arc<Transducer>,
        config: &TransducerConfig,
        utterances: &[Rows<'_>],
    ) -> Result<Vec<Result<Hypotheses>>> {
        config.check()?;
        let what = "utterances";
        let mut streams = Vec::new();
        try_reserve(&mut streams, utterances.len(), what)?;
        for _ in utterances {
            streams.push(self.new_stream(config)?);
        }
        let mut items = Vec::new();
        try_reserve(&mut items, utterances.len(), what)?;
        items.extend(streams.iter_mut().zip(utterances).map(|(stream, rows)| StreamItem::last(stream, *rows)));
        advance(self, &mut items)?;
        let mut results = Vec::new();
        try_reserve(&mut results, utterances.len(), what)?;
        let mut outcomes = Vec::new();
        try_reserve(&mut outcomes, utterances.len(), what)?;
        outcomes.extend(items.into_iter().map(|item| item.result));
        for (at, (stream, outcome)) in streams.iter_mut().zip(outcomes).enumerate() {
            let result = outcome.and_then(|()| stream.finish());
            results.push(result.map_err(|error| error.context(format!("utterance {at}"))));
        }
        Ok(results)
    }

    /// How often the model was called.
    pub fn call_counts(&self) -> CallCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { predict, lm, join, states } = &self.counters;
        CallCounts {
            predict_calls: get(&predict[0]),
            predict_rows: get(&predict[1]),
            join_calls: get(&join[0]),
            join_rows: get(&join[1]),
            lm_calls: get(&lm[0]),
            lm_rows: get(&lm[1]),
            states: get(states),
        }
    }

    /// Columns of a row that `part` gives.
    pub(super) fn width(&self, part: Part) -> usize {
        match part {
            Part::Predictor => self.shape.output_dim,
            Part::LanguageModel => self.shape.vocab_size,
        }
    }

    pub(super) fn ask(
        &self,
        part: Part,
        states_in: &[u64],
        labels: &[i32],
        states_out: &mut [u64],
        rows: &mut [f32],
    ) -> Result<()> {
        let counters = match part {
            Part::Predictor => {
                self.model.predict(states_in, labels, states_out, rows)?;
                &self.counters.predict
            }
            Part::LanguageModel => {
                self.model.lm_predict(states_in, labels, states_out, rows)?;
                &self.counters.lm
            }
        };
        count(counters, labels.len());
        self.counters.states.fetch_add(labels.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn join(&self, encoder: &[f32], outputs: &[f32], rows: usize, scores: &mut [f32]) -> Result<()> {
        self.model.join(encoder, outputs, rows, scores)?;
        count(&self.counters.join, rows);
        Ok(())
    }

    pub(super) fn release(&self, part: Part, state: u64) {
        self.counters.states.fetch_sub(1, Ordering::Relaxed);
        self.model.release_state(part, state);
    }
}

fn count(counters: &[AtomicU64; 2], rows: usize) {
    counters[0].fetch_add(1, Ordering::Relaxed);
    counters[1].fetch_add(rows as u64, Ordering::Relaxed);
}
