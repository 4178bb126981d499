//! The one error type of the core. The C face maps each variant to a status code.

use std::fmt::Write as _;

/// What the crate's fallible functions return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. Messages are one line and name the file, byte offset,
/// frame, arc or argument at fault.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument is outside its domain (null pointer, bad length, bad name).
    #[error("{0}")]
    Argument(String),
    /// A handle is unknown, stale, of the wrong type, or already freed.
    #[error("{0}")]
    Handle(String),
    /// The handle is in use by another call.
    #[error("{0}")]
    Busy(String),
    /// The call does not fit the state of its object (a push after finish).
    #[error("{0}")]
    State(String),
    /// An option is outside its range, or two options contradict each other.
    #[error("{0}")]
    Config(String),
    /// The input is of a kind that is known and not handled, named here.
    #[error("{0}")]
    Unsupported(String),
    /// The operating system refused an operation on a file or pipe.
    #[error("{what}: {source}")]
    Io {
        /// File and operation.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Bytes of a file do not have the form that they should.
    #[error("{name}: byte {offset}: {message}")]
    Format {
        /// File, rspecifier, or a word for memory.
        name: String,
        /// Offset of the first byte at fault, from the start of that input.
        offset: u64,
        /// What was expected and what was found.
        message: String,
    },
    /// The graph cannot be searched: no start state, epsilon cycle, label out of range.
    #[error("{0}")]
    Graph(String),
    /// Dimensions do not agree.
    #[error("{0}")]
    Shape(String),
    /// A log-likelihood is NaN or +inf, or overflows when scaled.
    #[error("frame {frame}, column {column}: log-likelihood {value} is not usable")]
    Scores {
        /// Frame from the start of the utterance.
        frame: u64,
        /// Column of the row, from 0.
        column: usize,
        /// The value.
        value: f32,
    },
    /// No token survived a frame.
    #[error("frame {frame}: no tokens survived")]
    NoTokens {
        /// Frame from the start of the utterance.
        frame: u64,
    },
    /// A queue is full; try again when it has drained.
    #[error("{0}")]
    Full(String),
    /// A limit that the caller set is reached (frames, memory, channels).
    #[error("{0}")]
    Limit(String),
    /// Even the tied best of a frame do not fit a capacity.
    #[error("frame {frame}: {what} do not fit the capacity of {capacity}")]
    Capacity {
        /// Frame from the start of the utterance.
        frame: u64,
        /// "candidates", "tokens" or "links".
        what: &'static str,
        /// The capacity that was set.
        capacity: u64,
    },
    /// Memory could not be had.
    #[error("{what}: {asked} bytes could not be allocated")]
    NoMemory {
        /// What the memory was for.
        what: String,
        /// Bytes asked for.
        asked: u64,
    },
    /// No usable GPU, with the reason.
    #[error("{0}")]
    NoDevice(String),
    /// The GPU or its driver reported a failure.
    #[error("{0}")]
    Device(String),
    /// A callback of the caller reported failure.
    #[error("{what} returned status {status}")]
    Callback {
        /// The callback.
        what: String,
        /// What it returned.
        status: i32,
    },
    /// The work was cancelled by the caller.
    #[error("cancelled")]
    Cancelled,
    /// A fault of the library itself.
    #[error("internal fault: {0}")]
    Internal(String),
    /// Another error, with what was being done when it came.
    #[error("{what}")]
    Context {
        /// What was being done.
        what: String,
        /// The error that it met.
        source: Box<Error>,
    },
}

impl Error {
    /// Wraps `self` in a sentence on what was being done.
    pub fn context(self, what: impl Into<String>) -> Error {
        Error::Context { what: what.into(), source: Box::new(self) }
    }

    /// An I/O error with its file and operation.
    pub fn io(what: impl Into<String>, source: std::io::Error) -> Error {
        Error::Io { what: what.into(), source }
    }

    /// A format error at a byte of an input.
    pub fn format(name: impl Into<String>, offset: u64, message: impl Into<String>) -> Error {
        Error::Format { name: name.into(), offset, message: message.into() }
    }

    /// The error below all [`Error::Context`] layers.
    pub fn root(&self) -> &Error {
        match self {
            Error::Context { source, .. } => source.root(),
            other => other,
        }
    }

    /// The same error once more, for another call that it answers too.
    pub fn repeat(&self) -> Error {
        match self {
            Error::Argument(text) => Error::Argument(text.clone()),
            Error::Handle(text) => Error::Handle(text.clone()),
            Error::Busy(text) => Error::Busy(text.clone()),
            Error::State(text) => Error::State(text.clone()),
            Error::Config(text) => Error::Config(text.clone()),
            Error::Unsupported(text) => Error::Unsupported(text.clone()),
            Error::Io { what, source } => Error::io(what, std::io::Error::new(source.kind(), source.to_string())),
            Error::Format { name, offset, message } => Error::format(name, *offset, message),
            Error::Graph(text) => Error::Graph(text.clone()),
            Error::Shape(text) => Error::Shape(text.clone()),
            Error::Scores { frame, column, value } => Error::Scores { frame: *frame, column: *column, value: *value },
            Error::NoTokens { frame } => Error::NoTokens { frame: *frame },
            Error::Full(text) => Error::Full(text.clone()),
            Error::Limit(text) => Error::Limit(text.clone()),
            Error::Capacity { frame, what, capacity } => Error::Capacity { frame: *frame, what, capacity: *capacity },
            Error::NoMemory { what, asked } => Error::NoMemory { what: what.clone(), asked: *asked },
            Error::NoDevice(text) => Error::NoDevice(text.clone()),
            Error::Device(text) => Error::Device(text.clone()),
            Error::Callback { what, status } => Error::Callback { what: what.clone(), status: *status },
            Error::Cancelled => Error::Cancelled,
            Error::Internal(text) => Error::Internal(text.clone()),
            Error::Context { what, source } => source.repeat().context(what),
        }
    }

    /// The same error of an utterance that began `frames` frames before.
    pub fn frames_later(mut self, frames: u64) -> Error {
        match &mut self {
            Error::Scores { frame, .. } | Error::NoTokens { frame } | Error::Capacity { frame, .. } => *frame += frames,
            Error::Context { source, .. } => {
                let inner = std::mem::replace(&mut **source, Error::Cancelled);
                **source = inner.frames_later(frames);
            }
            _ => {}
        }
        self
    }

    /// The message with all its causes, on one line.
    pub fn chain(&self) -> String {
        let mut line = self.to_string();
        let mut next = self;
        while let Error::Context { source, .. } = next {
            let _ = write!(line, ": {source}");
            next = source;
        }
        line
    }
}

/// Grows `vec` so that `more` further elements fit, or reports how much was asked for.
pub fn try_reserve<T>(vec: &mut Vec<T>, more: usize, what: &str) -> Result<()> {
    vec.try_reserve(more).map_err(|_| Error::NoMemory {
        what: what.to_string(),
        asked: (vec.len().saturating_add(more) as u64).saturating_mul(size_of::<T>() as u64),
    })
}

/// Puts `value` behind the others, or reports how much memory was asked for.
pub fn try_push<T>(vec: &mut Vec<T>, value: T, what: &str) -> Result<()> {
    if vec.len() == vec.capacity() {
        try_reserve(vec, 1, what)?;
    }
    vec.push(value);
    Ok(())
}

/// `value` in memory of its own, or the report of how much was asked for.
pub fn try_box<T>(value: T, what: &str) -> Result<Box<T>> {
    let layout = std::alloc::Layout::new::<T>();
    assert!(layout.size() > 0, "nothing needs no memory");
    // SAFETY: the size is not 0.
    let place = unsafe { std::alloc::alloc(layout) }.cast::<T>();
    if place.is_null() {
        return Err(Error::NoMemory { what: what.to_string(), asked: layout.size() as u64 });
    }
    // SAFETY: the place is there, of the layout that a box of this type has, and nobody else's.
    unsafe {
        place.write(value);
        Ok(Box::from_raw(place))
    }
}

/// A copy of `source`, or the report of how much was asked for.
pub fn try_copy<T: Copy>(source: &[T], what: &str) -> Result<Vec<T>> {
    let mut copy = Vec::new();
    try_reserve(&mut copy, source.len(), what)?;
    copy.extend_from_slice(source);
    Ok(copy)
}

/// `len` copies of `value`, or the report of how much was asked for.
pub fn try_filled<T: Clone>(value: T, len: usize, what: &str) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    try_reserve(&mut vec, len, what)?;
    vec.resize(len, value);
    Ok(vec)
}

/// Gives back the memory behind the elements of `vec`, but for room for `least`. Where the allocator has no smaller
/// block, it stays as it is. ([`Vec::shrink_to`] ends the process then.)
pub fn shrink_to<T>(vec: &mut Vec<T>, least: usize) {
    let (len, capacity) = (vec.len(), vec.capacity());
    let room = len.max(least);
    let Ok(layout) = std::alloc::Layout::array::<T>(capacity) else { return };
    if room >= capacity || layout.size() == 0 {
        return;
    }
    let mut old = std::mem::ManuallyDrop::new(std::mem::take(vec));
    if room == 0 {
        drop(std::mem::ManuallyDrop::into_inner(old));
        return;
    }
    // SAFETY: `old` has its memory from the global allocator, with that layout; the new size is neither 0 nor more.
    let moved = unsafe { std::alloc::realloc(old.as_mut_ptr().cast(), layout, room * size_of::<T>()) };
    // SAFETY: the elements stand where realloc has put them, in a block of that room, or, as it answers null,
    // where they were. `old` is not dropped, so that they have one owner.
    *vec = unsafe {
        match moved.is_null() {
            true => Vec::from_raw_parts(old.as_mut_ptr(), len, capacity),
            false => Vec::from_raw_parts(moved.cast(), len, room),
        }
    };
}

#[cfg(test)]
mod tests {
    use super::shrink_to;

    #[test]
    fn what_is_shrunk_has_its_elements_and_the_room_that_was_asked_for() {
        for (len, room) in [(0, 0), (0, 9), (3, 3), (3, 1000), (700, 2_000)] {
            for least in [0, 2, 5, 1_000, 3_000] {
                let mut vec: Vec<u32> = Vec::with_capacity(room);
                vec.extend(0..len);
                shrink_to(&mut vec, least);
                assert_eq!((vec.capacity(), vec.len()), (room.min(least.max(len as usize)), len as usize));
                assert!(vec.iter().copied().eq(0..len));
                vec.push(7);
            }
        }
        let mut nothing = vec![(); 3];
        shrink_to(&mut nothing, 0);
        assert_eq!(nothing.len(), 3);
    }
}
