//! The beam search of Graves (2012), section 2.5, without its merging of prefixes, as ESPnet has it: in
//! each frame the best open hypothesis is closed by a blank and opened further by labels, until a beam
//! of closed ones are better than every open one. Equal labels that come by different ways stay apart.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::base::{Base, Hyp, Scores, Search, sort_by_score};
use super::extend::{Candidate, Candidates, STAYS, extend, order};
use crate::error::{Error, Result, try_reserve};

/// An open hypothesis: one of the last frame that stays as it is, or one of this frame and a label.
struct Open(Candidate);

impl PartialEq for Open {
    fn eq(&self, other: &Open) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Open {}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Open) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Open {
    /// The best is the greatest.
    fn cmp(&self, other: &Open) -> Ordering {
        order(&other.0, &self.0)
    }
}

pub(super) struct Default {
    /// Result of the last frame.
    beam: Vec<Hyp>,
    /// Closed in this frame, in the order in which they were.
    closed: Vec<Hyp>,
    /// Scores of the best of them, as many as the beam has room for; the best first.
    best: Vec<f64>,
    open: BinaryHeap<Open>,
    /// The one that is being looked at.
    current: Option<Hyp>,
    candidates: Candidates,
    /// The best score of what was not even opened, as the frame ends before.
    passed_over: f64,
    frame: u64,
    expansions: u64,
}

impl Default {
    pub fn new(base: &Base) -> Result<Default> {
        let beam = base.first_beam()?;
        let (closed, mut best, candidates, open) = (Vec::new(), Vec::new(), Candidates::default(), BinaryHeap::new());
        try_reserve(&mut best, base.beam + 1, "hypotheses")?;
        Ok(Default {
            beam,
            closed,
            best,
            open,
            current: None,
            candidates,
            passed_over: f64::NEG_INFINITY,
            frame: 0,
            expansions: 0,
        })
    }

    fn reserve_open(&mut self, more: usize) -> Result<()> {
        let asked = (self.open.len() + more) * size_of::<Open>();
        let no_memory = |_| Error::NoMemory { what: "open hypotheses".into(), asked: asked as u64 };
        self.open.try_reserve(more).map_err(no_memory)
    }

    fn begin_frame(&mut self) -> Result<()> {
        self.reserve_open(self.beam.len())?;
        self.open.extend(self.beam.iter().enumerate().map(|(at, hyp)| {
            Open(Candidate {
                score: hyp.score,
                best: hyp.best,
                from: at as u32,
                label: STAYS,
                log_prob: 0.0,
                lm: 0.0,
                bias: 0.0,
                bias_state: hyp.bias,
            })
        }));
        self.expansions = 0;
        self.passed_over = f64::NEG_INFINITY;
        Ok(())
    }

    /// Closes a hypothesis. One that may not be closed has a score of -inf and is kept only for its extensions.
    fn close(&mut self, base: &Base, hyp: Hyp) -> Result<()> {
        try_reserve(&mut self.closed, 1, "hypotheses")?;
        self.closed.push(hyp);
        let place = self.best.partition_point(|score| *score >= hyp.score);
        self.best.insert(place, hyp.score);
        self.best.truncate(base.beam);
        Ok(())
    }

    /// The score of the worst of the best closed ones, once they are a beam: nothing below it is expanded any more.
    fn last(&self, base: &Base) -> f64 {
        self.best.get(base.beam - 1).copied().unwrap_or(f64::NEG_INFINITY)
    }

    /// Once the frame is over: above which score closed ones go on, and how many at most.
    fn ends_with(&self, base: &mut Base) -> Option<(f64, usize)> {
        let bound = self.open.peek().map_or(self.passed_over, |open| open.0.score.max(self.passed_over));
        let last = self.last(base);
        if self.open.is_empty() || last > bound {
            return Some((bound, usize::MAX));
        }
        let most = u64::from(base.config.max_expansions_per_frame) * base.beam as u64;
        if self.expansions < most {
            return None;
        }
        base.cut_short = true;
        Some((last.next_down(), base.beam))
    }

    fn end_frame(&mut self, base: &mut Base, bound: f64, count: usize) -> Result<()> {
        self.open.clear();
        self.best.clear();
        self.closed.retain(|hyp| {
            let stays = hyp.score > bound;
            if !stays {
                base.drop(*hyp);
            }
            stays
        });
        if self.closed.is_empty() {
            return Err(Error::NoTokens { frame: self.frame });
        }
        sort_by_score(&mut self.closed);
        base.cut(&mut self.closed, count);
        base.decide(&mut self.closed, self.frame + 1, self.frame + 1);
        std::mem::swap(&mut self.beam, &mut self.closed);
        base.drop_all(&mut self.closed);
        base.settle(&self.beam);
        self.frame += 1;
        Ok(())
    }
}

impl Search for Default {
    fn plan(&mut self, base: &mut Base) -> Result<bool> {
        if self.frame >= base.num_frames() {
            return Ok(false);
        }
        if self.open.is_empty() {
            self.begin_frame()?;
        }
        let Some(Open(candidate)) = self.open.pop() else { return Ok(false) };
        let from = candidate.from as usize;
        let hyp = match candidate.label {
            STAYS => base.again(&self.beam[from], 0.0),
            _ => base.extended(&self.closed[from], &candidate, self.frame)?,
        };
        self.current = Some(hyp);
        base.ask(self.frame, hyp.node, base.labels(true))?;
        Ok(true)
    }

    fn take(&mut self, base: &mut Base, scores: &Scores<'_>) -> Result<()> {
        let Some(hyp) = self.current.take() else { return Ok(()) };
        let row = scores.row(0);
        let blank = f64::from(row.log_prob(base.shape.blank));
        let place = self.closed.len() as u32;
        self.close(base, Hyp { score: hyp.score + blank, best: hyp.best + blank, ..hyp })?;
        self.candidates.begin(usize::MAX, self.last(base));
        extend(base, &hyp, place, &row, self.frame, &mut self.candidates, |_, _| true)?;
        self.passed_over = self.passed_over.max(self.candidates.passed_over);
        self.reserve_open(self.candidates.all().len())?;
        self.open.extend(self.candidates.all().iter().copied().map(Open));
        self.expansions += 1;
        match self.ends_with(base) {
            Some((bound, count)) => self.end_frame(base, bound, count),
            None => Ok(()),
        }
    }

    fn hyps(&self) -> &[Hyp] {
        &self.beam
    }

    fn first_frame(&self) -> u64 {
        self.frame
    }
}
