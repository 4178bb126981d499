//! Kaldi's tokens and basic types, read from an [`Input`].
//!
//! Functions take `binary` as [`Input::binary_header`] gave it. In binary a number is one byte with its size (negative for
//! unsigned types) and its little-endian value; in text it is a word, white space before it being passed over.

use super::input::{Input, is_space};
use crate::error::{Error, Result, try_reserve};

/// Longest token that is looked for ahead; Kaldi's own are far shorter.
const LOOK_AHEAD: usize = 256;

impl Input {
    /// Takes Kaldi's mark of a binary object, `\0B`, when it is there; tells whether it was.
    pub fn binary_header(&mut self) -> Result<bool> {
        if self.peek()? != Some(0) {
            return Ok(false);
        }
        if self.peek_bytes(2)? != b"\0B" {
            return Err(self.format_error("expected the binary header \\0B"));
        }
        self.skip(2, "binary header")?;
        Ok(true)
    }

    /// Passes over white space.
    pub fn skip_space(&mut self) -> Result<()> {
        while let Some(byte) = self.peek()?.filter(|&b| is_space(b)) {
            self.take(byte);
        }
        Ok(())
    }

    /// Takes a token (a word such as `<TransitionModel>`) and the one white space after it, which may be missing only at
    /// the end of a text.
    pub fn token(&mut self, binary: bool) -> Result<String> {
        self.skip_space()?;
        let word = self.read_word()?;
        if word.is_empty() {
            return Err(self.format_error("expected a token, found the end of the data"));
        }
        match self.peek()? {
            Some(space) => self.take(space),
            None if !binary => {}
            None => return Err(self.format_error(format!("the data ends right after the token {}", printable(&word)))),
        }
        Ok(word)
    }

    /// Takes the given token; another one is an error.
    pub fn expect_token(&mut self, binary: bool, expected: &str) -> Result<()> {
        self.skip_space()?;
        if self.take_word(expected) {
            return Ok(());
        }
        let start = self.offset();
        let found = self.token(binary).map_err(|e| e.context(format!("expected {expected}")))?;
        if found == expected {
            return Ok(());
        }
        Err(self.format_error_at(start, format!("expected {expected}, found {}", printable(&found))))
    }

    /// The next token without taking it; `None` at the end of the data, or when what follows cannot be one (it is not
    /// UTF-8 or longer than any token). In text, white space before it is taken.
    pub fn peek_token(&mut self, binary: bool) -> Result<Option<String>> {
        if !binary {
            self.skip_space()?;
        }
        // Byte by byte, so that no more is awaited from a slow pipe than the token itself.
        let mut length = 0;
        while length < LOOK_AHEAD && self.peek_bytes(length + 1)?.get(length).is_some_and(|&b| !is_space(b)) {
            length += 1;
        }
        if length == 0 || length == LOOK_AHEAD {
            return Ok(None);
        }
        Ok(std::str::from_utf8(self.peek_bytes(length)?).ok().map(str::to_string))
    }

    /// Takes an `int32`.
    pub fn read_i32(&mut self, binary: bool) -> Result<i32> {
        match binary {
            true => self.sized(4, "int32").map(i32::from_le_bytes),
            false => self.read_number("an integer"),
        }
    }

    /// Takes a `uint32`.
    pub fn read_u32(&mut self, binary: bool) -> Result<u32> {
        match binary {
            true => self.sized(-4, "uint32").map(u32::from_le_bytes),
            false => self.read_number("a non-negative integer"),
        }
    }

    /// Takes an `int64`.
    pub fn read_i64(&mut self, binary: bool) -> Result<i64> {
        match binary {
            true => self.sized(8, "int64").map(i64::from_le_bytes),
            false => self.read_number("an integer"),
        }
    }

    /// Takes a `uint64`.
    pub fn read_u64(&mut self, binary: bool) -> Result<u64> {
        match binary {
            true => self.sized(-8, "uint64").map(u64::from_le_bytes),
            false => self.read_number("a non-negative integer"),
        }
    }

    /// Takes a `float`; in binary it may be stored as `double` and is then rounded.
    pub fn read_f32(&mut self, binary: bool) -> Result<f32> {
        if !binary {
            return self.read_float("a number", f32::is_infinite);
        }
        match self.peek()? {
            Some(8) => self.sized(8, "double").map(|b| f64::from_le_bytes(b) as f32),
            _ => self.sized(4, "float").map(f32::from_le_bytes),
        }
    }

    /// Takes a `double`; in binary it may be stored as `float`.
    pub fn read_f64(&mut self, binary: bool) -> Result<f64> {
        if !binary {
            return self.read_float("a number", f64::is_infinite);
        }
        match self.peek()? {
            Some(4) => self.sized(4, "float").map(|b| f32::from_le_bytes(b).into()),
            _ => self.sized(8, "double").map(f64::from_le_bytes),
        }
    }

    /// Takes a `bool`, stored as `T` or `F`.
    pub fn read_bool(&mut self, binary: bool) -> Result<bool> {
        if !binary {
            self.skip_space()?;
        }
        match self.peek()? {
            Some(letter @ (b'T' | b'F')) => {
                self.take(letter);
                Ok(letter == b'T')
            }
            _ => Err(self.format_error("expected T or F")),
        }
    }

    /// Takes an `int32` vector: in binary the element size 4, a bare `int32` length and the values, in text `[ 1 2 3 ]`.
    pub fn read_i32_vector(&mut self, binary: bool) -> Result<Vec<i32>> {
        const WHAT: &str = "int32 vector";
        if binary {
            let start = self.offset();
            let length = self.sized(4, WHAT).map(i32::from_le_bytes)?;
            let length = u64::try_from(length)
                .map_err(|_| self.format_error_at(start, format!("{WHAT}: the length is {length}")))?;
            return self.read_values(length, WHAT, i32::from_le_bytes);
        }
        self.skip_space()?;
        self.expect_byte(b'[')?;
        let mut values = Vec::new();
        loop {
            self.skip_space()?;
            if self.peek()? == Some(b']') {
                self.take(b']');
                return Ok(values);
            }
            let value = self.read_i32(false)?;
            try_reserve(&mut values, 1, WHAT)?;
            values.push(value);
        }
    }

    /// Takes one byte of a text; another one is an error.
    pub(super) fn expect_byte(&mut self, expected: u8) -> Result<()> {
        match self.peek()? {
            Some(byte) if byte == expected => {
                self.take(byte);
                Ok(())
            }
            other => {
                Err(self.text_error(format!("expected '{}', found {}", char::from(expected), describe_byte(other))))
            }
        }
    }

    /// A size byte and that many bytes.
    fn sized<const N: usize>(&mut self, size: i8, what: &str) -> Result<[u8; N]> {
        let there = self.peek_bytes(1 + N)?;
        let found = there.first().map(|&b| b as i8);
        let value = there.get(1..).and_then(|rest| rest.first_chunk::<N>()).copied();
        let end = there.len() as u64;
        match (found, value) {
            (Some(found), Some(value)) if found == size => {
                self.skip(1 + N as u64, what)?;
                Ok(value)
            }
            (Some(found), _) if found != size => {
                Err(self.format_error(format!("{what}: expected the size byte {size}, found {found}")))
            }
            _ => Err(self.format_error_at(self.offset() + end, format!("{what}: the data ends too early"))),
        }
    }

    fn read_number<T: std::str::FromStr>(&mut self, expected: &str) -> Result<T> {
        let (start, word) = self.number_word(expected)?;
        word.parse().map_err(|_| self.bad_number(start, expected, &word))
    }

    /// Takes a float in text; unlike C++ streams it knows `inf`, `infinity` and `nan`, with or without a sign.
    fn read_float<T: std::str::FromStr + Copy>(&mut self, expected: &str, infinite: fn(T) -> bool) -> Result<T> {
        let (start, word) = self.number_word(expected)?;
        let value = word.parse().map_err(|_| self.bad_number(start, expected, &word))?;
        if infinite(value) && word.bytes().any(|b| b.is_ascii_digit()) {
            return Err(self.text_error_at(start, format!("the number {} is out of range", printable(&word))));
        }
        Ok(value)
    }

    fn bad_number(&self, start: u64, expected: &str, word: &str) -> Error {
        self.text_error_at(start, format!("expected {expected}, found {}", printable(word)))
    }

    /// Takes the letters that a number could be made of, at least one, after white space; gives their offset too.
    fn number_word(&mut self, expected: &str) -> Result<(u64, String)> {
        const LONGEST: usize = 1 << 12;
        self.skip_space()?;
        let start = self.offset();
        let mut word = String::new();
        while let Some(byte) = self.peek()? {
            if !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')) {
                break;
            }
            if word.len() == LONGEST {
                return Err(self.text_error_at(start, "the number is too long"));
            }
            self.take(byte);
            word.push(char::from(byte));
        }
        if word.is_empty() {
            let found = describe_byte(self.peek()?);
            return Err(self.text_error(format!("expected {expected}, found {found}")));
        }
        Ok((start, word))
    }
}

/// A found word as it may stand in a one-line message.
pub(super) fn printable(word: &str) -> String {
    const SHOWN: usize = 40;
    let mut shown: String = word.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if word.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

/// A found byte as it may stand in a message.
pub(super) fn describe_byte(byte: Option<u8>) -> String {
    match byte {
        None => "the end of the data".to_string(),
        Some(byte) => format!("'{}'", byte.escape_ascii()),
    }
}
