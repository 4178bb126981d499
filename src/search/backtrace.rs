//! The way back: the best link into each token, over the windows and the trace of a channel.

use crate::graph::{Graph, HAS_EPSILONS};

use super::backward::Windows;
use super::trace::{EPSILON, Trace};

/// A token: its time (frames before it) and its place among the tokens of that time, raw in the
/// windows and in canonical order in the trace. A place holds until the next frame is searched;
/// what names a token for longer is its time and graph state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Frames before the token.
    pub time: usize,
    /// Which token of that time.
    pub token: u32,
}

/// A link on a best path, seen from its destination.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Where it comes from.
    pub from: Place,
    /// State id of the source, which owns the arc.
    pub state: u32,
    /// Arc number in the graph.
    pub arc: u32,
    /// Acoustic cost without scale, where it is at hand.
    acoustic: Option<f32>,
}

/// The links of a channel over its graph.
#[derive(Clone, Copy)]
pub(super) struct Links<'a> {
    pub graph: &'a Graph,
    pub trace: &'a Trace,
    /// Places in the trace of the tokens of its last time.
    pub boundary: &'a [u32],
    pub windows: Windows<'a>,
}

impl Links<'_> {
    /// Whether the tokens of `time` still have the places that the search gave them.
    pub fn is_raw(&self, time: usize) -> bool {
        time >= self.trace.num_times()
    }

    /// Number of tokens of `time`.
    pub fn num_tokens(&self, time: usize) -> usize {
        match time.checked_sub(self.trace.num_times()) {
            Some(at) => self.windows.time(at).states.len(),
            None => self.trace.states_at(time).len(),
        }
    }

    /// State id of a token.
    pub fn state(&self, at: Place) -> u32 {
        let states = match at.time.checked_sub(self.trace.num_times()) {
            Some(in_windows) => self.windows.time(in_windows).states,
            None => self.trace.states_at(at.time),
        };
        states[at.token as usize] & !HAS_EPSILONS
    }

    /// The link into `at` with extra 0 (ties: the smallest file arc), `None` at the start. It is the
    /// same at whatever time it is asked for: pruning keeps such links as long as their token.
    pub fn best_link(&self, at: Place) -> Option<Step> {
        let closed = self.trace.num_times();
        let Some(in_windows) = at.time.checked_sub(closed) else {
            let link = self.trace.best_link(at.time, at.token)?;
            let time = if link.src & EPSILON != 0 { at.time } else { at.time - 1 };
            let from = Place { time, token: link.src & !EPSILON };
            return Some(Step { from, state: self.state(from), arc: link.arc, acoustic: Some(link.acoustic) });
        };
        let time = self.windows.time(in_windows);
        let alpha = time.tokens[at.token as usize].alpha;
        let mut best: Option<Step> = None;
        for link in time.incoming(at.token).filter(|link| link.cost == alpha) {
            let raw = link.src & !EPSILON;
            let from = if link.src & EPSILON != 0 {
                Place { time: at.time, token: raw }
            } else if in_windows > 0 {
                Place { time: at.time - 1, token: raw }
            } else {
                Place { time: at.time - 1, token: self.boundary[raw as usize] }
            };
            let step = Step { from, state: self.state(from), arc: link.arc, acoustic: None };
            let file_arc = |step: &Step| self.graph.file_arc(step.state, step.arc);
            if best.is_none_or(|best| file_arc(&step) < file_arc(&best)) {
                best = Some(step);
            }
        }
        best
    }

    /// Acoustic cost without scale of the step to a token of time `to`.
    pub fn acoustic_cost(&self, to: usize, step: &Step) -> f32 {
        match (step.acoustic, to.checked_sub(self.trace.num_times())) {
            (Some(acoustic), _) => acoustic,
            (None, Some(in_windows)) if step.from.time < to => {
                self.windows.time(in_windows).acoustic_cost(self.graph, step.state, step.arc)
            }
            _ => 0.0,
        }
    }
}
