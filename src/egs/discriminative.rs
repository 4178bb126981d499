//! The example for discriminative training, and its two forms in a file.

use super::denominator::DenominatorLattice;
use super::example::{check_rows, check_speaker, read_context, write_context};
use super::frames::Frames;
use crate::error::{Error, Result, try_copy};
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
    /// A copy; fails only for lack of memory.
    pub fn try_clone(&self) -> Result<DiscriminativeNnetExample> {
        Ok(DiscriminativeNnetExample {
            weight: self.weight,
            num_ali: try_copy(&self.num_ali, "numerator alignment")?,
            den_lat: self.den_lat.try_clone()?,
            input_frames: self.input_frames.try_clone()?,
            left_context: self.left_context,
            spk_info: try_copy(&self.spk_info, "speaker vector")?,
        })
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::CompactLattice;
    use crate::table::{CompressedMatrix, Matrix, Method};

    /// Two frames within three rows; the second path of the lattice is as long.
    const TEXT: &str = "<DiscriminativeNnetExample> <Weight> 0.5 <NumAli> [ 4 5 ]\n\n0\t1\t3\t1.5,-2.25,4_5\n\
        0\t1\t9\t0.5,1,7_8\n1\n\n<InputFrames>  [\n  1 2 \n  3 4 \n  5 6 ]\n<LeftContext> 1 <SpkInfo>  [ 0.25 ]\n\
        </DiscriminativeNnetExample> ";

    fn read(bytes: &[u8], binary: bool) -> Result<DiscriminativeNnetExample> {
        DiscriminativeNnetExample::read(&mut Input::from_bytes("example", bytes), binary)
    }

    fn written(example: &DiscriminativeNnetExample, binary: bool) -> Vec<u8> {
        let mut output = Output::memory();
        example.write(&mut output, binary).unwrap();
        output.into_bytes()
    }

    fn example() -> DiscriminativeNnetExample {
        read(TEXT.as_bytes(), false).unwrap()
    }

    /// However many empty lines there are before the lattice; none at all is an empty one.
    #[test]
    fn empty_lines_before_the_lattice() {
        for lines in ["\n\n", "\n", "\n\n\n \n"] {
            let text = TEXT.replacen("]\n\n0", &format!("]{lines}0"), 1);
            assert_eq!(written(&read(text.as_bytes(), false).unwrap(), false), TEXT.as_bytes(), "{lines:?}");
        }
        let mut example = example();
        example.den_lat = CompactLattice::default().into();
        for binary in [true, false] {
            let again = read(&written(&example, binary), binary).unwrap();
            assert_eq!(again.den_lat, example.den_lat, "{binary}");
        }
    }

    #[test]
    fn compressed_frames_come_out_as_they_were() {
        let frames = CompressedMatrix::compress(&[0.0, 255.0, 3.0], 3, 1, 1, Method::OneByteUnsignedInteger).unwrap();
        let mut inner = Output::memory();
        frames.write(&mut inner, true).unwrap();
        let mut example = example();
        let mut plain = Output::memory();
        example.input_frames = frames.to_matrix().unwrap().into();
        example.input_frames.write(&mut plain, true).unwrap();
        let (inner, plain) = (inner.into_bytes(), plain.into_bytes());
        assert!(inner.starts_with(b"CM3 ") && plain.starts_with(b"CM2 "));
        let bytes = written(&example, true);
        let at = bytes.windows(plain.len()).position(|part| part == plain).unwrap();
        let bytes = [&bytes[..at], &inner, &bytes[at + plain.len()..]].concat();
        let stored = read(&bytes, true).unwrap();
        assert!(written(&stored, true) == bytes);
        assert_eq!(stored.input_frames.matrix().unwrap().data(), [0.0, 255.0, 3.0]);
        assert!(written(&stored, true) == bytes, "after somebody has looked");
        assert!(written(&stored.try_clone().unwrap(), true) == bytes);
    }

    #[test]
    fn a_copy_is_the_same() {
        let (example, mut other) = (example(), example());
        assert_eq!(example.try_clone().unwrap(), example);
        assert_eq!(written(&example.try_clone().unwrap(), false), TEXT.as_bytes());
        other.input_frames = Matrix::from_data(1, 2, vec![1.0, 2.0]).unwrap().into();
        assert_ne!(example, other);
        assert_eq!(other.try_clone().unwrap(), other);
    }

    #[test]
    fn check_names_what_is_wrong() {
        fn wrong(change: impl FnOnce(&mut DiscriminativeNnetExample)) -> Error {
            let mut example = example();
            example.check().unwrap();
            change(&mut example);
            example.check().unwrap_err()
        }
        fn lattice(lines: &str) -> DenominatorLattice {
            DenominatorLattice::read(&mut Input::from_bytes("lattice", lines.as_bytes()), false).unwrap()
        }
        let said = |error: Error, what: &str| assert!(error.to_string().contains(what), "{what}: {error}");
        for weight in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            said(wrong(|example| example.weight = weight), "the weight is");
        }
        said(wrong(|example| example.num_ali.clear()), "no frames");
        said(wrong(|example| example.num_ali[1] = 0), "frame 1 of the numerator alignment has the transition-id 0");
        let short = wrong(|example| example.num_ali.truncate(1));
        assert!(matches!(short, Error::Shape(_)));
        said(short, "the lattice spans 2 frames, the numerator alignment 1");
        said(wrong(|example| example.den_lat = DenominatorLattice::default()), "spans 0 frames");
        said(wrong(|example| example.den_lat = lattice("0 1 3 0,0,4_5\n0 1 9 0,0,7\n1\n\n")), "differ in frames");
        said(wrong(|example| example.den_lat = lattice("0 1 3 0,0,4\n1 0 3 0,0,5\n1\n\n")), "cycle");
        said(wrong(|example| example.left_context = 2), "3 rows of input for a left context of 2 and 2 frames");
        said(wrong(|example| example.left_context = -1), "left context of -1");
        said(wrong(|example| example.spk_info[0] = f32::NAN), "element 0 of the speaker vector is NaN");
    }
}
