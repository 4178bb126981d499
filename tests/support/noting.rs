//! An allocator that notes what each thread asks for. A test binary that includes this file runs under it.
#![allow(dead_code)] // each test file uses its own part

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Noting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// How often this thread has asked for memory.
pub fn count() -> u64 {
    COUNT.get()
}

/// Bytes that this thread has asked for and not given back.
pub fn held() -> i64 {
    HELD.get()
}

/// Most bytes that this thread asked for at once while `run` ran.
pub fn largest_of(run: impl FnOnce()) -> usize {
    LARGEST.set(0);
    run();
    LARGEST.get()
}

/// Most bytes that this thread held at one time while `run` ran, beyond what it held before.
pub fn peak_of(run: impl FnOnce()) -> usize {
    let before = HELD.get();
    PEAK.set(before);
    run();
    (PEAK.get() - before).max(0) as usize
}

fn note(size: usize, before: usize) {
    COUNT.set(COUNT.get() + 1);
    LARGEST.set(LARGEST.get().max(size));
    HELD.set(HELD.get() + size as i64 - before as i64);
    PEAK.set(PEAK.get().max(HELD.get()));
}

// SAFETY: hands every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as i64);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size, layout.size());
        // SAFETY: the caller's promise is handed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Noting = Noting;
