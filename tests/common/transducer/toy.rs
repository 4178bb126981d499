//! Networks that are functions of encoder row and label history, and the model around them that
//! checks what a model is promised: states that are its own, released once, no history read twice.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use koshi::transducer::{Model, Part, ScoreKind, Shape};
use koshi::{Error, Result};

/// A function of encoder row and history. The first column of a row is its utterance, the second its frame.
pub trait Net: Send + Sync {
    fn vocab(&self) -> usize;
    fn blank(&self) -> i32 {
        0
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::LogProbs
    }
    fn has_lm(&self) -> bool {
        false
    }
    fn scores(&self, utterance: usize, frame: usize, history: &[i32]) -> Vec<f32>;
    fn lm(&self, _history: &[i32]) -> Vec<f32> {
        unreachable!()
    }
}

/// Log-probabilities of the next label after a history.
pub type LmScores = fn(&[i32]) -> Vec<f32>;

/// Scores by a closure.
pub struct Table<F> {
    pub vocab: usize,
    pub blank: i32,
    pub kind: ScoreKind,
    pub scores: F,
    pub lm: Option<LmScores>,
}

impl<F: Fn(usize, usize, &[i32]) -> Vec<f32> + Send + Sync> Net for Table<F> {
    fn vocab(&self) -> usize {
        self.vocab
    }
    fn blank(&self) -> i32 {
        self.blank
    }
    fn kind(&self) -> ScoreKind {
        self.kind
    }
    fn has_lm(&self) -> bool {
        self.lm.is_some()
    }
    fn scores(&self, utterance: usize, frame: usize, history: &[i32]) -> Vec<f32> {
        (self.scores)(utterance, frame, history)
    }
    fn lm(&self, history: &[i32]) -> Vec<f32> {
        (self.lm.unwrap())(history)
    }
}

/// Logits out of a hash of utterance, frame and history. Labels from `live` on are forbidden, and so are
/// all once a history has `most` labels.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    pub seed: u64,
    pub vocab: usize,
    pub blank: i32,
    pub live: usize,
    pub most: usize,
    /// What the logits are multiplied by: small for labels and blank close together.
    pub scale: f32,
    pub lm: bool,
}

impl Random {
    pub fn new(seed: u64, vocab: usize) -> Random {
        Random { seed, vocab, blank: 0, live: vocab, most: usize::MAX, scale: 3.0, lm: true }
    }

    fn value(&self, parts: impl IntoIterator<Item = u64>) -> f32 {
        let mut hash = self.seed ^ 0x9e37_79b9_7f4a_7c15;
        for part in parts {
            hash = (hash ^ part).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            hash ^= hash >> 29;
        }
        hash = hash.wrapping_mul(0x94d0_49bb_1331_11eb);
        (hash >> 40) as f32 / (1u64 << 24) as f32
    }
}

impl Net for Random {
    fn vocab(&self) -> usize {
        self.vocab
    }
    fn blank(&self) -> i32 {
        self.blank
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Logits
    }
    fn has_lm(&self) -> bool {
        self.lm
    }
    fn scores(&self, utterance: usize, frame: usize, history: &[i32]) -> Vec<f32> {
        // Two labels of context, as in many predictors, and the length, so that lists differ.
        let recent = &history[history.len().saturating_sub(2)..];
        let context: Vec<u64> = [utterance, frame].into_iter().map(|at| at as u64).collect();
        let context: Vec<u64> = context.into_iter().chain(recent.iter().map(|label| *label as u64 + 7)).collect();
        let value = |label: usize| {
            let live = label as i32 == self.blank || (label < self.live && history.len() < self.most);
            let value = self.value(context.iter().copied().chain([label as u64 + 1_000_003]));
            if live { (value - 0.5) * 2.0 * self.scale } else { f32::NEG_INFINITY }
        };
        (0..self.vocab).map(value).collect()
    }
    fn lm(&self, history: &[i32]) -> Vec<f32> {
        let last = history.last().map_or(0, |label| *label as u64 + 1);
        (0..self.vocab).map(|label| -3.0 * self.value([last, label as u64, 77])).collect()
    }
}

/// When a [`Toy`] reports failure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fails {
    /// In a join of this utterance and frame.
    pub join: Option<(usize, usize)>,
    /// In a prediction after a history that ends in this label.
    pub predict: Option<i32>,
    /// In a language model's prediction after such a history.
    pub lm: Option<i32>,
}

#[derive(Default)]
struct Seen {
    /// Histories of living states, by part.
    states: [HashMap<u64, Vec<i32>>; 2],
    next: u64,
    most: usize,
    /// Histories that were predicted, by part, with how often.
    histories: [HashMap<Vec<i32>, usize>; 2],
}

/// A [`Net`] as a model. Its state is a number that it gave out; its output is that number too.
pub struct Toy<N> {
    pub net: N,
    pub fails: Fails,
    seen: Mutex<Seen>,
    /// Calls of predict, lm_predict and join, also those that fail.
    pub calls: [AtomicUsize; 3],
    /// Histories in one call, at most.
    pub widest: AtomicUsize,
    pub released: AtomicUsize,
}

/// Status that a failing callback answers.
pub const REFUSED: i32 = -77;

fn refused(what: &str) -> Error {
    Error::Callback { what: what.into(), status: REFUSED }
}

impl<N: Net> Toy<N> {
    pub fn new(net: N) -> Toy<N> {
        Toy::failing(net, Fails::default())
    }

    pub fn failing(net: N, fails: Fails) -> Toy<N> {
        let (seen, calls, widest, released) = Default::default();
        Toy { net, fails, seen, calls, widest, released }
    }

    /// States that were handed out and not released.
    pub fn living(&self) -> usize {
        self.seen.lock().unwrap().states.iter().map(HashMap::len).sum()
    }

    /// Most states that were ever out together.
    pub fn most_living(&self) -> usize {
        self.seen.lock().unwrap().most
    }

    /// States handed out so far.
    pub fn handed_out(&self) -> usize {
        self.seen.lock().unwrap().next as usize
    }

    /// How often the history that was predicted most often was.
    pub fn most_predicted(&self, part: Part) -> usize {
        self.seen.lock().unwrap().histories[part as usize].values().copied().max().unwrap_or(0)
    }

    pub fn calls(&self, which: usize) -> usize {
        self.calls[which].load(Ordering::Relaxed)
    }

    fn read(
        &self,
        part: Part,
        states_in: &[u64],
        labels: &[i32],
        states_out: &mut [u64],
        fail: Option<i32>,
    ) -> Result<Vec<Vec<i32>>> {
        self.calls[part as usize].fetch_add(1, Ordering::Relaxed);
        self.widest.fetch_max(labels.len(), Ordering::Relaxed);
        assert!(!labels.is_empty() && states_in.len() == labels.len() && states_out.len() == labels.len());
        if fail.is_some_and(|label| labels.contains(&label)) {
            // What is left here counts for nothing.
            states_out.fill(u64::MAX);
            return Err(refused(if part == Part::Predictor { "predict" } else { "lm_predict" }));
        }
        let mut seen = self.seen.lock().unwrap();
        let mut all = Vec::new();
        for ((state_in, label), state_out) in states_in.iter().zip(labels).zip(states_out) {
            let history = match *label == self.net.blank() {
                true => {
                    assert_eq!(*state_in, 0, "a history begins in state 0");
                    Vec::new()
                }
                false => {
                    let before = seen.states[part as usize].get(state_in);
                    let mut history = before.expect("a state is one that was given out and not released").clone();
                    history.push(*label);
                    history
                }
            };
            seen.next += 1;
            *state_out = seen.next;
            let state = seen.next;
            seen.states[part as usize].insert(state, history.clone());
            *seen.histories[part as usize].entry(history.clone()).or_default() += 1;
            all.push(history);
        }
        let living = seen.states.iter().map(HashMap::len).sum();
        seen.most = seen.most.max(living);
        Ok(all)
    }
}

impl<N: Net> Model for Toy<N> {
    fn shape(&self) -> Shape {
        Shape {
            vocab_size: self.net.vocab(),
            blank: self.net.blank(),
            encoder_dim: 2,
            output_dim: 1,
            scores: self.net.kind(),
            has_lm: self.net.has_lm(),
        }
    }

    fn predict(&self, states_in: &[u64], labels: &[i32], states_out: &mut [u64], outputs: &mut [f32]) -> Result<()> {
        self.read(Part::Predictor, states_in, labels, states_out, self.fails.predict)?;
        for (output, state) in outputs.iter_mut().zip(states_out) {
            *output = *state as f32;
            assert_eq!(*output as u64, *state);
        }
        Ok(())
    }

    fn join(&self, encoder: &[f32], outputs: &[f32], rows: usize, scores: &mut [f32]) -> Result<()> {
        self.calls[2].fetch_add(1, Ordering::Relaxed);
        let vocab = self.net.vocab();
        assert!(rows > 0 && encoder.len() == 2 * rows && outputs.len() == rows && scores.len() == rows * vocab);
        let seen = self.seen.lock().unwrap();
        for ((row, output), scores) in encoder.chunks(2).zip(outputs).zip(scores.chunks_mut(vocab)) {
            let (utterance, frame) = (row[0] as usize, row[1] as usize);
            if self.fails.join == Some((utterance, frame)) {
                return Err(refused("join"));
            }
            let history = seen.states[0].get(&(*output as u64)).expect("a living prediction is joined");
            scores.copy_from_slice(&self.net.scores(utterance, frame, history));
        }
        Ok(())
    }

    fn lm_predict(
        &self,
        states_in: &[u64],
        labels: &[i32],
        states_out: &mut [u64],
        log_probs: &mut [f32],
    ) -> Result<()> {
        let histories = self.read(Part::LanguageModel, states_in, labels, states_out, self.fails.lm)?;
        for (history, row) in histories.iter().zip(log_probs.chunks_mut(self.net.vocab())) {
            row.copy_from_slice(&self.net.lm(history));
        }
        Ok(())
    }

    fn release_state(&self, part: Part, state: u64) {
        let gone = self.seen.lock().unwrap().states[part as usize].remove(&state);
        assert!(gone.is_some(), "state {state} is released once, and only if it was handed out");
        self.released.fetch_add(1, Ordering::Relaxed);
    }
}

/// Rows of an utterance, for a [`Toy`].
pub fn rows(utterance: usize, frames: usize) -> Vec<f32> {
    (0..frames).flat_map(|frame| [utterance as f32, frame as f32]).collect()
}
