//! A source of bytes that knows its name and how far it has been read.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::process::{Child, ChildStdout};

use super::commands::{self, Direction};
use super::names::{self, Readable};
use crate::error::{Error, Result, try_reserve};

/// Bytes asked of the system at once, and the step in which results of unchecked length grow.
pub(super) const BLOCK: usize = 1 << 16;

/// Longest line or token that is read, so that an endless stream cannot fill the memory.
const LONGEST_LINE: usize = 1 << 30;

/// A file, a pipe, standard input or memory, read forward through a buffer.
///
/// Offsets count from the start of the file, also when reading began at `path:offset`.
pub struct Input {
    name: String,
    source: Source,
    /// `at..end` are the bytes read from the source and not yet taken.
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    /// Offset of `buffer[0]`.
    base: u64,
    /// The source has no more bytes.
    done: bool,
    /// Length of the file, where it is a plain one; what is there may be reserved for at once.
    length: Option<u64>,
    /// Where reading began.
    start: u64,
    /// Line ends taken since then by the text functions.
    lines: u64,
}

enum Source {
    Memory,
    File(File),
    Pipe { child: Child, output: Option<ChildStdout> },
}

impl Input {
    /// Opens a Kaldi "rxfilename": `path`, `path:offset`, `-` (or the empty name) for standard input, or
    /// `command |` for the output of a shell command.
    ///
    /// Gives [`Error::Argument`] for a name that can only be a mistake, [`Error::Unsupported`] for a command while
    /// commands are not allowed (see [`set_allow_commands`](super::set_allow_commands)), else [`Error::Io`].
    pub fn open(rxfilename: &str) -> Result<Input> {
        let failed = |doing: &str| {
            let what = format!("{rxfilename}: {doing}");
            move |e| Error::io(what, e)
        };
        match names::readable(rxfilename)? {
            Readable::Stdin => {
                let file = standard_input().map_err(failed("opening standard input"))?;
                Input::stream("standard input", Source::File(file), 0)
            }
            Readable::Command(command) => {
                let mut child = commands::spawn(command, Direction::Read, rxfilename)?;
                let output = child.stdout.take();
                Input::stream(rxfilename, Source::Pipe { child, output }, 0)
            }
            Readable::File(path, offset) => {
                let mut file = File::open(path).map_err(failed("opening"))?;
                if let Some(offset) = offset {
                    file.seek(SeekFrom::Start(offset)).map_err(failed("seeking"))?;
                }
                Input::stream(path, Source::File(file), offset.unwrap_or(0))
            }
        }
    }

    /// Reads from memory; `name` stands in messages where a file's name would.
    pub fn from_bytes(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Input {
        let buffer = bytes.into();
        let end = buffer.len();
        Input {
            name: name.into(),
            source: Source::Memory,
            buffer,
            at: 0,
            end,
            base: 0,
            done: true,
            length: Some(end as u64),
            start: 0,
            lines: 0,
        }
    }

    /// Reads an open file from its start; `name` stands in messages.
    pub fn from_file(name: &str, file: File) -> Result<Input> {
        Input::stream(name, Source::File(file), 0)
    }

    fn stream(name: &str, source: Source, start: u64) -> Result<Input> {
        let mut buffer = Vec::new();
        try_reserve(&mut buffer, BLOCK, "input buffer")?;
        buffer.resize(BLOCK, 0);
        let length = match &source {
            Source::File(file) => file.metadata().ok().filter(|data| data.is_file()).map(|data| data.len()),
            Source::Memory | Source::Pipe { .. } => None,
        };
        Ok(Input {
            name: name.to_string(),
            source,
            buffer,
            at: 0,
            end: 0,
            base: start,
            done: false,
            length,
            start,
            lines: 0,
        })
    }

    /// The file's name, the command, or the name given to [`Input::from_bytes`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Offset of the next byte from the start of the file.
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Number of the line in which the next byte stands, from 1 where reading began. Only text functions count.
    pub fn line(&self) -> u64 {
        self.lines + 1
    }

    /// A format error at the next byte.
    pub fn format_error(&self, message: impl Into<String>) -> Error {
        self.format_error_at(self.offset(), message)
    }

    /// A format error at a byte that has been passed.
    pub fn format_error_at(&self, offset: u64, message: impl Into<String>) -> Error {
        Error::format(&self.name, offset, message)
    }

    /// A format error at the next byte of a text, which names the line as well.
    pub fn text_error(&self, message: impl AsRef<str>) -> Error {
        self.text_error_at(self.offset(), message)
    }

    /// A format error at a byte of the present line that has been passed.
    pub fn text_error_at(&self, offset: u64, message: impl AsRef<str>) -> Error {
        let message = message.as_ref();
        let line = self.line();
        let from = match self.start {
            0 => String::new(),
            start => format!(" from byte {start}"),
        };
        self.format_error_at(offset, format!("line {line}{from}: {message}"))
    }

    /// Makes at least `want` bytes available when the source has them; gives what is there.
    fn fill(&mut self, want: usize) -> Result<&[u8]> {
        if self.end - self.at < want && !self.done {
            self.buffer.copy_within(self.at..self.end, 0);
            self.base += self.at as u64;
            self.end -= self.at;
            self.at = 0;
            if self.buffer.len() < want {
                let more = want - self.buffer.len();
                try_reserve(&mut self.buffer, more, "input buffer")?;
                self.buffer.resize(want, 0);
            }
            while self.end < want && !self.done {
                let got = self.source.read(&mut self.buffer[self.end..]);
                let got = got.map_err(|e| Error::io(format!("{}: reading", self.name), e))?;
                self.end += got;
                self.done = got == 0;
            }
        }
        Ok(&self.buffer[self.at..self.end])
    }

    /// The next byte, without taking it; `None` at the end.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<u8>> {
        if self.at < self.end {
            return Ok(Some(self.buffer[self.at]));
        }
        Ok(self.fill(1)?.first().copied())
    }

    /// Up to `count` next bytes, without taking them; fewer only at the end. `count` is at most 64 KiB.
    pub fn peek_bytes(&mut self, count: usize) -> Result<&[u8]> {
        let count = count.min(BLOCK);
        let there = self.fill(count)?;
        Ok(&there[..there.len().min(count)])
    }

    /// Whether no byte is left.
    pub fn at_end(&mut self) -> Result<bool> {
        Ok(self.peek()?.is_none())
    }

    /// Takes the byte that [`Input::peek`] showed, of text.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) {
        debug_assert!(self.at < self.end);
        self.at += 1;
        self.lines += u64::from(byte == b'\n');
    }

    /// Takes the next byte; the end of the data is an error.
    #[inline]
    pub fn read_byte(&mut self) -> Result<u8> {
        match self.peek()? {
            Some(byte) => {
                self.take(byte);
                Ok(byte)
            }
            None => Err(self.format_error("the data ends too early")),
        }
    }

    /// Fills `bytes`; the end of the data is an error at that place.
    pub fn read_exact(&mut self, mut bytes: &mut [u8]) -> Result<()> {
        while !bytes.is_empty() {
            let whole = bytes.len();
            let there = self.fill(whole.min(BLOCK))?;
            if there.is_empty() {
                return Err(self.format_error(format!("the data ends where {whole} more bytes should follow")));
            }
            let count = whole.min(there.len());
            let (now, later) = bytes.split_at_mut(count);
            now.copy_from_slice(&there[..count]);
            self.at += count;
            bytes = later;
        }
        Ok(())
    }

    /// Takes `N` bytes.
    #[inline]
    pub fn read_array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Takes `len` bytes, a length that the data declares. Memory grows with the bytes that are really there, so that a
    /// lying length ends in a format error at the end of the data; `what` names the bytes in messages.
    pub fn read_bounded(&mut self, len: u64, what: &str) -> Result<Vec<u8>> {
        self.read_values(len, what, |[byte]: [u8; 1]| byte)
    }

    /// Takes `count` values of `N` bytes each, with the same care as [`Input::read_bounded`].
    pub fn read_values<T, const N: usize>(
        &mut self,
        count: u64,
        what: &str,
        convert: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>> {
        let mut values = Vec::new();
        self.append_values(&mut values, count, what, convert)?;
        Ok(values)
    }

    /// Appends `count` values of `N` bytes each to `values`, with the same care as [`Input::read_bounded`].
    pub fn append_values<T, const N: usize>(
        &mut self,
        values: &mut Vec<T>,
        count: u64,
        what: &str,
        convert: impl Fn([u8; N]) -> T,
    ) -> Result<()> {
        let mut left = count;
        let there = self.length.map_or(0, |length| length.saturating_sub(self.offset()));
        if let Ok(known) = usize::try_from(count.min(there / N as u64)) {
            try_reserve(values, known, what)?;
        }
        while left > 0 {
            let step = left.min((BLOCK / N) as u64) as usize;
            let there = self.fill(step * N)?;
            let (whole, _) = there[..there.len().min(step * N)].as_chunks::<N>();
            if whole.len() < step {
                let there = there.len() as u64;
                let short = left.saturating_mul(N as u64) - there;
                let end = self.offset() + there;
                return Err(self.format_error_at(end, format!("{what}: the data ends {short} bytes too early")));
            }
            // Vec's own doubling keeps the allocation within a small multiple of what was read.
            try_reserve(values, step, what)?;
            values.extend(whole.iter().map(|bytes| convert(*bytes)));
            self.at += step * N;
            left -= step as u64;
        }
        Ok(())
    }

    /// Passes over `len` bytes of a declared length.
    pub fn skip(&mut self, len: u64, what: &str) -> Result<()> {
        let mut left = len;
        while left > 0 {
            let there = self.fill(1)?.len() as u64;
            if there == 0 {
                return Err(self.format_error(format!("{what}: the data ends {left} bytes too early")));
            }
            let step = there.min(left);
            self.at += step as usize;
            left -= step;
        }
        Ok(())
    }

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
        let mut line = Vec::new();
        loop {
            let there = self.fill(1)?;
            let found = there.iter().position(|&b| b == b'\n');
            let step = found.unwrap_or(there.len());
            let ended = found.is_some() || there.is_empty();
            if line.len() + step > LONGEST_LINE {
                return Err(self.text_error("the line is too long"));
            }
            try_reserve(&mut line, step, "line")?;
            line.extend_from_slice(&self.buffer[self.at..self.at + step]);
            self.at += step;
            if ended {
                if found.is_some() {
                    self.take(b'\n');
                }
                return Ok(Some(line));
            }
        }
    }

    /// Takes bytes up to the next white space or the end; they must be UTF-8.
    pub(super) fn read_word(&mut self) -> Result<String> {
        let start = self.offset();
        let mut word = Vec::new();
        loop {
            let there = self.fill(1)?;
            let found = there.iter().position(|&b| is_space(b));
            let step = found.unwrap_or(there.len());
            let ended = found.is_some() || there.is_empty();
            if word.len() + step > LONGEST_LINE {
                return Err(self.format_error("the word is too long"));
            }
            try_reserve(&mut word, step, "word")?;
            word.extend_from_slice(&self.buffer[self.at..self.at + step]);
            self.at += step;
            if ended {
                return String::from_utf8(word).map_err(|e| self.not_utf8(start, &e));
            }
        }
    }

    /// Takes `word` and the one white space after it if both are next and at hand; the usual case, and without a copy.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let there = &self.buffer[self.at..self.end];
        match there.strip_prefix(word.as_bytes()).and_then(|rest| rest.first()) {
            Some(&space) if is_space(space) => {
                self.at += word.len();
                self.take(space);
                true
            }
            _ => false,
        }
    }

    fn not_utf8(&self, start: u64, error: &std::string::FromUtf8Error) -> Error {
        self.format_error_at(start + error.utf8_error().valid_up_to() as u64, "the text is not UTF-8")
    }

    /// Ends reading. When the output of a command was read to its end, its failure is an error here; a command whose
    /// output was not wanted to the end may well have died of that.
    pub fn close(mut self) -> Result<()> {
        if !matches!(self.source, Source::Pipe { .. }) {
            return Ok(());
        }
        // The wait below lasts as long as the command, so this one costs nothing more.
        let read_to_end = self.at_end()?;
        let Source::Pipe { child, output } = &mut self.source else { return Ok(()) };
        output.take();
        let ended = commands::wait(child, &self.name);
        if read_to_end { ended } else { Ok(()) }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        if let Source::Pipe { child, output } = &mut self.source {
            output.take();
            // As pclose does, so that no zombie stays; a second wait after close returns at once.
            let _ = child.wait();
        }
    }
}

impl Source {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let got = match self {
                Source::Memory => Ok(0),
                Source::File(file) => file.read(bytes),
                Source::Pipe { output: Some(output), .. } => output.read(bytes),
                Source::Pipe { output: None, .. } => Ok(0),
            };
            match got {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

/// A handle of our own on standard input: the one of `std` takes a closed descriptor for an empty file.
#[cfg(unix)]
fn standard_input() -> std::io::Result<File> {
    use std::os::fd::AsFd;
    Ok(File::from(std::io::stdin().as_fd().try_clone_to_owned()?))
}

#[cfg(windows)]
fn standard_input() -> std::io::Result<File> {
    use std::os::windows::io::AsHandle;
    Ok(File::from(std::io::stdin().as_handle().try_clone_to_owned()?))
}

/// White space as C's `isspace` has it.
#[inline]
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
