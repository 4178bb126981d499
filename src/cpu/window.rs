//! Raw tokens and links of the last times, not yet pruned, in the order in which they were made.
//!
//! A channel holds two windows. When the younger is full, a backward pass over both moves
//! what survives of the older to the trace, and the two change places; buffers are kept.

use crate::error::{Result, try_reserve};
use crate::graph::Graph;

/// No link: the end of a chain.
pub(super) const NONE: u32 = u32::MAX;

/// A link as pass 2 makes it, chained with the others into the same token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// Source among the tokens of the time before; with `search::EPSILON` of the same time.
    pub src: u32,
    /// Arc number.
    pub arc: u32,
    /// Candidate cost, before the subtraction of `m`.
    pub cost: f32,
    /// Next link into the same token, or [`NONE`].
    pub next: u32,
}

/// A token: its cost, before the subtraction of `m`, and the head of its chain of incoming links.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub alpha: f32,
    pub head: u32,
}

/// Where the parts of a time begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeStart {
    pub tokens: usize,
    pub links: usize,
    pub closed: usize,
    pub row: usize,
}

/// Raw tokens and links of consecutive times.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub starts: Vec<TimeStart>,
    /// Destination word of each token: state id, with `HAS_EPSILONS`.
    pub states: Vec<u32>,
    pub tokens: Vec<Token>,
    pub links: Vec<Link>,
    /// Tokens with epsilon arcs, by ascending level: the order in which they were closed.
    pub closed: Vec<u32>,
    /// The unscaled row that led to each time; empty for time 0.
    pub rows: Vec<f32>,
}

impl Window {
    pub fn num_times(&self) -> usize {
        self.starts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Forgets everything; memory is kept.
    pub fn clear(&mut self) {
        self.starts.clear();
        self.cut(TimeStart { tokens: 0, links: 0, closed: 0, row: 0 });
    }

    /// The ends of all parts: where the next time begins.
    pub fn end(&self) -> TimeStart {
        TimeStart {
            tokens: self.states.len(),
            links: self.links.len(),
            closed: self.closed.len(),
            row: self.rows.len(),
        }
    }

    /// Drops what an abandoned frame left behind.
    pub fn cut(&mut self, end: TimeStart) {
        self.states.truncate(end.tokens);
        self.tokens.truncate(end.tokens);
        self.links.truncate(end.links);
        self.closed.truncate(end.closed);
        self.rows.truncate(end.row);
    }

    /// Where time `at` (counted in this window) begins; its end for the one after the last.
    fn start(&self, at: usize) -> TimeStart {
        self.starts.get(at).copied().unwrap_or_else(|| self.end())
    }

    /// Links into the tokens of time `at`.
    pub fn num_links(&self, at: usize) -> usize {
        self.start(at + 1).links - self.start(at).links
    }

    /// The tokens, links and row of time `at`.
    pub fn time(&self, at: usize) -> Time<'_> {
        let (start, end) = (self.start(at), self.start(at + 1));
        Time {
            states: &self.states[start.tokens..end.tokens],
            tokens: &self.tokens[start.tokens..end.tokens],
            links: &self.links,
            closed: &self.closed[start.closed..end.closed],
            row: &self.rows[start.row..end.row],
        }
    }

    /// Room for `tokens` more tokens and `links` more links.
    pub fn reserve(&mut self, tokens: usize, links: usize) -> Result<()> {
        try_reserve(&mut self.states, tokens, "tokens")?;
        try_reserve(&mut self.tokens, tokens, "tokens")?;
        try_reserve(&mut self.links, links, "links")
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.starts.capacity() * size_of::<TimeStart>()
            + self.states.capacity() * 4
            + self.tokens.capacity() * size_of::<Token>()
            + self.links.capacity() * size_of::<Link>()
            + (self.closed.capacity() + self.rows.capacity()) * 4
    }
}

/// One time of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time<'a> {
    pub states: &'a [u32],
    pub tokens: &'a [Token],
    /// All links of the window: heads and chains index it.
    pub links: &'a [Link],
    pub closed: &'a [u32],
    pub row: &'a [f32],
}

impl<'a> Time<'a> {
    /// Acoustic cost without scale, never `-0.0`, of the emitting arc number `arc` of state
    /// `state` on the way to this time.
    pub fn acoustic_cost(&self, graph: &Graph, state: u32, arc: u32) -> f32 {
        let view = graph.state(state);
        -self.row[view.column(view.place(arc)) as usize] + 0.0
    }

    /// The links into token `at`.
    #[inline(always)]
    pub fn incoming(&self, at: u32) -> impl Iterator<Item = Link> + 'a {
        let links = self.links;
        let mut next = self.tokens[at as usize].head;
        std::iter::from_fn(move || {
            let link = *links.get(next as usize)?; // NONE lies past the end
            next = link.next;
            Some(link)
        })
    }
}
