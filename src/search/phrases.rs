//! Phrases that are made more or less likely: an Aho-Corasick automaton over labels.
//!
//! After k of the n labels of a phrase k/n of its bonus is held; where the labels go on
//! differently, the automaton falls to the longest suffix that begins a phrase and the difference
//! is given back; a phrase that is completed keeps its bonus; what is only held at the end is given back.
//! Of a bonus below 0 nothing is held: it counts when its phrase is complete, so that what merely begins
//! like the phrase does not suffer.

use std::collections::HashMap;

use crate::error::{Error, Result, try_filled, try_reserve};

/// Labels that are more likely to come in this order, or less.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phrase<'a> {
    /// At least one.
    pub labels: &'a [i32],
    /// Added to the score each time that the phrase is completed; finite.
    pub bonus: f32,
}

/// What the bonuses of all phrases may add up to, whatever their signs: far more than any has use for, and so
/// little that no sum or product of them is beyond single precision.
const MOST: f32 = 1e30;

/// Labels that all phrases may have together.
const MOST_LABELS: usize = 1 << 24;

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// The longest proper suffix that begins a phrase.
    fallback: u32,
    /// Largest part of a bonus that is held for a phrase that is not complete here, also of one that begins later.
    held: f32,
    /// Bonuses of the phrases that end here, also as a suffix.
    completed: f32,
}

/// A set of phrases, ready for use. States are numbered from [`Phrases::START`], in the order in which
/// the phrases, label by label, first reach them.
#[derive(Debug)]
pub struct Phrases {
    nodes: Vec<Node>,
    /// By state and label.
    arcs: HashMap<(u32, i32), u32>,
    /// Labels that go on from each state, in the order of states.
    labels: Vec<Vec<i32>>,
    /// Bits of the labels that are in any phrase, and by chance of some others: most labels that a search
    /// meets are in none, and are known by one look.
    known: Vec<u64>,
    /// Bytes held.
    memory: usize,
}

impl Phrases {
    /// The state before any label.
    pub const START: u32 = 0;

    /// [`Error::Config`] names a phrase that is empty, has a label that not `allows`, or a bonus that is no
    /// finite number, or with which the bonuses, without their signs, add up to more than 1e30;
    /// [`Error::Limit`] where they have more than 2^24 labels together.
    pub fn new(phrases: &[Phrase<'_>], allows: impl Fn(i32) -> bool) -> Result<Phrases> {
        let (mut total, mut labels) = (0.0f32, 0usize);
        for (at, phrase) in phrases.iter().enumerate() {
            let wrong = |why: String| Err(Error::Config(format!("phrase {at}: {why}")));
            if phrase.labels.is_empty() {
                return wrong("it has no labels".into());
            }
            if !phrase.bonus.is_finite() {
                return wrong(format!("its bonus is {}; it must be finite", phrase.bonus));
            }
            total += phrase.bonus.abs();
            if total > MOST {
                return wrong(format!("with it the bonuses add up to {total:e}; they may to {MOST:e}"));
            }
            if let Some(label) = phrase.labels.iter().find(|label| !allows(**label)) {
                return wrong(format!("{label} cannot be one of its labels"));
            }
            labels = labels.saturating_add(phrase.labels.len());
            if labels > MOST_LABELS {
                return Err(Error::Limit(format!("phrase {at}: with it the phrases have more than 2^24 labels")));
            }
        }
        let mut made = Phrases::none();
        phrases.iter().try_for_each(|phrase| made.add(phrase))?;
        made.link()?;
        made.note_labels(labels)?;
        made.memory = made.nodes.capacity() * size_of::<Node>()
            + made.arcs.capacity() * size_of::<((u32, i32), u32)>()
            + made.labels.capacity() * size_of::<Vec<i32>>()
            + made.labels.iter().map(|labels| labels.capacity() * 4).sum::<usize>()
            + made.known.capacity() * 8;
        Ok(made)
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// No phrases: one state, which no label leaves.
    pub fn none() -> Phrases {
        let (nodes, labels) = (vec![Node::default()], vec![Vec::new()]);
        Phrases { nodes, arcs: HashMap::new(), labels, known: vec![0], memory: 0 }
    }

    fn add(&mut self, phrase: &Phrase<'_>) -> Result<()> {
        let what = "phrases";
        try_reserve(&mut self.nodes, phrase.labels.len(), what)?;
        try_reserve(&mut self.labels, phrase.labels.len(), what)?;
        let asked = self.arcs.len() + phrase.labels.len();
        let no_memory = |_| Error::NoMemory { what: what.into(), asked: asked as u64 * 16 };
        self.arcs.try_reserve(phrase.labels.len()).map_err(no_memory)?;
        let mut at = Phrases::START;
        for (done, &label) in phrase.labels.iter().enumerate() {
            let held = phrase.bonus * done as f32 / phrase.labels.len() as f32;
            let node = &mut self.nodes[at as usize];
            node.held = if held > node.held { held } else { node.held };
            at = match self.arcs.get(&(at, label)) {
                Some(next) => *next,
                None => {
                    let next = self.nodes.len() as u32;
                    self.nodes.push(Node::default());
                    self.labels.push(Vec::new());
                    try_reserve(&mut self.labels[at as usize], 1, what)?;
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
    fn link(&mut self) -> Result<()> {
        let mut queue = Vec::new();
        try_reserve(&mut queue, self.nodes.len(), "phrases")?;
        queue.push(Phrases::START);
        let mut done = 0;
        while let Some(&at) = queue.get(done) {
            done += 1;
            let mut labels = std::mem::take(&mut self.labels[at as usize]);
            labels.sort_unstable();
            for &label in &labels {
                let Some(&next) = self.arcs.get(&(at, label)) else { continue };
                let fallback =
                    if at == Phrases::START { at } else { self.follow(self.nodes[at as usize].fallback, label) };
                let shorter = self.nodes[fallback as usize];
                let node = &mut self.nodes[next as usize];
                node.fallback = fallback;
                node.completed += shorter.completed;
                node.held = node.held.max(shorter.held);
                queue.push(next);
            }
            self.labels[at as usize] = labels;
        }
        Ok(())
    }

    /// Fills `known`: 16 bits and more for each of `labels` labels.
    fn note_labels(&mut self, labels: usize) -> Result<()> {
        self.known = try_filled(0, (labels / 4).next_power_of_two(), "phrases")?;
        for &label in self.labels.iter().flatten() {
            let (word, bit) = self.place(label);
            self.known[word] |= 1 << bit;
        }
        Ok(())
    }

    /// Word and bit of a label in `known`.
    #[inline(always)]
    fn place(&self, label: i32) -> (usize, u32) {
        let mixed = (label as u32).wrapping_mul(0x9e37_79b1);
        ((mixed >> 6) as usize & (self.known.len() - 1), mixed >> 26)
    }

    /// The state after `label`, by the arcs alone.
    fn follow(&self, mut at: u32, label: i32) -> u32 {
        loop {
            match self.arcs.get(&(at, label)) {
                Some(next) => return *next,
                None if at == Phrases::START => return at,
                None => at = self.nodes[at as usize].fallback,
            }
        }
    }

    /// The state after `label`, and what the label adds to the score.
    #[inline]
    pub fn step(&self, state: u32, label: i32) -> (u32, f32) {
        let (word, bit) = self.place(label);
        if self.known[word] >> bit & 1 == 0 {
            return (Phrases::START, 0.0 - self.held(state));
        }
        let next = self.follow(state, label);
        let to = self.nodes[next as usize];
        (next, to.completed + to.held - self.held(state))
    }

    /// What is only held in a state; at least 0.
    pub fn held(&self, state: u32) -> f32 {
        self.nodes[state as usize].held
    }

    /// A state without its arcs: the longest proper suffix that begins a phrase, what is held, and what is completed.
    pub fn state(&self, state: u32) -> (u32, f32, f32) {
        let Node { fallback, held, completed } = self.nodes[state as usize];
        (fallback, held, completed)
    }

    /// Labels that lead on from a state by themselves, ascending, and the states that they lead to.
    pub fn arcs(&self, state: u32) -> impl ExactSizeIterator<Item = (i32, u32)> {
        self.labels[state as usize].iter().map(move |&label| (label, self.arcs[&(state, label)]))
    }

    /// Bits of the labels that are in any phrase, and of some others, 64 in each of a power of two of words: a label
    /// times 0x9e3779b1, modulo 2^32, has its bit in the high 6 bits and its word in those from the seventh on.
    pub fn known(&self) -> &[u64] {
        &self.known
    }

    /// States, at least 1.
    pub fn num_states(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Labels that begin a phrase or go on with one, in a state; each once.
    pub fn wanted(&self, state: u32) -> impl Iterator<Item = i32> {
        self.suffixes(state).flat_map(move |at| {
            let longer = move || self.suffixes(state).take_while(move |other| *other != at);
            let fresh = move |label: &i32| longer().all(|other| !self.arcs.contains_key(&(other, *label)));
            self.labels[at as usize].iter().copied().filter(fresh)
        })
    }

    /// A state and all that it falls back to, the last of them [`Phrases::START`].
    fn suffixes(&self, state: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(state), |at| (*at != Phrases::START).then(|| self.nodes[*at as usize].fallback))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(phrases: &Phrases, labels: &[i32]) -> (f32, f32) {
        let mut state = Phrases::START;
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
            |_| true,
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
        let phrases = Phrases::new(&phrases, |_| true).unwrap();
        let wanted = |labels: &[i32]| {
            let state = labels.iter().fold(Phrases::START, |state, label| phrases.step(state, *label).0);
            phrases.wanted(state).collect::<Vec<_>>()
        };
        assert_eq!(wanted(&[]), [1, 2, 3]);
        assert_eq!(wanted(&[1]), [2, 1, 3]);
        assert_eq!(wanted(&[1, 2]), [7, 3, 1, 2], "7 by both, 3 by the end of it alone");
        assert_eq!(wanted(&[8]), [1, 2, 3]);
    }

    #[test]
    fn a_bonus_below_0_counts_when_its_phrase_is_complete() {
        let given = [(&[1, 2][..], -5.0), (&[1, 2, 3], 6.0)].map(|(labels, bonus)| Phrase { labels, bonus });
        let phrases = Phrases::new(&given, |_| true).unwrap();
        assert_eq!(run(&phrases, &[1]), (2.0, 0.0), "a third of 6");
        assert_eq!(run(&phrases, &[1, 2]), (-1.0, -5.0));
        assert_eq!(run(&phrases, &[1, 2, 3]), (1.0, 1.0));
        let phrases = Phrases::new(&given[..1], |_| true).unwrap();
        assert_eq!(run(&phrases, &[1]), (0.0, 0.0));
        assert_eq!(run(&phrases, &[1, 2, 1]), (-5.0, -5.0));
    }

    #[test]
    fn what_cannot_be_a_phrase_is_refused() {
        let bad = |labels: &[i32], bonus| {
            let error = Phrases::new(&[Phrase { labels, bonus }], |label| label > 0).unwrap_err();
            assert!(matches!(&error, Error::Config(message) if message.starts_with("phrase 0: ")), "{error}");
        };
        bad(&[], 1.0);
        bad(&[1, 0], 1.0);
        bad(&[-1], 1.0);
        for bonus in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            bad(&[1], bonus);
        }
        bad(&[1, 3, 1], 3e38);
        bad(&[1, 3, 1], -3e38);
        let (one, two) = (Phrase { labels: &[1], bonus: -6e29 }, Phrase { labels: &[3, 1], bonus: 6e29 });
        let error = Phrases::new(&[one, two], |_| true).unwrap_err();
        assert!(matches!(&error, Error::Config(message) if message.starts_with("phrase 1: ")), "{error}");
        let long = vec![1; MOST_LABELS / 2 + 1];
        let long = Phrase { labels: &long, bonus: 1.0 };
        let error = Phrases::new(&[long, long], |_| true).unwrap_err();
        assert!(matches!(&error, Error::Limit(message) if message.starts_with("phrase 1: ")), "{error}");
        assert_eq!(run(&Phrases::new(&[], |_| true).unwrap(), &[1, 3]), (0.0, 0.0));
    }

    /// The automaton against what its rules say of all labels so far, looked through from the start.
    #[test]
    fn equals_the_rules_on_random_phrases() {
        let mut seed = 3u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((seed >> 33) % below) as usize
        };
        for _ in 0..2_000 {
            let lists: Vec<(Vec<i32>, f32)> = (0..1 + random(6))
                .map(|_| {
                    let labels = (0..1 + random(4)).map(|_| 1 + random(3) as i32 * 1_000_003).collect();
                    (labels, random(9) as f32 - 2.0)
                })
                .collect();
            let given: Vec<Phrase> = lists.iter().map(|(labels, bonus)| Phrase { labels, bonus: *bonus }).collect();
            let phrases = Phrases::new(&given, |_| true).unwrap();
            let mut said: Vec<i32> = Vec::new();
            let (mut state, mut total) = (Phrases::START, 0.0f64);
            for _ in 0..12 {
                let label = 1 + random(4) as i32 * 1_000_003;
                let (next, gain) = phrases.step(state, label);
                said.push(label);
                (state, total) = (next, total + f64::from(gain));
                let ends = |labels: &[i32], at: usize| said[..at].ends_with(labels);
                let kept: f32 = (1..=said.len())
                    .flat_map(|at| given.iter().filter(move |phrase| ends(phrase.labels, at)))
                    .map(|phrase| phrase.bonus)
                    .sum();
                let parts = given.iter().flat_map(|phrase| {
                    let n = phrase.labels.len();
                    (0..n)
                        .filter(|&k| said.ends_with(&phrase.labels[..k]))
                        .map(move |k| phrase.bonus * k as f32 / n as f32)
                });
                let held = parts.fold(0.0, f32::max);
                assert_eq!(phrases.held(state), held, "{lists:?} {said:?}");
                assert!((total - f64::from(kept + held)).abs() < 1e-4, "{lists:?} {said:?}");
            }
        }
    }
}
