//! The system's allocator, which refuses an allocation when told to. A test binary that includes this file runs under
//! it, and says with a function `exempt` of its own whether a thread runs code of the test, whose allocations do not
//! count.
#![allow(dead_code)] // each test file uses its own part

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

struct Refusing;

thread_local! {
    /// Least size of an allocation that counts.
    static LEAST: Cell<usize> = const { Cell::new(usize::MAX) };
    /// How many further large allocations of this thread succeed; `None` for all.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
    static REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// The same for all threads together, below 0 for none; and the least size.
static LEFT_OF_ALL: AtomicI64 = AtomicI64::new(-1);
static LEAST_OF_ALL: AtomicI64 = AtomicI64::new(i64::MAX);

/// Bytes of the blocks of [`NOTED`] bytes or more that there are.
static HELD: AtomicI64 = AtomicI64::new(0);
const NOTED: usize = 256;

/// Bytes that the process holds, but for what is small.
pub fn held() -> i64 {
    HELD.load(Ordering::SeqCst)
}

fn note(block: *mut u8, size: usize) -> *mut u8 {
    if !block.is_null() && size >= NOTED {
        HELD.fetch_add(size as i64, Ordering::Relaxed);
    }
    block
}

fn forget(size: usize) {
    if size >= NOTED {
        HELD.fetch_sub(size as i64, Ordering::Relaxed);
    }
}

/// Refuses this thread's allocation number `at` (from 0) of `least` bytes or more while `step` runs; `None`: none. Says
/// whether there was one.
pub fn refusing<T>(at: Option<usize>, least: usize, step: impl FnOnce() -> T) -> (bool, T) {
    REFUSED.set(false);
    LEAST.set(least);
    LEFT.set(at);
    let made = step();
    LEFT.set(None);
    (REFUSED.get(), made)
}

/// As [`refusing`], of all threads; one test at a time may do that.
pub fn refusing_anywhere<T>(at: usize, least: usize, step: impl FnOnce() -> T) -> (bool, T) {
    LEAST_OF_ALL.store(least as i64, Ordering::SeqCst);
    LEFT_OF_ALL.store(at as i64 + 1, Ordering::SeqCst);
    let made = step();
    let left = LEFT_OF_ALL.swap(-1, Ordering::SeqCst);
    (left <= 0, made)
}

fn refuses(size: usize) -> bool {
    // What is set before a thread ends may be asked for after its cells are gone.
    let refuses_here = LEFT.try_with(|left| match left.get() {
        None => false,
        Some(_) if size < LEAST.get() || crate::exempt() => false,
        Some(0) => {
            left.set(None);
            REFUSED.set(true);
            true
        }
        Some(more) => {
            left.set(Some(more - 1));
            false
        }
    });
    if refuses_here.unwrap_or(false) {
        return true;
    }
    if LEFT_OF_ALL.load(Ordering::Relaxed) <= 0 || (size as i64) < LEAST_OF_ALL.load(Ordering::Relaxed) {
        return false;
    }
    !crate::exempt() && LEFT_OF_ALL.fetch_sub(1, Ordering::SeqCst) == 1
}

// SAFETY: answers null, as an allocator may, or hands the call on unchanged.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if refuses(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is handed on.
        note(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if refuses(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is handed on.
        note(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        forget(layout.size());
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // (An allocator may have no smaller block either.)
        if refuses(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is handed on.
        let moved = note(unsafe { System.realloc(block, layout, size) }, size);
        if !moved.is_null() {
            forget(layout.size());
        }
        moved
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;
