//! Files that are read in place.

use std::fs::File;

use memmap2::Mmap;

use crate::error::{Error, Result};

/// A file in the address space.
#[derive(Debug)]
pub(super) struct Mapped(Mmap);

impl Mapped {
    /// Maps a file that is not empty. It must not be made shorter while it is mapped: the process
    /// would be ended by a signal.
    pub fn new(name: &str, file: &File) -> Result<Mapped> {
        // SAFETY: the map is read only. Within one reading of a graph every use of its bytes is checked: bytes that
        // change meanwhile can make nothing worse than an error. A cache file is read for as long as its graph
        // lives; that nobody changes it is the caller's promise at `Graph::read`.
        let map = unsafe { Mmap::map(file) };
        map.map(Mapped).map_err(|error| Error::io(format!("{name}: mapping"), error))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// From now on pages that are missed are read alone. Linux reads as much around each as it does ahead of a file that
    /// is read on, which is megabytes on some machines, and who misses the next page waits for all of that.
    pub fn expect_jumps(&self) {
        #[cfg(unix)]
        let _ = self.0.advise(memmap2::Advice::Random);
    }

    /// Takes [`Mapped::expect_jumps`] back.
    pub fn expect_anything(&self) {
        #[cfg(unix)]
        let _ = self.0.advise(memmap2::Advice::Normal);
    }
}

/// Has bytes of a file read that will be touched soon, without waiting for them. `len` is not 0.
pub(super) fn ask_for(file: &File, begin: u64, len: u64) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        // Half as long as madvise where the bytes are in memory already.
        // SAFETY: a file that is open, and numbers; it is a hint, and touches no memory of the process.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), begin as _, len as _, libc::POSIX_FADV_WILLNEED) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, begin, len);
}

/// Bytes before those that are read which the kernel may bring in with them.
#[cfg(unix)]
const AROUND: usize = 1 << 16;

/// Gives memory back that a walk over a file has behind it, so that a file larger than the memory
/// can be read, and is not counted as memory of the process.
#[derive(Clone, Copy)]
pub(super) struct Behind<'a>(Option<&'a Mapped>);

impl<'a> Behind<'a> {
    /// For bytes of `map`.
    pub fn of(map: &'a Mapped) -> Behind<'a> {
        Behind(Some(map))
    }

    /// For bytes that stay where they are.
    pub fn nothing() -> Behind<'a> {
        Behind(None)
    }

    /// The walk is behind `bytes` of the map, and what little the reading of them has brought in again before them;
    /// reading them again takes longer from now on.
    pub fn drop(self, bytes: &[u8]) {
        #[cfg(unix)]
        if let Some(Mapped(map)) = self.0 {
            let offset = (bytes.as_ptr() as usize).wrapping_sub(map.as_ptr() as usize);
            if !bytes.is_empty() && offset.saturating_add(bytes.len()) <= map.len() {
                let first = offset.saturating_sub(AROUND);
                let len = offset - first + bytes.len();
                // SAFETY: the range lies in the map, which is of a file and has never been written to,
                // so its pages come back from the file unchanged when they are read again.
                let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, first, len) };
            }
        }
        #[cfg(not(unix))]
        let _ = bytes;
    }
}
