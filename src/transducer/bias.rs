//! Phrases that are made more likely: an Aho-Corasick automaton over labels.
//!
//! After k of the n labels of a phrase k/n of its bonus is held; where the labels go on
//! differently, the automaton falls to the longest suffix that begins a phrase and the difference
//! is given back; a phrase that is completed keeps its bonus; what is only held at the end is given back.

use std::collections::{HashMap, VecDeque};

use crate::error::{Error, Result, try_reserve};

/// Labels that are more likely to come in this order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phrase<'a> {
    /// At least one, none of them the blank.
    pub labels: &'a [i32],
    /// Added to the score of a hypothesis each time that it completes the phrase; finite, at least 0.
    pub bonus: f32,
}

/// What the bonuses of all phrases may add up to: far more than any has use for, and so little that no sum
/// or product of them is beyond single precision.
const MOST: f32 = 1e30;

/// State of the automaton before any label.
pub(super) const START: u32 = 0;

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// The longest proper suffix that begins a phrase.
    fallback: u32,
    /// Largest part of a bonus that is held for a phrase that is not complete here, also of one that begins later.
    held: f32,
    /// Bonuses of the phrases that end here, also as a suffix.
    completed: f32,
}

/// A set of phrases, ready for use.
#[derive(Debug, Default)]
pub struct Phrases {
    nodes: Vec<Node>,
    /// By state and label.
    arcs: HashMap<(u32, i32), u32>,
    /// Labels that go on from each state, in the order of states.
    labels: Vec<Vec<i32>>,
}

impl Phrases {
    /// [`Error::Config`] names a phrase that is empty, has a label outside `0..vocab_size` or the
    /// blank, or a bonus that is negative or no finite number, or with which the bonuses add up to more than 1e30.
    pub fn new(phrases: &[Phrase<'_>], vocab_size: usize, blank: i32) -> Result<Phrases> {
        let mut made = Phrases { nodes: vec![Node::default()], arcs: HashMap::new(), labels: vec![Vec::new()] };
        let mut total = 0.0f32;
        for (at, phrase) in phrases.iter().enumerate() {
            let wrong = |why: String| Err(Error::Config(format!("phrase {at}: {why}")));
            if phrase.labels.is_empty() {
                return wrong("it has no labels".into());
            }
            if !(phrase.bonus >= 0.0 && phrase.bonus.is_finite()) {
                return wrong(format!("its bonus is {}; it must be finite and at least 0", phrase.bonus));
            }
            total += phrase.bonus;
            if total > MOST {
                return wrong(format!("with it the bonuses add up to {total:e}; they may to {MOST:e}"));
            }
            let bad = |label: &&i32| **label == blank || !usize::try_from(**label).is_ok_and(|at| at < vocab_size);
            if let Some(label) = phrase.labels.iter().find(bad) {
                return wrong(format!("{label} cannot be one of its labels"));
            }
            made.add(phrase)?;
        }
        made.link();
        Ok(made)
    }

    fn add(&mut self, phrase: &Phrase<'_>) -> Result<()> {
        let what = "phrases";
        try_reserve(&mut self.nodes, phrase.labels.len(), what)?;
        try_reserve(&mut self.labels, phrase.labels.len(), what)?;
        let asked = self.arcs.len() + phrase.labels.len();
        let no_memory = |_| Error::NoMemory { what: what.into(), asked: asked as u64 * 16 };
        self.arcs.try_reserve(phrase.labels.len()).map_err(no_memory)?;
        let mut at = START;
        for (done, &label) in phrase.labels.iter().enumerate() {
            let held = phrase.bonus * done as f32 / phrase.labels.len() as f32;
            let node = &mut self.nodes[at as usize];
            node.held = node.held.max(held);
            at = match self.arcs.get(&(at, label)) {
                Some(next) => *next,
                None => {
                    let next = self.nodes.len() as u32;
                    self.nodes.push(Node::default());
                    self.labels.push(Vec::new());
                    self.labels[at as usize].push(label);
                    self.arcs.insert((at, label), next);
                    next
                }
            };
        }
        self.nodes[at as usize].completed += phrase.bonus;
        Ok(())
    }

    /// Sets the fallbacks, shorter histories first.
    fn link(&mut self) {
        let mut queue = VecDeque::from([START]);
        while let Some(at) = queue.pop_front() {
            self.labels[at as usize].sort_unstable();
            for label in self.labels[at as usize].clone() {
                let Some(&next) = self.arcs.get(&(at, label)) else { continue };
                let fallback = if at == START { START } else { self.next(self.nodes[at as usize].fallback, label) };
                let shorter = self.nodes[fallback as usize];
                let node = &mut self.nodes[next as usize];
                node.fallback = fallback;
                node.completed += shorter.completed;
                node.held = node.held.max(shorter.held);
                queue.push_back(next);
            }
        }
    }

    fn next(&self, mut at: u32, label: i32) -> u32 {
        loop {
            match self.arcs.get(&(at, label)) {
                Some(next) => return *next,
                None if at == START => return START,
                None => at = self.nodes[at as usize].fallback,
            }
        }
    }

    /// The state after `label`, and what the label adds to the score.
    pub(super) fn step(&self, state: u32, label: i32) -> (u32, f32) {
        let next = self.next(state, label);
        let to = self.nodes[next as usize];
        (next, to.completed + to.held - self.held(state))
    }

    /// What is only held in a state.
    pub(super) fn held(&self, state: u32) -> f32 {
        self.nodes[state as usize].held
    }

    /// Labels that begin a phrase or go on with one, in a state; each once.
    pub(super) fn wanted(&self, state: u32) -> impl Iterator<Item = i32> {
        self.suffixes(state).flat_map(move |at| {
            let longer = move || self.suffixes(state).take_while(move |other| *other != at);
            let fresh = move |label: &i32| longer().all(|other| !self.arcs.contains_key(&(other, *label)));
            self.labels[at as usize].iter().copied().filter(fresh)
        })
    }

    /// A state and all that it falls back to, the last of them [`START`].
    fn suffixes(&self, state: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(state), |at| (*at != START).then(|| self.nodes[*at as usize].fallback))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(phrases: &Phrases, labels: &[i32]) -> (f32, f32) {
        let mut state = START;
        let mut total = 0.0;
        for label in labels {
            let (next, bonus) = phrases.step(state, *label);
            (state, total) = (next, total + bonus);
        }
        (total, total - phrases.held(state))
    }

    #[test]
    fn bonuses_are_held_given_back_and_kept() {
        let phrases = Phrases::new(
            &[
                Phrase { labels: &[1, 2], bonus: 5.0 },
                Phrase { labels: &[2, 3, 4], bonus: 6.0 },
                Phrase { labels: &[3], bonus: 1.0 },
            ],
            9,
            0,
        )
        .unwrap();
        assert_eq!(run(&phrases, &[1]), (2.5, 0.0));
        assert_eq!(run(&phrases, &[1, 1, 1]), (2.5, 0.0));
        assert_eq!(run(&phrases, &[1, 7]), (0.0, 0.0));
        assert_eq!(run(&phrases, &[1, 2]), (7.0, 5.0), "kept, and a part of the next one held");
        assert_eq!(run(&phrases, &[1, 2, 7]), (5.0, 5.0));
        assert_eq!(run(&phrases, &[1, 2, 3]), (10.0, 6.0), "3 is a phrase too");
        assert_eq!(run(&phrases, &[1, 2, 3, 4, 8]), (12.0, 12.0));
    }

    #[test]
    fn each_label_that_leads_on_is_wanted_once() {
        let phrases = [&[1, 2, 7][..], &[2, 3, 4], &[2, 7, 1], &[3]].map(|labels| Phrase { labels, bonus: 1.0 });
        let phrases = Phrases::new(&phrases, 9, 0).unwrap();
        let wanted = |labels: &[i32]| {
            let state = labels.iter().fold(START, |state, label| phrases.step(state, *label).0);
            phrases.wanted(state).collect::<Vec<_>>()
        };
        assert_eq!(wanted(&[]), [1, 2, 3]);
        assert_eq!(wanted(&[1]), [2, 1, 3]);
        assert_eq!(wanted(&[1, 2]), [7, 3, 1, 2], "7 by both, 3 by the end of it alone");
        assert_eq!(wanted(&[8]), [1, 2, 3]);
    }

    #[test]
    fn what_cannot_be_a_phrase_is_refused() {
        let bad = |labels: &[i32], bonus| {
            let error = Phrases::new(&[Phrase { labels, bonus }], 4, 2).unwrap_err();
            assert!(matches!(&error, Error::Config(message) if message.starts_with("phrase 0: ")), "{error}");
        };
        bad(&[], 1.0);
        bad(&[1, 2], 1.0);
        bad(&[4], 1.0);
        bad(&[-1], 1.0);
        for bonus in [-1.0, f32::NAN, f32::INFINITY] {
            bad(&[1], bonus);
        }
        bad(&[1, 3, 1], 3e38);
        let (one, two) = (Phrase { labels: &[1], bonus: 6e29 }, Phrase { labels: &[3, 1], bonus: 6e29 });
        let error = Phrases::new(&[one, two], 4, 2).unwrap_err();
        assert!(matches!(&error, Error::Config(message) if message.starts_with("phrase 1: ")), "{error}");
        assert_eq!(run(&Phrases::new(&[], 4, 2).unwrap(), &[1, 3]), (0.0, 0.0));
    }
}
