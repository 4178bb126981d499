//! Bytes of an FST, taken in order: out of memory, or out of an input that goes on after it.

use crate::error::{Error, Result};
use crate::table::Input;

/// A position in bytes that are taken in order.
pub(super) trait Feed {
    /// Name for messages.
    fn name(&self) -> &str;

    /// Offset of the next byte in the file that the FST stands in.
    fn position(&self) -> u64;

    /// The next `len` bytes. An end before that is an error at the end, saying that `what` was being read.
    fn take(&mut self, len: u64, what: &str) -> Result<&[u8]>;

    /// An error at the next byte.
    fn fault(&self, message: impl Into<String>) -> Error {
        Error::format(self.name(), self.position(), message)
    }

    /// The next `N` bytes.
    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, what)?);
        Ok(array)
    }

    /// A little-endian number.
    fn i32(&mut self, what: &str) -> Result<i32> {
        Ok(i32::from_le_bytes(self.array(what)?))
    }

    /// A little-endian number.
    fn i64(&mut self, what: &str) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array(what)?))
    }

    /// A string with its length before it.
    fn string(&mut self, what: &str) -> Result<&[u8]> {
        let len = self.i32(what)?;
        let Ok(len) = u64::try_from(len) else {
            return Err(Error::format(self.name(), self.position() - 4, format!("{what} of {len} bytes")));
        };
        self.take(len, what)
    }
}

/// Bytes in memory.
pub(super) struct Slice<'a> {
    name: &'a str,
    bytes: &'a [u8],
    at: usize,
    base: u64,
}

impl<'a> Slice<'a> {
    /// `bytes`, the first of which has offset `base` in the file.
    pub fn new(name: &'a str, bytes: &'a [u8], base: u64) -> Slice<'a> {
        Slice { name, bytes, at: 0, base }
    }

    /// All bytes not taken yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }
}

impl Feed for Slice<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn position(&self) -> u64 {
        self.base + self.at as u64
    }

    fn take(&mut self, len: u64, what: &str) -> Result<&[u8]> {
        let rest = &self.bytes[self.at..];
        match usize::try_from(len).ok().and_then(|len| rest.get(..len)) {
            Some(taken) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => {
                let (end, short) = (self.position() + rest.len() as u64, len - rest.len() as u64);
                Err(Error::format(self.name, end, format!("{what}: the data ends {short} bytes too early")))
            }
        }
    }
}

/// Bytes of an input that goes on after the FST. All that is taken is kept.
pub(super) struct Gather<'a> {
    input: &'a mut Input,
    bytes: Vec<u8>,
}

impl<'a> Gather<'a> {
    pub fn new(input: &'a mut Input) -> Gather<'a> {
        Gather { input, bytes: Vec::new() }
    }

    /// Whether there is a next byte.
    pub fn at_end(&mut self) -> Result<bool> {
        self.input.at_end()
    }

    /// All bytes that were taken.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl Feed for Gather<'_> {
    fn name(&self) -> &str {
        self.input.name()
    }

    fn position(&self) -> u64 {
        self.input.offset()
    }

    fn take(&mut self, len: u64, what: &str) -> Result<&[u8]> {
        let from = self.bytes.len();
        self.input.append_values(&mut self.bytes, len, what, |[byte]: [u8; 1]| byte)?;
        Ok(&self.bytes[from..])
    }
}
