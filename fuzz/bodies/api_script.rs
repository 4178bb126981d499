//! Bytes taken for a script of calls through the C face on one decoder: channels and decodables opened, used and freed
//! in any order, handles that are stale, of another type or wild, sizes that are wrong, callbacks that fail, free, begin
//! or queue. No call crashes, hangs or answers what the header does not know; a channel that had good calls only gives
//! what a fresh one gives after a plain push; the data of every callback is dropped exactly once.
//!
//! A byte says which call, those behind it with what; past the end all are 0.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use koshi::ffi::*;

use super::face::{self, Alone, Bytes, DIM, GOOD_ROWS, call, free, free_made, make};

/// More calls tell nothing new.
const MOST_CALLS: usize = 150;
/// Calls from inside callbacks, of one script.
const MOST_INSIDE: i32 = 60;
const NUM_CHANNELS: usize = 4;
/// Data that is not dropped by then is lost.
const LOST: Duration = Duration::from_secs(120);

const HANDLE: koshi_status = koshi_status_code::KOSHI_E_HANDLE as koshi_status;
const BUSY: koshi_status = koshi_status_code::KOSHI_E_BUSY as koshi_status;

/// Sets of phrases.
const PHRASES: [(&[i32], f32); 3] = [(&[1], 1.0), (&[3, 2], -0.5), (&[4, 4, 1], 2.0)];

/// What is known of a channel.
#[derive(Clone, Default)]
struct Known {
    handle: usize,
    live: bool,
    open: bool,
    /// Good rows since begin; unknown once something else than a good call could have changed the channel.
    rows: Option<Vec<usize>>,
    /// Phrases set, and those of the utterance.
    phrases: usize,
    biased: usize,
    /// Callbacks of others touch it at any time.
    shared: bool,
}

struct Decodable {
    handle: usize,
    live: bool,
    /// Rows of a good one.
    rows: Option<Vec<usize>>,
}

/// What callbacks see.
struct World {
    handles: Mutex<Vec<usize>>,
    decoder: AtomicU64,
    inside: AtomicI32,
    registered: AtomicU64,
    dropped: AtomicU64,
}

/// The data of a callback: what it calls, on which handle of the world, and when it fails.
struct Behind {
    world: Arc<World>,
    action: u8,
    target: u8,
    rows: Vec<f32>,
    frames: i64,
    fails_at: i64,
    columns: i32,
}

impl World {
    fn handles(&self) -> MutexGuard<'_, Vec<usize>> {
        self.handles.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Leaks data that the library drops.
    fn behind(self: &Arc<World>, behind: Behind) -> *mut c_void {
        self.registered.fetch_add(1, Ordering::SeqCst);
        Box::into_raw(Box::new(behind)).cast()
    }
}

unsafe extern "C" fn dropped(data: *mut c_void) {
    // SAFETY: made by `World::behind`, dropped once: the count says so.
    let behind = unsafe { Box::from_raw(data.cast::<Behind>()) };
    behind.world.dropped.fetch_add(1, Ordering::SeqCst);
}

unsafe fn seen<'a>(data: *mut c_void) -> &'a Behind {
    // SAFETY: lives until it is dropped, which is after the last callback.
    unsafe { &*data.cast::<Behind>() }
}

impl Behind {
    /// One call from inside a callback.
    fn act(&self) {
        if self.action == 0 || self.world.inside.fetch_add(1, Ordering::SeqCst) >= MOST_INSIDE {
            return;
        }
        let handles = self.world.handles().clone();
        let handle = handles[usize::from(self.target) % handles.len()];
        let (channel, row) = (handle as *mut koshi_channel, face::row(1));
        // SAFETY: handles may be anything; arrays with their lengths, places for results.
        unsafe {
            match self.action % 14 {
                0 => drop(koshi_channel_free(channel)),
                1 => drop(call(|err| koshi_channel_begin(channel, err))),
                2 => drop(call(|err| koshi_channel_submit(channel, row.as_ptr(), 1, DIM, DIM, err))),
                3 => drop(call(|err| koshi_channel_push(channel, row.as_ptr(), 1, DIM, DIM, err))),
                4 => drop(call(|err| koshi_channel_finish(channel, err))),
                5 => drop(call(|err| koshi_channel_cancel(channel, err))),
                6 => drop(call(|err| koshi_channel_wait(channel, 0.001, err))),
                7 => drop(call(|err| koshi_channel_set_listener(channel, ptr::null(), ptr::null_mut(), None, err))),
                8 => look(channel),
                9 => drop(koshi_decodable_free(handle as *mut koshi_decodable)),
                10 => {
                    let decoder = self.world.decoder.load(Ordering::SeqCst) as *mut koshi_decoder;
                    free_made(koshi_channel_free, make(|out, err| koshi_channel_new(decoder, out, err)));
                }
                11 => {
                    let mut done = 0;
                    let other = handles[usize::from(self.target / 2) % handles.len()] as *mut koshi_decodable;
                    call(|err| koshi_channel_advance(channel, other, 2, &mut done, err));
                }
                12 => {
                    let other = handles[usize::from(self.target / 2) % handles.len()] as *mut koshi_decodable;
                    call(|err| koshi_channel_submit_decodable(channel, other, err));
                }
                _ => drop(call(|err| koshi_channel_set_bias(channel, ptr::null(), 0, err))),
            }
        }
    }

    /// Whether a call may change a channel.
    fn changes(&self) -> bool {
        !matches!(self.action % 14, 6 | 8 | 10) && self.action != 0
    }
}

/// All that can be asked of a channel.
pub fn look(channel: *mut koshi_channel) {
    let (mut stable, mut beam, mut first) = (0, 0.0, 0);
    let mut stats = MaybeUninit::<koshi_search_stats>::zeroed();
    let mut end = MaybeUninit::<koshi_endpoint>::zeroed();
    // SAFETY: handles may be anything; structs of the sizes told, places for results.
    unsafe {
        let frames = koshi_channel_num_frames(channel);
        assert!(frames >= -1 && koshi_channel_num_segments(channel) >= -1);
        assert!(koshi_channel_committed_frames(channel) >= -1);
        assert!((-1..=1).contains(&koshi_channel_reached_final(channel)));
        koshi_channel_final_relative_cost(channel);
        for path in [
            make(|out, err| koshi_channel_best_path(channel, 1, out, err)),
            make(|out, err| koshi_channel_partial(channel, out, &mut stable, err)),
            make(|out, err| koshi_channel_partial_words(channel, 3, out, &mut stable, err)),
        ] {
            free_made(koshi_path_free, path);
        }
        // NULL where there is none.
        let mut committed = ptr::null_mut();
        let status = call(|err| koshi_channel_committed_lattice(channel, &mut committed, &mut first, err));
        assert!(status == 0 || committed.is_null());
        let committed = (!committed.is_null()).then_some(committed);
        for lattice in [
            make(|out, err| koshi_channel_lattice(channel, 1, out, err)),
            make(|out, err| koshi_channel_best_path_lattice(channel, 0, out, err)),
            // Longer ones take long, with labels on each loop of the graph.
            (frames < 5)
                .then(|| make(|out, err| koshi_channel_compact_lattice(channel, 1, out, &mut beam, err)))
                .flatten(),
            committed,
        ] {
            free_made(koshi_lattice_free, lattice);
        }
        call(|err| koshi_channel_settle(channel, err));
        call(|err| koshi_channel_stats(channel, stats.as_mut_ptr(), size_of::<koshi_search_stats>(), err));
        call(|err| koshi_channel_endpoint(channel, end.as_mut_ptr(), size_of::<koshi_endpoint>(), err));
        let (mut path, mut lattice) = (ptr::null_mut(), ptr::null_mut());
        let size = size_of::<koshi_endpoint>();
        let segment =
            call(|err| koshi_channel_segment(channel, 0, end.as_mut_ptr(), size, &mut path, &mut lattice, err));
        if segment == 0 {
            free(koshi_path_free, path);
            free(koshi_lattice_free, lattice);
        }
    }
}

unsafe extern "C" fn scored(data: *mut c_void, frame: i64, index: i32, out: *mut f32) -> koshi_status {
    // SAFETY: of all callbacks: the data of the registration, and a place for the result.
    let behind = unsafe { seen(data) };
    if frame == 1 && index == 0 {
        behind.act();
    }
    let Some(&score) = behind.rows.get(frame as usize * DIM + index as usize) else { return -1 };
    // SAFETY: as above.
    unsafe { *out = score };
    if frame == behind.fails_at { -7 } else { 0 }
}

unsafe extern "C" fn row_scored(data: *mut c_void, frame: i64, row: *mut f32, dim: usize) -> koshi_status {
    (0..dim).fold(0, |status, index| {
        // SAFETY: as above, for each place of the row.
        let answered = unsafe { scored(data, frame, index as i32, row.add(index)) };
        if status == 0 { answered } else { status }
    })
}

unsafe extern "C" fn ready(data: *mut c_void) -> i64 {
    // SAFETY: as above.
    let behind = unsafe { seen(data) };
    behind.act();
    behind.frames
}

unsafe extern "C" fn is_last(data: *mut c_void, frame: i64) -> i32 {
    // SAFETY: as above.
    i32::from(frame + 1 >= unsafe { seen(data) }.frames)
}

unsafe extern "C" fn columns(data: *mut c_void) -> i32 {
    // SAFETY: as above.
    unsafe { seen(data) }.columns
}

unsafe extern "C" fn told(data: *mut c_void, channel: *mut koshi_channel) {
    let _ = channel;
    // SAFETY: as above.
    unsafe { seen(data) }.act();
}

unsafe extern "C" fn told_why(
    data: *mut c_void,
    channel: *mut koshi_channel,
    status: koshi_status,
    message: *const std::ffi::c_char,
) {
    assert!(status < 0 && status != koshi_status_code::KOSHI_E_INTERNAL as koshi_status && !message.is_null());
    // SAFETY: as above.
    unsafe { told(data, channel) };
}

pub fn run(bytes: &[u8]) -> bool {
    let alone = Alone::new();
    let mut script = Script::new(&mut Bytes(bytes));
    Bytes(bytes.get(4..).unwrap_or_default()).steps(MOST_CALLS, |bytes| script.step(bytes));
    script.end();
    alone.end();
    true
}

struct Script {
    world: Arc<World>,
    config: koshi_decoder_config,
    decoder: *mut koshi_decoder,
    channels: Vec<Known>,
    decodables: Vec<Decodable>,
    /// Channels that were freed.
    stale: Vec<usize>,
    /// Not freed yet.
    decoder_lives: bool,
    /// Rules by which pushes stop or results are cut: then nothing is compared.
    ruled: bool,
    /// Callbacks change whatever they meet.
    touched: bool,
}

impl Script {
    fn new(bytes: &mut Bytes) -> Script {
        let mut config = face::config();
        config.num_lanes = 1 + bytes.below(3) as u32;
        config.num_threads = 1 + bytes.below(2) as u32;
        let queue = bytes.next();
        (config.queue_frames, config.chunk_frames) = (1 + u32::from(queue % 40), 1 + u32::from(queue % 7));
        let search = bytes.next();
        config.link_budget = [1, 30, 40_000][usize::from(search % 3)];
        (config.lattice_beam, config.max_active, config.min_active) = (2.5, 3 + u32::from(search / 3 % 2) * 1000, 2);
        // SAFETY: a live graph, a struct of its size, a place for the result.
        let decoder =
            make(|out, err| unsafe { koshi_decoder_new(face::graph(), &config, out, err) }).expect("a decoder");
        let world = Arc::new(World {
            // Never empty: something wild.
            handles: Mutex::new(vec![0x1234_5678]),
            decoder: AtomicU64::new(decoder as u64),
            inside: AtomicI32::new(0),
            registered: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        world.handles().push(decoder as usize);
        Script {
            world,
            config,
            decoder,
            channels: Vec::new(),
            decodables: Vec::new(),
            stale: Vec::new(),
            decoder_lives: true,
            ruled: false,
            touched: false,
        }
    }

    fn noted(&self, handle: usize) -> usize {
        self.world.handles().push(handle);
        handle
    }

    /// A new channel in the place of one.
    fn open(&mut self, at: usize) {
        // SAFETY: handles may be anything.
        let made = make(|out, err| unsafe { koshi_channel_new(self.decoder, out, err) });
        assert_eq!(made.is_some(), self.decoder_lives);
        let Some(made) = made else { return };
        // Its place may be that of one that was freed, whose handle it does not answer to.
        for handle in &self.stale {
            // SAFETY: handles may be anything.
            assert_eq!(call(|err| unsafe { koshi_channel_begin(*handle as *mut koshi_channel, err) }), HANDLE);
        }
        let known = Known { handle: self.noted(made as usize), live: true, shared: self.touched, ..Known::default() };
        match self.channels.get_mut(at) {
            // One that lives is left to the end: its handle is still in the world.
            Some(place) if !place.live => *place = known,
            _ => self.channels.push(known),
        }
    }

    /// A channel, mostly one that lives.
    fn pick(&mut self, bytes: &mut Bytes) -> usize {
        if self.channels.is_empty() {
            self.open(0);
        }
        match self.channels.len() {
            0 => {
                self.channels.push(Known::default());
                0
            }
            len => bytes.below(len),
        }
    }

    /// Any handle: stale, of another type, wild, none.
    fn wrong(&self, bytes: &mut Bytes) -> usize {
        face::wrong(&self.world.handles(), bytes)
    }

    /// What other threads and wrong handles may reach is not known any more.
    fn forget(&mut self, handle: usize) {
        for known in self.channels.iter_mut().filter(|known| known.handle == handle) {
            (known.rows, known.shared) = (None, true);
        }
    }

    fn forget_all(&mut self) {
        self.touched = true;
        self.channels.iter_mut().for_each(|known| (known.rows, known.shared) = (None, true));
    }

    fn step(&mut self, bytes: &mut Bytes) {
        let kind = bytes.next();
        let at = self.pick(bytes);
        let channel = self.channels[at].handle as *mut koshi_channel;
        // SAFETY: handles may be anything; arrays with their lengths, places for results.
        unsafe {
            match kind % 32 {
                0..3 => {
                    let begun = call(|err| koshi_channel_begin(channel, err));
                    let known = &mut self.channels[at];
                    known.open = begun == 0 || known.open;
                    known.biased = known.phrases;
                    known.rows = (begun == 0 && !known.shared).then(Vec::new);
                    assert!(begun == 0 || !known.live || known.shared || begun == BUSY, "begin answers {begun}");
                }
                3..9 => self.push(at, kind.is_multiple_of(2), bytes),
                9 => self.wrong_sizes(at, bytes),
                10 => {
                    call(|err| koshi_channel_finish(channel, err));
                }
                11 => {
                    call(|err| koshi_channel_cancel(channel, err));
                    self.channels[at].rows = None;
                }
                12 | 13 => look(channel),
                14..17 => self.compare(at),
                17 => {
                    let chosen = bytes.below(PHRASES.len() + 1);
                    let phrases = phrases(chosen);
                    let set = call(|err| koshi_channel_set_bias(channel, phrases.as_ptr(), phrases.len(), err));
                    // In an open utterance they hold from the next frame on, in the search.
                    if set == 0 {
                        self.channels[at].phrases = chosen;
                        self.channels[at].rows = None;
                    }
                }
                18 => {
                    let (every, lattice) = (u64::from(bytes.next() % 8), u64::from(bytes.next() % 8));
                    let set = call(|err| koshi_channel_set_commit(channel, every, lattice, err));
                    // The lattice begins later then.
                    if set == 0 && every != 0 {
                        (self.channels[at].rows, self.channels[at].shared) = (None, true);
                    }
                }
                19 => {
                    let mut config = MaybeUninit::<koshi_determinize_config>::zeroed();
                    let size = size_of::<koshi_determinize_config>();
                    call(|err| koshi_determinize_config_init(config.as_mut_ptr(), size, err));
                    let config = config.as_ptr();
                    let config = if bytes.next().is_multiple_of(2) { ptr::null() } else { config };
                    call(|err| koshi_channel_set_determinize(channel, ptr::null(), config, err));
                }
                20 => self.listen(at, bytes),
                21 if bytes.next().is_multiple_of(4) => self.wait_beside(at, bytes),
                21 => {
                    let timeout = [0.0, 0.001, -1.0, f64::NAN, f64::INFINITY, 1e300, 0.01][bytes.below(7)];
                    call(|err| koshi_channel_wait(channel, timeout, err));
                }
                22 if self.channels.len() < NUM_CHANNELS || !self.channels[at].live => self.open(at),
                22 => {
                    let freed = koshi_channel_free(channel);
                    self.stale.push(channel as usize);
                    let known = &mut self.channels[at];
                    assert!(freed == 0 || !known.live || known.shared, "free answers {freed}");
                    (known.live, known.rows) = (false, None);
                }
                23 | 24 => self.decodable(bytes),
                25..28 => self.pull(at, kind, bytes),
                28 => self.batch(bytes),
                29 => self.rules(bytes),
                30 => self.wrong_handle(bytes),
                _ if bytes.next() < 16 => {
                    let freed = koshi_decoder_free(self.decoder);
                    assert_eq!(freed == 0, self.decoder_lives);
                    self.decoder_lives = false;
                }
                _ => {
                    let decodables = self.decodables.len();
                    if decodables > 0 {
                        let decodable = &mut self.decodables[bytes.below(decodables)];
                        koshi_decodable_free(decodable.handle as *mut koshi_decodable);
                        decodable.live = false;
                        // One that was queued and not yet read fails its utterance.
                        self.channels.iter_mut().for_each(|known| known.rows = None);
                    }
                }
            }
        }
    }

    fn push(&mut self, at: usize, queued: bool, bytes: &mut Bytes) {
        let rows = some_rows(bytes);
        let data = face::rows(&rows);
        let known = &mut self.channels[at];
        let channel = known.handle as *mut koshi_channel;
        // SAFETY: an array with its length.
        let status = call(|err| unsafe {
            let push = if queued { koshi_channel_submit } else { koshi_channel_push };
            push(channel, data.as_ptr(), rows.len(), DIM, DIM, err)
        });
        if rows.iter().any(|&row| row >= GOOD_ROWS) {
            known.rows = None;
        } else if status == 0
            && let Some(all) = &mut known.rows
        {
            all.extend(rows);
        } else if (-399..=-300).contains(&status) || status < -500 {
            known.rows = None;
        }
    }

    /// Refused, and nothing has changed: rows too narrow, strides below them, sizes that overflow, no data.
    fn wrong_sizes(&mut self, at: usize, bytes: &mut Bytes) {
        let channel = self.channels[at].handle as *mut koshi_channel;
        let row = face::row(0);
        let (data, frames, dim, stride) = match bytes.below(8) {
            0 => (row.as_ptr(), 1, 0, 0),
            1 => (row.as_ptr(), 1, 2, 2),
            2 => (row.as_ptr(), 2, 4, 3),
            3 => (ptr::null(), 1, 4, 4),
            4 => (ptr::null(), usize::MAX, 4, 4),
            5 => (row.as_ptr(), usize::MAX / 8, 4, 16),
            6 => (row.as_ptr(), 1 << 60, 4, 4),
            _ => (row.as_ptr().wrapping_byte_add(1), 1, 3, 3),
        };
        // SAFETY: what is too large or null is refused before it is read.
        let status = call(|err| unsafe {
            match bytes.next() % 2 {
                0 => koshi_channel_push(channel, data, frames, dim, stride, err),
                _ => koshi_channel_submit(channel, data, frames, dim, stride, err),
            }
        });
        assert!(status < 0);
    }

    /// Another thread waits while the utterance ends.
    fn wait_beside(&mut self, at: usize, bytes: &mut Bytes) {
        let handle = self.channels[at].handle;
        let how = bytes.below(3);
        std::thread::scope(|scope| {
            // SAFETY: handles may be anything.
            scope.spawn(move || call(|err| unsafe { koshi_channel_wait(handle as *mut koshi_channel, -1.0, err) }));
            std::thread::yield_now();
            let channel = handle as *mut koshi_channel;
            // SAFETY: as above.
            unsafe {
                match how {
                    0 => drop(call(|err| koshi_channel_finish(channel, err))),
                    1 => drop(call(|err| koshi_channel_cancel(channel, err))),
                    _ => drop(call(|err| koshi_channel_begin(channel, err))),
                }
            }
        });
        self.channels[at].rows = None;
    }

    /// The channel's results are those of a fresh one.
    fn compare(&mut self, at: usize) {
        let known = &self.channels[at];
        let Some(rows) = known.rows.clone().filter(|_| known.live && known.open && !self.ruled) else { return };
        let channel = known.handle as *mut koshi_channel;
        let config = koshi_decoder_config { num_lanes: 1, num_threads: 1, ..self.config };
        let data = face::rows(&rows);
        // SAFETY: live handles, arrays with their lengths, places for results.
        unsafe {
            assert_eq!(call(|err| koshi_channel_wait(channel, -1.0, err)), 0, "{rows:?}");
            let decoder = make(|out, err| koshi_decoder_new(face::graph(), &config, out, err)).expect("a decoder");
            let fresh = make(|out, err| koshi_channel_new(decoder, out, err)).expect("a channel");
            let phrases = phrases(known.biased);
            assert_eq!(call(|err| koshi_channel_set_bias(fresh, phrases.as_ptr(), phrases.len(), err)), 0);
            assert_eq!(call(|err| koshi_channel_begin(fresh, err)), 0);
            assert_eq!(call(|err| koshi_channel_push(fresh, data.as_ptr(), rows.len(), DIM, DIM, err)), 0);
            assert_eq!(results(channel), results(fresh), "{rows:?}");
            free(koshi_channel_free, fresh);
            free(koshi_decoder_free, decoder);
        }
    }

    fn behind(&self, bytes: &mut Bytes, rows: &[usize]) -> Behind {
        Behind {
            world: Arc::clone(&self.world),
            action: bytes.next() % 28,
            target: bytes.next(),
            rows: face::rows(rows),
            frames: rows.len() as i64,
            fails_at: -1,
            columns: DIM as i32,
        }
    }

    fn listen(&mut self, at: usize, bytes: &mut Bytes) {
        let channel = self.channels[at].handle as *mut koshi_channel;
        let mut behind = self.behind(bytes, &[]);
        if behind.action >= 14 {
            behind.action = 8;
        }
        if behind.changes() {
            self.forget_all();
        }
        let which = bytes.next();
        let listener = koshi_channel_listener {
            struct_size: if which == 77 { 3 } else { size_of::<koshi_channel_listener>() as u32 },
            reserved: 0,
            partial: (which & 1 == 0).then_some(told),
            endpoint: (which & 2 == 0).then_some(told),
            finished: (which & 4 == 0).then_some(told),
            failed: (which & 8 == 0).then_some(told_why),
        };
        let data = self.world.behind(behind);
        // SAFETY: a struct that the call copies; the data is dropped by the library, also on failure.
        call(|err| unsafe { koshi_channel_set_listener(channel, &listener, data, Some(dropped), err) });
    }

    fn decodable(&mut self, bytes: &mut Bytes) {
        let rows = some_rows(bytes);
        let mut behind = self.behind(bytes, &rows);
        let how = bytes.next();
        let mut good = rows.iter().all(|&row| row < GOOD_ROWS);
        match how % 8 {
            0 => (behind.fails_at, good) = (i64::from(how / 8) % 4, false),
            1 => (behind.frames, good) = (-1, false),
            2 => (behind.columns, good) = ([0, -1, 2, i32::MAX][usize::from(how / 8) % 4], false),
            3 => (behind.frames, good) = (behind.frames + 2, false),
            _ if how < 200 => behind.action = 0,
            _ => {}
        }
        let changes = behind.changes();
        if changes {
            self.forget_all();
        }
        let ops = koshi_decodable_ops {
            struct_size: size_of::<koshi_decodable_ops>() as u32,
            reserved: 0,
            log_likelihood: Some(scored),
            frame_log_likelihoods: (how & 128 == 0).then_some(row_scored),
            num_frames_ready: Some(ready),
            is_last_frame: Some(is_last),
            num_indices: Some(columns),
        };
        let data = self.world.behind(behind);
        // SAFETY: a struct that the call copies; the data is dropped by the library.
        let made = make(|out, err| unsafe { koshi_decodable_new(&ops, data, Some(dropped), out, err) });
        let handle = self.noted(made.expect("good functions") as usize);
        self.decodables.push(Decodable { handle, live: true, rows: good.then_some(rows) });
    }

    /// Rows of a decodable, pulled by the caller or queued. Its frames count from begin.
    fn pull(&mut self, at: usize, kind: u8, bytes: &mut Bytes) {
        if self.decodables.is_empty() {
            self.decodable(bytes);
        }
        let decodable = &self.decodables[bytes.below(self.decodables.len())];
        let known = &mut self.channels[at];
        let (channel, scores) = (known.handle as *mut koshi_channel, decodable.handle as *mut koshi_decodable);
        let good = decodable.rows.as_ref().filter(|_| decodable.live);
        let mut done = 0;
        // SAFETY: handles may be anything; a place for the result.
        unsafe {
            if kind.is_multiple_of(2) {
                call(|err| koshi_channel_submit_decodable(channel, scores, err));
                known.rows = None;
                return;
            }
            let most = [-1, 0, 1, 3][bytes.below(4)];
            let status = call(|err| koshi_channel_advance(channel, scores, most, &mut done, err));
            match (&mut known.rows, good, status) {
                (Some(all), Some(good), 0) => {
                    let from = all.len().min(good.len());
                    all.extend(&good[from..(from + done as usize).min(good.len())]);
                }
                (_, Some(_), status) if status == BUSY || (-199..=-100).contains(&status) => {}
                _ => known.rows = None,
            }
        }
    }

    fn batch(&mut self, bytes: &mut Bytes) {
        let each: Vec<(usize, Vec<usize>)> =
            (0..bytes.below(5)).map(|_| (self.pick(bytes), some_rows(bytes))).collect();
        let data: Vec<Vec<f32>> = each.iter().map(|(_, rows)| face::rows(rows)).collect();
        let handle = |at: usize| self.channels[at].handle as *mut koshi_channel;
        let items = each.iter().zip(&data).map(|((at, _), data)| face::item(handle(*at), data));
        let mut items: Vec<koshi_decoder_item> = items.collect();
        let size = size_of::<koshi_decoder_item>();
        // SAFETY: an array with its length, whose rows live.
        let status =
            call(|err| unsafe { koshi_decoder_advance(self.decoder, items.as_mut_ptr(), items.len(), size, err) });
        for ((at, rows), item) in each.into_iter().zip(&items) {
            let known = &mut self.channels[at];
            match &mut known.rows {
                Some(_) if status < 0 || (-199..=-100).contains(&item.status) => {}
                Some(all) if item.status == 0 && rows.iter().all(|&row| row < GOOD_ROWS) => all.extend(rows),
                _ => known.rows = None,
            }
        }
    }

    fn rules(&mut self, bytes: &mut Bytes) {
        let mut config = MaybeUninit::<koshi_endpoint_config>::zeroed();
        let size = size_of::<koshi_endpoint_config>();
        // SAFETY: room for the struct, which is plain numbers; a list with its length.
        unsafe {
            call(|err| koshi_endpoint_config_init(config.as_mut_ptr(), size, err));
            let mut config = config.assume_init();
            config.silence = bytes.below(4) as i32;
            config.action = bytes.below(4) as i32;
            config.segments_kept = bytes.next().into();
            for rule in &mut config.rules {
                rule.min_trailing_silence = f64::from(bytes.next() % 8) * 0.01;
                rule.min_utterance_length = f64::from(bytes.next() % 8) * 0.01;
            }
            self.ruled |= config.action != 0;
            let silence = [1, 3];
            call(|err| koshi_decoder_set_endpoint_rules(self.decoder, &config, silence.as_ptr(), 2, err));
        }
    }

    /// A handle of any kind, given where one of another kind belongs.
    fn wrong_handle(&mut self, bytes: &mut Bytes) {
        let (one, two) = (self.wrong(bytes), self.wrong(bytes));
        self.forget(one);
        let row = face::row(2);
        let mut done = 0;
        // SAFETY: handles may be anything; arrays with their lengths, places for results.
        unsafe {
            match bytes.next() % 12 {
                0 => drop(call(|err| koshi_channel_begin(one as *mut _, err))),
                1 => drop(call(|err| koshi_channel_push(one as *mut _, row.as_ptr(), 1, DIM, DIM, err))),
                2 => drop(call(|err| koshi_channel_submit(one as *mut _, row.as_ptr(), 1, DIM, DIM, err))),
                3 => drop(call(|err| koshi_channel_advance(one as *mut _, two as *mut _, 1, &mut done, err))),
                4 => drop(call(|err| koshi_channel_submit_decodable(one as *mut _, two as *mut _, err))),
                5 => look(one as *mut _),
                // No path or lattice is in the world: only NULL can be freed as one.
                6 => assert_eq!(koshi_path_free(one as *mut _) == 0, one == 0),
                7 => assert!(koshi_lattice_ref(one as *const _).is_null() && koshi_path_ref(one as *const _).is_null()),
                8 => {
                    let mut len = 7;
                    assert!(koshi_path_olabels(one as *const _, &mut len).is_null() && len == 0);
                    assert!(koshi_lattice_arcs(one as *const _, &mut len).is_null() && len == 0);
                }
                9 => drop(call(|err| koshi_graph_check(one as *const _, err))),
                10 => drop(call(|err| koshi_channel_wait(one as *mut _, 0.0, err))),
                _ => drop(make(|out, err| koshi_lattice_prune(one as *const _, 1.0, 1.0, out, err))),
            }
        }
    }

    /// Everything goes, and nothing of it stays.
    fn end(self) {
        // SAFETY: handles may be anything.
        unsafe {
            for known in &self.channels {
                let freed = koshi_channel_free(known.handle as *mut koshi_channel);
                assert!(freed == 0 || !known.live || known.shared, "free answers {freed}");
            }
            for decodable in &self.decodables {
                koshi_decodable_free(decodable.handle as *mut koshi_decodable); // maybe by a callback before
            }
            if self.decoder_lives {
                free(koshi_decoder_free, self.decoder);
            }
            for handle in self.world.handles().iter().filter(|handle| **handle != 0) {
                assert_eq!(koshi_channel_num_frames(*handle as *const koshi_channel), -1);
            }
        }
        // A batch that is at work ends first.
        let since = Instant::now();
        let counts = || (self.world.dropped.load(Ordering::SeqCst), self.world.registered.load(Ordering::SeqCst));
        while counts().0 != counts().1 {
            assert!(since.elapsed() < LOST, "{:?} of the callbacks' data are dropped", counts());
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// A few rows, seldom a bad one.
pub fn some_rows(bytes: &mut Bytes) -> Vec<usize> {
    let row =
        |byte: u8| if byte >= 252 { GOOD_ROWS + usize::from(byte - 252) % 3 } else { usize::from(byte) % GOOD_ROWS };
    (0..bytes.below(9)).map(|_| row(bytes.next())).collect()
}

/// Set `chosen` of the phrases; 0 is none.
pub fn phrases(chosen: usize) -> Vec<koshi_phrase> {
    let given = PHRASES.iter().take(chosen);
    given
        .map(|(labels, bonus)| koshi_phrase { labels: labels.as_ptr(), len: labels.len(), bonus: *bonus, reserved: 0 })
        .collect()
}

/// Lattice and best path, to the bit.
pub unsafe fn results(channel: *mut koshi_channel) -> (Vec<u8>, Vec<i32>, [u64; 3]) {
    // SAFETY: a live channel; arrays live as long as their owners.
    unsafe {
        let lattice = make(|out, err| koshi_channel_lattice(channel, 1, out, err)).expect("a lattice");
        let text = make(|out, err| koshi_lattice_to_memory(lattice, 0, out, err)).expect("its bytes");
        let size = koshi_buffer_size(text) as usize;
        let bytes = std::slice::from_raw_parts(koshi_buffer_data(text), size).to_vec();
        let path = make(|out, err| koshi_channel_best_path(channel, 1, out, err)).expect("a path");
        let mut len = 0;
        let words = koshi_path_olabels(path, &mut len);
        let words = if len == 0 { Vec::new() } else { std::slice::from_raw_parts(words, len).to_vec() };
        let costs = [koshi_path_graph_cost(path), koshi_path_acoustic_cost(path), koshi_path_bias_cost(path)];
        free(koshi_buffer_free, text);
        free(koshi_lattice_free, lattice);
        free(koshi_path_free, path);
        (bytes, words, costs.map(f64::to_bits))
    }
}
