//! The example for cross-entropy training, and its two forms in a file.

use super::labels::{Label, Labels};
use crate::error::{Error, Result, try_copy};
use crate::table::{CompressedMatrix, Input, Output, read_vector, write_vector};

/// Labelled frames with the frames around them (Kaldi's `nnet2::NnetExample`).
///
/// Label frame `f` belongs to row `left_context + f` of the input frames; what follows the last of them is the right
/// context. An example that was read is as the file has it; [`NnetExample::check`] tells whether it makes sense.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NnetExample {
    /// Labels by frame.
    pub labels: Labels,
    /// Features, one row a frame, context included. Kept compressed, so that they are written as they were read.
    pub input_frames: CompressedMatrix,
    /// Rows before the first labelled frame.
    pub left_context: i32,
    /// What is known of the speaker, appended to each row by a trainer; may be empty.
    pub spk_info: Vec<f32>,
}

impl NnetExample {
    /// A copy; fails only for lack of memory.
    pub fn try_clone(&self) -> Result<NnetExample> {
        Ok(NnetExample {
            labels: self.labels.try_clone()?,
            input_frames: self.input_frames.try_clone()?,
            left_context: self.left_context,
            spk_info: try_copy(&self.spk_info, "speaker vector")?,
        })
    }

    /// Rows after the last labelled frame; negative if there are not even rows for all labels.
    pub fn right_context(&self) -> i64 {
        self.input_frames.rows() as i64 - i64::from(self.left_context) - self.labels.num_frames() as i64
    }

    /// Says what is wrong: a left context below 0, fewer rows than the left context and the labels need
    /// ([`Error::Shape`]), a negative pdf, a weight or an element of the speaker vector that is not finite
    /// ([`Error::Argument`]).
    pub fn check(&self) -> Result<()> {
        check_rows(self.input_frames.rows(), self.left_context, self.labels.num_frames(), "labelled frames")?;
        for (frame, labels) in self.labels.iter().enumerate() {
            if let Some(Label { pdf, weight }) = labels.iter().find(|l| l.pdf < 0 || !l.weight.is_finite()) {
                return Err(Error::Argument(format!("example: frame {frame} has the label {pdf} of weight {weight}")));
            }
        }
        check_speaker(&self.spk_info)
    }

    /// The label of greatest weight of a frame; see [`Labels::heaviest`]. [`Error::Argument`] past the last frame.
    pub fn label(&self, frame: usize) -> Result<Label> {
        self.labels.heaviest(frame).ok_or_else(|| {
            let frames = self.labels.num_frames();
            Error::Argument(format!("frame is {frame}; the example has labels for {frames}"))
        })
    }

    /// Gives a frame one label in place of those that it has; [`Error::Argument`] past the last frame.
    pub fn set_label(&mut self, frame: usize, pdf: i32, weight: f32) -> Result<()> {
        self.labels.set(frame, Label { pdf, weight })
    }

    /// Reads an example, after the header `\0B` if it is binary. All forms that Kaldi reads are: three kinds of labels,
    /// plain and compressed matrices, vectors of either type.
    pub fn read(input: &mut Input, binary: bool) -> Result<NnetExample> {
        input.expect_token(binary, "<NnetExample>")?;
        let labels = Labels::read(input, binary)?;
        input.expect_token(binary, "<InputFrames>")?;
        let input_frames = CompressedMatrix::read(input, binary)?;
        let (left_context, spk_info) = read_context(input, binary)?;
        input.expect_token(binary, "</NnetExample>")?;
        Ok(NnetExample { labels, input_frames, left_context, spk_info })
    }

    /// Writes an example without the header, byte for byte as Kaldi does.
    pub fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        output.write_token("<NnetExample>")?;
        self.labels.write(output, binary)?;
        output.write_token("<InputFrames>")?;
        self.input_frames.write(output, binary)?;
        write_context(output, binary, self.left_context, &self.spk_info)?;
        output.write_token("</NnetExample>")
    }
}

/// What both kinds of examples end with: left context and speaker vector.
pub(super) fn read_context(input: &mut Input, binary: bool) -> Result<(i32, Vec<f32>)> {
    input.expect_token(binary, "<LeftContext>")?;
    let left_context = input.read_i32(binary)?;
    input.expect_token(binary, "<SpkInfo>")?;
    Ok((left_context, read_vector(input, binary)?))
}

pub(super) fn write_context(output: &mut Output, binary: bool, left_context: i32, spk_info: &[f32]) -> Result<()> {
    output.write_token("<LeftContext>")?;
    output.write_i32(binary, left_context)?;
    output.write_token("<SpkInfo>")?;
    write_vector(output, spk_info, binary)
}

/// Rows must be there for the left context and the frames behind it.
pub(super) fn check_rows(rows: usize, left_context: i32, frames: usize, what: &str) -> Result<()> {
    let enough = usize::try_from(left_context).ok().and_then(|left| left.checked_add(frames));
    if enough.is_some_and(|enough| enough <= rows) {
        return Ok(());
    }
    Err(Error::Shape(format!("example: {rows} rows of input for a left context of {left_context} and {frames} {what}")))
}

pub(super) fn check_speaker(spk_info: &[f32]) -> Result<()> {
    match spk_info.iter().position(|value| !value.is_finite()) {
        Some(at) => Err(Error::Argument(format!("example: element {at} of the speaker vector is {}", spk_info[at]))),
        None => Ok(()),
    }
}
