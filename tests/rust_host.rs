//! A Rust program that uses the library keeps its own logger and panic hook.

mod common;

use std::ffi::c_void;
use std::panic::{catch_unwind, panic_any, set_hook};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use common::graph::{arc, source};
use koshi::decoder::{Decoder, DecoderConfig, Listener, SharedChannel};
use koshi::ffi::*;
use koshi::graph::{Columns, Graph};
use log::{LevelFilter, Log, Metadata, Record};

static MESSAGES: AtomicU32 = AtomicU32::new(0);
static PANICS: AtomicU32 = AtomicU32::new(0);

/// The host's logger.
struct Host;

impl Log for Host {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        assert!(record.target().starts_with("koshi"));
        MESSAGES.fetch_add(1, Ordering::Relaxed);
    }

    fn flush(&self) {}
}

unsafe extern "C" fn count(user_data: *mut c_void) {
    // SAFETY: the test below passes a counter.
    unsafe { &*user_data.cast::<AtomicU32>() }.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn never(_: *mut c_void, _: i32, _: *const std::ffi::c_char, _: *const std::ffi::c_char) {
    unreachable!("the host's logger gets the messages");
}

#[test]
fn the_hosts_logger_stays() {
    log::set_logger(&Host).unwrap();
    log::set_max_level(LevelFilter::Trace);
    let drops = AtomicU32::new(0);
    let user_data = &raw const drops as *mut c_void;
    let mut err = ptr::null_mut();
    // SAFETY: as C would call them.
    unsafe {
        let status = koshi_log_set(Some(never), user_data, Some(count), 5, &raw mut err);
        assert_eq!(status, koshi_status_code::KOSHI_E_STATE as i32);
        assert_eq!(koshi_error_free(err), 0);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        assert_eq!(koshi_log_set(None, ptr::null_mut(), None, 0, ptr::null_mut()), 0);
        assert_eq!(koshi_log_set(None, ptr::null_mut(), None, 9, ptr::null_mut()), -101);
    }
    assert_eq!(log::max_level(), LevelFilter::Trace);
    assert!(MESSAGES.load(Ordering::Relaxed) >= 2, "failed calls are logged");
}

/// A listener that panics at the end.
struct Bomb;

impl Listener for Bomb {
    fn partial(&self) {}
    fn endpoint(&self) {}
    fn finished(&self) {
        panic!("a bomb");
    }
    fn failed(&self, _: &koshi::Error) {}
}

#[test]
fn the_hosts_panics_reach_its_hook() {
    set_hook(Box::new(|_| {
        PANICS.fetch_add(1, Ordering::Relaxed);
    }));
    // SAFETY: takes nothing. Chains the library's hook before the host's.
    assert!(unsafe { koshi_version() } > 0);
    assert!(catch_unwind(|| panic_any(1)).is_err());
    assert_eq!(PANICS.load(Ordering::Relaxed), 1);
    // So do those of its listeners, on a thread of the library's.
    let graph = Graph::from_source(&source(Some(0), vec![(0.0, vec![arc(1, 1, 0.0, 0)])]), Columns::Labels).unwrap();
    let decoder = Decoder::new(Arc::new(graph), DecoderConfig::default()).unwrap();
    let line = SharedChannel::new(decoder.new_channel().unwrap()).unwrap();
    line.set_listener(Some(Arc::new(Bomb))).unwrap();
    line.begin().unwrap();
    line.finish().unwrap();
    assert!(line.wait(None).unwrap());
    assert_eq!(PANICS.load(Ordering::Relaxed), 2);
    drop(std::panic::take_hook());
}
