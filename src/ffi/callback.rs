//! Callbacks of the caller: its data with the drop that runs exactly once, and the gate
//! that lets a free wait until no callback runs any more.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};

use parking_lot::{Condvar, Mutex};

use crate::float_env::FloatEnv;
use crate::quiet::Pause;

/// Called once when the library will never use `user_data` again. May be NULL.
pub type koshi_drop_fn = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

/// The `user_data` of a caller. Made first thing in a registering call, so that the drop
/// also runs when that call fails.
pub(super) struct UserData {
    data: *mut c_void,
    drop: koshi_drop_fn,
}

// SAFETY: the library never looks behind the pointer; the header says on which threads
// callbacks and the drop run, and the caller's code is made for that.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

impl UserData {
    pub(super) fn new(data: *mut c_void, drop: koshi_drop_fn) -> UserData {
        UserData { data, drop }
    }

    pub(super) fn pointer(&self) -> *mut c_void {
        self.data
    }
}

impl Drop for UserData {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: the caller gave this function for this data; this is its only call.
            outside(|| unsafe { drop(self.data) });
        }
    }
}

/// Runs caller's code. Whatever it does to the floating-point environment is undone, and a
/// panic in it (should it be Rust) is printed as the host prints its own.
#[inline]
pub(super) fn outside<R>(body: impl FnOnce() -> R) -> R {
    let _env = FloatEnv::enter();
    let _pause = Pause::enter();
    body()
}

/// Counts the threads that may be running callbacks of one registration.
#[derive(Default)]
pub(super) struct Gate {
    inside: Mutex<Vec<ThreadId>>,
    left: Condvar,
    closed: AtomicBool,
}

impl Gate {
    /// Enters for as long as the result lives; `None` once the gate is closed.
    pub(super) fn enter(&self) -> Option<Inside<'_>> {
        let mut inside = self.inside.lock();
        if self.closed() {
            return None;
        }
        inside.push(thread::current().id());
        Some(Inside { gate: self })
    }

    /// Whether this thread is inside, that is, whether it runs below a callback.
    pub(super) fn is_inside(&self) -> bool {
        self.inside.lock().contains(&thread::current().id())
    }

    /// Whether no callback may be made any more. Asked before each.
    #[inline]
    pub(super) fn closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Lets nobody in any more and waits until all have left; from inside, returns at once.
    pub(super) fn close(&self) {
        let mut inside = self.inside.lock();
        self.closed.store(true, Ordering::Release);
        if inside.contains(&thread::current().id()) {
            return;
        }
        while !inside.is_empty() {
            self.left.wait(&mut inside);
        }
    }
}

/// A thread's stay behind a [`Gate`].
pub(super) struct Inside<'a> {
    gate: &'a Gate,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut inside = self.gate.inside.lock();
        let own = thread::current().id();
        if let Some(at) = inside.iter().position(|id| *id == own) {
            inside.swap_remove(at);
        }
        drop(inside);
        self.gate.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;

    unsafe extern "C" fn count(user_data: *mut c_void) {
        // SAFETY: the tests below pass a counter.
        unsafe { &*user_data.cast::<AtomicUsize>() }.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn the_drop_runs_once_and_may_be_missing() {
        let drops = AtomicUsize::new(0);
        let pointer = &raw const drops as *mut c_void;
        drop(UserData::new(pointer, Some(count)));
        drop(UserData::new(pointer, None));
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn close_waits_for_another_thread() {
        let gate = Gate::default();
        let done = AtomicBool::new(false);
        let entered = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _inside = gate.enter().unwrap();
                entered.store(true, Ordering::Release);
                while !gate.closed() {
                    thread::yield_now();
                }
                thread::sleep(Duration::from_millis(20));
                done.store(true, Ordering::Release);
            });
            while !entered.load(Ordering::Acquire) {
                thread::yield_now();
            }
            gate.close();
            assert!(done.load(Ordering::Acquire));
        });
        assert!(gate.enter().is_none());
    }

    #[test]
    fn close_from_inside_returns_at_once() {
        let gate = Gate::default();
        let inside = gate.enter().unwrap();
        gate.close();
        assert!(gate.closed() && gate.is_inside());
        drop(inside);
        assert!(!gate.is_inside());
    }
}
