//! Input frames that are plain in memory and compressed in a file.

use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::table::{CompressedMatrix, Input, Matrix, Method, Output};

/// The frames of a discriminative example.
///
/// Kaldi expands them when it reads and compresses them again when it writes. Here what was read compressed stays so
/// until somebody looks, and is written as it was read.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    plain: OnceLock<Matrix>,
    stored: Stored,
}

#[derive(Clone, Debug, Default)]
enum Stored {
    /// As a binary file has it.
    Compressed(CompressedMatrix),
    /// As a text has it: nothing is lost when it is written as text again.
    Text,
    /// Made in memory; compressed when it is written, in text too, as Kaldi does.
    #[default]
    Nowhere,
}

impl From<Matrix> for Frames {
    fn from(matrix: Matrix) -> Frames {
        Frames { plain: OnceLock::from(matrix), stored: Stored::Nowhere }
    }
}

impl PartialEq for Frames {
    /// Whether the values are the same.
    fn eq(&self, other: &Frames) -> bool {
        matches!((self.matrix(), other.matrix()), (Ok(one), Ok(two)) if one == two)
    }
}

impl Frames {
    /// A copy; fails only for lack of memory. What was read compressed is not expanded in it.
    pub(super) fn try_clone(&self) -> Result<Frames> {
        let stored = match &self.stored {
            Stored::Compressed(stored) => {
                let stored = Stored::Compressed(stored.try_clone()?);
                return Ok(Frames { plain: OnceLock::new(), stored });
            }
            Stored::Text => Stored::Text,
            Stored::Nowhere => Stored::Nowhere,
        };
        Ok(Frames { plain: OnceLock::from(self.matrix()?.try_clone()?), stored })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        match &self.stored {
            Stored::Compressed(stored) => stored.rows(),
            Stored::Text | Stored::Nowhere => self.plain.get().map_or(0, Matrix::rows),
        }
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        match &self.stored {
            Stored::Compressed(stored) => stored.cols(),
            Stored::Text | Stored::Nowhere => self.plain.get().map_or(0, Matrix::cols),
        }
    }

    /// The frames, expanded when this is first asked. Fails only for lack of memory.
    pub fn matrix(&self) -> Result<&Matrix> {
        if self.plain.get().is_none() {
            let matrix = match &self.stored {
                Stored::Compressed(stored) => stored.to_matrix()?,
                Stored::Text | Stored::Nowhere => Matrix::default(),
            };
            // Another thread may have come first, with the same values.
            let _ = self.plain.set(matrix);
        }
        self.plain.get().ok_or_else(|| Error::Internal("frames that were set are not there".into()))
    }

    /// Reads frames in any of the forms of a matrix.
    pub fn read(input: &mut Input, binary: bool) -> Result<Frames> {
        if binary && input.peek()? == Some(b'C') {
            let stored = Stored::Compressed(CompressedMatrix::read(input, true)?);
            return Ok(Frames { plain: OnceLock::new(), stored });
        }
        let stored = if binary { Stored::Nowhere } else { Stored::Text };
        Ok(Frames { plain: OnceLock::from(Matrix::read(input, binary)?), stored })
    }

    /// Writes frames as Kaldi does, compressed by [`Method::Auto`] unless they were read compressed. Elements that are
    /// not finite are refused with [`Error::Argument`], except from text to text.
    pub fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        match &self.stored {
            Stored::Compressed(stored) => stored.write(output, binary),
            Stored::Text if !binary => self.matrix()?.write(output, false),
            Stored::Text | Stored::Nowhere => {
                CompressedMatrix::from_matrix(self.matrix()?, Method::Auto)?.write(output, binary)
            }
        }
    }
}
