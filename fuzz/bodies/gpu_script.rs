//! Bytes taken for a script of calls through the C face on a decoder and a denominator graph that compute on the software
//! CUDA device (`kernels/soft`), whose driver's calls and kernels fail when the script says so. No call crashes or answers
//! what the header does not know; what was searched before a failure stands, and results are those of the CPU, bit for
//! bit; the driver gets back all that it gave, and no handle is left.
//!
//! The device has to be loaded, as `tests/fuzz.rs` does; `kernels/soft/README.md` tells how any program gets it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use koshi::ffi::*;

use super::api_script::{look, phrases, results, some_rows};
use super::chain_calls::{self, Flaw, Wide};
use super::face::{self, Alone, Bytes, DIM, GOOD_ROWS, call, free, make};

/// More calls tell nothing new, and a device that is played is slow.
const MOST_CALLS: usize = 40;
const MOST_FRAMES: usize = 24;
const NUM_CHANNELS: usize = 3;
/// Memory that is not given back by then is lost.
const LOST: Duration = Duration::from_secs(60);
const OK: koshi_status = 0;
const DEVICE: koshi_status = koshi_status_code::KOSHI_E_DEVICE as koshi_status;
const CALLBACK: koshi_status = koshi_status_code::KOSHI_E_CALLBACK as koshi_status;
/// What a failing driver may be answered by.
const FAILURES: [koshi_status; 3] = [DEVICE, -501, -403];
const DEN: &[u8] = include_bytes!("../seeds/chain_files/den");
const SAID: &[u8] = include_bytes!("../seeds/chain_files/joined");

/// What the device can be asked that no driver can.
struct Soft {
    configure: unsafe extern "C" fn(*const c_char) -> c_int,
    reset: unsafe extern "C" fn(),
    report: unsafe extern "C" fn() -> *const c_char,
    stats: unsafe extern "C" fn(*mut u64),
    memory_used: unsafe extern "C" fn(c_int) -> usize,
}

/// A function of the device.
///
/// # Safety
/// `F` is its type.
unsafe fn symbol<F: Copy>(name: &CStr) -> F {
    // SAFETY: a library that is loaded before, or whose initialisers only fill tables; the type is the caller's promise.
    unsafe {
        let cuda = libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_NOW);
        let found = if cuda.is_null() { cuda } else { libc::dlsym(cuda, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?} is missing: the software CUDA device is not loaded");
        assert_eq!(size_of::<F>(), size_of_val(&found));
        std::mem::transmute_copy(&found)
    }
}

impl Soft {
    fn get() -> &'static Soft {
        static SOFT: OnceLock<Soft> = OnceLock::new();
        SOFT.get_or_init(|| {
            // SAFETY: the types are those of the functions in kernels/soft/driver.cpp.
            unsafe {
                Soft {
                    configure: symbol(c"soft_configure"),
                    reset: symbol(c"soft_reset"),
                    report: symbol(c"soft_report"),
                    stats: symbol(c"soft_stats"),
                    memory_used: symbol(c"soft_memory_used"),
                }
            }
        })
    }

    fn configure(&self, settings: &str) {
        let text = CString::new(settings).expect("no NUL inside");
        // SAFETY: reads a text.
        assert_eq!(unsafe { (self.configure)(text.as_ptr()) }, 0, "{settings}");
    }

    /// Forgets failed kernels, faults to come and the report.
    fn reset(&self) {
        // SAFETY: takes nothing.
        unsafe { (self.reset)() }
    }

    fn report(&self) -> String {
        // SAFETY: a text that is valid until the next call.
        unsafe { CStr::from_ptr((self.report)()) }.to_string_lossy().into_owned()
    }

    /// What the driver has given out: memory, page-locked memory, objects.
    fn given(&self) -> [u64; 3] {
        let mut stats = [0; 7];
        // SAFETY: writes seven numbers; takes numbers.
        unsafe {
            (self.stats)(stats.as_mut_ptr());
            [(self.memory_used)(0) as u64, (self.memory_used)(-2) as u64, stats[6]]
        }
    }
}

#[derive(Clone)]
struct Channel {
    handle: *mut koshi_channel,
    /// Good rows since begin; unknown where it is not open, or once something else may have changed it.
    rows: Option<Vec<usize>>,
    phrases: usize,
}

struct Script {
    soft: &'static Soft,
    config: koshi_decoder_config,
    decoder: *mut koshi_decoder,
    channels: Vec<Channel>,
    /// A kernel fails, or has: nothing works any more, as on a device.
    is_lost: bool,
    /// What takes back was refused, and cannot be given back.
    is_kept: bool,
}

/// Rows that a decodable has.
struct Source {
    rows: Vec<f32>,
    frames: usize,
    /// How many before its function fails.
    good: usize,
}

unsafe fn source<'a>(data: *mut c_void) -> &'a Source {
    // SAFETY: of all functions: the data of the decodable.
    unsafe { &*data.cast::<Source>() }
}

unsafe extern "C" fn score(data: *mut c_void, frame: i64, index: i32, out: *mut f32) -> koshi_status {
    // SAFETY: as above, and a place for the result.
    let source = unsafe { source(data) };
    let Some(&score) = source.rows.get(frame as usize * DIM + index as usize) else { return -1 };
    // SAFETY: as above.
    unsafe { *out = score };
    if frame as usize >= source.good { -7 } else { 0 }
}

unsafe extern "C" fn row_of_scores(data: *mut c_void, frame: i64, row: *mut f32, dim: usize) -> koshi_status {
    // SAFETY: as above, for each place of the row.
    (0..dim).map(|index| unsafe { score(data, frame, index as i32, row.add(index)) }).fold(0, koshi_status::min)
}

unsafe extern "C" fn frames_ready(data: *mut c_void) -> i64 {
    // SAFETY: as above.
    unsafe { source(data) }.frames as i64
}

unsafe extern "C" fn is_last(data: *mut c_void, frame: i64) -> i32 {
    // SAFETY: as above.
    i32::from(frame + 1 >= unsafe { source(data) }.frames as i64)
}

unsafe extern "C" fn columns(_: *mut c_void) -> i32 {
    DIM as i32
}

unsafe extern "C" fn told(_: *mut c_void, channel: *mut koshi_channel) {
    assert!(!channel.is_null());
}

unsafe extern "C" fn told_why(_: *mut c_void, _: *mut koshi_channel, status: koshi_status, message: *const c_char) {
    assert!(status < 0 && status != koshi_status_code::KOSHI_E_INTERNAL as koshi_status && !message.is_null());
}

pub fn run(bytes: &[u8]) -> bool {
    let soft = Soft::get();
    let alone = Alone::new();
    soft.reset();
    soft.configure("lazy=0,schedule=rr");
    // SAFETY: takes nothing. The driver is asked what it has once a process: not among what fails.
    assert!(unsafe { koshi_cuda_device_count() } > 0, "the software device is not what the library found");
    let before = soft.given();
    let mut bytes = Bytes(bytes);
    let Some(mut script) = Script::new(soft, &mut bytes) else {
        soft.reset();
        alone.end();
        return false;
    };
    bytes.steps(MOST_CALLS, |bytes| script.step(bytes));
    script.end(before);
    alone.end();
    true
}

impl Script {
    fn new(soft: &'static Soft, bytes: &mut Bytes) -> Option<Script> {
        let mut config = face::config();
        config.num_lanes = 1 + bytes.below(3) as u32;
        let flags = bytes.next();
        (config.lattice_beam, config.max_active, config.min_active) = (2.5, 3 + u32::from(flags & 1) * 20, 2);
        (config.candidate_capacity, config.token_capacity, config.link_capacity) = (200, 100, 200);
        (config.queue_frames, config.chunk_frames) = (40, 1 + u32::from(flags >> 1 & 3));
        let gpu = koshi_decoder_config { backend: koshi_backend::KOSHI_BACKEND_CUDA as i32, ..config };
        let mut script =
            Script { soft, config, decoder: ptr::null_mut(), channels: Vec::new(), is_lost: false, is_kept: false };
        if flags >= 224 {
            script.arm(bytes);
        }
        // SAFETY: a live graph, a struct of its size, a place for the result.
        let made = make(|out, err| unsafe { koshi_decoder_new(face::graph(), &gpu, out, err) });
        assert!(made.is_some() || flags >= 224, "a decoder on the device");
        script.decoder = made?;
        Some(script)
    }

    /// The n-th call from now fails, of all or of one kind; or a kernel does.
    fn arm(&mut self, bytes: &mut Bytes) {
        const CALLS: [&str; 8] = [
            "any",
            "any",
            "any",
            "cuMemAllocAsync",
            "cuMemcpyHtoDAsync_v2",
            "cuLaunchKernel",
            "cuStreamSynchronize",
            "kernel",
        ];
        self.note_report();
        let (which, calls) = (CALLS[bytes.below(CALLS.len())], 1 + bytes.below(40));
        let code = [999, 700, 2, 719][bytes.below(4)];
        let code = if which == "kernel" { 700 } else { code };
        self.is_lost |= which == "kernel";
        self.soft.configure(&format!("fail={which}:{calls}:{code}"));
    }

    fn note_report(&mut self) {
        let told = self.soft.report();
        self.is_kept |= ["Free", "Destroy", "Unload", "Release", "cuCtx"].iter().any(|word| told.contains(word));
    }

    fn step(&mut self, bytes: &mut Bytes) {
        let kind = bytes.next();
        if self.channels.is_empty() {
            self.open();
        }
        if self.channels.is_empty() {
            return;
        }
        let at = bytes.below(self.channels.len());
        let channel = self.channels[at].handle;
        // SAFETY: live handles, places for results.
        unsafe {
            match kind % 26 {
                0..3 => self.begin(at),
                3..9 => self.push(at, bytes),
                9 | 10 => self.submit(at, bytes),
                11..13 => look(channel),
                13..15 => self.compare(at),
                15 => {
                    let chosen = bytes.below(4);
                    let phrases = phrases(chosen);
                    let status = call(|err| koshi_channel_set_bias(channel, phrases.as_ptr(), phrases.len(), err));
                    if status == OK {
                        (self.channels[at].phrases, self.channels[at].rows) = (chosen, None);
                    }
                }
                16 => self.arm(bytes),
                17 => self.batch(bytes),
                18 => self.wrong_places(at, bytes),
                19 if self.channels.len() < NUM_CHANNELS => self.open(),
                19 => {
                    free(koshi_channel_free, channel);
                    self.channels.swap_remove(at);
                }
                20 => self.chain(bytes),
                21 => {
                    let (lazy, seed) = (bytes.next() & 1, bytes.next());
                    self.soft.configure(&format!("lazy={lazy},schedule=random:{seed}"));
                }
                22 => {
                    call(|err| koshi_channel_finish(channel, err));
                    // With a listener it is finished, and told, by a thread of the decoder's.
                    if call(|err| koshi_channel_wait(channel, -1.0, err)) != OK {
                        self.channels[at].rows = None;
                    }
                }
                23 => self.pull(at, bytes),
                24 => self.listen(at, bytes),
                _ => {
                    call(|err| koshi_channel_cancel(channel, err));
                    self.channels[at].rows = None;
                }
            }
        }
    }

    fn open(&mut self) {
        // SAFETY: a live handle, a place for the result.
        if let Some(handle) = make(|out, err| unsafe { koshi_channel_new(self.decoder, out, err) }) {
            self.channels.push(Channel { handle, rows: None, phrases: 0 });
        }
    }

    fn begin(&mut self, at: usize) {
        let known = &mut self.channels[at];
        // SAFETY: a live handle.
        let status = call(|err| unsafe { koshi_channel_begin(known.handle, err) });
        assert!(status == OK || FAILURES.contains(&status), "{status}");
        known.rows = (status == OK).then(Vec::new);
    }

    /// What a call left of rows that it was given: as many as the channel says.
    fn pushed(&mut self, at: usize, given: &[usize], status: koshi_status) {
        let known = &mut self.channels[at];
        let Some(all) = &mut known.rows else { return };
        // SAFETY: a live handle.
        let frames = unsafe { koshi_channel_num_frames(known.handle) };
        let done = usize::try_from(frames).ok().and_then(|frames| frames.checked_sub(all.len()));
        let is_good = given.iter().all(|row| *row < GOOD_ROWS);
        match (status, done) {
            (OK, Some(done)) => {
                assert!(done == given.len() && is_good);
                all.extend(given);
            }
            // Behind a failure what was searched stands, and the rest can be pushed again.
            (status, Some(done)) if FAILURES.contains(&status) => all.extend(&given[..done]),
            (-104, Some(0)) => known.rows = None,
            _ => {
                assert!(!is_good || status == -302, "{status} {frames}");
                known.rows = None;
            }
        }
    }

    fn push(&mut self, at: usize, bytes: &mut Bytes) {
        let rows = some_rows(bytes);
        let known = &self.channels[at];
        if known.rows.as_ref().is_some_and(|all| all.len() + rows.len() > MOST_FRAMES) {
            return;
        }
        let data = face::rows(&rows);
        // SAFETY: an array with its length.
        let status = call(|err| unsafe { koshi_channel_push(known.handle, data.as_ptr(), rows.len(), DIM, DIM, err) });
        self.pushed(at, &rows, status);
    }

    /// Queued, and waited for: a failure there ends the utterance.
    fn submit(&mut self, at: usize, bytes: &mut Bytes) {
        let rows = some_rows(bytes);
        let data = face::rows(&rows);
        let channel = self.channels[at].handle;
        // SAFETY: an array with its length.
        let status = unsafe {
            match call(|err| koshi_channel_submit(channel, data.as_ptr(), rows.len(), DIM, DIM, err)) {
                OK => call(|err| koshi_channel_wait(channel, -1.0, err)),
                status => status,
            }
        };
        match (status, &mut self.channels[at].rows) {
            (OK, Some(all)) => all.extend(rows),
            (_, known) => *known = None,
        }
    }

    /// Rows of the caller's functions, one of which may fail: what came before stands.
    fn pull(&mut self, at: usize, bytes: &mut Bytes) {
        let (rows, how) = (some_rows(bytes), bytes.next());
        let Channel { handle: channel, rows: Some(before), .. } = self.channels[at].clone() else { return };
        if before.len() + rows.len() > MOST_FRAMES {
            return;
        }
        let fails_after = if how & 3 == 0 { usize::from(how >> 2) % 9 } else { rows.len() };
        let all = [&before[..], &rows].concat();
        let source = Source { rows: face::rows(&all), frames: all.len(), good: before.len() + fails_after };
        let ops = koshi_decodable_ops {
            struct_size: size_of::<koshi_decodable_ops>() as u32,
            reserved: 0,
            log_likelihood: Some(score),
            frame_log_likelihoods: (how & 128 == 0).then_some(row_of_scores),
            num_frames_ready: Some(frames_ready),
            is_last_frame: Some(is_last),
            num_indices: Some(columns),
        };
        let data = (&raw const source).cast_mut().cast();
        // SAFETY: a struct that the call copies, data that lives as long as the decodable.
        let made = make(|out, err| unsafe { koshi_decodable_new(&ops, data, None, out, err) }).expect("good functions");
        let mut done = 0;
        // SAFETY: live handles, a place for the result.
        let status = call(|err| unsafe { koshi_channel_advance(channel, made, -1, &mut done, err) });
        free(koshi_decodable_free, made);
        match status {
            CALLBACK => {
                self.pushed(at, &rows, DEVICE);
                let found = self.channels[at].rows.as_ref().map(Vec::len);
                assert!(fails_after < rows.len() && found == Some(before.len() + fails_after), "{found:?}");
            }
            _ => self.pushed(at, &rows, status),
        }
    }

    /// A listener that hears what becomes of queued rows, and of the device.
    fn listen(&mut self, at: usize, bytes: &mut Bytes) {
        let which = bytes.next();
        let listener = koshi_channel_listener {
            struct_size: size_of::<koshi_channel_listener>() as u32,
            reserved: 0,
            partial: (which & 1 == 0).then_some(told),
            endpoint: (which & 2 == 0).then_some(told),
            finished: (which & 4 == 0).then_some(told),
            failed: (which & 8 == 0).then_some(told_why),
        };
        let channel = self.channels[at].handle;
        // SAFETY: a struct that the call copies; the functions look at no data.
        call(|err| unsafe { koshi_channel_set_listener(channel, &listener, ptr::null_mut(), None, err) });
    }

    fn batch(&mut self, bytes: &mut Bytes) {
        let each: Vec<Vec<usize>> = self.channels.iter().map(|_| some_rows(bytes)).collect();
        let data: Vec<Vec<f32>> = each.iter().map(|rows| face::rows(rows)).collect();
        let items = self.channels.iter().zip(&data).map(|(known, data)| face::item(known.handle, data));
        let mut items: Vec<koshi_decoder_item> = items.collect();
        let (size, data) = (size_of::<koshi_decoder_item>(), items.as_mut_ptr());
        // SAFETY: an array with its length, whose rows live.
        let status = call(|err| unsafe { koshi_decoder_advance(self.decoder, data, items.len(), size, err) });
        for (at, rows) in each.iter().enumerate() {
            match status {
                0.. => self.pushed(at, rows, items[at].status),
                _ => assert!(items[at].status == face::UNTOLD && FAILURES.contains(&status), "{status}"),
            }
        }
    }

    /// Refused: rows at addresses of nothing or badly placed, strides that overflow.
    fn wrong_places(&mut self, at: usize, bytes: &mut Bytes) {
        let (rows, frames, dim, stride) = [
            (0, 1, DIM, DIM),
            (2, 1, DIM, DIM),
            (u64::MAX - 3, 1, DIM, DIM),
            (4096, usize::MAX, DIM, DIM),
            (4096, 3, DIM, usize::MAX / 8),
            (4096, 2, DIM, DIM - 1),
            (4096, 1, 0, 0),
        ][bytes.below(7)];
        let channel = self.channels[at].handle;
        // SAFETY: nothing is there that could be read.
        let status =
            call(|err| unsafe { koshi_channel_push_device(channel, rows, frames, dim, stride, ptr::null_mut(), err) });
        assert!(status < 0, "{status}");
    }

    /// The channel's results are those of the CPU.
    fn compare(&mut self, at: usize) {
        let Channel { handle, rows: Some(rows), phrases: chosen } = self.channels[at].clone() else { return };
        self.note_report();
        self.disarm();
        let data = face::rows(&rows);
        // SAFETY: live handles, arrays with their lengths, places for results.
        unsafe {
            let cpu = make(|out, err| koshi_decoder_new(face::graph(), &self.config, out, err)).expect("a decoder");
            let fresh = make(|out, err| koshi_channel_new(cpu, out, err)).expect("a channel");
            let phrases = phrases(chosen);
            assert_eq!(call(|err| koshi_channel_set_bias(fresh, phrases.as_ptr(), phrases.len(), err)), OK);
            assert_eq!(call(|err| koshi_channel_begin(fresh, err)), OK);
            assert_eq!(call(|err| koshi_channel_push(fresh, data.as_ptr(), rows.len(), DIM, DIM, err)), OK);
            assert_eq!(results(handle), results(fresh), "{rows:?}");
            free(koshi_channel_free, fresh);
            free(koshi_decoder_free, cpu);
        }
    }

    /// No call fails any more; of a kernel that has failed a device does not recover.
    fn disarm(&mut self) {
        if !self.is_lost {
            self.soft.reset();
        }
    }

    /// The chain objective, whose results on the device are the same bits in each run.
    fn chain(&mut self, bytes: &mut Bytes) {
        // SAFETY: arrays with their lengths, places for results.
        let (graph, said) = unsafe {
            (
                make(|out, err| koshi_den_graph_from_memory(DEN.as_ptr(), DEN.len(), 2, out, err)).expect("a graph"),
                make(|out, err| koshi_supervision_from_memory(SAID.as_ptr(), SAID.len(), out, err)).expect("read"),
            )
        };
        let mut config = chain_calls::config(bytes);
        config.backend = koshi_backend::KOSHI_BACKEND_CUDA as i32;
        let (output, wanted) = (Wide::new(4, 2, 2 + bytes.below(2), bytes), bytes.next());
        let first = chain_calls::objective(graph, said, &config, &output, Flaw::None, wanted);
        if first.status >= 0 && !self.is_lost {
            self.note_report();
            self.disarm();
            assert_eq!(first, chain_calls::objective(graph, said, &config, &output, Flaw::None, wanted));
        }
        free(koshi_supervision_free, said);
        free(koshi_den_graph_free, graph);
    }

    fn end(mut self, before: [u64; 3]) {
        self.channels.iter().for_each(|known| free(koshi_channel_free, known.handle));
        free(koshi_decoder_free, self.decoder);
        // A thread that searched queued rows ends by itself, and gives back what it had, unless that fails.
        let since = Instant::now();
        // What an earlier script left to such a thread may go meanwhile, too.
        while self.soft.given().iter().zip(&before).any(|(now, before)| now > before) {
            self.note_report();
            if self.is_kept || self.is_lost {
                break;
            }
            assert!(since.elapsed() < LOST, "{:?} given, {before:?} before", self.soft.given());
            std::thread::sleep(Duration::from_micros(200));
        }
        self.soft.reset();
        self.soft.configure("lazy=0,schedule=rr");
    }
}
