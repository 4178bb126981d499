//! Labels: for each frame a list of pdfs with weights.

use std::ops::Range;

use crate::error::{Error, Result, try_copy, try_reserve};
use crate::table::{Input, Output};

/// A pdf that a frame is to be taken for, and how much this counts.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Label {
    /// Index of the pdf.
    pub pdf: i32,
    /// Weight; 1 for a plain label.
    pub weight: f32,
}

/// The labels of consecutive frames, all in one array. Those of frame `f` are `all()[offsets()[f]..offsets()[f + 1]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    offsets: Vec<u32>,
    labels: Vec<Label>,
}

impl Default for Labels {
    /// No frames.
    fn default() -> Labels {
        Labels { offsets: vec![0], labels: Vec::new() }
    }
}

impl Labels {
    /// One label of weight 1 a frame.
    pub fn simple(pdfs: &[i32]) -> Result<Labels> {
        let mut labels = Labels::default();
        try_reserve(&mut labels.offsets, pdfs.len(), "labels")?;
        try_reserve(&mut labels.labels, pdfs.len(), "labels")?;
        for &pdf in pdfs {
            labels.push(Label { pdf, weight: 1.0 })?;
            labels.end_frame()?;
        }
        Ok(labels)
    }

    /// Appends a frame with its labels. [`Error::Limit`] beyond 2^32 - 1 labels in all. After an error nothing has changed.
    pub fn push_frame(&mut self, labels: &[Label]) -> Result<()> {
        let before = self.labels.len();
        let pushed = labels.iter().try_for_each(|&label| self.push(label)).and_then(|()| self.end_frame());
        if pushed.is_err() {
            self.labels.truncate(before);
        }
        pushed
    }

    /// Appends a label to the frame that [`Labels::end_frame`] will end.
    fn push(&mut self, label: Label) -> Result<()> {
        if self.labels.len() >= u32::MAX as usize {
            return Err(Error::Limit("an example has more than 2^32 - 1 labels".to_string()));
        }
        try_reserve(&mut self.labels, 1, "labels")?;
        self.labels.push(label);
        Ok(())
    }

    fn end_frame(&mut self) -> Result<()> {
        try_reserve(&mut self.offsets, 1, "labels")?;
        self.offsets.push(self.labels.len() as u32);
        Ok(())
    }

    pub(super) fn try_clone(&self) -> Result<Labels> {
        Ok(Labels { offsets: try_copy(&self.offsets, "labels")?, labels: try_copy(&self.labels, "labels")? })
    }

    /// Number of frames.
    pub fn num_frames(&self) -> usize {
        self.offsets.len() - 1
    }

    /// All labels, frame by frame.
    pub fn all(&self) -> &[Label] {
        &self.labels
    }

    /// Where the labels of each frame begin, and where those of the last one end.
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// The labels of a frame, `None` past the last.
    pub fn frame(&self, frame: usize) -> Option<&[Label]> {
        let (from, to) = (*self.offsets.get(frame)?, *self.offsets.get(frame.checked_add(1)?)?);
        self.labels.get(from as usize..to as usize)
    }

    /// The labels of each frame in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[Label]> {
        self.offsets.windows(2).map(|ends| &self.labels[ends[0] as usize..ends[1] as usize])
    }

    /// The label of greatest weight, of equal ones the first; pdf -1 of weight -1 where a frame has none above that
    /// weight. `None` past the last frame. (Kaldi's `GetLabelSingle`.)
    pub fn heaviest(&self, frame: usize) -> Option<Label> {
        let none = Label { pdf: -1, weight: -1.0 };
        let heavier = |best: Label, &label: &Label| if label.weight > best.weight { label } else { best };
        Some(self.frame(frame)?.iter().fold(none, heavier))
    }

    /// Makes `label` the only one of a frame; [`Error::Argument`] past the last. (Kaldi's `SetLabelSingle`.)
    pub fn set(&mut self, frame: usize, label: Label) -> Result<()> {
        let Some(range) = self.range_of(frame) else {
            let frames = self.num_frames();
            return Err(Error::Argument(format!("frame is {frame}; the example has labels for {frames}")));
        };
        if range.is_empty() {
            if self.labels.len() >= u32::MAX as usize {
                return Err(Error::Limit("an example has more than 2^32 - 1 labels".to_string()));
            }
            try_reserve(&mut self.labels, 1, "labels")?;
        }
        let before = range.len() as u32;
        self.labels.splice(range, [label]);
        for offset in &mut self.offsets[frame + 1..] {
            *offset = *offset + 1 - before;
        }
        Ok(())
    }

    /// The labels of some of the frames; [`Error::Argument`] if there are not so many.
    pub fn part(&self, frames: Range<usize>) -> Result<Labels> {
        let bad = || Error::Argument(format!("frames {frames:?} of {}", self.num_frames()));
        let ends = self.offsets.get(frames.start..=frames.end).ok_or_else(bad)?;
        let (&[first, ..], &[.., last]) = (ends, ends) else { return Err(bad()) };
        let mut part = Labels { offsets: Vec::new(), labels: Vec::new() };
        try_reserve(&mut part.offsets, ends.len(), "labels")?;
        part.offsets.extend(ends.iter().map(|end| end - first));
        let labels = self.labels.get(first as usize..last as usize).ok_or_else(bad)?;
        try_reserve(&mut part.labels, labels.len(), "labels")?;
        part.labels.extend_from_slice(labels);
        Ok(part)
    }

    /// Whether each frame has one label of weight exactly 1, which the file keeps as a plain list of pdfs.
    pub fn is_simple(&self) -> bool {
        self.labels.len() == self.num_frames()
            && self.labels.iter().all(|label| label.weight == 1.0)
            && self.offsets.iter().enumerate().all(|(frame, &offset)| offset as usize == frame)
    }

    fn range_of(&self, frame: usize) -> Option<Range<usize>> {
        let (from, to) = (*self.offsets.get(frame)?, *self.offsets.get(frame.checked_add(1)?)?);
        Some(from as usize..to as usize)
    }

    /// Reads labels with the token in front of them: `<Lab1>`, `<Lab2>`, or `<Labels>` of the oldest files, which had
    /// one frame.
    pub(super) fn read(input: &mut Input, binary: bool) -> Result<Labels> {
        input.skip_space()?;
        let start = input.offset();
        let token = input.token(binary)?;
        match token.as_str() {
            "<Lab1>" => Labels::simple(&input.read_i32_vector(binary)?),
            "<Lab2>" => {
                let frames = read_count(input, binary, 1, "frames")?;
                let mut labels = Labels::default();
                for _ in 0..frames {
                    labels.read_frame(input, binary)?;
                }
                Ok(labels)
            }
            "<Labels>" => {
                let mut labels = Labels::default();
                labels.read_frame(input, binary)?;
                Ok(labels)
            }
            other => {
                let message = format!("expected <Lab1>, <Lab2> or <Labels>, found {:?}", shown(other));
                Err(input.format_error_at(start, message))
            }
        }
    }

    /// The labels come one by one, so a lying count ends with the data.
    fn read_frame(&mut self, input: &mut Input, binary: bool) -> Result<()> {
        for _ in 0..read_count(input, binary, 0, "labels of a frame")? {
            let pdf = input.read_i32(binary)?;
            self.push(Label { pdf, weight: input.read_f32(binary)? })?;
        }
        self.end_frame()
    }

    /// Writes the labels with their token, in the shorter form if it can hold them.
    pub(super) fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        if self.is_simple() {
            output.write_token("<Lab1>")?;
            let mut pdfs = Vec::new();
            try_reserve(&mut pdfs, self.labels.len(), "labels")?;
            pdfs.extend(self.labels.iter().map(|label| label.pdf));
            return output.write_i32_vector(binary, &pdfs);
        }
        output.write_token("<Lab2>")?;
        write_count(output, binary, self.num_frames())?;
        for labels in self.iter() {
            write_count(output, binary, labels.len())?;
            for label in labels {
                output.write_i32(binary, label.pdf)?;
                output.write_f32(binary, label.weight)?;
            }
        }
        Ok(())
    }
}

fn read_count(input: &mut Input, binary: bool, least: i32, what: &str) -> Result<i32> {
    let start = input.offset();
    match input.read_i32(binary)? {
        count if count >= least => Ok(count),
        count => Err(input.format_error_at(start, format!("the number of {what} is {count}"))),
    }
}

fn write_count(output: &mut Output, binary: bool, count: usize) -> Result<()> {
    let count =
        i32::try_from(count).map_err(|_| Error::Unsupported(format!("labels: {count} are too many for the format")))?;
    output.write_i32(binary, count)
}

/// As much of a found word as a message should hold.
fn shown(word: &str) -> String {
    word.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(pdf: i32, weight: f32) -> Label {
        Label { pdf, weight }
    }

    fn labels(frames: &[&[Label]]) -> Labels {
        let mut labels = Labels::default();
        frames.iter().for_each(|frame| labels.push_frame(frame).unwrap());
        labels
    }

    #[test]
    fn the_heaviest_is_the_first_of_equals_and_above_minus_one() {
        let nan = label(4, f32::NAN);
        let labels = labels(&[
            &[label(5, 0.5), label(9, 0.5), label(2, 0.25)],
            &[],
            &[label(1, -1.0)],
            &[label(3, -0.5), nan, label(4, -0.25)],
        ]);
        let found: Vec<_> = (0..5).map(|frame| labels.heaviest(frame).map(|l| (l.pdf, l.weight))).collect();
        assert_eq!(found, [Some((5, 0.5)), Some((-1, -1.0)), Some((-1, -1.0)), Some((4, -0.25)), None]);
    }

    #[test]
    fn setting_a_label_moves_those_behind_it() {
        let mut some = labels(&[&[label(1, 0.5), label(2, 0.5)], &[], &[label(3, 1.0)]]);
        some.set(0, label(7, 2.0)).unwrap();
        some.set(1, label(8, 1.0)).unwrap();
        assert_eq!(some, labels(&[&[label(7, 2.0)], &[label(8, 1.0)], &[label(3, 1.0)]]));
        assert!(!some.is_simple());
        some.set(0, label(7, 1.0)).unwrap();
        assert!(some.is_simple());
        assert!(matches!(some.set(3, label(1, 1.0)), Err(Error::Argument(_))));
        assert!(matches!(some.set(usize::MAX, label(1, 1.0)), Err(Error::Argument(_))));
    }

    #[test]
    fn parts() {
        let some = labels(&[&[label(1, 0.5), label(2, 0.5)], &[], &[label(3, 1.0)]]);
        assert_eq!(some.part(1..3).unwrap(), labels(&[&[], &[label(3, 1.0)]]));
        assert_eq!(some.part(3..3).unwrap(), Labels::default());
        assert_eq!(some.part(0..3).unwrap(), some);
        for bad in [2..4, 4..4, usize::MAX - 1..usize::MAX] {
            assert!(some.part(bad).is_err());
        }
    }

    #[test]
    fn what_is_simple() {
        assert!(Labels::default().is_simple());
        assert!(Labels::simple(&[3, 0]).unwrap().is_simple());
        assert!(!labels(&[&[label(1, 1.0), label(2, 1.0)], &[]]).is_simple());
        assert!(!labels(&[&[label(1, 1.0)], &[]]).is_simple());
        assert!(!labels(&[&[label(1, 0.999_999)]]).is_simple());
    }
}
