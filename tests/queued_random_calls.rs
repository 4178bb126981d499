//! Sixteen threads call whatever there is for queued channels, in any order, with random pauses: eight over channels that
//! they share, free under each other and make again, eight over one of their own each, whose results are those of
//! a push, bit for bit, whatever the others do. Through the C face.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::graph::Rng;
use face::queued::Growing;
use face::{C, Face, Matrix, Queued, Results, graph, solo};
use koshi::decoder::DecoderConfig;
use koshi::ffi::*;
use koshi::search::SearchConfig;

const SHARED: usize = 5;

fn config() -> DecoderConfig {
    let search =
        SearchConfig { beam: 9.0, lattice_beam: 4.0, max_active: 200, link_budget: 500, ..SearchConfig::default() };
    DecoderConfig {
        search,
        num_lanes: 3,
        num_threads: 3,
        chunk_frames: 4,
        queue_frames: 24,
        ..DecoderConfig::default()
    }
}

fn pause(rng: &mut Rng) {
    match rng.below(6) {
        0 => thread::sleep(Duration::from_micros(rng.below(300))),
        1 => thread::yield_now(),
        _ => {}
    }
}

/// What the listeners of all channels have seen.
#[derive(Default)]
struct Seen {
    made: AtomicUsize,
    dropped: AtomicUsize,
    ends: AtomicUsize,
}

/// A listener's data: it counts who is inside, which nobody may be twice or once it is dropped.
struct Ear {
    seen: &'static Seen,
    inside: AtomicUsize,
    seed: AtomicUsize,
}

/// The data of a listener, which a callback is inside of.
struct Inside<'a>(&'a Ear);

impl<'a> Inside<'a> {
    unsafe fn enter(user_data: *mut c_void) -> Inside<'a> {
        // SAFETY: the box of `listen`, which `drop_ear` lets go of.
        let ear = unsafe { &*user_data.cast::<Ear>() };
        assert_eq!(ear.inside.fetch_add(1, Ordering::SeqCst), 0, "two callbacks of a channel at once");
        Inside(ear)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        assert_eq!(self.0.inside.fetch_sub(1, Ordering::SeqCst), 1);
    }
}

unsafe extern "C" fn on_news(user_data: *mut c_void, channel: *mut koshi_channel) {
    // SAFETY: the data of `listen`.
    let inside = unsafe { Inside::enter(user_data) };
    let seed = inside.0.seed.fetch_add(1, Ordering::Relaxed) as u64;
    let mut rng = Rng(seed);
    // SAFETY: any handle may be given, and places for results.
    unsafe {
        let mut path = ptr::null_mut();
        let status = koshi_channel_partial(channel, &mut path, ptr::null_mut(), ptr::null_mut());
        assert!(among(status, &[KOSHI_OK, KOSHI_E_HANDLE, KOSHI_E_BUSY, KOSHI_E_STATE]), "{status}");
        koshi_path_free(path);
        assert!(among(koshi_channel_wait(channel, 0.0, ptr::null_mut()), &[KOSHI_E_BUSY, KOSHI_E_HANDLE]));
        let _ = match rng.below(20) {
            0 => koshi_channel_free(channel),
            1 => koshi_channel_set_listener(channel, ptr::null(), ptr::null_mut(), None, ptr::null_mut()),
            2 => koshi_channel_begin(channel, ptr::null_mut()),
            3 => koshi_channel_cancel(channel, ptr::null_mut()),
            4 => koshi_channel_finish(channel, ptr::null_mut()),
            _ => 0,
        };
    }
    pause(&mut rng);
}

unsafe extern "C" fn on_finished(user_data: *mut c_void, channel: *mut koshi_channel) {
    // SAFETY: the data of `listen`.
    unsafe { &*user_data.cast::<Ear>() }.seen.ends.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { on_news(user_data, channel) };
}

unsafe extern "C" fn on_failed(user_data: *mut c_void, channel: *mut koshi_channel, status: i32, _: *const c_char) {
    assert!(status < 0);
    // SAFETY: as above.
    unsafe { on_finished(user_data, channel) };
}

unsafe extern "C" fn drop_ear(user_data: *mut c_void) {
    // SAFETY: the box of `listen`, whose only drop this is.
    let ear = unsafe { Box::from_raw(user_data.cast::<Ear>()) };
    assert_eq!(ear.inside.load(Ordering::SeqCst), 0, "dropped under a callback");
    ear.seen.dropped.fetch_add(1, Ordering::SeqCst);
}

use koshi_status_code::*;

fn among(status: koshi_status, allowed: &[koshi_status_code]) -> bool {
    allowed.iter().any(|code| *code as koshi_status == status)
}

fn listen(channel: *mut koshi_channel, seen: &'static Seen, rng: &mut Rng) -> koshi_status {
    let listener = koshi_channel_listener {
        struct_size: size_of::<koshi_channel_listener>() as u32,
        reserved: 0,
        partial: (rng.below(4) > 0).then_some(on_news as _),
        endpoint: Some(on_news),
        finished: Some(on_finished),
        failed: Some(on_failed),
    };
    seen.made.fetch_add(1, Ordering::SeqCst);
    let ear = Ear { seen, inside: AtomicUsize::new(0), seed: AtomicUsize::new(rng.below(1 << 40) as usize) };
    let ear = Box::into_raw(Box::new(ear)).cast();
    // SAFETY: the struct is copied, the box dropped by `drop_ear`.
    unsafe { koshi_channel_set_listener(channel, &listener, ear, Some(drop_ear), ptr::null_mut()) }
}

/// One random call on a channel that others use, and may have freed.
fn disturb(at: &AtomicUsize, decoder: *mut koshi_decoder, data: Matrix, seen: &'static Seen, rng: &mut Rng) {
    let channel = at.load(Ordering::SeqCst) as *mut koshi_channel;
    let none = ptr::null_mut();
    let frames = rng.below(7) as usize;
    let labels = [1, 2, 3];
    // SAFETY: any handle may be given; arrays with their lengths, and places for results.
    let (status, more): (_, &[koshi_status_code]) = unsafe {
        match rng.below(16) {
            0 | 1 => (koshi_channel_begin(channel, none), &[KOSHI_E_BUSY]),
            2..=4 => (
                koshi_channel_submit(channel, data.data.as_ptr(), frames, data.dim, data.dim, none),
                &[KOSHI_E_FULL, KOSHI_E_STATE, KOSHI_E_CANCELLED],
            ),
            5 => (
                koshi_channel_push(channel, data.data.as_ptr(), frames, data.dim, data.dim, none),
                &[KOSHI_E_BUSY, KOSHI_E_STATE, KOSHI_E_CANCELLED],
            ),
            6 => {
                (koshi_channel_wait(channel, 1e-4 * rng.below(9) as f64, none), &[KOSHI_OK_PARTIAL, KOSHI_E_CANCELLED])
            }
            7 => (koshi_channel_finish(channel, none), &[KOSHI_E_BUSY, KOSHI_E_STATE]),
            8 => (koshi_channel_cancel(channel, none), &[]),
            9 | 10 => (listen(channel, seen, rng), &[]),
            11 => {
                let mut path = ptr::null_mut();
                let mut stable = 0;
                let status = koshi_channel_partial(channel, &mut path, &mut stable, none);
                koshi_path_free(path);
                (status, &[KOSHI_E_BUSY, KOSHI_E_STATE])
            }
            12 => {
                let phrase =
                    koshi_phrase { labels: labels.as_ptr(), len: 1 + rng.below(3) as usize, bonus: 1.5, reserved: 0 };
                (koshi_channel_set_bias(channel, &phrase, rng.below(2) as usize, none), &[KOSHI_E_BUSY])
            }
            13 => {
                let mut lattice = ptr::null_mut();
                let status = koshi_channel_lattice(channel, 1, &mut lattice, none);
                koshi_lattice_free(lattice);
                (status, &[KOSHI_E_BUSY, KOSHI_E_STATE])
            }
            14 => {
                assert!(koshi_channel_num_frames(channel) >= -1);
                (koshi_channel_set_listener(channel, ptr::null(), none.cast(), None, none), &[])
            }
            _ => {
                let mut made = ptr::null_mut();
                assert_eq!(koshi_channel_new(decoder, &mut made, none), 0);
                // It is begun by whoever comes first.
                let before = at.swap(made as usize, Ordering::SeqCst) as *mut koshi_channel;
                (koshi_channel_free(before), &[])
            }
        }
    };
    assert!(among(status, &[KOSHI_OK, KOSHI_E_HANDLE]) || among(status, more), "{status}");
}

/// Utterances in pieces over one channel, which nobody else has.
fn undisturbed(decoder: &<C as Face>::Decoder, utterances: &[(Matrix, Results)], rng: &mut Rng) {
    let line = C::line(decoder).unwrap();
    for _ in 0..6 {
        let (all, alone) = &utterances[rng.below(utterances.len() as u64) as usize];
        C::begin_line(&line).unwrap();
        if rng.below(3) == 0 {
            let scores = Growing::new(*all, rng.below(2) == 0, None);
            let mut ready = 0;
            while ready < all.frames {
                ready = (ready + 1 + rng.below(20) as usize).min(all.frames);
                scores.set_ready(ready as u64);
                C::submit_growing(&line, &scores).unwrap();
                pause(rng);
            }
            C::finish_line(&line).unwrap();
            assert_eq!(C::wait(&line, -1.0), Ok(true));
        } else {
            let mut from = 0;
            while from < all.frames {
                let to = (from + rng.below(9) as usize).min(all.frames);
                match C::submit(&line, all.part(from, to)) {
                    Ok(()) => from = to,
                    Err(fault) => assert_eq!(fault.status, face::Status::KOSHI_E_FULL),
                }
                pause(rng);
            }
            C::finish_line(&line).unwrap();
            assert_eq!(C::wait(&line, -1.0), Ok(true));
        }
        assert_eq!(C::line_results(&line), *alone);
    }
    C::free(line);
}

#[test]
fn whatever_is_called_results_of_others_are_those_of_a_push() {
    static SEEN: Seen = Seen { made: AtomicUsize::new(0), dropped: AtomicUsize::new(0), ends: AtomicUsize::new(0) };
    let (source, rows, dim) = Rng(77).busy();
    let all = Matrix::dense(&rows, dim);
    let (noise, config) = (all.part(0, 8), config());
    let utterances: Vec<(Matrix, Results)> = (0..5)
        .map(|at| all.part(10 * at, 11 + 27 * at))
        .map(|part| (part, solo::<C>(&source, &config, part)))
        .collect();
    let decoder = C::decoder(&graph::<C>(&source), &config).unwrap();
    let handle = decoder.pointer() as usize;
    let shared: Vec<AtomicUsize> = (0..SHARED)
        .map(|_| {
            let mut made = ptr::null_mut();
            // SAFETY: a live decoder, and a place for the handle.
            assert_eq!(unsafe { koshi_channel_new(handle as *mut _, &mut made, ptr::null_mut()) }, 0);
            AtomicUsize::new(made as usize)
        })
        .collect();
    thread::scope(|scope| {
        for number in 0..16 {
            let (decoder, shared, utterances) = (&decoder, &shared, &utterances);
            scope.spawn(move || {
                let mut rng = Rng(1000 + number);
                if number % 2 == 0 {
                    undisturbed(decoder, utterances, &mut rng);
                    return;
                }
                for _ in 0..400 {
                    let which = rng.below(SHARED as u64) as usize;
                    disturb(&shared[which], handle as *mut _, noise, &SEEN, &mut rng);
                    pause(&mut rng);
                }
            });
        }
    });
    for channel in &shared {
        // SAFETY: any handle may be given.
        let status = unsafe { koshi_channel_free(channel.load(Ordering::SeqCst) as *mut _) };
        assert!(among(status, &[KOSHI_OK, KOSHI_E_HANDLE]));
    }
    let metrics = C::metrics(&decoder);
    assert_eq!((metrics.channels, metrics.queued_frames), (0, 0));
    drop(decoder);
    let [made, dropped, ends] = [&SEEN.made, &SEEN.dropped, &SEEN.ends].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(made, dropped, "each listener is let go of once, by the end of its channel's free");
    assert!(made > 50 && ends > 5, "{made} listeners were told {ends} ends");
}
