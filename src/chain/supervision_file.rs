//! Kaldi's files of supervisions.
//!
//! ```text
//! <Supervision> <Weight> float <NumSequences> int32 <FramesPerSeq> int32 <LabelDim> int32 <End2End> bool,
//! an FST, or <Fsts>, FSTs, </Fsts>; <AlignmentPdfs> int32 vector, if there; </Supervision>
//! ```
//!
//! Facts from Kaldi's `chain-supervision.cc`; how FSTs stand there is said in `acceptor`.

use super::acceptor::Acceptor;
use super::supervision::{Paths, Supervision};
use crate::error::{Error, Result, try_reserve};
use crate::table::{Holder, Input, Output};

impl Supervision {
    /// Reads the supervision that a Kaldi "rxfilename" names, binary or text.
    pub fn open(rxfilename: &str) -> Result<Supervision> {
        crate::table::read_file::<SupervisionHolder>(rxfilename)
    }

    /// Reads the bytes of such a file.
    pub fn from_memory(bytes: &[u8]) -> Result<Supervision> {
        let mut copy = Vec::new();
        try_reserve(&mut copy, bytes.len(), "supervision")?;
        copy.extend_from_slice(bytes);
        SupervisionHolder::read(&mut Input::from_bytes("memory", copy))
    }

    /// Reads a supervision, after the header `\0B` if it is binary.
    ///
    /// # Errors
    /// [`Error::Format`]; [`Error::Graph`] for an FST that cannot be one of a supervision (an epsilon, a label beyond
    /// the pdfs, another start state than 0, no final state, paths of different length to one state); [`Error::Shape`]
    /// where the numbers do not fit the FSTs.
    pub fn read(input: &mut Input, binary: bool) -> Result<Supervision> {
        let at = input.offset();
        input.expect_token(binary, "<Supervision>")?;
        input.expect_token(binary, "<Weight>")?;
        let weight = input.read_f32(binary)?;
        let mut numbers = [0usize; 3];
        let mut most = 0;
        for (number, name) in numbers.iter_mut().zip(["<NumSequences>", "<FramesPerSeq>", "<LabelDim>"]) {
            input.expect_token(binary, name)?;
            let at = input.offset();
            most = input.read_i32(binary)?;
            let positive = usize::try_from(most).ok().filter(|&value| value > 0);
            *number = positive.ok_or_else(|| input.format_error_at(at, format!("{name} is {most}")))?;
        }
        input.expect_token(binary, "<End2End>")?;
        if !binary {
            input.skip_space()?;
        }
        let end_to_end = input.read_bool(binary)?;
        let mut fsts = Vec::new();
        if end_to_end {
            input.expect_token(binary, "<Fsts>")?;
        }
        for _ in 0..if end_to_end { numbers[0] } else { 1 } {
            let fst = Acceptor::read(input, binary, most)?;
            try_reserve(&mut fsts, 1, "supervision")?;
            fsts.push(fst);
        }
        if end_to_end {
            input.expect_token(binary, "</Fsts>")?;
        }
        let mut alignment_pdfs = Vec::new();
        let token = input.offset();
        match input.token(binary)?.as_str() {
            "</Supervision>" => {}
            "<AlignmentPdfs>" => {
                alignment_pdfs = input.read_i32_vector(binary)?;
                input.expect_token(binary, "</Supervision>")?;
            }
            other => return Err(input.format_error_at(token, format!("expected </Supervision>, found {other:?}"))),
        }
        let made = Supervision::new(weight, numbers, fsts, end_to_end, alignment_pdfs);
        made.map_err(|error| match error {
            Error::Argument(message) => input.format_error_at(at, message),
            other => other.context(format!("{}: supervision at byte {at}", input.name())),
        })
    }

    /// Writes the supervision without the header, so that Kaldi and [`Supervision::read`] read it.
    pub fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        output.write_token("<Supervision>")?;
        output.write_token("<Weight>")?;
        output.write_f32(binary, self.weight)?;
        let numbers = [self.num_sequences, self.frames_per_sequence, self.label_dim];
        for (number, name) in numbers.into_iter().zip(["<NumSequences>", "<FramesPerSeq>", "<LabelDim>"]) {
            let number = i32::try_from(number);
            let number = number.map_err(|_| Error::Unsupported(format!("{name} is too large for the format")))?;
            output.write_token(name)?;
            output.write_i32(binary, number)?;
        }
        output.write_token("<End2End>")?;
        output.write_bool(binary, self.is_end_to_end())?;
        match &self.paths {
            Paths::Joined { fst, .. } => fst.write(output, binary)?,
            Paths::EndToEnd(fsts) => {
                output.write_token("<Fsts>")?;
                fsts.iter().try_for_each(|fst| fst.write(output, binary))?;
                output.write_token("</Fsts>")?;
            }
        }
        if !self.alignment_pdfs.is_empty() {
            output.write_token("<AlignmentPdfs>")?;
            output.write_i32_vector(binary, &self.alignment_pdfs)?;
        }
        output.write_token("</Supervision>")
    }
}

/// Supervisions as entries of tables, or alone in a file.
pub struct SupervisionHolder;

impl Holder for SupervisionHolder {
    type Value = Supervision;

    fn read(input: &mut Input) -> Result<Supervision> {
        let binary = input.binary_header()?;
        Supervision::read(input, binary)
    }

    fn write(output: &mut Output, value: &Supervision, binary: bool) -> Result<()> {
        output.write_header(binary)?;
        value.write(output, binary)
    }
}
