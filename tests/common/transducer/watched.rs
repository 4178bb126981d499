//! A model that does something in the middle of one of its calls.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use koshi::Result;
use koshi::transducer::{Model, Part, Shape};

/// A model around another. Calls are counted by kind: predict, lm_predict, join.
pub struct Watched<M> {
    pub inner: M,
    counts: [AtomicUsize; 3],
    /// Which call to do something in, by kind and number from 1, and what.
    #[allow(clippy::type_complexity)]
    action: Mutex<Option<(usize, usize, Box<dyn Fn() + Send + Sync>)>>,
    /// Calls of all kinds when that was done.
    pub then: AtomicUsize,
}

impl<M> Watched<M> {
    pub fn new(inner: M) -> Watched<M> {
        let (counts, action, then) = Default::default();
        Watched { inner, counts, action, then }
    }

    /// In call `number` of `kind`, counted from now on, does `action`.
    pub fn set(&self, kind: usize, number: usize, action: Box<dyn Fn() + Send + Sync>) {
        self.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        *self.action.lock().unwrap() = Some((kind, number, action));
    }

    /// Calls of all kinds since [`Watched::set`].
    pub fn calls(&self) -> usize {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    fn watch(&self, kind: usize) {
        let number = self.counts[kind].fetch_add(1, Ordering::Relaxed) + 1;
        if let Some((_, _, action)) =
            self.action.lock().unwrap().as_ref().filter(|action| (action.0, action.1) == (kind, number))
        {
            self.then.store(self.calls(), Ordering::Relaxed);
            action();
        }
    }
}

impl<M: Model> Model for Watched<M> {
    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn predict(&self, states_in: &[u64], labels: &[i32], states_out: &mut [u64], outputs: &mut [f32]) -> Result<()> {
        self.watch(0);
        self.inner.predict(states_in, labels, states_out, outputs)
    }

    fn lm_predict(
        &self,
        states_in: &[u64],
        labels: &[i32],
        states_out: &mut [u64],
        log_probs: &mut [f32],
    ) -> Result<()> {
        self.watch(1);
        self.inner.lm_predict(states_in, labels, states_out, log_probs)
    }

    fn join(&self, encoder: &[f32], outputs: &[f32], rows: usize, scores: &mut [f32]) -> Result<()> {
        self.watch(2);
        self.inner.join(encoder, outputs, rows, scores)
    }

    fn release_state(&self, part: Part, state: u64) {
        self.inner.release_state(part, state);
    }
}
