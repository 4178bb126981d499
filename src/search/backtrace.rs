//! The way back: the best link into each token, over the windows and the trace of a channel.

use crate::error::{Result, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS};

use super::backward::Windows;
use super::bias::{Bias, bias_state};
use super::trace::{EPSILON, Trace};
use super::window::Link;

/// A token: its time (frames before it) and its place among the tokens of that time, raw in the
/// windows and in canonical order in the trace. A place holds until the next frame is searched;
/// what names a token for longer is its time and its [`Name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Frames before the token.
    pub time: usize,
    /// Which token of that time.
    pub token: u32,
}

/// What names a token of a time for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Id of its graph state.
    pub state: u32,
    /// Its bias state; 0 without phrases.
    pub bias: u32,
}

impl Name {
    /// In place of a token that is not there any more.
    pub const GONE: Name = Name { state: u32::MAX, bias: u32::MAX };
}

/// In place of a link, where a token has none.
pub const NO_LINK: u32 = u32::MAX;

/// A link on a best path, seen from its destination.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Where it comes from.
    pub from: Place,
    /// Name of the source, whose state owns the arc.
    pub source: Name,
    /// Arc number in the graph.
    pub arc: u32,
    /// Acoustic cost without scale, where it is at hand.
    acoustic: Option<f32>,
}

/// Best links on a way back. The links of a time are walked over for its first token, and for its second, behind which
/// those into all its tokens are known: a way along any number of epsilon arcs takes no longer.
#[derive(Debug, Default)]
pub(super) struct WayBack {
    asked: Option<usize>,
    known: Option<usize>,
    best: Vec<u32>,
}

impl WayBack {
    /// As [`Links::best_link`].
    pub fn best_link(&mut self, links: &Links<'_>, at: Place) -> Result<Option<Step>> {
        if !links.is_in_windows(at.time) {
            return Ok(links.best_link(at));
        }
        if self.known != Some(at.time) && self.asked.replace(at.time) == Some(at.time) {
            let count = links.num_tokens(at.time);
            self.known = None;
            self.best.clear();
            try_reserve(&mut self.best, count, "best path")?;
            self.best.resize(count, NO_LINK);
            links.best_links(at.time, &mut self.best);
            self.known = Some(at.time);
        }
        match self.known == Some(at.time) {
            true => Ok(links.step_over(at.time, self.best[at.token as usize])),
            false => Ok(links.best_link(at)),
        }
    }
}

/// The links of a channel over its graph.
#[derive(Clone, Copy)]
pub(super) struct Links<'a> {
    pub graph: &'a Graph,
    pub bias: &'a Bias,
    pub trace: &'a Trace,
    /// Places in the trace of the tokens of its last time.
    pub boundary: &'a [u32],
    pub windows: Windows<'a>,
}

impl Links<'_> {
    /// Whether the tokens of `time` still have the places that the search gave them.
    pub fn is_raw(&self, time: usize) -> bool {
        time >= self.trace.num_times() + self.windows.older.num_times()
    }

    /// Whether `time` is one of the windows.
    pub fn is_in_windows(&self, time: usize) -> bool {
        time >= self.trace.num_times()
    }

    /// Number of tokens of `time`.
    pub fn num_tokens(&self, time: usize) -> usize {
        match time.checked_sub(self.trace.num_times()) {
            Some(at) => self.windows.time(at).states.len(),
            None => self.trace.states_at(time).len(),
        }
    }

    /// Name of a token.
    pub fn name(&self, at: Place) -> Name {
        let (states, bias) = match at.time.checked_sub(self.trace.num_times()) {
            Some(in_windows) => {
                let time = self.windows.time(in_windows);
                (time.states, time.bias)
            }
            None => (self.trace.states_at(at.time), self.trace.bias_at(at.time)),
        };
        Name { state: states[at.token as usize] & !HAS_EPSILONS, bias: bias_state(bias, at.token as usize) }
    }

    /// The link into `at` with extra 0 (ties: the smallest file arc, then the smallest bias state of
    /// the source), `None` at the start. It is the
    /// same at whatever time it is asked for: pruning keeps such links as long as their token.
    pub fn best_link(&self, at: Place) -> Option<Step> {
        let closed = self.trace.num_times();
        let Some(in_windows) = at.time.checked_sub(closed) else {
            let link = self.trace.best_link(at.time, at.token)?;
            let time = if link.src & EPSILON != 0 { at.time } else { at.time - 1 };
            let from = Place { time, token: link.src & !EPSILON };
            return Some(Step { from, source: self.name(from), arc: link.arc, acoustic: Some(link.acoustic) });
        };
        let time = self.windows.time(in_windows);
        let alpha = time.alphas[at.token as usize];
        let links = time.incoming(at.token).filter(|link| link.cost == alpha && alpha < f32::INFINITY);
        links
            .map(|link| self.step(at.time, &link))
            .reduce(|best, step| if self.order(&step) < self.order(&best) { step } else { best })
    }

    /// The same for all tokens of a time of the windows in one go: places of their links among those of
    /// the time, [`NO_LINK`] where there is none.
    pub fn best_links(&self, time: usize, best: &mut [u32]) {
        let of = self.windows.time(time - self.trace.num_times());
        best.fill(NO_LINK);
        for (at, link) in of.links.iter().enumerate() {
            let (dst, alpha) = (link.dst as usize, of.alphas[link.dst as usize]);
            if link.cost != alpha || alpha == f32::INFINITY || self.is_source_gone(time, link) {
                continue;
            }
            let better = match of.links.get(best[dst] as usize) {
                Some(other) => self.order(&self.step(time, link)) < self.order(&self.step(time, other)),
                None => true,
            };
            best[dst] = if better { at as u32 } else { best[dst] };
        }
    }

    /// The step over a link to a token of `time`, by its place among the links of that time, which is one
    /// of the windows; `None` for [`NO_LINK`].
    pub fn step_over(&self, time: usize, link: u32) -> Option<Step> {
        let of = self.windows.time(time - self.trace.num_times());
        of.links.get(link as usize).map(|link| self.step(time, link))
    }

    /// Whether a link to a token of `time`, which is one of the windows, comes from one that the trace has dropped
    /// since: then no path that can still be the best goes on from there.
    fn is_source_gone(&self, time: usize, link: &Link) -> bool {
        let in_trace = link.src & EPSILON == 0 && time == self.trace.num_times();
        in_trace && self.boundary[link.src as usize] == u32::MAX
    }

    /// The step over a link to a token of `time`, which is one of the windows. Its source is there.
    fn step(&self, time: usize, link: &Link) -> Step {
        let raw = link.src & !EPSILON;
        let from = if link.src & EPSILON != 0 {
            Place { time, token: raw }
        } else if time > self.trace.num_times() {
            Place { time: time - 1, token: raw }
        } else {
            Place { time: time - 1, token: self.boundary[raw as usize] }
        };
        Step { from, source: self.name(from), arc: link.arc, acoustic: None }
    }

    /// What decides between equally good links: file arc, then bias state of the source.
    fn order(&self, step: &Step) -> (u32, u32) {
        (self.graph.file_arc(step.source.state, step.arc), step.source.bias)
    }

    /// Bias cost of the step to token `to`; 0 without phrases.
    pub fn bias_cost(&self, to: Place, step: &Step) -> f32 {
        match self.bias.is_on() {
            true => self.bias.cost(step.source.bias, self.name(to).bias, self.graph.olabel(step.arc)),
            false => 0.0,
        }
    }

    /// Acoustic cost without scale of the step to a token of time `to`.
    pub fn acoustic_cost(&self, to: usize, step: &Step) -> f32 {
        match (step.acoustic, to.checked_sub(self.trace.num_times())) {
            (Some(acoustic), _) => acoustic,
            (None, Some(in_windows)) if step.from.time < to => {
                self.windows.time(in_windows).acoustic_cost(self.graph, step.source.state, step.arc)
            }
            _ => 0.0,
        }
    }
}
