//! What a call over the C face costs before it does anything: guard, handle lookup, count.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use koshi::ffi::{koshi_error, koshi_error_free, koshi_error_ref, koshi_error_status, koshi_log_set, koshi_version};

/// Some handle: an error object.
fn handle() -> *mut koshi_error {
    let mut err = ptr::null_mut();
    // SAFETY: `err` is a place for a handle.
    unsafe { koshi_log_set(None, ptr::null_mut(), None, 99, &raw mut err) };
    err
}

fn status(handle: usize) -> i32 {
    // SAFETY: handles may be anything.
    unsafe { koshi_error_status(std::hint::black_box(handle) as *const koshi_error) }
}

fn single(criterion: &mut Criterion) {
    let live = handle() as usize;
    let stale = handle() as usize;
    // SAFETY: handles may be anything.
    unsafe { koshi_error_free(stale as *mut koshi_error) };
    // SAFETY: takes nothing.
    criterion.bench_function("guard alone", |bench| bench.iter(|| unsafe { koshi_version() }));
    criterion.bench_function("look up a live handle", |bench| bench.iter(|| status(live)));
    criterion.bench_function("look up a stale handle", |bench| bench.iter(|| status(stale)));
    criterion.bench_function("ref and free", |bench| {
        bench.iter(|| {
            let live = std::hint::black_box(live) as *mut koshi_error;
            // SAFETY: handles may be anything.
            unsafe { koshi_error_free(koshi_error_ref(live)) }
        });
    });
    criterion.bench_function("fail with an error object, free it", |bench| {
        // SAFETY: handles may be anything.
        bench.iter(|| unsafe { koshi_error_free(handle()) });
    });
}

/// The same lookup while another thread does nothing else.
fn contended(criterion: &mut Criterion) {
    let own = handle() as usize;
    let others = handle() as usize;
    for (name, theirs) in [("another thread on another handle", others), ("another thread on the same handle", own)] {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    status(theirs);
                }
            });
            criterion.bench_function(name, |bench| bench.iter(|| status(own)));
            stop.store(true, Ordering::Relaxed);
        });
    }
}

criterion_group! {
    name = handles;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    targets = single, contended
}
criterion_main!(handles);
