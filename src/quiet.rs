//! Panics that the library catches are not printed.
//!
//! Rust's default panic hook writes to standard error, which a library must not do. Hooks
//! belong to the whole process (in the shared library: to the copy of the Rust runtime
//! inside it), so ours is chained in once, stays silent only on threads that are inside a
//! [`Quiet`] scope, and hands every other panic to the hook that was there before. Should
//! a Rust host set its own hook later, that one rules: the host asked for it.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// While one lives, panics on this thread print nothing; whoever makes it catches them.
#[derive(Debug)]
#[must_use]
pub struct Quiet {
    not_send: PhantomData<*const ()>,
}

impl Quiet {
    /// Opens a scope; scopes nest.
    #[inline]
    pub fn enter() -> Quiet {
        chain_hook();
        DEPTH.set(DEPTH.get() + 1);
        Quiet { not_send: PhantomData }
    }

    /// For a thread of the library's own: silent from now until the thread ends.
    pub fn whole_thread() {
        std::mem::forget(Quiet::enter());
    }

    /// Source file and line of the last panic on this thread, once.
    pub fn take_place(&self) -> Option<String> {
        PLACE.try_with(|place| place.take()).ok().flatten()
    }
}

/// While one lives, the scopes around it do not count: for callbacks, whose panics are the host's.
#[derive(Debug)]
#[must_use]
pub struct Pause {
    depth: u32,
    not_send: PhantomData<*const ()>,
}

impl Pause {
    /// Pauses the scopes that this thread is in.
    #[inline]
    pub fn enter() -> Pause {
        Pause { depth: DEPTH.replace(0), not_send: PhantomData }
    }
}

impl Drop for Pause {
    #[inline]
    fn drop(&mut self) {
        DEPTH.set(self.depth);
    }
}

impl Drop for Quiet {
    #[inline]
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Puts our hook before the one in force, the first time that it is called.
#[inline]
fn chain_hook() {
    static CHAINED: AtomicBool = AtomicBool::new(false);
    if !CHAINED.load(Ordering::Relaxed) {
        chain_hook_once(&CHAINED);
    }
}

#[cold]
fn chain_hook_once(chained: &AtomicBool) {
    // A panicking thread may not change the hook; a later call will.
    if std::thread::panicking() || chained.swap(true, Ordering::Relaxed) {
        return;
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| if DEPTH.get() == 0 { before(info) } else { remember(info) }));
}

fn remember(info: &PanicHookInfo<'_>) {
    let place = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
    // Without thread-local storage (the thread is ending) the place is not known: fine.
    let _ = PLACE.try_with(|slot| slot.replace(place));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_inside_leaves_its_place_and_nothing_else() {
        let quiet = Quiet::enter();
        let caught = std::panic::catch_unwind(|| {
            let empty: &[u8] = std::hint::black_box(&[]);
            empty[0]
        });
        assert!(caught.is_err());
        let place = quiet.take_place().unwrap();
        assert!(place.starts_with("src/quiet.rs:"), "{place}");
        assert_eq!(quiet.take_place(), None);
    }

    #[test]
    fn scopes_nest() {
        let outer = Quiet::enter();
        drop(Quiet::enter());
        assert_eq!(DEPTH.get(), 1);
        let pause = Pause::enter();
        assert_eq!(DEPTH.get(), 0);
        drop(Quiet::enter());
        assert_eq!(DEPTH.get(), 0);
        drop(pause);
        assert_eq!(DEPTH.get(), 1);
        drop(outer);
        assert_eq!(DEPTH.get(), 0);
    }
}
