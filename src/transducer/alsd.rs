//! Alignment-length synchronous decoding (Saon, Tüske, Audhkhasi, ICASSP 2020): step `i` is about all
//! hypotheses whose frames and labels add up to `i`. There are `frames + u_max` steps, so that what
//! consumes the last frame has at most `u_max` labels.
//!
//! While rows still come, a step is made as soon as each of its hypotheses has its frame, that frame
//! is not the last one so far, and the step will be there however few rows follow. A hypothesis with
//! more than `u_max` labels can only be an unfinished result, and rows wait for it: on long streams
//! `u_max` has to be as large as the labels will be many. At the end `u_max` steps follow the last row, but
//! no hypothesis stays for more than [`TransducerConfig::MOST_A_FRAME`] labels in one frame.

use super::base::{Base, Hyp, Scores, Search};
use super::config::TransducerConfig;
use super::extend::{Candidates, STAYS, extend, stay};
use crate::error::{Error, Result, try_reserve};

pub(super) struct Alsd {
    beam: Vec<Hyp>,
    next: Vec<Hyp>,
    /// What has consumed the last frame.
    finals: Vec<Hyp>,
    candidates: Candidates,
    /// Hypotheses of the beam that were asked about.
    asked: Vec<u32>,
    step: u64,
}

impl Alsd {
    pub fn new(base: &Base) -> Result<Alsd> {
        let beam = base.first_beam()?;
        let (next, finals, candidates, asked) = Default::default();
        Ok(Alsd { beam, next, finals, candidates, asked, step: 0 })
    }

    fn frame(&self, hyp: &Hyp) -> u64 {
        consumed(self.step, hyp)
    }

    /// Whether the step can be made with the rows that are there.
    fn may_step(&self, base: &Base) -> bool {
        let (frames, last) = (base.num_frames(), base.num_frames() + u64::from(base.config.u_max));
        let ready = |hyp: &Hyp| self.frame(hyp) + 1 < frames;
        self.step < last && (base.ended || self.beam.iter().all(ready))
    }

    /// Keeps one that has consumed the last frame, if it may be among the results. Labels are different
    /// from those of all others: each sequence of a length comes to its end in one step only.
    fn finish(&mut self, base: &mut Base, hyp: &Hyp, blank: f32) -> Result<()> {
        try_reserve(&mut self.finals, 1, "hypotheses")?;
        let made = base.detached(hyp, blank);
        let rank = base.rank(&made);
        let place = self.finals.partition_point(|other| base.rank(other) >= rank);
        self.finals.insert(place, made);
        base.cut(&mut self.finals, base.config.nbest as usize);
        Ok(())
    }

    /// Makes the hypotheses of the next step; equal labels are merged.
    fn advance(&mut self, base: &mut Base) -> Result<()> {
        base.histories.new_round();
        for candidate in self.candidates.best() {
            let hyp = self.beam[candidate.from as usize];
            let made = match candidate.label {
                STAYS => Hyp { frame_labels: 0, ..base.again(&hyp, candidate.log_prob) },
                _ => base.extended(&hyp, candidate, consumed(self.step, &hyp))?,
            };
            match base.histories.marked(made.node) {
                Some(place) => base.merge(&mut self.next[place as usize], made),
                None => {
                    try_reserve(&mut self.next, 1, "hypotheses")?;
                    base.histories.mark(made.node, self.next.len() as u32);
                    self.next.push(made);
                }
            }
        }
        base.drop_all(&mut self.beam);
        std::mem::swap(&mut self.beam, &mut self.next);
        self.step += 1;
        let frames = self.first_frame();
        base.decide(&mut self.beam, self.step, frames);
        base.settle(&self.beam);
        Ok(())
    }
}

/// Frames that a hypothesis of a step has consumed.
fn consumed(step: u64, hyp: &Hyp) -> u64 {
    step.saturating_sub(hyp.labels.into())
}

impl Search for Alsd {
    fn plan(&mut self, base: &mut Base) -> Result<bool> {
        self.asked.clear();
        if !self.may_step(base) {
            return Ok(false);
        }
        try_reserve(&mut self.asked, self.beam.len(), "hypotheses")?;
        for (at, hyp) in self.beam.iter().enumerate() {
            let frame = self.frame(hyp);
            if frame < base.num_frames() {
                self.asked.push(at as u32);
                base.ask(frame, hyp.node, base.labels(true))?;
            }
        }
        Ok(!self.asked.is_empty())
    }

    fn take(&mut self, base: &mut Base, scores: &Scores<'_>) -> Result<()> {
        self.candidates.begin(base.beam, f64::NEG_INFINITY);
        let mut frame = 0;
        for at in 0..self.asked.len() {
            let from = self.asked[at];
            let hyp = self.beam[from as usize];
            frame = self.frame(&hyp);
            let row = scores.row(at);
            let blank = row.log_prob(base.shape.blank);
            stay(&hyp, from, blank, &mut self.candidates)?;
            if base.ended && frame + 1 == base.num_frames() && blank > f32::NEG_INFINITY {
                self.finish(base, &hyp, blank)?;
            }
            if hyp.frame_labels < TransducerConfig::MOST_A_FRAME {
                extend(base, &hyp, from, &row, frame, &mut self.candidates, |_, _| true)?;
            }
        }
        if self.candidates.all().is_empty() && self.finals.is_empty() {
            return Err(Error::NoTokens { frame });
        }
        self.advance(base)
    }

    fn hyps(&self) -> &[Hyp] {
        if self.finals.is_empty() { &self.beam } else { &self.finals }
    }

    fn finished(&self, base: &Base) -> bool {
        !self.finals.is_empty() || base.num_frames() == 0
    }

    fn first_frame(&self) -> u64 {
        self.beam.iter().map(|hyp| self.frame(hyp)).min().unwrap_or(self.step)
    }
}
