//! What phrases cost on the way: bias states of tokens, and the part of an arc's cost that is theirs.
//!
//! A token of a biased search is a graph state and a bias state. The bias cost of an arc follows
//! from its output label and the bias states at its ends, so links do not carry it: it is found
//! again for those that survive. All of it is binary32, one rounding an operation: an arc weighs
//! `weight + bias` in the search, then as always; a final cost is `final + held`.

use std::sync::Arc;

use super::phrases::Phrases;
use crate::error::{Error, Result, try_reserve};

/// The lists of phrases of an utterance: one from its start, and one more for each change on the
/// way. Bias states are numbered through all of them.
#[derive(Debug, Default)]
pub struct Bias {
    lists: Vec<List>,
}

/// A list, which biases the times from `since` on.
#[derive(Clone, Debug)]
struct List {
    phrases: Arc<Phrases>,
    /// Number of its first state.
    first: u32,
    since: usize,
}

impl Bias {
    /// Whether tokens have bias states.
    pub fn is_on(&self) -> bool {
        !self.lists.is_empty()
    }

    /// Forgets all lists; memory is kept.
    pub fn clear(&mut self) {
        self.lists.clear();
    }

    /// Bytes that the lists hold.
    pub fn memory(&self) -> usize {
        self.lists.iter().map(|list| list.phrases.memory()).sum()
    }

    /// Lets `phrases` bias the times from `since` on, in place of those before. Tokens of earlier times
    /// then give back what they hold on the next emitting arc, and begin anew.
    pub fn change(&mut self, phrases: Arc<Phrases>, since: usize) -> Result<()> {
        try_reserve(&mut self.lists, 1, "phrases")?;
        // A list that no token has come to is not missed.
        let unused = self.lists.last().is_some_and(|list| list.since >= since);
        let kept = self.lists.len() - usize::from(unused);
        let end = |list: &List| list.first.checked_add(list.phrases.num_states());
        let first = match self.lists[..kept].last() {
            Some(list) => end(list),
            None => Some(0),
        };
        let list = first.map(|first| List { phrases, first, since });
        let Some(list) = list.filter(|list| end(list).is_some()) else {
            return Err(Error::Limit("the phrases of the utterance have more than 2^32 states".into()));
        };
        self.lists.truncate(kept);
        self.lists.push(list);
        Ok(())
    }

    /// Forgets the lists that no token from time `base` on has seen: a stream without end may have any number.
    pub fn commit(&mut self, base: usize) {
        let gone = self.lists.iter().skip(1).take_while(|list| list.since <= base).count();
        self.lists.drain(..gone);
    }

    /// The most states that any of the lists has; 1 without phrases.
    pub fn most_states(&self) -> u32 {
        self.lists.iter().map(|list| list.phrases.num_states()).max().unwrap_or(1)
    }

    /// The bias state of the token that a time 0 begins with.
    pub fn start(&self) -> u32 {
        self.lists.first().map_or(0, |list| list.first)
    }

    /// How the next time's arcs are biased; `None` without phrases.
    pub fn now(&self) -> Option<Steps<'_>> {
        self.lists.last().map(|list| Steps { bias: self, list })
    }

    /// Cost of the only held bonus of a state that an end in it gives back; 0 without phrases.
    pub fn held(&self, state: u32) -> f32 {
        self.list_of(state).map_or(0.0, |list| list.phrases.held(state - list.first))
    }

    /// Bias cost of an arc with `olabel` between tokens in bias states `from` and `to`; 0 without phrases.
    pub fn cost(&self, from: u32, to: u32, olabel: i32) -> f32 {
        self.list_of(to).map_or(0.0, |list| Steps { bias: self, list }.step(from, olabel).1)
    }

    fn list_of(&self, state: u32) -> Option<&List> {
        self.lists.iter().rev().find(|list| list.first <= state)
    }
}

/// Steps from one bias state to the next, under the list that holds for their end.
#[derive(Clone, Copy, Debug)]
pub struct Steps<'a> {
    bias: &'a Bias,
    list: &'a List,
}

impl Steps<'_> {
    /// The state of the list that holds now by which a token in bias state `from` goes on, counted from its first
    /// one, and the cost of what the token gives back on the way.
    #[inline]
    pub fn entered(self, from: u32) -> (u32, f32) {
        match from.checked_sub(self.list.first) {
            Some(from) => (from, 0.0),
            // Of the list before: what it held is given back, and the new one begins.
            None => (Phrases::START, self.bias.held(from)),
        }
    }

    /// The bias state behind an arc with `olabel`, and the arc's bias cost, never `-0.0`.
    #[inline]
    pub fn step(self, from: u32, olabel: i32) -> (u32, f32) {
        let List { phrases, first, .. } = self.list;
        let (from, back) = self.entered(from);
        if olabel == 0 {
            return (first + from, back);
        }
        let (to, gain) = phrases.step(from, olabel);
        (first + to, back - gain)
    }
}

/// The bias states of some tokens, none without phrases.
#[inline]
pub fn bias_state(states: &[u32], token: usize) -> u32 {
    states.get(token).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::Phrase;
    use super::*;

    fn list(labels: &[i32], bonus: f32) -> Arc<Phrases> {
        Arc::new(Phrases::new(&[Phrase { labels, bonus }], |label| label > 0).unwrap())
    }

    #[test]
    fn a_change_gives_back_what_was_held_and_begins_anew() {
        let mut bias = Bias::default();
        assert!(bias.now().is_none());
        assert_eq!((bias.held(0), bias.cost(0, 0, 5)), (0.0, 0.0));
        bias.change(list(&[1, 2], 4.0), 0).unwrap();
        let old = bias.start();
        let (held, cost) = bias.now().unwrap().step(old, 1);
        assert_eq!((held, cost, bias.held(held)), (1, -2.0, 2.0));
        assert_eq!(bias.now().unwrap().step(held, 0), (1, 0.0), "no label, no step");
        assert_eq!(bias.now().unwrap().step(held, 2), (2, -2.0));

        bias.change(list(&[9], 1.0), 7).unwrap();
        bias.change(list(&[2, 3], 6.0), 7).unwrap();
        assert_eq!(bias.lists.len(), 2, "the second change came before any token saw the first");
        assert_eq!(bias.held(held), 2.0);
        let now = bias.now().unwrap();
        assert_eq!(now.step(held, 0), (3, 2.0), "the start of the new list");
        assert_eq!(now.step(held, 2), (4, -1.0), "2 given back, 3 held");
        assert_eq!(now.step(4, 2), (4, 0.0));
        assert_eq!((bias.cost(held, 2, 2), bias.cost(held, 4, 2), bias.cost(4, 5, 3)), (-2.0, -1.0, -3.0));
    }

    #[test]
    fn lists_before_a_commit_are_forgotten() {
        let mut bias = Bias::default();
        for (at, since) in [0, 10, 20].into_iter().enumerate() {
            bias.change(list(&[1, 2], 4.0 + at as f32), since).unwrap();
        }
        bias.commit(9);
        assert_eq!((bias.lists.len(), bias.held(1)), (3, 2.0), "tokens of time 9 have the first list");
        bias.commit(10);
        assert_eq!((bias.lists.len(), bias.held(4), bias.held(7)), (2, 2.5, 3.0), "numbers stay what they were");
        bias.commit(1000);
        assert_eq!((bias.lists.len(), bias.held(7)), (1, 3.0), "the last one holds on");
        bias.change(list(&[1, 2], 8.0), 1001).unwrap();
        assert_eq!((bias.held(7), bias.held(10)), (3.0, 4.0));
    }
}
