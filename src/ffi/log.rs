//! Log messages, handed to a callback. Without one the library is silent.
//!
//! Inside the library messages go through the `log` crate. Its logger belongs to the whole
//! program: in the shared library that is ours alone, but a Rust host that links the crate
//! may have set its own. Then that one gets the messages, and a callback is refused.

use std::ffi::{c_char, c_void};
use std::sync::{Arc, OnceLock};

use ::log::{LevelFilter, Log, Metadata, Record};
use parking_lot::RwLock;

use super::callback::{Gate, UserData, koshi_drop_fn, outside};
use super::error::{koshi_error, koshi_status, line};
use super::guard;
use crate::error::{Error, Result};

/// How much a log message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum koshi_log_level {
    /// As a greatest level: nothing at all.
    KOSHI_LOG_OFF = 0,
    /// Something failed that no status could tell.
    KOSHI_LOG_ERROR = 1,
    /// Something is not as it should be, and the work goes on.
    KOSHI_LOG_WARN = 2,
    /// What the library chose and why, once an object.
    KOSHI_LOG_INFO = 3,
    /// For those who look for a fault.
    KOSHI_LOG_DEBUG = 4,
    /// Everything.
    KOSHI_LOG_TRACE = 5,
}

/// Takes a log message: a level, the part of the library that speaks, and one line of UTF-8,
/// both valid for the call only. Runs on whichever thread has something to say, possibly on
/// several at once. What the callback itself causes to be logged is dropped.
pub type koshi_log_fn =
    Option<unsafe extern "C" fn(user_data: *mut c_void, level: i32, target: *const c_char, message: *const c_char)>;

/// A callback that was set.
struct Sink {
    function: unsafe extern "C" fn(*mut c_void, i32, *const c_char, *const c_char),
    user_data: UserData,
    gate: Gate,
}

/// Stands between the `log` crate and the callback.
struct Bridge {
    sink: RwLock<Option<Arc<Sink>>>,
}

static BRIDGE: Bridge = Bridge { sink: RwLock::new(None) };

impl Log for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().split("::").next() == Some("koshi")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let Some(sink) = self.sink.read().clone() else { return };
        if sink.gate.is_inside() {
            return;
        }
        let Some(_inside) = sink.gate.enter() else { return };
        let (target, message) = (line(record.target()), line(&record.args().to_string()));
        let level = record.level() as i32;
        let user_data = sink.user_data.pointer();
        // SAFETY: the caller gave this function for this data; the texts outlive the call.
        outside(|| unsafe { (sink.function)(user_data, level, target.as_ptr(), message.as_ptr()) });
    }

    fn flush(&self) {}
}

/// Becomes the program's logger, unless another has that place.
fn install() -> Result<()> {
    static OURS: OnceLock<bool> = OnceLock::new();
    if *OURS.get_or_init(|| ::log::set_logger(&BRIDGE).is_ok()) {
        return Ok(());
    }
    Err(Error::State("the host has set a logger of the Rust crate `log`; it gets the messages".into()))
}

fn level_filter(level: i32) -> Result<LevelFilter> {
    let filter = LevelFilter::iter().find(|filter| *filter as i32 == level);
    filter.ok_or_else(|| Error::Argument(format!("max_level is {level}; it must be a koshi_log_level, 0 to 5")))
}

/// Sends log messages up to `max_level` (a koshi_log_level) to `function`, in place of the
/// callback set before; NULL turns them off. `drop` runs once when `user_data` is no longer
/// used, also when this call fails. Returns when no thread runs the callback set before,
/// or at once when called from inside it. Any thread, any time.
/// Fails with KOSHI_E_STATE in a Rust program that has set a logger of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_log_set(
    function: koshi_log_fn,
    user_data: *mut c_void,
    drop: koshi_drop_fn,
    max_level: i32,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let user_data = UserData::new(user_data, drop);
        let filter = level_filter(max_level)?;
        let sink = function.map(|function| Arc::new(Sink { function, user_data, gate: Gate::default() }));
        if sink.is_some() {
            install()?;
        }
        let filter = if sink.is_some() { filter } else { LevelFilter::Off };
        let mut place = BRIDGE.sink.write();
        if sink.is_some() || place.is_some() {
            ::log::set_max_level(filter);
        }
        let before = std::mem::replace(&mut *place, sink);
        std::mem::drop(place);
        if let Some(before) = before {
            before.gate.close();
        }
        Ok(())
    })
}
