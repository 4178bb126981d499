//! The best path, remembered: what is asked for again is walked back only to where it meets what
//! was found last.

use std::sync::Arc;

use crate::error::{Result, try_copy, try_reserve};
use crate::lattice::Path;

use super::backtrace::{Links, Name, Place, Step, WayBack};
use super::endpoint::EndpointRules;

/// A step that the path has taken, with all that it adds up to from the start.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// Time and name of its source: they stay, whatever becomes of its place.
    time: usize,
    source: Name,
    /// Words and frames up to its end.
    words: u32,
    frames: u32,
    /// Of those frames, how many at the end are silence.
    silence: u32,
    graph_cost: f64,
    acoustic_cost: f64,
    bias_cost: f64,
}

/// What has been committed of the path.
#[derive(Clone, Copy, Debug, Default)]
struct Committed {
    words: usize,
    frames: usize,
    silence: u32,
    /// Graph, acoustic and bias cost.
    costs: [f64; 3],
}

/// The best path that was traced last. A token's best path never changes while the token is
/// there, so a new path that comes through a token of the old one shares all that lies before.
#[derive(Debug, Default)]
pub(super) struct BestPath {
    steps: Vec<Taken>,
    ilabels: Vec<i32>,
    olabels: Vec<i32>,
    /// For each word the time at which its arc starts.
    times: Vec<u32>,
    /// What the path adds up to where the first step begins. Its words are those of `olabels` and
    /// `times`; its frames are forgotten.
    committed: Committed,
    /// What counts as silence; without it nothing does.
    rules: Option<Arc<EndpointRules>>,
    /// How many of its words, from the first on, have stood since [`BestPath::tell_words`] was last called.
    unchanged: usize,
    /// Links followed back so far.
    pub followed: u64,
}

impl BestPath {
    /// Forgets everything; memory is kept. Silence will be what `rules` say.
    pub fn clear(&mut self, rules: Option<Arc<EndpointRules>>) {
        self.committed = Committed::default();
        self.cut(0);
        self.rules = rules;
        self.followed = 0;
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.steps.capacity() * size_of::<Taken>()
            + (self.ilabels.capacity() + self.olabels.capacity() + self.times.capacity()) * 4
    }

    /// Makes it the best path that ends at `end`. On an error it stays what it was.
    pub fn trace(&mut self, links: &Links<'_>, end: Place) -> Result<()> {
        let (shared, fresh) = self.walk_back(links, end)?;
        try_reserve(&mut self.steps, fresh.len(), WHAT)?;
        for list in [&mut self.ilabels, &mut self.olabels] {
            try_reserve(list, fresh.len(), WHAT)?;
        }
        try_reserve(&mut self.times, fresh.len(), WHAT)?;
        self.cut(shared);
        for (to, step) in fresh.into_iter().rev() {
            self.take(links, to, &step);
        }
        Ok(())
    }

    /// The steps from `end` back to a token on the path, each with the token that it leads to, and the
    /// number of steps before that token.
    fn walk_back(&mut self, links: &Links<'_>, end: Place) -> Result<(usize, Vec<(Place, Step)>)> {
        let (mut fresh, mut way) = (Vec::new(), WayBack::default());
        let (mut at, mut before) = (end, self.steps.len());
        while let Some(step) = way.best_link(links, at)? {
            self.followed += 1;
            try_reserve(&mut fresh, 1, WHAT)?;
            fresh.push((at, step));
            let time = step.from.time;
            while before > 0 && self.steps[before - 1].time > time {
                before -= 1;
            }
            let there = self.steps[..before].iter().rposition(|taken| taken.time != time).map_or(0, |last| last + 1);
            let met = self.steps[there..before].iter().position(|taken| taken.source == step.source);
            if let Some(met) = met {
                return Ok((there + met, fresh));
            }
            at = step.from;
        }
        Ok((0, fresh))
    }

    /// Drops all steps behind the first `count`.
    fn cut(&mut self, count: usize) {
        self.steps.truncate(count);
        let none = (self.committed.words, 0);
        let (words, frames) = self.steps.last().map_or(none, |last| (last.words as usize, last.frames as usize));
        self.ilabels.truncate(frames);
        self.olabels.truncate(words);
        self.times.truncate(words);
        self.unchanged = self.unchanged.min(words);
    }

    /// Makes `known`, which holds the words of the last such call or none, those of the path. Costs what is new, as
    /// does [`BestPath::has_other_words`]. On an error nothing has changed.
    pub fn tell_words(&mut self, known: &mut Vec<i32>) -> Result<()> {
        try_reserve(known, self.olabels.len().saturating_sub(known.len()), WHAT)?;
        known.truncate(self.unchanged);
        known.extend_from_slice(&self.olabels[known.len()..]);
        self.unchanged = self.olabels.len();
        Ok(())
    }

    /// Whether the words are others than `known`, which holds those of the last [`BestPath::tell_words`] or none.
    pub fn has_other_words(&self, known: &[i32]) -> bool {
        let from = self.unchanged.min(known.len());
        known[from..] != self.olabels[from..]
    }

    /// Goes a step, to token `to`. The room for it has been made.
    fn take(&mut self, links: &Links<'_>, to: Place, step: &Step) {
        let olabel = links.graph.olabel(step.arc);
        if olabel != 0 {
            self.olabels.push(olabel);
            self.times.push(step.from.time as u32);
        }
        let mut silence = self.trailing_silence();
        if to.time > step.from.time {
            let ilabel = links.graph.ilabel(step.source.state, step.arc);
            self.ilabels.push(ilabel);
            let silent = self.rules.as_ref().is_some_and(|rules| rules.is_silent(ilabel, self.olabels.last().copied()));
            silence = if silent { silence + 1 } else { 0 };
        }
        // Summed from the start, so that equal paths have equal sums however they were found.
        let [graph, acoustic, bias] = self.costs();
        self.steps.push(Taken {
            time: step.from.time,
            source: step.source,
            words: self.olabels.len() as u32,
            frames: self.ilabels.len() as u32,
            silence,
            graph_cost: graph + f64::from(links.graph.state(step.source.state).weight(step.arc)),
            acoustic_cost: acoustic + f64::from(links.acoustic_cost(to.time, step)),
            bias_cost: bias + f64::from(links.bias_cost(to, step)),
        });
    }

    /// Graph, acoustic and bias cost of the whole path.
    fn costs(&self) -> [f64; 3] {
        self.steps.last().map_or(self.committed.costs, |last| [last.graph_cost, last.acoustic_cost, last.bias_cost])
    }

    /// Forgets the steps before the one that leaves time `time`, but for words and costs. Gives the
    /// number of words that were committed so far.
    pub fn commit(&mut self, time: usize) -> usize {
        let first = self.steps.iter().rposition(|step| step.time == time).unwrap_or(0);
        let Some(last) = first.checked_sub(1).map(|last| self.steps[last]) else { return self.committed.words };
        self.committed = Committed {
            words: last.words as usize,
            frames: self.committed.frames + last.frames as usize,
            silence: last.silence,
            costs: [last.graph_cost, last.acoustic_cost, last.bias_cost],
        };
        self.steps.drain(..first);
        self.steps.iter_mut().for_each(|step| step.frames -= last.frames);
        self.ilabels.drain(..last.frames as usize);
        self.committed.words
    }

    /// How many frames at the end are silence.
    pub fn trailing_silence(&self) -> u32 {
        self.steps.last().map_or(self.committed.silence, |last| last.silence)
    }

    /// The path without its first `from` words, and without the frames before the next one or those
    /// that were committed; its costs are those of all of it.
    pub fn path_from(&self, from: usize) -> Result<Path> {
        let words = from.min(self.olabels.len());
        let frames = match (words, self.times.get(words)) {
            (0, _) => 0,
            (_, Some(&time)) => (time as usize).saturating_sub(self.committed.frames).min(self.ilabels.len()),
            (_, None) => self.ilabels.len(),
        };
        let [graph_cost, acoustic_cost, bias_cost] = self.costs();
        Ok(Path {
            ilabels: try_copy(&self.ilabels[frames..], WHAT)?,
            olabels: try_copy(&self.olabels[words..], WHAT)?,
            frames: try_copy(&self.times[words..], WHAT)?,
            graph_cost,
            acoustic_cost,
            bias_cost,
            ..Path::default()
        })
    }
}

/// What the memory of this file is for, in messages.
const WHAT: &str = "best path";
