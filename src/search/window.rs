//! Raw tokens and links of the last times, not yet pruned, in the order in which they were made.
//!
//! A channel holds two windows. When the younger is full, a backward pass over both moves what survives of the
//! older to the trace, and what survives of the younger to the older (`aging`).

use super::trace::EPSILON;
use crate::error::{Error, Result, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS, Header};

/// A link.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Link {
    /// Source among the tokens of the time before; with [`super::EPSILON`] of the same time.
    pub src: u32,
    /// Arc number.
    pub arc: u32,
    /// Candidate cost, before the subtraction of `m`; `+inf` where a commit has dropped it.
    pub cost: f32,
    /// Destination among the tokens of the time.
    pub dst: u32,
}

/// Where the parts of a time begin.
#[derive(Clone, Copy, Debug)]
pub struct TimeStart {
    /// In `states` and `alphas`.
    pub tokens: usize,
    /// In `links`.
    pub links: usize,
    /// In `rows`.
    pub row: usize,
}

/// Raw tokens and links of consecutive times.
#[derive(Debug, Default)]
pub struct Window {
    /// Where each time begins.
    pub starts: Vec<TimeStart>,
    /// Destination word of each token: state id, with `HAS_EPSILONS`.
    pub states: Vec<u32>,
    /// Bias state of each token; empty without phrases.
    pub bias: Vec<u32>,
    /// Cost of each token, before the subtraction of `m`; `+inf` where a commit has dropped it.
    pub alphas: Vec<f32>,
    /// The links of each time: those of emitting arcs in any order, then those of epsilon arcs by ascending level of
    /// their sources, so that each stands behind all that lead to its source.
    pub links: Vec<Link>,
    /// The unscaled row that led to each time; empty for time 0.
    pub rows: Vec<f32>,
}

impl Window {
    /// Times held.
    pub fn num_times(&self) -> usize {
        self.starts.len()
    }

    /// Whether no time is held.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Forgets everything; memory is kept.
    pub fn clear(&mut self) {
        self.starts.clear();
        self.cut(TimeStart { tokens: 0, links: 0, row: 0 });
    }

    /// Tokens of the last time.
    pub(super) fn last_count(&self) -> usize {
        self.starts.last().map_or(0, |start| self.states.len() - start.tokens)
    }

    /// The ends of all parts: where the next time begins.
    pub fn end(&self) -> TimeStart {
        TimeStart { tokens: self.states.len(), links: self.links.len(), row: self.rows.len() }
    }

    /// Drops what an abandoned frame left behind.
    pub fn cut(&mut self, end: TimeStart) {
        self.states.truncate(end.tokens);
        self.bias.truncate(end.tokens);
        self.alphas.truncate(end.tokens);
        self.links.truncate(end.links);
        self.rows.truncate(end.row);
    }

    /// Where time `at` (counted in this window) begins; its end for the one after the last.
    fn start(&self, at: usize) -> TimeStart {
        self.starts.get(at).copied().unwrap_or_else(|| self.end())
    }

    /// Where time `at` (counted in this window) begins and ends.
    pub(super) fn bounds(&self, at: usize) -> (TimeStart, TimeStart) {
        (self.start(at), self.start(at + 1))
    }

    /// The tokens, links and row of time `at`.
    pub fn time(&self, at: usize) -> Time<'_> {
        let (start, end) = (self.start(at), self.start(at + 1));
        Time {
            states: &self.states[start.tokens..end.tokens],
            bias: self.bias.get(start.tokens..end.tokens).unwrap_or(&[]),
            alphas: &self.alphas[start.tokens..end.tokens],
            links: &self.links[start.links..end.links],
            row: &self.rows[start.row..end.row],
        }
    }

    /// Room for `tokens` more tokens and `links` more links.
    #[inline]
    pub fn reserve(&mut self, tokens: usize, links: usize) -> Result<()> {
        grow(&mut self.states, tokens, "tokens")?;
        grow(&mut self.alphas, tokens, "tokens")?;
        grow(&mut self.links, links, "links")
    }

    /// Room for `times` more times, and for what they hold together.
    pub(super) fn reserve_times(&mut self, times: usize, more: TimeStart) -> Result<()> {
        try_reserve(&mut self.starts, times, "times")?;
        try_reserve(&mut self.rows, more.row, "rows")?;
        self.reserve(more.tokens, more.links)?;
        match self.links.len().saturating_add(more.links) < EPSILON as usize {
            true => Ok(()),
            false => Err(Error::Limit("more links between two prunings than 2^31".into())),
        }
    }

    /// Gives all tokens bias state 0, if they had none.
    pub fn start_bias(&mut self) -> Result<()> {
        let more = self.states.len().saturating_sub(self.bias.len());
        try_reserve(&mut self.bias, more, "tokens")?;
        self.bias.resize(self.states.len(), 0);
        Ok(())
    }

    /// Appends a time that was made elsewhere, behind one with `before` tokens: destination words and costs of its
    /// tokens, its links in any order, and the unscaled row that led to it. On an error nothing is changed.
    pub fn push_time(
        &mut self,
        graph: &Graph,
        before: usize,
        states: &[u32],
        alphas: &[f32],
        links: &[Link],
        row: &[f32],
    ) -> Result<()> {
        let start = self.end();
        self.reserve_times(1, TimeStart { tokens: states.len(), links: links.len(), row: row.len() })?;
        let source_is_there = |link: &Link| match link.src & EPSILON {
            0 => (link.src as usize) < before,
            _ => ((link.src & !EPSILON) as usize) < states.len(),
        };
        if !links.iter().all(|link| source_is_there(link) && (link.dst as usize) < states.len()) {
            return Err(Error::Device("a link leads from or to a token that is not there".into()));
        }
        self.links.extend(links.iter().filter(|link| link.src & EPSILON == 0));
        let epsilon = self.links.len();
        self.links.extend(links.iter().filter(|link| link.src & EPSILON != 0));
        let level = |link: &Link| {
            let state = states.get((link.src & !EPSILON) as usize);
            state.map_or(0, |state| Header::unpack(graph.words(), state & !HAS_EPSILONS).level)
        };
        if !self.links[epsilon..].is_sorted_by_key(level) {
            self.links[epsilon..].sort_unstable_by_key(level);
        }
        self.starts.push(start);
        self.states.extend_from_slice(states);
        self.alphas.extend_from_slice(alphas);
        self.rows.extend_from_slice(row);
        Ok(())
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.starts.capacity() * size_of::<TimeStart>()
            + (self.states.capacity() + self.bias.capacity()) * 4
            + self.links.capacity() * size_of::<Link>()
            + (self.alphas.capacity() + self.rows.capacity()) * 4
    }
}

/// Room for `more`, and for a quarter of what is held as well: windows are the most that a channel holds, so
/// they grow in smaller steps than other lists.
#[inline]
pub fn grow<T>(list: &mut Vec<T>, more: usize, what: &str) -> Result<()> {
    if list.capacity() - list.len() >= more { Ok(()) } else { grow_now(list, more, what) }
}

#[cold]
fn grow_now<T>(list: &mut Vec<T>, more: usize, what: &str) -> Result<()> {
    let more = more.max(list.len() / 4);
    let asked = (list.len().saturating_add(more) as u64).saturating_mul(size_of::<T>() as u64);
    list.try_reserve_exact(more).map_err(|_| Error::NoMemory { what: what.to_string(), asked })
}

/// One time of a window.
#[derive(Clone, Copy, Debug)]
pub struct Time<'a> {
    /// Destination words of its tokens.
    pub states: &'a [u32],
    /// Their bias states; empty without phrases.
    pub bias: &'a [u32],
    /// Their costs.
    pub alphas: &'a [f32],
    /// The links into them, in the order of [`Window::links`].
    pub links: &'a [Link],
    /// The unscaled row.
    pub row: &'a [f32],
}

impl<'a> Time<'a> {
    /// Acoustic cost without scale, never `-0.0`, of the emitting arc number `arc` of state
    /// `state` on the way to this time.
    pub fn acoustic_cost(&self, graph: &Graph, state: u32, arc: u32) -> f32 {
        -self.row[graph.column(state, arc) as usize] + 0.0
    }

    /// The links into token `at`.
    pub fn incoming(&self, at: u32) -> impl Iterator<Item = Link> + 'a {
        self.links.iter().copied().filter(move |link| link.dst == at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Columns, GraphArc, VecSource};

    /// States in a row with epsilon arcs between them, each with an arc back to the first.
    fn graph() -> Graph {
        let arc = |ilabel, next| GraphArc { ilabel, olabel: 0, weight: 1.0, next };
        let states = (0..4).map(|state| (0.0, vec![arc(1, 0), arc(0, state + 1)]));
        let source = VecSource { start: Some(0), states: states.chain([(0.0, vec![arc(1, 0)])]).collect() };
        Graph::from_source(&source, Columns::Labels).unwrap()
    }

    fn link(src: u32, dst: u32) -> Link {
        Link { src, arc: 0, cost: 1.0, dst }
    }

    #[test]
    fn links_of_a_time_made_elsewhere_stand_behind_those_to_their_sources() {
        let graph = graph();
        let ids: Vec<u32> = graph.ids().collect();
        // Tokens in another order than that of the levels.
        let states = [ids[3], ids[0], ids[2], ids[1]];
        let links = [link(2 | EPSILON, 0), link(1, 1), link(3 | EPSILON, 2), link(0, 3), link(1 | EPSILON, 3)];
        let mut window = Window::default();
        window.push_time(&graph, 2, &states, &[0.0; 4], &links, &[]).unwrap();
        assert_eq!(window.links, [links[1], links[3], links[4], links[2], links[0]]);
        assert_eq!((window.num_times(), window.states.as_slice()), (1, &states[..]));
    }

    #[test]
    fn links_of_tokens_that_are_not_there_are_refused() {
        let graph = graph();
        let states: Vec<u32> = graph.ids().take(2).collect();
        let mut window = Window::default();
        window.push_time(&graph, 0, &states, &[0.0; 2], &[link(EPSILON, 1)], &[0.5]).unwrap();
        for (before, wrong) in
            [(2, link(2, 0)), (0, link(0, 0)), (2, link(2 | EPSILON, 0)), (2, link(0, 2)), (2, link(u32::MAX, 0))]
        {
            let pushed = window.push_time(&graph, before, &states, &[0.0; 2], &[link(EPSILON, 1), wrong], &[0.5]);
            assert!(matches!(pushed, Err(Error::Device(_))), "{wrong:?}");
            assert_eq!((window.num_times(), window.links.len(), window.states.len(), window.rows.len()), (1, 1, 2, 1));
        }
    }
}
