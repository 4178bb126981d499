//! Phrases as a type of the search, so that one without them is compiled as if there were none.

use crate::graph::Graph;
use crate::search::Steps;

use super::hash::{Key, StateHash};

/// How the arcs of a time are biased.
pub(super) trait Biasing: Copy {
    /// Bias state of a token.
    type State: Copy;
    /// What names a token of a time: its graph state, and its bias state if it has one.
    type Key: Key;
    /// Whether tokens have bias states.
    const ON: bool;

    /// The bias state behind arc number `arc` from a token in `from`, and what the arc weighs.
    fn step(self, from: Self::State, arc: u32, weight: f32) -> (Self::State, f32);
    /// The first `len` bias states of a list, which is empty if there are none.
    fn states(list: &[u32], len: usize) -> &[Self::State];
    /// The bias state at a place of such a list.
    fn state(list: &[u32], at: usize) -> Self::State;
    /// Their number, for a list to keep them in.
    fn number(state: Self::State) -> Option<u32>;
    /// The key of a token.
    fn key(state: u32, bias: Self::State) -> Self::Key;
    /// The table of the two that takes the keys.
    fn table<'a>(plain: &'a mut StateHash<u32>, pairs: &'a mut StateHash<u64>) -> &'a mut StateHash<Self::Key>;
}

/// No phrases.
#[derive(Clone, Copy)]
pub(super) struct Plain;

impl Biasing for Plain {
    type State = ();
    type Key = u32;
    const ON: bool = false;

    #[inline(always)]
    fn step(self, _from: (), _arc: u32, weight: f32) -> ((), f32) {
        ((), weight)
    }

    #[inline(always)]
    fn states(_list: &[u32], len: usize) -> &[()] {
        const MANY: &[()] = &[(); usize::MAX];
        &MANY[..len]
    }

    #[inline(always)]
    fn state(_list: &[u32], _at: usize) {}

    #[inline(always)]
    fn number(_state: ()) -> Option<u32> {
        None
    }

    #[inline(always)]
    fn key(state: u32, _bias: ()) -> u32 {
        state
    }

    #[inline(always)]
    fn table<'a>(plain: &'a mut StateHash<u32>, _pairs: &'a mut StateHash<u64>) -> &'a mut StateHash<u32> {
        plain
    }
}

/// Phrases on the output labels of a graph.
#[derive(Clone, Copy)]
pub(super) struct Biased<'a> {
    pub graph: &'a Graph,
    pub steps: Steps<'a>,
}

impl Biasing for Biased<'_> {
    type State = u32;
    type Key = u64;
    const ON: bool = true;

    #[inline(always)]
    fn step(self, from: u32, arc: u32, weight: f32) -> (u32, f32) {
        let (to, cost) = self.steps.step(from, self.graph.olabel(arc));
        (to, weight + cost)
    }

    #[inline(always)]
    fn states(list: &[u32], len: usize) -> &[u32] {
        &list[..len]
    }

    #[inline(always)]
    fn state(list: &[u32], at: usize) -> u32 {
        list[at]
    }

    #[inline(always)]
    fn number(state: u32) -> Option<u32> {
        Some(state)
    }

    #[inline(always)]
    fn key(state: u32, bias: u32) -> u64 {
        u64::from(bias) << 32 | u64::from(state)
    }

    #[inline(always)]
    fn table<'a>(_plain: &'a mut StateHash<u32>, pairs: &'a mut StateHash<u64>) -> &'a mut StateHash<u64> {
        pairs
    }
}
