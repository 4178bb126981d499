//! Raw tokens and links of the last times, not yet pruned, in the order in which they were made.
//!
//! A channel holds two windows. When the younger is full, a backward pass over both moves what survives of the
//! older to the trace, and what survives of the younger to the older (`aging`).

use super::trace::EPSILON;
use crate::error::{Error, Result, try_reserve};
use crate::graph::Graph;
use crate::prefetch::prefetch;

/// No link: the end of a chain.
pub const NO_LINK: u32 = u32::MAX;

/// A link as the search makes it, chained with the others into the same token.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Source among the tokens of the time before; with [`super::EPSILON`] of the same time.
    pub src: u32,
    /// Arc number.
    pub arc: u32,
    /// Candidate cost, before the subtraction of `m`.
    pub cost: f32,
    /// Next link into the same token, or [`NO_LINK`].
    pub next: u32,
}

/// A link that names its destination instead of standing in a chain.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct LooseLink {
    /// As in [`Link`].
    pub src: u32,
    /// Arc number.
    pub arc: u32,
    /// As in [`Link`].
    pub cost: f32,
    /// Destination among the tokens of the time.
    pub dst: u32,
}

/// A token: its cost, before the subtraction of `m`, and the head of its chain of incoming links.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// Its cost.
    pub alpha: f32,
    /// First of its incoming links, or [`NO_LINK`].
    pub head: u32,
}

/// Where the parts of a time begin.
#[derive(Clone, Copy, Debug)]
pub struct TimeStart {
    /// In `states` and `tokens`.
    pub tokens: usize,
    /// In `links`.
    pub links: usize,
    /// In `closed`.
    pub closed: usize,
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
    /// Cost and links of each token.
    pub tokens: Vec<Token>,
    /// The links.
    pub links: Vec<Link>,
    /// Tokens with epsilon arcs, by ascending level: the order in which they were closed.
    pub closed: Vec<u32>,
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
        self.bias.truncate(end.tokens);
        self.tokens.truncate(end.tokens);
        self.links.truncate(end.links);
        self.closed.truncate(end.closed);
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
            tokens: &self.tokens[start.tokens..end.tokens],
            links: &self.links,
            closed: &self.closed[start.closed..end.closed],
            row: &self.rows[start.row..end.row],
        }
    }

    /// Room for `tokens` more tokens and `links` more links.
    #[inline]
    pub fn reserve(&mut self, tokens: usize, links: usize) -> Result<()> {
        grow(&mut self.states, tokens, "tokens")?;
        grow(&mut self.tokens, tokens, "tokens")?;
        grow(&mut self.links, links, "links")
    }

    /// Gives all tokens bias state 0, if they had none.
    pub fn start_bias(&mut self) -> Result<()> {
        let more = self.states.len().saturating_sub(self.bias.len());
        try_reserve(&mut self.bias, more, "tokens")?;
        self.bias.resize(self.states.len(), 0);
        Ok(())
    }

    /// Appends a time that was made elsewhere: destination words and costs of its tokens, those
    /// with epsilon arcs by ascending level, its links, and the unscaled row that led to it. On an
    /// error nothing is changed.
    pub fn push_time(
        &mut self,
        states: &[u32],
        alphas: &[f32],
        closed: &[u32],
        links: &[LooseLink],
        row: &[f32],
    ) -> Result<()> {
        let start = self.end();
        try_reserve(&mut self.starts, 1, "times")?;
        try_reserve(&mut self.rows, row.len(), "rows")?;
        try_reserve(&mut self.closed, closed.len(), "tokens")?;
        self.reserve(states.len(), links.len())?;
        if self.links.len() + links.len() >= EPSILON as usize {
            return Err(Error::Limit("more links between two prunings than 2^31".into()));
        }
        self.starts.push(start);
        self.states.extend_from_slice(states);
        self.tokens.extend(alphas.iter().map(|&alpha| Token { alpha, head: NO_LINK }));
        self.closed.extend_from_slice(closed);
        self.rows.extend_from_slice(row);
        for &LooseLink { src, arc, cost, dst } in links {
            let at = self.links.len() as u32;
            if let Some(token) = self.tokens.get_mut(start.tokens + dst as usize) {
                self.links.push(Link { src, arc, cost, next: token.head });
                token.head = at;
            }
        }
        Ok(())
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.starts.capacity() * size_of::<TimeStart>()
            + (self.states.capacity() + self.bias.capacity()) * 4
            + self.tokens.capacity() * size_of::<Token>()
            + self.links.capacity() * size_of::<Link>()
            + (self.closed.capacity() + self.rows.capacity()) * 4
    }
}

/// Room for `more`, and for a quarter of what is held as well: windows are the most that a channel holds, so
/// they grow in smaller steps than other lists.
#[inline]
fn grow<T>(list: &mut Vec<T>, more: usize, what: &str) -> Result<()> {
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
    /// Its tokens.
    pub tokens: &'a [Token],
    /// All links of the window: heads and chains index it.
    pub links: &'a [Link],
    /// Tokens with epsilon arcs, by ascending level.
    pub closed: &'a [u32],
    /// The unscaled row.
    pub row: &'a [f32],
}

impl<'a> Time<'a> {
    /// Acoustic cost without scale, never `-0.0`, of the emitting arc number `arc` of state
    /// `state` on the way to this time.
    pub fn acoustic_cost(&self, graph: &Graph, state: u32, arc: u32) -> f32 {
        -self.row[graph.column(state, arc) as usize] + 0.0
    }

    /// Asks for the memory of the first link into token `at`.
    #[inline(always)]
    pub(super) fn prefetch_links(&self, at: u32) {
        prefetch(self.links.as_ptr().wrapping_add(self.tokens[at as usize].head as usize));
    }

    /// The links into token `at`.
    #[inline(always)]
    pub fn incoming(&self, at: u32) -> impl Iterator<Item = Link> + 'a {
        let links = self.links;
        let mut next = self.tokens[at as usize].head;
        std::iter::from_fn(move || {
            let link = *links.get(next as usize)?; // NO_LINK lies past the end
            next = link.next;
            Some(link)
        })
    }
}
