//! Lines and words of text.

use super::input::{Input, is_space};
use crate::error::{Error, Result, try_reserve};

/// Longest line or word that is read, so that an endless stream cannot fill the memory.
const LONGEST: usize = 1 << 30;

impl Input {
    /// The next line of a text without its line end, or `None` at the end. It must be UTF-8.
    pub fn read_line(&mut self) -> Result<Option<String>> {
        let start = self.offset();
        let Some(line) = self.read_line_bytes()? else { return Ok(None) };
        String::from_utf8(line).map(Some).map_err(|e| self.not_utf8(start, &e))
    }

    /// The next line of a text without its line end, in whatever encoding, or `None` at the end.
    pub fn read_line_bytes(&mut self) -> Result<Option<Vec<u8>>> {
        if self.at_end()? {
            return Ok(None);
        }
        let line = self.read_until(|byte| byte == b'\n')?;
        if self.peek()? == Some(b'\n') {
            self.take(b'\n');
        }
        Ok(Some(line))
    }

    /// Takes bytes up to the next white space or the end; they must be UTF-8.
    pub(super) fn read_word(&mut self) -> Result<String> {
        let start = self.offset();
        let word = self.read_until(is_space)?;
        String::from_utf8(word).map_err(|e| self.not_utf8(start, &e))
    }

    /// Takes bytes up to one that ends them, which stays, or to the end of the data. Line ends must be such.
    fn read_until(&mut self, ends: impl Fn(u8) -> bool) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let there = self.fill(1)?;
            let found = there.iter().position(|&byte| ends(byte));
            let step = found.unwrap_or(there.len());
            let ended = found.is_some() || there.is_empty();
            if bytes.len() + step > LONGEST {
                return Err(self.text_error("the line or word is too long"));
            }
            try_reserve(&mut bytes, step, "line or word")?;
            bytes.extend_from_slice(&there[..step]);
            self.pass(step);
            if ended {
                return Ok(bytes);
            }
        }
    }

    fn not_utf8(&self, start: u64, error: &std::string::FromUtf8Error) -> Error {
        self.format_error_at(start + error.utf8_error().valid_up_to() as u64, "the text is not UTF-8")
    }
}
