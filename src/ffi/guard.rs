//! What every export runs in: the default floating-point environment, no unwinding into C,
//! no printing, and results turned into a status.
//!
//! A caught panic becomes [`Error::Internal`]. It poisons the handles that the call could
//! change (see `crate::exclusive`); immutable ones cannot have been left half changed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use super::error::{self, koshi_error, koshi_status, koshi_status_code::KOSHI_OK};
use crate::error::{Error, Result};
use crate::float_env::FloatEnv;
use crate::quiet::Quiet;

/// What a successful body hands to the caller.
pub(super) trait Success {
    fn status(self) -> koshi_status;
}

impl Success for () {
    fn status(self) -> koshi_status {
        KOSHI_OK as koshi_status
    }
}

/// For bodies that may succeed in part.
impl Success for koshi_status {
    fn status(self) -> koshi_status {
        self
    }
}

/// Runs the body of a fallible export. On failure `*err` gets a new error object (or null
/// where none can be had), unless `err` is null; on success it is left alone.
#[inline]
pub(super) fn call<T: Success>(err: *mut *mut koshi_error, body: impl FnOnce() -> Result<T>) -> koshi_status {
    inside(body).map_or_else(|error| fail(err, &error), Success::status)
}

/// Runs the body of a plain query, which answers `otherwise` on any failure.
#[inline]
pub(super) fn query<T>(otherwise: T, body: impl FnOnce() -> Result<T>) -> T {
    inside(body).unwrap_or(otherwise)
}

/// Runs the body of a free function: its handle's last use is dropped in here as well.
pub(super) fn free<T>(body: impl FnOnce() -> Result<Option<Arc<T>>>) -> koshi_status {
    inside(|| body().map(drop)).map_or_else(|error| error::status(&error), Success::status)
}

#[inline]
fn inside<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    let _env = FloatEnv::enter();
    let quiet = Quiet::enter();
    // Unwind safety: what a panic may leave half changed is poisoned by its own guard.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(caught(&quiet, payload)))
}

#[cold]
fn caught(quiet: &Quiet, payload: Box<dyn Any + Send>) -> Error {
    let place = quiet.take_place().unwrap_or_else(|| "a worker thread".into());
    let what = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text.as_str(),
        _ => "no message",
    };
    let error = Error::Internal(format!("{what}, at {place}"));
    // A payload of a foreign type might panic in its drop.
    std::mem::forget(payload);
    error
}

#[cold]
fn fail(err: *mut *mut koshi_error, error: &Error) -> koshi_status {
    let _quiet = Quiet::enter();
    let object = catch_unwind(AssertUnwindSafe(|| {
        log::debug!("a call failed: {}", error.chain());
        if err.is_null() { ptr::null_mut() } else { error::handle(error) }
    }));
    if !err.is_null() {
        // SAFETY: the header asks for NULL or a place for a pointer. Unaligned, so that a
        // packed struct of the caller's will do.
        unsafe { err.write_unaligned(object.unwrap_or(ptr::null_mut())) };
    }
    error::status(error)
}

#[cfg(test)]
mod tests {
    use super::super::error::*;
    use super::*;

    #[test]
    fn a_panic_is_an_internal_error_with_its_place() {
        let mut err = ptr::null_mut();
        let status = call(&mut err, || -> Result<()> {
            let none: Option<u8> = std::hint::black_box(None);
            none.expect("a number");
            Ok(())
        });
        assert_eq!(status, koshi_status_code::KOSHI_E_INTERNAL as i32);
        // SAFETY: the handle was made just now.
        let message = unsafe { std::ffi::CStr::from_ptr(koshi_error_message(err)) }.to_str().unwrap();
        assert!(message.starts_with("internal fault: a number, at src/ffi/guard.rs:"), "{message}");
        // SAFETY: handles may be anything.
        assert_eq!(unsafe { koshi_error_free(err) }, 0);
    }

    #[test]
    fn success_leaves_the_error_alone_and_failure_may_go_without_one() {
        let mark = ptr::without_provenance_mut::<koshi_error>(8);
        let mut err = mark;
        assert_eq!(call(&mut err, || Ok(())), 0);
        assert_eq!(call(&mut err, || Ok(koshi_status_code::KOSHI_OK_PARTIAL as i32)), 1);
        assert_eq!(err, mark);
        let status = call(ptr::null_mut(), || -> Result<()> { Err(Error::Cancelled) });
        assert_eq!(status, koshi_status_code::KOSHI_E_CANCELLED as i32);
    }

    #[test]
    fn a_payload_that_panics_when_dropped_is_contained() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        let value = query(-1, || -> Result<i32> { std::panic::panic_any(Bomb) });
        assert_eq!(value, -1);
    }

    #[test]
    fn a_panic_inside_a_free_is_contained() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("in drop");
            }
        }
        assert_eq!(free(|| Ok(Some(Arc::new(Bomb)))), koshi_status_code::KOSHI_E_INTERNAL as i32);
    }
}
