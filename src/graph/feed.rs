//! Bytes of an FST, taken in order: out of memory, or out of a stream that goes on after it.

use std::io::Read;

use crate::error::{Error, Result, try_reserve};

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

fn ends(name: &str, end: u64, missing: u64, what: &str) -> Error {
    Error::format(name, end, format!("the end of the input, {missing} bytes early, in {what}"))
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
            None => Err(ends(self.name, self.base + self.bytes.len() as u64, len - rest.len() as u64, what)),
        }
    }
}

/// Bytes of a stream. All that was taken is kept.
pub(super) struct Stream<'a, R> {
    name: &'a str,
    reader: R,
    bytes: Vec<u8>,
    base: u64,
}

/// Bytes asked of a stream at once, so that a length that lies gets no more memory than there are bytes.
const STEP: u64 = 1 << 20;

impl<'a, R: Read> Stream<'a, R> {
    /// The stream `reader`, whose next byte has offset `base` in the file.
    pub fn new(name: &'a str, reader: R, base: u64) -> Stream<'a, R> {
        Stream { name, reader, bytes: Vec::new(), base }
    }

    /// All bytes that were taken.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Reads at most `len` bytes, less only at the end.
    fn grow(&mut self, len: u64) -> Result<u64> {
        let mut done = 0;
        while done < len {
            let step = STEP.min(len - done);
            try_reserve(&mut self.bytes, step as usize, "graph file")?;
            let got = (&mut self.reader).take(step).read_to_end(&mut self.bytes);
            let got = got.map_err(|error| Error::io(format!("{}: read", self.name), error))? as u64;
            done += got;
            if got < step {
                break;
            }
        }
        Ok(done)
    }

    /// Takes the rest of the stream.
    pub fn take_all(&mut self) -> Result<()> {
        self.grow(u64::MAX).map(|_| ())
    }
}

impl<R: Read> Feed for Stream<'_, R> {
    fn name(&self) -> &str {
        self.name
    }

    fn position(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    fn take(&mut self, len: u64, what: &str) -> Result<&[u8]> {
        let from = self.bytes.len();
        let got = self.grow(len)?;
        if got < len {
            return Err(ends(self.name, self.position(), len - got, what));
        }
        Ok(&self.bytes[from..])
    }
}
