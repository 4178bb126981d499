//! Kaldi's tokens and basic types, written to an [`Output`]: the mirror of `basic.rs`.

use super::input::is_space;
use super::number;
use super::output::Output;
use crate::error::{Error, Result};

/// Significant digits of Kaldi's numbers in text.
const DIGITS: usize = 7;

impl Output {
    /// Begins an object: `\0B` in binary, nothing in text.
    pub fn write_header(&mut self, binary: bool) -> Result<()> {
        if binary { self.write_all(b"\0B") } else { Ok(()) }
    }

    /// Writes a token and a space. It must be a word: not empty and without white space.
    pub fn write_token(&mut self, token: &str) -> Result<()> {
        if token.is_empty() || token.bytes().any(is_space) {
            return Err(Error::Argument(format!("{token:?} cannot be a token: it is empty or has white space")));
        }
        self.write_all(token.as_bytes())?;
        self.write_all(b" ")
    }

    /// Writes text as it is.
    pub fn write_text(&mut self, text: &str) -> Result<()> {
        self.write_all(text.as_bytes())
    }

    /// Writes an `int32`.
    pub fn write_i32(&mut self, binary: bool, value: i32) -> Result<()> {
        self.write_sized(binary, 4, value.to_le_bytes(), value)
    }

    /// Writes a `uint32`.
    pub fn write_u32(&mut self, binary: bool, value: u32) -> Result<()> {
        self.write_sized(binary, -4, value.to_le_bytes(), value)
    }

    /// Writes an `int64`.
    pub fn write_i64(&mut self, binary: bool, value: i64) -> Result<()> {
        self.write_sized(binary, 8, value.to_le_bytes(), value)
    }

    /// Writes a `uint64`.
    pub fn write_u64(&mut self, binary: bool, value: u64) -> Result<()> {
        self.write_sized(binary, -8, value.to_le_bytes(), value)
    }

    /// Writes a `float`; in text with seven significant digits.
    pub fn write_f32(&mut self, binary: bool, value: f32) -> Result<()> {
        match binary {
            true => self.write_sized(true, 4, value.to_le_bytes(), ""),
            false => self.write_text_number(value.into()),
        }
    }

    /// Writes a `double`; in text with seven significant digits, as Kaldi does.
    pub fn write_f64(&mut self, binary: bool, value: f64) -> Result<()> {
        match binary {
            true => self.write_sized(true, 8, value.to_le_bytes(), ""),
            false => self.write_text_number(value),
        }
    }

    /// Writes a `bool` as `T` or `F`; in text a space follows.
    pub fn write_bool(&mut self, binary: bool, value: bool) -> Result<()> {
        self.write_all(if value { b"T" } else { b"F" })?;
        if binary { Ok(()) } else { self.write_all(b" ") }
    }

    /// Writes an `int32` vector, in the forms that [`Input::read_i32_vector`](super::Input::read_i32_vector) reads.
    pub fn write_i32_vector(&mut self, binary: bool, values: &[i32]) -> Result<()> {
        if !binary {
            self.write_all(b"[ ")?;
            for &value in values {
                self.write_i32(false, value)?;
            }
            return self.write_all(b"]\n");
        }
        let length = i32::try_from(values.len()).map_err(|_| {
            Error::Unsupported(format!("a vector of {} numbers is too long for the format", values.len()))
        })?;
        self.write_i32(true, length)?;
        for value in values {
            self.write_all(&value.to_le_bytes())?;
        }
        Ok(())
    }

    fn write_sized<const N: usize>(
        &mut self,
        binary: bool,
        size: i8,
        bytes: [u8; N],
        text: impl std::fmt::Display,
    ) -> Result<()> {
        if binary {
            self.write_all(&size.to_le_bytes())?;
            self.write_all(&bytes)
        } else {
            self.write_text(&format!("{text} "))
        }
    }

    pub(super) fn write_text_number(&mut self, value: f64) -> Result<()> {
        let mut text = number::general(value, DIGITS);
        text.push(' ');
        self.write_text(&text)
    }
}
