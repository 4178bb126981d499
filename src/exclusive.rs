//! Objects that one call at a time may change: a second call is told that it is busy
//! instead of waiting, also when it comes from a callback of the first; a caught panic
//! poisons the object.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{Error, Result};

/// `T` behind a lock that is only ever tried.
pub(crate) struct Exclusive<T> {
    what: &'static str,
    value: RwLock<T>,
    poisoned: AtomicBool,
}

impl<T> Exclusive<T> {
    /// `what` is the C type's name, for messages.
    pub(crate) fn new(what: &'static str, value: T) -> Exclusive<T> {
        Exclusive { what, value: RwLock::new(value), poisoned: AtomicBool::new(false) }
    }

    /// For calls that only look; they may run together.
    pub(crate) fn read(&self) -> Result<Use<'_, RwLockReadGuard<'_, T>>> {
        self.usable(self.value.try_read())
    }

    /// For calls that change it.
    pub(crate) fn write(&self) -> Result<Use<'_, RwLockWriteGuard<'_, T>>> {
        self.usable(self.value.try_write())
    }

    fn usable<G>(&self, lock: Option<G>) -> Result<Use<'_, G>> {
        let lock = lock.ok_or_else(|| Error::Busy(format!("the {} is in use by another call", self.what)))?;
        if self.poisoned.load(Ordering::Acquire) {
            let what = self.what;
            return Err(Error::Handle(format!("an internal fault has left the {what} unusable; free it")));
        }
        Ok(Use { lock, poisoned: &self.poisoned, panicking: std::thread::panicking() })
    }
}

/// A use of an [`Exclusive`], for the length of a call.
pub(crate) struct Use<'a, G> {
    lock: G,
    poisoned: &'a AtomicBool,
    /// Whether a panic (of the host, in Rust) was on its way before this use began.
    panicking: bool,
}

impl<G: Deref> Deref for Use<'_, G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.lock
    }
}

impl<G: DerefMut> DerefMut for Use<'_, G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.lock
    }
}

impl<G> Drop for Use<'_, G> {
    fn drop(&mut self) {
        if !self.panicking && std::thread::panicking() {
            self.poisoned.store(true, Ordering::Release);
        }
    }
}

/// Lets a value stand in an [`Exclusive`] that threads may take turns with, but not look at
/// together (a file or pipe): only exclusive use reaches it.
pub(crate) struct Turns<T>(T);

// SAFETY: a shared reference to it gives no access to the value.
unsafe impl<T: Send> Sync for Turns<T> {}

impl<T> Turns<T> {
    pub(crate) fn new(value: T) -> Turns<T> {
        Turns(value)
    }

    pub(crate) fn get(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::quiet::Quiet;

    #[test]
    fn one_writer_or_many_readers_and_nobody_waits() {
        let thing = Exclusive::new("koshi_thing", 1);
        {
            let first = thing.read().unwrap();
            let second = thing.read().unwrap();
            assert_eq!(*first + *second, 2);
            assert!(matches!(thing.write(), Err(Error::Busy(_))));
        }
        *thing.write().unwrap() += 1;
        let writer = thing.write().unwrap();
        assert!(matches!(thing.read(), Err(Error::Busy(_))));
        assert!(matches!(thing.write(), Err(Error::Busy(_))));
        assert_eq!(*writer, 2);
    }

    #[test]
    fn a_panic_during_a_use_poisons() {
        let thing = Exclusive::new("koshi_thing", vec![1]);
        let _quiet = Quiet::enter();
        let answer = catch_unwind(AssertUnwindSafe(|| {
            let list = thing.write().unwrap();
            list[std::hint::black_box(7)]
        }));
        assert!(answer.is_err());
        for result in [thing.write().map(drop), thing.read().map(drop)] {
            assert!(matches!(result, Err(Error::Handle(_))));
        }
    }

    #[test]
    fn an_error_does_not_poison() {
        let thing = Exclusive::new("koshi_thing", 1);
        let answer: Result<()> = (|| {
            let _value = thing.write()?;
            Err(Error::Cancelled)
        })();
        assert!(answer.is_err());
        assert!(thing.write().is_ok());
    }
}
