//! N-step constrained beam search (Kim et al., Interspeech 2020, as ESPnet has it).
//!
//! A frame begins with the prefix search: a hypothesis that begins with another one, and is at most
//! `prefix_alpha` labels longer, takes over the score of reaching it from there within this frame.
//! Then come `nstep` rounds: each closes all open hypotheses with the blank and extends them by
//! labels, but not to sequences that are open already. With several rounds the last extensions are
//! closed by a blank too, in one more call; with one round they are not.
//!
//! The prefix search leaves the language model out, and one sequence may stand in the beam
//! more than once: both as in ESPnet, and in the reference lists.

use super::base::{Base, Hyp, Scores, Search, sort_by_score};
use super::extend::{Candidates, extend};
use super::histories::NONE;
use super::score_row::log_add;
use super::traces::Emission;
use crate::error::{Error, Result, try_reserve};

pub(super) struct Nsc {
    /// Result of the last frame. Each of them also holds the histories that its prefix search may ask for.
    beam: Vec<Hyp>,
    /// To be closed and extended in this round; in the first one the longest first.
    open: Vec<Hyp>,
    next: Vec<Hyp>,
    /// Closed in this frame.
    closed: Vec<Hyp>,
    /// Open in earlier rounds of this frame.
    spent: Vec<Hyp>,
    candidates: Candidates,
    /// For each ask the first open hypothesis that stands there, or [`NONE`].
    first_at: Vec<u32>,
    /// For each open hypothesis the next one that stands at the same place, or [`NONE`].
    next_at: Vec<u32>,
    /// Labels back to a prefix, last first, as if they were taken now.
    way: Vec<Emission>,
    frame: u64,
    /// Rounds made; `nstep` while the last extensions are being closed.
    round: u32,
}

impl Nsc {
    pub fn new(base: &Base) -> Result<Nsc> {
        let beam = base.first_beam()?;
        Ok(Nsc {
            beam,
            open: Vec::new(),
            next: Vec::new(),
            closed: Vec::new(),
            spent: Vec::new(),
            candidates: Candidates::default(),
            first_at: Vec::new(),
            next_at: Vec::new(),
            way: Vec::new(),
            frame: 0,
            round: 0,
        })
    }

    /// The beam, longest first, equally long ones in their order.
    fn begin_frame(&mut self, base: &mut Base) -> Result<()> {
        try_reserve(&mut self.open, self.beam.len(), "hypotheses")?;
        for hyp in &self.beam {
            let copy = base.again(hyp, 0.0);
            let place = self.open.partition_point(|other| other.labels >= copy.labels);
            self.open.insert(place, copy);
        }
        Ok(())
    }

    /// Asks once for each place where open hypotheses stand.
    fn ask_open(&mut self, base: &mut Base, extends: bool) -> Result<()> {
        base.histories.new_round();
        self.first_at.clear();
        self.next_at.clear();
        try_reserve(&mut self.next_at, self.open.len(), "hypotheses")?;
        self.next_at.resize(self.open.len(), NONE);
        // Backwards, so that those at one place are listed in their order.
        for at in (0..self.open.len()).rev() {
            let node = self.open[at].node;
            match base.histories.marked(node) {
                Some(ask) => {
                    self.next_at[at] = self.first_at[ask as usize];
                    self.first_at[ask as usize] = at as u32;
                }
                None => self.ask(base, node, at as u32, extends)?,
            }
        }
        Ok(())
    }

    fn ask(&mut self, base: &mut Base, node: u32, first: u32, extends: bool) -> Result<()> {
        try_reserve(&mut self.first_at, 1, "pairs to be scored")?;
        base.histories.mark(node, self.first_at.len() as u32);
        self.first_at.push(first);
        base.ask(self.frame, node, base.labels(extends))
    }

    /// Asks for what lies between open hypotheses and their prefixes.
    fn ask_ways(&mut self, base: &mut Base) -> Result<()> {
        for at in 0..self.open.len() {
            let mut node = self.open[at].node;
            let mut length = 0;
            for distance in 1..=base.config.prefix_alpha {
                node = base.histories.parent(node);
                if node == NONE {
                    break;
                }
                if base.histories.marked(node).is_some_and(|ask| self.first_at[ask as usize] != NONE) {
                    length = distance;
                }
            }
            let mut node = self.open[at].node;
            for _ in 0..length {
                node = base.histories.parent(node);
                if base.histories.marked(node).is_none() {
                    self.ask(base, node, NONE, false)?;
                }
            }
        }
        Ok(())
    }

    /// Adds to each open hypothesis what it gets from its prefixes. Prefixes are shorter and so come
    /// later: their scores are still those of the last frame.
    fn add_prefixes(&mut self, base: &mut Base, scores: &Scores<'_>) -> Result<()> {
        for at in 0..self.open.len() {
            let mut node = self.open[at].node;
            let (mut gain, mut lm) = (0.0, 0.0);
            self.way.clear();
            for _ in 0..base.config.prefix_alpha {
                let label = base.histories.label(node);
                node = base.histories.parent(node);
                if node == NONE {
                    break;
                }
                let Some(ask) = base.histories.marked(node) else { break };
                let log_prob = scores.row(ask as usize).log_prob(label);
                let emission = base.traces.backwards(self.open[at].trace).nth(self.way.len());
                let Some(emission) = emission.copied() else { break };
                gain += f64::from(log_prob) + f64::from(emission.bias);
                lm += f64::from(emission.lm);
                try_reserve(&mut self.way, 1, "labels of a prefix search")?;
                self.way.push(Emission { label, frame: self.frame as u32, log_prob, ..emission });
                let mut prefix = self.first_at[ask as usize];
                while prefix != NONE && gain > f64::NEG_INFINITY {
                    self.take_over(base, at, prefix as usize, gain, lm)?;
                    prefix = self.next_at[prefix as usize];
                }
            }
        }
        Ok(())
    }

    /// Adds the way from one prefix: `gain` for its labels, `lm` for what the language model gives them.
    fn take_over(&mut self, base: &mut Base, at: usize, prefix: usize, gain: f64, lm: f64) -> Result<()> {
        let from = self.open[prefix];
        let best = from.best + gain + lm;
        let better = best > self.open[at].best;
        if better {
            let mut trace = from.trace;
            base.traces.keep(trace);
            for emission in self.way.iter().rev() {
                let longer = base.traces.push(trace, *emission)?;
                base.traces.give_back(trace);
                trace = longer;
            }
            let before = std::mem::replace(&mut self.open[at].trace, trace);
            base.traces.give_back(before);
            self.open[at].best = best;
        }
        self.open[at].score = log_add(self.open[at].score, from.score + gain);
        Ok(())
    }

    /// Closes and extends all open hypotheses; the extensions are the next open ones.
    fn expand(&mut self, base: &mut Base, scores: &Scores<'_>) -> Result<()> {
        self.candidates.begin(base.beam, f64::NEG_INFINITY);
        try_reserve(&mut self.closed, self.open.len(), "hypotheses")?;
        for at in 0..self.open.len() {
            let hyp = self.open[at];
            let ask = base.histories.marked(hyp.node).unwrap_or(0);
            let row = scores.row(ask as usize);
            let blank = row.log_prob(base.shape.blank);
            if blank > f32::NEG_INFINITY {
                self.closed.push(base.again(&hyp, blank));
            }
            let first_at = &self.first_at;
            let is_new = |base: &Base, label| {
                let ask = base.histories.find(hyp.node, label).and_then(|node| base.histories.marked(node));
                ask.is_none_or(|ask| first_at[ask as usize] == NONE)
            };
            extend(base, &hyp, at as u32, &row, self.frame, &mut self.candidates, is_new)?;
        }
        let best = self.candidates.best();
        try_reserve(&mut self.next, best.len(), "hypotheses")?;
        for candidate in best {
            self.next.push(base.extended(&self.open[candidate.from as usize], candidate, self.frame)?);
        }
        try_reserve(&mut self.spent, self.open.len(), "hypotheses")?;
        self.spent.append(&mut self.open);
        std::mem::swap(&mut self.open, &mut self.next);
        Ok(())
    }

    /// Closes the extensions of the last round.
    fn close(&mut self, base: &mut Base, scores: &Scores<'_>) {
        for hyp in &mut self.open {
            let ask = base.histories.marked(hyp.node).unwrap_or(0);
            let blank = f64::from(scores.row(ask as usize).log_prob(base.shape.blank));
            hyp.score += blank;
            hyp.best += blank;
        }
    }

    fn end_frame(&mut self, base: &mut Base) -> Result<()> {
        try_reserve(&mut self.closed, self.open.len(), "hypotheses")?;
        self.closed.append(&mut self.open);
        sort_by_score(&mut self.closed);
        let possible = self.closed.iter().take_while(|hyp| hyp.score > f64::NEG_INFINITY).count();
        if possible == 0 {
            return Err(Error::NoTokens { frame: self.frame });
        }
        base.cut(&mut self.closed, possible.min(base.beam));
        base.decide(&mut self.closed, self.frame + 1, self.frame + 1);
        std::mem::swap(&mut self.beam, &mut self.closed);
        for hyp in &self.beam {
            ancestors(base, hyp, |base, node| base.histories.hold(node));
        }
        for hyp in self.closed.drain(..) {
            ancestors(base, &hyp, |base, node| base.histories.let_go(node));
            base.drop(hyp);
        }
        base.drop_all(&mut self.spent);
        base.settle(&self.beam);
        self.frame += 1;
        self.round = 0;
        Ok(())
    }
}

/// Does something with each history that a prefix search from `hyp` may have to ask for, besides
/// those on which hypotheses stand.
fn ancestors(base: &mut Base, hyp: &Hyp, action: fn(&mut Base, u32)) {
    let mut node = hyp.node;
    for _ in 1..base.config.prefix_alpha {
        node = base.histories.parent(node);
        if node == NONE {
            return;
        }
        action(base, node);
    }
}

impl Search for Nsc {
    fn plan(&mut self, base: &mut Base) -> Result<bool> {
        if self.frame >= base.num_frames() {
            return Ok(false);
        }
        if self.round == 0 {
            self.begin_frame(base)?;
        }
        self.ask_open(base, self.round < base.config.nstep)?;
        if self.round == 0 {
            self.ask_ways(base)?;
        }
        Ok(true)
    }

    fn take(&mut self, base: &mut Base, scores: &Scores<'_>) -> Result<()> {
        let nstep = base.config.nstep;
        if self.round == nstep {
            self.close(base, scores);
            return self.end_frame(base);
        }
        if self.round == 0 {
            self.add_prefixes(base, scores)?;
        }
        self.expand(base, scores)?;
        self.round += 1;
        let done = self.open.is_empty() || (self.round == nstep && nstep == 1);
        if done { self.end_frame(base) } else { Ok(()) }
    }

    fn hyps(&self) -> &[Hyp] {
        &self.beam
    }

    fn first_frame(&self) -> u64 {
        self.frame
    }
}
