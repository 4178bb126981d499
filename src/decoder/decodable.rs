//! Log-likelihoods that are pulled: Kaldi's decodable.

use crate::error::{Error, Result};
use crate::search::Rows;

/// A source of log-likelihoods that a channel asks, frame by frame.
pub trait Decodable {
    /// Columns of a row.
    fn num_columns(&mut self) -> Result<usize>;
    /// Frames that can be asked for now; never falls.
    fn num_frames_ready(&mut self) -> Result<u64>;
    /// Whether `frame` is the last of the utterance.
    fn is_last_frame(&mut self, frame: u64) -> Result<bool>;
    /// Whether rows can be filled before those in front of them are searched: [`Decodable::fill_row`]
    /// does not ask `needed` then.
    fn fills_whole_rows(&self) -> bool {
        false
    }
    /// Fills `row` for `frame`. `needed` sets the entries that will be read of the slice it is
    /// given; the others may be left as they are, at `-inf`.
    fn fill_row(&mut self, frame: u64, needed: &dyn Fn(&mut [bool]), row: &mut [f32]) -> Result<()>;
}

/// A decodable that the decoder's scheduler asks, whenever it is a channel's turn.
pub trait Source: Send + Sync {
    /// Runs `body` with the decodable, for it alone.
    fn with(&self, body: &mut dyn FnMut(&mut dyn Decodable) -> Result<()>) -> Result<()>;
}

/// A matrix in memory as a decodable.
#[derive(Clone, Copy, Debug)]
pub struct MatrixDecodable<'a> {
    rows: Rows<'a>,
}

impl<'a> MatrixDecodable<'a> {
    /// All rows are ready, the last row is the last frame.
    pub fn new(rows: Rows<'a>) -> MatrixDecodable<'a> {
        MatrixDecodable { rows }
    }
}

impl Decodable for MatrixDecodable<'_> {
    fn num_columns(&mut self) -> Result<usize> {
        Ok(self.rows.dim())
    }

    fn num_frames_ready(&mut self) -> Result<u64> {
        Ok(self.rows.frames() as u64)
    }

    fn is_last_frame(&mut self, frame: u64) -> Result<bool> {
        Ok(frame + 1 == self.rows.frames() as u64)
    }

    fn fills_whole_rows(&self) -> bool {
        true
    }

    fn fill_row(&mut self, frame: u64, _needed: &dyn Fn(&mut [bool]), row: &mut [f32]) -> Result<()> {
        let frame = usize::try_from(frame).ok().filter(|&frame| frame < self.rows.frames());
        let frame = frame.ok_or_else(|| Error::Argument("the decodable has no such frame".into()))?;
        row.copy_from_slice(self.rows.row(frame));
        Ok(())
    }
}
