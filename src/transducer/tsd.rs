//! Time-synchronous decoding (Saon, Tüske, Audhkhasi, ICASSP 2020): each frame has a number of rounds.
//! A round closes every open hypothesis with the blank, into the result of the frame, where equal
//! labels are merged, and opens the best extensions for the next.

use super::base::{Base, Hyp, Scores, Search, sort_by_score};
use super::extend::{Candidates, extend};
use crate::error::{Error, Result, try_reserve};

pub(super) struct Tsd {
    /// Result of the last frame.
    beam: Vec<Hyp>,
    /// Result of this frame so far.
    closed: Vec<Hyp>,
    /// Open in this round.
    open: Vec<Hyp>,
    /// Open in the next round.
    next: Vec<Hyp>,
    candidates: Candidates,
    frame: u64,
    round: u32,
}

impl Tsd {
    pub fn new(base: &Base) -> Result<Tsd> {
        let beam = base.first_beam()?;
        let (closed, open, next, candidates) = Default::default();
        Ok(Tsd { beam, closed, open, next, candidates, frame: 0, round: 0 })
    }

    fn begin_frame(&mut self, base: &mut Base) -> Result<()> {
        try_reserve(&mut self.open, self.beam.len(), "hypotheses")?;
        self.open.extend(self.beam.iter().map(|hyp| base.again(hyp, 0.0)));
        base.histories.new_round();
        Ok(())
    }

    /// Adds an open hypothesis, closed by a blank, to the result of the frame.
    fn close(&mut self, base: &mut Base, hyp: &Hyp, blank: f32) -> Result<()> {
        if blank == f32::NEG_INFINITY {
            return Ok(());
        }
        let closed = base.again(hyp, blank);
        match base.histories.marked(hyp.node) {
            Some(at) => base.merge(&mut self.closed[at as usize], closed),
            None => {
                try_reserve(&mut self.closed, 1, "hypotheses")?;
                base.histories.mark(hyp.node, self.closed.len() as u32);
                self.closed.push(closed);
            }
        }
        Ok(())
    }

    fn end_frame(&mut self, base: &mut Base) -> Result<()> {
        if self.closed.is_empty() {
            return Err(Error::NoTokens { frame: self.frame });
        }
        sort_by_score(&mut self.closed);
        base.cut(&mut self.closed, base.beam);
        base.decide(&mut self.closed, self.frame + 1, self.frame + 1);
        std::mem::swap(&mut self.beam, &mut self.closed);
        base.drop_all(&mut self.closed);
        base.drop_all(&mut self.open);
        base.settle(&self.beam);
        self.frame += 1;
        self.round = 0;
        Ok(())
    }
}

impl Search for Tsd {
    fn plan(&mut self, base: &mut Base) -> Result<bool> {
        if self.frame >= base.num_frames() {
            return Ok(false);
        }
        if self.round == 0 {
            self.begin_frame(base)?;
        }
        let extends = self.round + 1 < base.config.max_sym_exp;
        for at in 0..self.open.len() {
            base.ask(self.frame, self.open[at].node, base.labels(extends))?;
        }
        Ok(true)
    }

    fn take(&mut self, base: &mut Base, scores: &Scores<'_>) -> Result<()> {
        let extends = self.round + 1 < base.config.max_sym_exp;
        self.candidates.begin(base.beam, f64::NEG_INFINITY);
        for at in 0..self.open.len() {
            let hyp = self.open[at];
            let row = scores.row(at);
            self.close(base, &hyp, row.log_prob(base.shape.blank))?;
            if extends {
                extend(base, &hyp, at as u32, &row, self.frame, &mut self.candidates, |_, _| true)?;
            }
        }
        let best = self.candidates.best();
        try_reserve(&mut self.next, best.len(), "hypotheses")?;
        for candidate in best {
            self.next.push(base.extended(&self.open[candidate.from as usize], candidate, self.frame)?);
        }
        base.drop_all(&mut self.open);
        std::mem::swap(&mut self.open, &mut self.next);
        self.round += 1;
        if self.open.is_empty() { self.end_frame(base) } else { Ok(()) }
    }

    fn hyps(&self) -> &[Hyp] {
        &self.beam
    }

    fn first_frame(&self) -> u64 {
        self.frame
    }
}
