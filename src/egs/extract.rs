//! Smaller examples out of larger ones (Kaldi's cutting constructor of `NnetExample`).

use super::NnetExample;
use super::example::check_rows;
use crate::error::{Error, Result, try_copy};

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
        let example = NnetExample {
            labels: self.labels.part(start..start + frames)?,
            input_frames: self.input_frames.piece(first_row, left + frames + right, 0, cols, false)?,
            // At most the example's own, which is an i32.
            left_context: left as i32,
            spk_info: try_copy(&self.spk_info, "speaker vector")?,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egs::{Label, Labels};
    use crate::table::{CompressedMatrix, Method};

    /// Frames of pdfs 10, 11 and 12 in rows 0, 1, ... 6 of one number each, which is the row's; 2 rows before, 2 behind.
    fn whole() -> NnetExample {
        let rows = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        NnetExample {
            labels: Labels::simple(&[10, 11, 12]).unwrap(),
            input_frames: CompressedMatrix::compress(&rows, 7, 1, 1, Method::OneByteUnsignedInteger).unwrap(),
            left_context: 2,
            spk_info: vec![0.5, -1.0],
        }
    }

    fn cut(start_frame: i32, num_frames: i32, left_context: i32, right_context: i32) -> Cut {
        Cut { start_frame, num_frames, left_context, right_context }
    }

    /// Labels, rows and left context of a cut, and in what it falls short: frames, left, right.
    fn found(cut: Cut) -> (Vec<i32>, Vec<f32>, i32, [bool; 3]) {
        let Extracted { example, fewer_frames, less_left, less_right } = whole().extract(cut).unwrap();
        assert_eq!(example.spk_info, [0.5, -1.0]);
        example.check().unwrap();
        let pdfs = example.labels.all().iter().map(|label| label.pdf).collect();
        let rows = example.input_frames.to_matrix().unwrap().into_data();
        (pdfs, rows, example.left_context, [fewer_frames, less_left, less_right])
    }

    #[test]
    fn rows_go_with_their_labels() {
        let all = (vec![10, 11, 12], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2, [false; 3]);
        assert_eq!(found(Cut::default()), all);
        assert_eq!(found(cut(-7, 3, 2, 2)), all);
        assert_eq!(found(cut(0, 1, 0, 0)), (vec![10], vec![2.0], 0, [false; 3]));
        assert_eq!(found(cut(1, 1, 1, 0)), (vec![11], vec![2.0, 3.0], 1, [false; 3]));
        assert_eq!(found(cut(2, -1, -1, 1)), (vec![12], vec![2.0, 3.0, 4.0, 5.0], 2, [false; 3]));
        assert_eq!(found(cut(1, 2, 0, -1)), (vec![11, 12], vec![3.0, 4.0, 5.0, 6.0], 0, [false; 3]));
        assert_eq!(found(cut(1, 0, 1, 1)), (vec![], vec![2.0, 3.0], 1, [false; 3]));
        assert_eq!(found(cut(1, 0, 0, 0)), (vec![], vec![], 0, [false; 3]));
    }

    #[test]
    fn what_is_not_there_is_left_out_and_told() {
        assert_eq!(found(cut(2, 2, 0, 0)), (vec![12], vec![4.0], 0, [true, false, false]));
        assert_eq!(found(cut(2, 1, 3, 0)), (vec![12], vec![2.0, 3.0, 4.0], 2, [false, true, false]));
        assert_eq!(found(cut(0, 1, 0, 3)), (vec![10], vec![2.0, 3.0, 4.0], 0, [false, false, true]));
        let most = i32::MAX;
        assert_eq!(found(cut(0, most, most, most)).3, [true; 3]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [cut(3, 1, 0, 0), cut(i32::MAX, -1, -1, -1), cut(0, -2, 0, 0), cut(0, 1, -2, 0), cut(0, 1, 0, -2)] {
            assert!(matches!(whole().extract(bad), Err(Error::Argument(_))), "{bad:?}");
        }
        for left_context in [-1, 5, i32::MAX] {
            let example = NnetExample { left_context, ..whole() };
            assert!(matches!(example.extract(Cut::default()), Err(Error::Shape(_))));
        }
        assert!(matches!(NnetExample::default().extract(Cut::default()), Err(Error::Argument(_))));
    }

    #[test]
    fn check_names_what_is_wrong() {
        fn wrong(change: impl FnOnce(&mut NnetExample)) -> Error {
            let mut example = whole();
            example.check().unwrap();
            change(&mut example);
            example.check().unwrap_err()
        }
        let said = |error: Error, what: &str| assert!(error.to_string().contains(what), "{error}");
        let few = wrong(|example| example.left_context = 5);
        assert!(matches!(few, Error::Shape(_)));
        said(few, "7 rows of input for a left context of 5 and 3 labelled frames");
        said(wrong(|example| example.left_context = -1), "left context of -1");
        said(
            wrong(|example| example.labels.set(1, Label { pdf: -4, weight: 1.0 }).unwrap()),
            "frame 1 has the label -4",
        );
        said(wrong(|example| example.labels.set(2, Label { pdf: 4, weight: f32::NAN }).unwrap()), "frame 2");
        said(wrong(|example| example.spk_info[1] = f32::INFINITY), "element 1 of the speaker vector is inf");
        let just = NnetExample { left_context: 4, ..whole() };
        just.check().unwrap();
        assert_eq!(just.right_context(), 0);
    }

    #[test]
    fn a_copy_is_the_same() {
        assert_eq!(whole().try_clone().unwrap(), whole());
    }
}
