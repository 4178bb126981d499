//! Greedy search: at each frame the best symbol, again as long as that is a label and the frame has
//! not had its most. Neither language model nor phrases take part. The score counts the labels
//! alone, as ESPnet's does; the full score counts the blanks too.

use super::base::{Base, Hyp, Scores, Search};
use super::extend::Candidate;
use super::row_scan::Wanted;
use crate::error::{Error, Result};
use crate::search::Phrases;

pub(super) struct Greedy {
    /// The one hypothesis.
    hyp: [Hyp; 1],
    frame: u64,
    /// Labels of this frame so far.
    labels: u32,
    blanks: f64,
}

impl Greedy {
    pub fn new(base: &Base) -> Greedy {
        Greedy { hyp: [base.empty()], frame: 0, labels: 0, blanks: 0.0 }
    }

    fn emit(&mut self, base: &mut Base, label: i32, log_prob: f32) -> Result<()> {
        let [hyp] = self.hyp;
        let score = hyp.score + f64::from(log_prob);
        let with =
            Candidate { score, best: score, from: 0, label, log_prob, lm: 0.0, bias: 0.0, bias_state: Phrases::START };
        self.hyp = [base.extended(&hyp, &with, self.frame)?];
        base.drop(hyp);
        base.settle(&self.hyp);
        self.labels += 1;
        Ok(())
    }
}

impl Search for Greedy {
    fn plan(&mut self, base: &mut Base) -> Result<bool> {
        if self.frame >= base.num_frames() {
            return Ok(false);
        }
        base.ask(self.frame, self.hyp[0].node, Wanted::AboveBlank)?;
        Ok(true)
    }

    fn take(&mut self, base: &mut Base, scores: &Scores<'_>) -> Result<()> {
        let row = scores.row(0);
        let blank = row.log_prob(base.shape.blank);
        let label = row.tops.first().map(|top| (top.label, row.log_prob_of(top.value)));
        match label {
            Some((label, log_prob)) if log_prob > blank => self.emit(base, label, log_prob)?,
            None if blank == f32::NEG_INFINITY => return Err(Error::NoTokens { frame: self.frame }),
            _ => {
                self.blanks += f64::from(blank);
                self.labels = base.config.max_symbols_per_frame;
            }
        }
        if self.labels >= base.config.max_symbols_per_frame {
            self.frame += 1;
            self.labels = 0;
        }
        Ok(())
    }

    fn hyps(&self) -> &[Hyp] {
        &self.hyp
    }

    fn first_frame(&self) -> u64 {
        self.frame
    }

    fn full_score(&self, hyp: &Hyp) -> f64 {
        hyp.score + self.blanks
    }
}
