//! The example for discriminative training, and its two forms in a file.

use super::denominator::DenominatorLattice;
use super::example::{check_rows, check_speaker, read_context, write_context};
use super::frames::Frames;
use crate::error::{Error, Result};
use crate::table::{Input, Output};

/// An alignment, the lattice of what it is held against, and the frames of both with those around them (Kaldi's
/// `nnet2::DiscriminativeNnetExample`).
///
/// An example that was read is as the file has it; [`DiscriminativeNnetExample::check`] tells whether it makes sense.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiscriminativeNnetExample {
    /// How much the example counts; above 0.
    pub weight: f32,
    /// The numerator: one transition-id a frame.
    pub num_ali: Vec<i32>,
    /// The denominator, as many frames long.
    pub den_lat: DenominatorLattice,
    /// Features, one row a frame, context included.
    pub input_frames: Frames,
    /// Rows before the first frame of the alignment.
    pub left_context: i32,
    /// What is known of the speaker; may be empty.
    pub spk_info: Vec<f32>,
}

impl DiscriminativeNnetExample {
    /// Says what is wrong: a weight that is not above 0, an alignment without frames or with an id below 1, a lattice
    /// whose paths are not all as long as the alignment, too few rows of input, a speaker vector that is not finite.
    pub fn check(&self) -> Result<()> {
        let bad = |what: String| Err(Error::Argument(format!("example: {what}")));
        if !(self.weight > 0.0 && self.weight.is_finite()) {
            return bad(format!("the weight is {}", self.weight));
        }
        let frames = self.num_ali.len();
        if frames == 0 {
            return bad("the numerator alignment has no frames".into());
        }
        if let Some(at) = self.num_ali.iter().position(|&id| id < 1) {
            return bad(format!("frame {at} of the numerator alignment has the transition-id {}", self.num_ali[at]));
        }
        let lattice = self.den_lat.lattice()?;
        if lattice.times.is_empty() && !lattice.is_empty() {
            return bad("paths of the lattice to one state differ in frames".into());
        }
        if lattice.num_frames as usize != frames {
            let length = lattice.num_frames;
            return Err(Error::Shape(format!(
                "example: the lattice spans {length} frames, the numerator alignment {frames}"
            )));
        }
        check_rows(self.input_frames.rows(), self.left_context, frames, "frames of the numerator alignment")?;
        check_speaker(&self.spk_info)
    }

    /// Reads an example, after the header `\0B` if it is binary. The lattice may be of any arc type, the matrix and the
    /// vector in any form.
    pub fn read(input: &mut Input, binary: bool) -> Result<DiscriminativeNnetExample> {
        input.expect_token(binary, "<DiscriminativeNnetExample>")?;
        input.expect_token(binary, "<Weight>")?;
        let weight = input.read_f32(binary)?;
        input.expect_token(binary, "<NumAli>")?;
        let num_ali = input.read_i32_vector(binary)?;
        let den_lat = DenominatorLattice::read(input, binary)?;
        input.expect_token(binary, "<InputFrames>")?;
        let input_frames = Frames::read(input, binary)?;
        let (left_context, spk_info) = read_context(input, binary)?;
        input.expect_token(binary, "</DiscriminativeNnetExample>")?;
        Ok(DiscriminativeNnetExample { weight, num_ali, den_lat, input_frames, left_context, spk_info })
    }

    /// Writes an example without the header, byte for byte as Kaldi does.
    pub fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        output.write_token("<DiscriminativeNnetExample>")?;
        output.write_token("<Weight>")?;
        output.write_f32(binary, self.weight)?;
        output.write_token("<NumAli>")?;
        output.write_i32_vector(binary, &self.num_ali)?;
        self.den_lat.write(output, binary)?;
        output.write_token("<InputFrames>")?;
        self.input_frames.write(output, binary)?;
        write_context(output, binary, self.left_context, &self.spk_info)?;
        output.write_token("</DiscriminativeNnetExample>")
    }
}
