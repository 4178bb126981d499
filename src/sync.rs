//! A lock and a signal with the standard library's signatures, so that models of threads can put loom's in their
//! place, over parking_lot's, whose code is built with the crate: ThreadSanitizer sees the order that they make.

use std::sync::LockResult;
use std::time::Duration;

pub use parking_lot::{MutexGuard, WaitTimeoutResult};

/// A lock that is never poisoned.
#[derive(Debug, Default)]
pub struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    /// A lock over `value`.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(parking_lot::Mutex::new(value))
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        Ok(self.0.lock())
    }
}

/// A signal to those who wait with a lock.
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// A signal that nobody waits for.
    pub fn new() -> Condvar {
        Condvar::default()
    }

    /// Gives the lock up until there is a signal.
    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(&mut guard);
        Ok(guard)
    }

    /// The same for at most `timeout`.
    pub fn wait_timeout<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let waited = self.0.wait_for(&mut guard, timeout);
        Ok((guard, waited))
    }

    /// Wakes one who waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
