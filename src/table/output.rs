//! A destination of bytes that knows its name and never loses an error.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::process::{Child, ChildStdin};

use super::commands::{self, Direction};
use super::input::BLOCK;
use super::names::{self, Writable};
use super::sigpipe::without_sigpipe;
use crate::error::{Error, Result, try_reserve};

/// A file, a pipe, standard output or memory, written through a buffer.
///
/// Call [`Output::close`]: only it reports a failure of the last writes. After one failed write every further call fails.
pub struct Output {
    name: String,
    target: Target,
    buffer: Vec<u8>,
    /// Bytes written before those in `buffer`.
    base: u64,
    failed: Option<ErrorKind>,
}

enum Target {
    Memory,
    File(File),
    Pipe { child: Child, input: Option<ChildStdin> },
    Closed,
}

impl Output {
    /// Opens a Kaldi "wxfilename": `path` (made or emptied), `-` (or the empty name) for standard output, or `| command`
    /// for the input of a shell command. Errors are those of [`Input::open`](super::Input::open).
    pub fn create(wxfilename: &str) -> Result<Output> {
        let failed = |e| Error::io(format!("{wxfilename}: opening for writing"), e);
        let (name, target) = match names::writable(wxfilename)? {
            Writable::Stdout => ("standard output", Target::File(standard_output().map_err(failed)?)),
            Writable::Command(command) => {
                let mut child = commands::spawn(command, Direction::Write, wxfilename)?;
                let input = child.stdin.take();
                (wxfilename, Target::Pipe { child, input })
            }
            Writable::File(path) => (path, Target::File(File::create(path).map_err(failed)?)),
        };
        Ok(Output::new(name, target))
    }

    /// Collects the bytes in memory, to be taken by [`Output::into_bytes`].
    pub fn memory() -> Output {
        Output::new("memory", Target::Memory)
    }

    fn new(name: &str, target: Target) -> Output {
        Output { name: name.to_string(), target, buffer: Vec::new(), base: 0, failed: None }
    }

    /// The file's name, the command, or `memory`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes written so far: where the next byte will stand in the file.
    pub fn offset(&self) -> u64 {
        self.base + self.buffer.len() as u64
    }

    /// What was written to an [`Output::memory`]; empty for another output, whose bytes have gone.
    pub fn into_bytes(mut self) -> Vec<u8> {
        match self.target {
            Target::Memory => std::mem::take(&mut self.buffer),
            _ => Vec::new(),
        }
    }

    /// Writes the bytes, now or later.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.check()?;
        if !matches!(self.target, Target::Memory) {
            if self.buffer.len() + bytes.len() > BLOCK {
                self.drain()?;
            }
            if bytes.len() >= BLOCK {
                return self.pass_on(bytes);
            }
        }
        try_reserve(&mut self.buffer, bytes.len(), "output buffer")?;
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Hands everything written so far to the system.
    pub fn flush(&mut self) -> Result<()> {
        self.check()?;
        self.drain()
    }

    /// Writes what is left and closes the file or waits for the command; a failure of any of it is an error.
    pub fn close(mut self) -> Result<()> {
        let flushed = self.flush();
        let closed = match std::mem::replace(&mut self.target, Target::Closed) {
            Target::File(file) => close_file(file).map_err(|e| Error::io(format!("{}: closing", self.name), e)),
            Target::Pipe { mut child, input } => {
                drop(input);
                commands::wait(&mut child, &self.name)
            }
            Target::Memory | Target::Closed => Ok(()),
        };
        // A command that failed says more than the broken pipe which that led to.
        match (flushed, closed) {
            (Err(_), Err(closed)) => Err(closed),
            (flushed, closed) => flushed.and(closed),
        }
    }

    fn check(&self) -> Result<()> {
        match self.failed {
            None => Ok(()),
            Some(kind) => Err(Error::io(format!("{}: an earlier write failed", self.name), kind.into())),
        }
    }

    /// Passes the buffer on, except to memory, which it is.
    fn drain(&mut self) -> Result<()> {
        if matches!(self.target, Target::Memory) || self.buffer.is_empty() {
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.buffer);
        let passed = self.pass_on(&bytes);
        bytes.clear();
        self.buffer = bytes;
        passed
    }

    fn pass_on(&mut self, bytes: &[u8]) -> Result<()> {
        let written = without_sigpipe(|| match &mut self.target {
            Target::File(file) => file.write_all(bytes),
            Target::Pipe { input: Some(input), .. } => input.write_all(bytes),
            Target::Pipe { input: None, .. } | Target::Memory | Target::Closed => Err(ErrorKind::NotConnected.into()),
        });
        match written {
            Ok(()) => {
                self.base += bytes.len() as u64;
                Ok(())
            }
            Err(e) => {
                self.failed = Some(e.kind());
                Err(Error::io(format!("{}: writing", self.name), e))
            }
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.failed.is_none()
            && let Err(error) = self.drain()
        {
            log::error!("{}", error.chain());
        }
        if let Target::Pipe { child, input } = &mut self.target {
            input.take();
            if let Err(error) = commands::wait(child, &self.name) {
                log::error!("{}", error.chain());
            }
        }
    }
}

/// A handle of our own on standard output: the one of `std` takes a closed descriptor for success.
#[cfg(unix)]
fn standard_output() -> std::io::Result<File> {
    use std::os::fd::AsFd;
    std::io::stdout().flush()?;
    Ok(File::from(std::io::stdout().as_fd().try_clone_to_owned()?))
}

#[cfg(windows)]
fn standard_output() -> std::io::Result<File> {
    use std::os::windows::io::AsHandle;
    std::io::stdout().flush()?;
    Ok(File::from(std::io::stdout().as_handle().try_clone_to_owned()?))
}

/// Closes a file and tells whether that failed, as it may on a network file system; `File`'s own drop is silent.
#[cfg(unix)]
fn close_file(file: File) -> std::io::Result<()> {
    use std::os::fd::IntoRawFd;
    let descriptor = file.into_raw_fd();
    // SAFETY: the descriptor was owned by `file`, which has given it up, so it is open and closed exactly once.
    match unsafe { libc::close(descriptor) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()).or_else(|e| match e.kind() {
            // The descriptor is gone all the same, and what was written had been accepted.
            ErrorKind::Interrupted => Ok(()),
            _ => Err(e),
        }),
    }
}

#[cfg(not(unix))]
fn close_file(file: File) -> std::io::Result<()> {
    drop(file);
    Ok(())
}
