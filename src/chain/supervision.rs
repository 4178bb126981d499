//! What was said in a batch of sequences: the numerator of the objective.

use super::acceptor::{self, Acceptor};
use crate::error::{Error, Result, try_copy};

const WHAT: &str = "supervision";

/// A supervision object of chain training: for each sequence, the pdfs that may stand in each frame, with costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Supervision {
    pub(super) weight: f32,
    pub(super) num_sequences: usize,
    pub(super) frames_per_sequence: usize,
    pub(super) label_dim: usize,
    pub(super) paths: Paths,
    pub(super) alignment_pdfs: Vec<i32>,
}

/// The FSTs of a supervision.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Paths {
    /// One for all sequences, one after the other: each path has all their frames. States have times.
    Joined { fst: Acceptor, times: Vec<u32> },
    /// End-to-end: one a sequence, with cycles.
    EndToEnd(Vec<Acceptor>),
}

impl Supervision {
    /// A copy; fails only for lack of memory.
    pub fn try_clone(&self) -> Result<Supervision> {
        let paths = match &self.paths {
            Paths::Joined { fst, times } => Paths::Joined { fst: fst.try_clone()?, times: try_copy(times, WHAT)? },
            Paths::EndToEnd(fsts) => {
                let mut copies = Vec::new();
                Acceptor::copy_all(fsts, &mut copies)?;
                Paths::EndToEnd(copies)
            }
        };
        Ok(Supervision { paths, alignment_pdfs: try_copy(&self.alignment_pdfs, WHAT)?, ..*self })
    }

    /// Puts a supervision together and checks it.
    pub(super) fn new(
        weight: f32,
        [num_sequences, frames_per_sequence, label_dim]: [usize; 3],
        mut fsts: Vec<Acceptor>,
        end_to_end: bool,
        alignment_pdfs: Vec<i32>,
    ) -> Result<Supervision> {
        check_weight(weight)?;
        let rows = num_sequences.checked_mul(frames_per_sequence).filter(|&rows| rows > 0 && label_dim > 0);
        let Some(rows) = rows else {
            let what = format!("{num_sequences} sequences of {frames_per_sequence} frames, {label_dim} pdfs");
            return Err(Error::Shape(format!("a supervision has {what}")));
        };
        let paths = if end_to_end {
            if fsts.len() != num_sequences {
                return Err(Error::Shape(format!(
                    "a supervision has {} FSTs for {num_sequences} sequences",
                    fsts.len()
                )));
            }
            Paths::EndToEnd(fsts)
        } else {
            let fst = fsts.pop().unwrap_or_default();
            let times = acceptor::times(&fst)?;
            let end = times.iter().zip(&fst.finals).find(|(_, cost)| **cost != f32::INFINITY).map(|(time, _)| *time);
            if end.map(|end| end as usize) != Some(rows) {
                let what = format!("paths have {} frames", end.unwrap_or(0));
                return Err(Error::Shape(format!(
                    "{what}; {num_sequences} sequences of {frames_per_sequence} have {rows}"
                )));
            }
            Paths::Joined { fst, times }
        };
        Ok(Supervision { weight, num_sequences, frames_per_sequence, label_dim, paths, alignment_pdfs })
    }

    /// How much the batch counts.
    pub fn weight(&self) -> f32 {
        self.weight
    }

    /// The same with another weight, above 0 and finite; else [`Error::Argument`].
    pub fn with_weight(self, weight: f32) -> Result<Supervision> {
        check_weight(weight)?;
        Ok(Supervision { weight, ..self })
    }

    /// Number of sequences.
    pub fn num_sequences(&self) -> usize {
        self.num_sequences
    }

    /// Frames of each sequence.
    pub fn frames_per_sequence(&self) -> usize {
        self.frames_per_sequence
    }

    /// Number of pdfs.
    pub fn num_pdfs(&self) -> usize {
        self.label_dim
    }

    /// Whether each sequence has an FST of its own, with cycles.
    pub fn is_end_to_end(&self) -> bool {
        matches!(self.paths, Paths::EndToEnd(_))
    }

    /// The FSTs: one for all sequences, or, end-to-end, one each.
    pub fn fsts(&self) -> &[Acceptor] {
        match &self.paths {
            Paths::Joined { fst, .. } => std::slice::from_ref(fst),
            Paths::EndToEnd(fsts) => fsts,
        }
    }

    /// The pdfs of the alignment that it was made from, if the file has them.
    pub fn alignment_pdfs(&self) -> &[i32] {
        &self.alignment_pdfs
    }
}

fn check_weight(weight: f32) -> Result<()> {
    if weight > 0.0 && weight.is_finite() {
        return Ok(());
    }
    Err(Error::Argument(format!("the weight of a supervision is {weight}; it must be above 0 and finite")))
}
