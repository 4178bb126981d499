//! Smaller examples out of larger ones (Kaldi's cutting constructor of `NnetExample`).

use super::NnetExample;
use super::example::check_rows;
use crate::error::{Error, Result};

/// What is wanted of an example. The default is all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// First labelled frame; below 0 the first that there is.
    pub start_frame: i32,
    /// Labelled frames, as many as there are after the first; -1 for all of them.
    pub num_frames: i32,
    /// Rows before the first labelled frame, as many as there are; -1 for as many as the example declares.
    pub left_context: i32,
    /// Rows after the last labelled frame, as many as there are; -1 for as many as the example has after its labels.
    pub right_context: i32,
}

impl Default for Cut {
    fn default() -> Cut {
        Cut { start_frame: -1, num_frames: -1, left_context: -1, right_context: -1 }
    }
}

/// A smaller example, and what of the wish could not be met in full.
#[derive(Clone, Debug, PartialEq)]
pub struct Extracted {
    /// The example.
    pub example: NnetExample,
    /// Fewer labelled frames than wanted.
    pub fewer_frames: bool,
    /// Less left context than wanted.
    pub less_left: bool,
    /// Less right context than wanted.
    pub less_right: bool,
}

impl Extracted {
    /// Whether all that was wanted is there.
    pub fn is_whole(&self) -> bool {
        !(self.fewer_frames || self.less_left || self.less_right)
    }
}

impl NnetExample {
    /// Cuts an example out of this one, as Kaldi does: rows are taken in their compressed form, so that they keep their
    /// values, unless fewer than 8 are left of the format with percentiles, which are compressed anew. The context is
    /// counted from the example's own: rows between the start and a later first frame are dropped, not made left
    /// context.
    ///
    /// [`Error::Argument`] when the first frame is past the last labelled one or a number is below -1 that may not be;
    /// [`Error::Shape`] when the example has too few rows for its labels.
    pub fn extract(&self, cut: Cut) -> Result<Extracted> {
        let there = self.labels.num_frames();
        check_rows(self.input_frames.rows(), self.left_context, there, "labelled frames")?;
        let start = usize::try_from(cut.start_frame).unwrap_or(0);
        if start >= there {
            return Err(Error::Argument(format!("start_frame is {start}; the example has labels for {there}")));
        }
        let (frames, fewer_frames) = at_most(cut.num_frames, there - start, "num_frames")?;
        let own_left = usize::try_from(self.left_context).unwrap_or(0);
        let own_right = usize::try_from(self.right_context()).unwrap_or(0);
        let (left, less_left) = at_most(cut.left_context, own_left, "left_context")?;
        let (right, less_right) = at_most(cut.right_context, own_right, "right_context")?;
        let first_row = (own_left - left + start) as i64;
        let cols = self.input_frames.cols();
        let mut spk_info = Vec::new();
        crate::error::try_reserve(&mut spk_info, self.spk_info.len(), "speaker vector")?;
        spk_info.extend_from_slice(&self.spk_info);
        let example = NnetExample {
            labels: self.labels.part(start..start + frames)?,
            input_frames: self.input_frames.piece(first_row, left + frames + right, 0, cols, false)?,
            // At most the example's own, which is an i32.
            left_context: left as i32,
            spk_info,
        };
        Ok(Extracted { example, fewer_frames, less_left, less_right })
    }
}

/// How many of those `there` are given, and whether that is fewer than wanted; -1 wants all.
fn at_most(wanted: i32, there: usize, name: &str) -> Result<(usize, bool)> {
    match usize::try_from(wanted) {
        Ok(wanted) => Ok((wanted.min(there), wanted > there)),
        Err(_) if wanted == -1 => Ok((there, false)),
        Err(_) => Err(Error::Argument(format!("{name} is {wanted}; it must be 0 or more, or -1 for all"))),
    }
}
