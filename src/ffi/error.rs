//! Status codes and error objects.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::Arc;

use super::guard;
use super::registry::{self, Kind, Opaque};
use crate::error::{Error, Result};

/// What a call answers: a koshi_status_code. Zero and above is success.
pub type koshi_status = i32;

/// The values of a koshi_status. The hundreds say what to do; new values are only ever added, so treat
/// an unknown one by its hundred.
/// -1xx: change the program. -2xx: look at the input. -3xx: this utterance stops here; what came
/// before can be fetched, and the channel can begin anew. -4xx: ask for less, or wait. -5xx: look at
/// the machine. -6xx: it was your own code or wish. -7xx: a fault of the library; please report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum koshi_status_code {
    /// Done. Empty results are KOSHI_OK too.
    KOSHI_OK = 0,
    /// Done, with less than was asked for (smaller effective beam, no alignment).
    KOSHI_OK_PARTIAL = 1,

    /// An argument is outside its domain: null, misaligned, a bad name.
    KOSHI_E_ARGUMENT = -101,
    /// A handle is null, unknown, freed before, of another type, or poisoned by KOSHI_E_INTERNAL.
    KOSHI_E_HANDLE = -102,
    /// The handle is in use by another call, or by the one that runs the callback.
    KOSHI_E_BUSY = -103,
    /// The call does not fit the state of its object, as a push after finish.
    KOSHI_E_STATE = -104,
    /// An option is outside its range, or two options contradict each other.
    KOSHI_E_CONFIG = -105,
    /// Something known and not handled by this version, named in the message.
    KOSHI_E_UNSUPPORTED = -106,

    /// The operating system refused an operation on a file or pipe.
    KOSHI_E_IO = -201,
    /// Bytes of a file do not have the form that they should.
    KOSHI_E_FORMAT = -202,
    /// The graph cannot be searched: no start state, epsilon cycle, label out of range.
    KOSHI_E_GRAPH = -203,
    /// Dimensions do not agree.
    KOSHI_E_SHAPE = -204,

    /// A log-likelihood is NaN or +inf.
    KOSHI_E_SCORES = -301,
    /// No token survived a frame.
    KOSHI_E_NO_TOKENS = -302,
    /// Even the tied best of a frame do not fit a capacity.
    KOSHI_E_CAPACITY = -303,

    /// A queue is full; try again when it has drained.
    KOSHI_E_FULL = -401,
    /// A limit that the caller set, or one of the library, is reached.
    KOSHI_E_LIMIT = -402,
    /// Memory could not be had.
    KOSHI_E_NO_MEMORY = -403,

    /// No usable GPU; the message says why.
    KOSHI_E_NO_DEVICE = -501,
    /// The GPU or its driver reported a failure.
    KOSHI_E_DEVICE = -502,

    /// A callback of the caller reported failure.
    KOSHI_E_CALLBACK = -601,
    /// The work was cancelled by the caller.
    KOSHI_E_CANCELLED = -602,

    /// A fault of the library itself. The handles that the call could change accept only their
    /// free function from then on.
    KOSHI_E_INTERNAL = -701,
}

use koshi_status_code::*;

impl koshi_status_code {
    /// Every code, as [`koshi_status_name`] searches them.
    const ALL: [(koshi_status_code, &CStr); 23] = [
        (KOSHI_OK, c"KOSHI_OK"),
        (KOSHI_OK_PARTIAL, c"KOSHI_OK_PARTIAL"),
        (KOSHI_E_ARGUMENT, c"KOSHI_E_ARGUMENT"),
        (KOSHI_E_HANDLE, c"KOSHI_E_HANDLE"),
        (KOSHI_E_BUSY, c"KOSHI_E_BUSY"),
        (KOSHI_E_STATE, c"KOSHI_E_STATE"),
        (KOSHI_E_CONFIG, c"KOSHI_E_CONFIG"),
        (KOSHI_E_UNSUPPORTED, c"KOSHI_E_UNSUPPORTED"),
        (KOSHI_E_IO, c"KOSHI_E_IO"),
        (KOSHI_E_FORMAT, c"KOSHI_E_FORMAT"),
        (KOSHI_E_GRAPH, c"KOSHI_E_GRAPH"),
        (KOSHI_E_SHAPE, c"KOSHI_E_SHAPE"),
        (KOSHI_E_SCORES, c"KOSHI_E_SCORES"),
        (KOSHI_E_NO_TOKENS, c"KOSHI_E_NO_TOKENS"),
        (KOSHI_E_CAPACITY, c"KOSHI_E_CAPACITY"),
        (KOSHI_E_FULL, c"KOSHI_E_FULL"),
        (KOSHI_E_LIMIT, c"KOSHI_E_LIMIT"),
        (KOSHI_E_NO_MEMORY, c"KOSHI_E_NO_MEMORY"),
        (KOSHI_E_NO_DEVICE, c"KOSHI_E_NO_DEVICE"),
        (KOSHI_E_DEVICE, c"KOSHI_E_DEVICE"),
        (KOSHI_E_CALLBACK, c"KOSHI_E_CALLBACK"),
        (KOSHI_E_CANCELLED, c"KOSHI_E_CANCELLED"),
        (KOSHI_E_INTERNAL, c"KOSHI_E_INTERNAL"),
    ];

    /// The code of an error; of its root where it only adds what was being done.
    fn of(error: &Error) -> koshi_status_code {
        match error {
            Error::Argument(_) => KOSHI_E_ARGUMENT,
            Error::Handle(_) => KOSHI_E_HANDLE,
            Error::Busy(_) => KOSHI_E_BUSY,
            Error::State(_) => KOSHI_E_STATE,
            Error::Config(_) => KOSHI_E_CONFIG,
            Error::Unsupported(_) => KOSHI_E_UNSUPPORTED,
            Error::Io { .. } => KOSHI_E_IO,
            Error::Format { .. } => KOSHI_E_FORMAT,
            Error::Graph(_) => KOSHI_E_GRAPH,
            Error::Shape(_) => KOSHI_E_SHAPE,
            Error::Scores { .. } => KOSHI_E_SCORES,
            Error::NoTokens { .. } => KOSHI_E_NO_TOKENS,
            Error::Full(_) => KOSHI_E_FULL,
            Error::Limit(_) => KOSHI_E_LIMIT,
            Error::Capacity { .. } => KOSHI_E_CAPACITY,
            Error::NoMemory { .. } => KOSHI_E_NO_MEMORY,
            Error::NoDevice(_) => KOSHI_E_NO_DEVICE,
            Error::Device(_) => KOSHI_E_DEVICE,
            Error::Callback { .. } => KOSHI_E_CALLBACK,
            Error::Cancelled => KOSHI_E_CANCELLED,
            Error::Internal(_) => KOSHI_E_INTERNAL,
            Error::Context { source, .. } => koshi_status_code::of(source),
        }
    }
}

/// The status of a call that did all that was asked, or less.
pub(super) fn ok_or_partial(whole: bool) -> koshi_status {
    let code = if whole { koshi_status_code::KOSHI_OK } else { koshi_status_code::KOSHI_OK_PARTIAL };
    code as koshi_status
}

/// The status that a call answers for `error`.
pub(super) fn status(error: &Error) -> koshi_status {
    koshi_status_code::of(error) as koshi_status
}

/// Why a call failed: a status, one line of text, and the chain of causes. Immutable and counted.
pub struct koshi_error {
    _opaque: (),
}

/// What a `koshi_error` stands for.
pub struct Failure {
    status: koshi_status,
    message: CString,
    cause: Option<Cause>,
}

/// The cause's handle, as a number; freed with the error that it caused.
struct Cause(usize);

impl Drop for Cause {
    fn drop(&mut self) {
        // A caller that wrongly freed it before has only taken its own view away.
        let _ = registry::free::<koshi_error>(ptr::without_provenance(self.0), "cause");
    }
}

impl Opaque for koshi_error {
    type Object = Failure;
    const KIND: Kind = Kind::Error;
}

impl Failure {
    fn new(error: &Error) -> Failure {
        let cause = match error {
            // Without room for the cause's handle its text still stands in this message.
            Error::Context { source, .. } => registry::insert::<koshi_error>(Failure::new(source)).ok(),
            _ => None,
        };
        Failure {
            status: status(error),
            message: line(&error.chain()),
            cause: cause.map(|handle| Cause(handle.addr())),
        }
    }
}

/// `text` as one C line: control characters, NUL among them, are written as escapes.
pub(super) fn line(text: &str) -> CString {
    let clean = if text.contains(char::is_control) {
        text.chars().fold(String::with_capacity(text.len() + 8), |mut clean, letter| {
            if letter.is_control() {
                clean.extend(letter.escape_default())
            } else {
                clean.push(letter)
            }
            clean
        })
    } else {
        text.to_owned()
    };
    CString::new(clean).unwrap_or_default()
}

/// A new handle for `error`, or null where none can be had.
pub(super) fn handle(error: &Error) -> *mut koshi_error {
    registry::insert::<koshi_error>(Failure::new(error)).unwrap_or(ptr::null_mut())
}

/// Name of a status, as "KOSHI_E_IO"; "KOSHI_E_UNKNOWN" for a number that this version does
/// not know. The text lives as long as the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_status_name(status: koshi_status) -> *const c_char {
    guard::query(c"KOSHI_E_UNKNOWN".as_ptr(), || {
        let known = koshi_status_code::ALL.iter().find(|(code, _)| *code as koshi_status == status);
        Ok(known.map_or(c"KOSHI_E_UNKNOWN", |(_, name)| *name).as_ptr())
    })
}

/// Status that the failed call answered; KOSHI_E_HANDLE for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_error_status(error: *const koshi_error) -> koshi_status {
    guard::query(KOSHI_E_HANDLE as koshi_status, || Ok(registry::get(error, "error")?.status))
}

/// What went wrong, in one line of UTF-8 that names the file, byte offset, frame, arc or
/// argument at fault and ends with the messages of the causes; NULL for a bad handle.
/// The text lives as long as the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_error_message(error: *const koshi_error) -> *const c_char {
    guard::query(ptr::null(), || Ok(registry::get(error, "error")?.message.as_ptr()))
}

/// The error behind this one, NULL if there is none or the handle is bad. It belongs to
/// `error` and lives as long; count it with koshi_error_ref to keep it longer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_error_cause(error: *const koshi_error) -> *const koshi_error {
    guard::query(ptr::null(), || {
        let failure: Arc<Failure> = registry::get(error, "error")?;
        Ok(failure.cause.as_ref().map_or(ptr::null(), |cause| ptr::without_provenance(cause.0)))
    })
}

/// Counts `error` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_error_ref(error: *const koshi_error) -> *mut koshi_error {
    guard::query(ptr::null_mut(), || registry::count(error, "error"))
}

/// Takes back one count of `error`; the last one frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_error_free(error: *mut koshi_error) -> koshi_status {
    guard::free(|| registry::free(error, "error"))
}

/// The result of a callback of the caller as a [`Result`].
pub(super) fn callback_result(what: &str, status: koshi_status) -> Result<()> {
    if status >= 0 { Ok(()) } else { Err(Error::Callback { what: what.into(), status }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pointer: *const c_char) -> String {
        assert!(!pointer.is_null());
        // SAFETY: a non-null text of the library ends with NUL and its owner is alive.
        unsafe { CStr::from_ptr(pointer) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn names_and_numbers_agree_with_the_enum() {
        for (code, name) in koshi_status_code::ALL {
            assert_eq!(format!("{code:?}"), name.to_str().unwrap());
            // SAFETY: takes a number.
            assert_eq!(text(unsafe { koshi_status_name(code as i32) }), format!("{code:?}"));
        }
        let mut numbers: Vec<i32> = koshi_status_code::ALL.iter().map(|(code, _)| *code as i32).collect();
        numbers.sort();
        numbers.dedup();
        assert_eq!(numbers.len(), koshi_status_code::ALL.len());
        // SAFETY: takes a number.
        assert_eq!(text(unsafe { koshi_status_name(-999) }), "KOSHI_E_UNKNOWN");
    }

    #[test]
    fn an_error_tells_its_causes_and_owns_them() {
        let error = Error::format("a.fst", 12, "bad magic").context("graph").context("opening");
        let top = handle(&error);
        // SAFETY: handles may be anything.
        unsafe {
            assert_eq!(koshi_error_status(top), KOSHI_E_FORMAT as i32);
            assert_eq!(text(koshi_error_message(top)), "opening: graph: a.fst: byte 12: bad magic");
            let middle = koshi_error_cause(top);
            assert_eq!(text(koshi_error_message(middle)), "graph: a.fst: byte 12: bad magic");
            let root = koshi_error_cause(middle);
            assert_eq!(text(koshi_error_message(root)), "a.fst: byte 12: bad magic");
            assert!(koshi_error_cause(root).is_null());
            let kept = koshi_error_ref(root);
            assert_eq!(koshi_error_free(top), 0);
            assert_eq!(koshi_error_status(middle), KOSHI_E_HANDLE as i32);
            assert_eq!(text(koshi_error_message(kept)), "a.fst: byte 12: bad magic");
            assert_eq!(koshi_error_free(kept), 0);
            assert!(koshi_error_message(kept).is_null());
            assert_eq!(koshi_error_free(kept), KOSHI_E_HANDLE as i32);
        }
    }

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(line("a\nb\0c\td é").to_str().unwrap(), "a\\nb\\u{0}c\\td é");
    }
}
