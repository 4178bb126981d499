//! Two threads use one decoder for long: utterances in pieces of random sizes on random channels, pushed or queued, with
//! phrases and commits, cancelled by their own thread or the other, channels freed in the middle. What comes out is what
//! one thread finds alone, memory stays flat, and no handle and no callback's data is lost.
//!
//! `KOSHI_SOAK_MINUTES=30` soaks for so long, `KOSHI_SOAK_SEED=7` in another order.

#[path = "../fuzz/bodies/face.rs"]
#[allow(dead_code)]
mod face;

use std::collections::HashMap;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use face::{DIM, GOOD_ROWS, call, free, make};
use koshi::ffi::*;
use koshi::random::SplitMix;

const CHANNELS: usize = 6;
/// Steps of each thread where no time is given.
const STEPS: u64 = 40_000;
/// Frames of the utterances there are.
const LENGTHS: [usize; 8] = [1, 2, 7, 30, 90, 250, 600, 900];
const CANCELLED: koshi_status = koshi_status_code::KOSHI_E_CANCELLED as koshi_status;
const FULL: koshi_status = koshi_status_code::KOSHI_E_FULL as koshi_status;
/// Handles that live at once, with all that results are fetched as, are far fewer.
const MOST_HANDLES: u64 = 500;

struct Random(SplitMix);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_bits() % bound
    }
}

/// An utterance and how it is searched.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Plan {
    utterance: usize,
    phrases: usize,
    commits: bool,
}

impl Plan {
    fn random(random: &mut Random) -> Plan {
        Plan {
            utterance: random.below(LENGTHS.len() as u64) as usize,
            phrases: random.below(3) as usize,
            commits: random.below(3) == 0,
        }
    }

    fn rows(&self) -> Vec<f32> {
        let mut random = Random(SplitMix::new(self.utterance as u64));
        (0..LENGTHS[self.utterance]).flat_map(|_| face::row(random.below(GOOD_ROWS as u64) as usize)).collect()
    }

    fn begin(&self, channel: *mut koshi_channel) {
        const LABELS: [i32; 3] = [3, 2, 1];
        let phrase = |bonus| koshi_phrase { labels: LABELS.as_ptr(), len: self.phrases, bonus, reserved: 0 };
        let phrases = [phrase(1.0), phrase(-0.5)];
        let count = if self.phrases == 0 { 0 } else { 2 };
        // SAFETY: a live channel; arrays with their lengths.
        unsafe {
            assert_eq!(call(|err| koshi_channel_set_bias(channel, phrases.as_ptr(), count, err)), 0);
            let every = if self.commits { 256 } else { 0 };
            assert_eq!(call(|err| koshi_channel_set_commit(channel, every, 0, err)), 0);
            assert_eq!(call(|err| koshi_channel_begin(channel, err)), 0);
        }
    }
}

/// Lattice and best path, to the bit.
#[derive(PartialEq, Debug)]
struct Found {
    lattice: Vec<u8>,
    words: Vec<i32>,
    costs: [u64; 3],
    committed: i64,
}

fn found(channel: *mut koshi_channel) -> Found {
    // SAFETY: a live channel; arrays live as long as their owners.
    unsafe {
        let lattice = make(|out, err| koshi_channel_lattice(channel, 1, out, err)).unwrap();
        let bytes = make(|out, err| koshi_lattice_to_memory(lattice, 0, out, err)).unwrap();
        let path = make(|out, err| koshi_channel_best_path(channel, 1, out, err)).unwrap();
        let mut len = 0;
        let words = koshi_path_olabels(path, &mut len);
        let costs = [koshi_path_graph_cost(path), koshi_path_acoustic_cost(path), koshi_path_bias_cost(path)];
        let size = koshi_buffer_size(bytes) as usize;
        let found = Found {
            lattice: std::slice::from_raw_parts(koshi_buffer_data(bytes), size).to_vec(),
            words: if len == 0 { Vec::new() } else { std::slice::from_raw_parts(words, len).to_vec() },
            costs: costs.map(f64::to_bits),
            committed: koshi_channel_committed_frames(channel),
        };
        free(koshi_path_free, path);
        free(koshi_buffer_free, bytes);
        free(koshi_lattice_free, lattice);
        found
    }
}

fn decoder(lanes: u32, threads: u32) -> *mut koshi_decoder {
    let mut config = face::config();
    (config.num_lanes, config.num_threads) = (lanes, threads);
    (config.lattice_beam, config.link_budget) = (2.5, 100);
    (config.queue_frames, config.chunk_frames) = (64, 8);
    // SAFETY: a live graph, a struct of its size, a place for the result.
    make(|out, err| unsafe { koshi_decoder_new(face::graph(), &config, out, err) }).unwrap()
}

fn new_channel(decoder: *mut koshi_decoder) -> *mut koshi_channel {
    // SAFETY: a live decoder, a place for the result.
    make(|out, err| unsafe { koshi_channel_new(decoder, out, err) }).unwrap()
}

/// What all plans come to, found by one thread in one push.
fn alone() -> HashMap<Plan, Found> {
    let decoder = decoder(1, 1);
    let channel = new_channel(decoder);
    let mut all = HashMap::new();
    for utterance in 0..LENGTHS.len() {
        for (phrases, commits) in (0..3).flat_map(|phrases| [(phrases, false), (phrases, true)]) {
            let plan = Plan { utterance, phrases, commits };
            let rows = plan.rows();
            plan.begin(channel);
            // SAFETY: a live channel, an array with its length.
            unsafe {
                let push = |err| koshi_channel_push(channel, rows.as_ptr(), rows.len() / DIM, DIM, DIM, err);
                assert_eq!(call(push), 0);
                assert_eq!(call(|err| koshi_channel_finish(channel, err)), 0);
            }
            all.insert(plan, found(channel));
        }
    }
    free(koshi_channel_free, channel);
    free(koshi_decoder_free, decoder);
    assert!(all.values().any(|found| found.committed > 0));
    all
}

/// Bytes of memory that the process holds.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// What both threads have in common.
struct Shared {
    decoder: usize,
    alone: HashMap<Plan, Found>,
    /// Channels that the other thread may cancel.
    open: Mutex<Vec<usize>>,
    end: Option<Instant>,
    compared: AtomicU64,
    cancelled: AtomicU64,
    registered: AtomicUsize,
}

static DROPPED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn dropped(_: *mut c_void) {
    DROPPED.fetch_add(1, Ordering::SeqCst);
}

unsafe extern "C" fn told(_: *mut c_void, channel: *mut koshi_channel) {
    // SAFETY: a channel that lives, or whose handle is refused.
    unsafe {
        let path = make(|out, err| koshi_channel_partial(channel, out, ptr::null_mut(), err));
        face::free_made(koshi_path_free, path);
    }
}

/// A channel of a thread, and the utterance in it.
struct Used {
    channel: *mut koshi_channel,
    plan: Plan,
    rows: Vec<f32>,
    at: usize,
    queued: bool,
}

impl Used {
    fn new(shared: &Shared, random: &mut Random) -> Used {
        let channel = new_channel(shared.decoder as *mut koshi_decoder);
        shared.open.lock().unwrap().push(channel as usize);
        let mut used = Used { channel, plan: Plan::random(random), rows: Vec::new(), at: 0, queued: false };
        used.begin(random);
        used
    }

    fn begin(&mut self, random: &mut Random) {
        self.plan = Plan::random(random);
        (self.rows, self.at, self.queued) = (self.plan.rows(), 0, random.below(2) == 0);
        self.plan.begin(self.channel);
    }

    fn free(self, shared: &Shared) {
        shared.open.lock().unwrap().retain(|channel| *channel != self.channel as usize);
        free(koshi_channel_free, self.channel);
    }

    /// The next rows, or the end of the utterance.
    fn step(&mut self, shared: &Shared, random: &mut Random) {
        let channel = self.channel;
        let left = (self.rows.len() - self.at) / DIM;
        let count = left.min(random.below(40) as usize);
        // SAFETY: a live channel, an array with its length.
        let status = call(|err| unsafe {
            let push = if self.queued { koshi_channel_submit } else { koshi_channel_push };
            push(channel, self.rows[self.at..].as_ptr(), count, DIM, DIM, err)
        });
        match status {
            0 => self.at += count * DIM,
            FULL => {
                // SAFETY: a live channel.
                call(|err| unsafe { koshi_channel_wait(channel, 0.01, err) });
            }
            _ => {
                assert_eq!(status, CANCELLED);
                // A callback may be asking about what was searched before: a begin would meet it.
                // SAFETY: a live channel.
                assert_eq!(call(|err| unsafe { koshi_channel_wait(channel, -1.0, err) }), CANCELLED);
                shared.cancelled.fetch_add(1, Ordering::Relaxed);
                return self.begin(random);
            }
        }
        if self.at == self.rows.len() {
            self.end(shared, random);
        }
    }

    fn end(&mut self, shared: &Shared, random: &mut Random) {
        let channel = self.channel;
        // SAFETY: a live channel.
        let statuses = unsafe {
            [call(|err| koshi_channel_finish(channel, err)), call(|err| koshi_channel_wait(channel, -1.0, err))]
        };
        if statuses == [0, 0] {
            // The other thread may have cancelled it just before: then fewer frames are searched.
            // SAFETY: a live channel.
            let all = unsafe { koshi_channel_num_frames(channel) } as usize == self.rows.len() / DIM;
            if all {
                let found = found(channel);
                assert!(found == shared.alone[&self.plan], "{:?}: {found:?}", self.plan);
                shared.compared.fetch_add(1, Ordering::Relaxed);
            } else {
                shared.cancelled.fetch_add(1, Ordering::Relaxed);
            }
        } else {
            assert!(statuses.iter().all(|status| [0, CANCELLED].contains(status)), "{statuses:?}");
            shared.cancelled.fetch_add(1, Ordering::Relaxed);
        }
        self.begin(random);
    }
}

fn thread(shared: &Shared, seed: u64, held: &Mutex<Vec<u64>>) {
    let mut random = Random(SplitMix::new(seed));
    let mut all: Vec<Used> = (0..CHANNELS).map(|_| Used::new(shared, &mut random)).collect();
    let mut step = 0;
    while shared.end.map_or(step < STEPS, |end| Instant::now() < end) {
        step += 1;
        let at = random.below(CHANNELS as u64) as usize;
        let channel = all[at].channel;
        // SAFETY: handles may be anything; a struct that is copied.
        unsafe {
            match random.below(200) {
                0 => {
                    call(|err| koshi_channel_cancel(channel, err));
                }
                1 => {
                    let open = shared.open.lock().unwrap();
                    let other = open[random.below(open.len() as u64) as usize];
                    drop(open);
                    call(|err| koshi_channel_cancel(other as *mut koshi_channel, err));
                }
                2 => {
                    let new = Used::new(shared, &mut random);
                    std::mem::replace(&mut all[at], new).free(shared);
                }
                3..6 => {
                    let listener = koshi_channel_listener {
                        struct_size: size_of::<koshi_channel_listener>() as u32,
                        reserved: 0,
                        partial: Some(told),
                        endpoint: None,
                        finished: Some(told),
                        failed: None,
                    };
                    shared.registered.fetch_add(1, Ordering::SeqCst);
                    let set = |err| koshi_channel_set_listener(channel, &listener, ptr::null_mut(), Some(dropped), err);
                    assert_eq!(call(set), 0);
                }
                6..20 => told(ptr::null_mut(), channel),
                _ => all[at].step(shared, &mut random),
            }
        }
        if step % 500 == 0 {
            held.lock().unwrap().push(resident());
        }
    }
    all.into_iter().for_each(|used| used.free(shared));
}

/// Greatest of a part of what was held, in hundredths of the time.
fn greatest(held: &[u64], from: usize, to: usize) -> u64 {
    held[held.len() * from / 100..(held.len() * to).div_ceil(100)].iter().copied().max().unwrap()
}

#[test]
fn two_threads_find_what_one_finds_and_leave_nothing_behind() {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<f64>().unwrap());
    let seed = number("KOSHI_SOAK_SEED").unwrap_or(1.0) as u64;
    let (decoder, start) = (decoder(3, 2), Instant::now());
    let shared = Shared {
        decoder: decoder as usize,
        alone: alone(),
        open: Mutex::default(),
        end: number("KOSHI_SOAK_MINUTES").map(|minutes| start + Duration::from_secs_f64(60.0 * minutes)),
        compared: AtomicU64::new(0),
        cancelled: AtomicU64::new(0),
        registered: AtomicUsize::new(0),
    };
    let held = Mutex::default();
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (shared, held) = (&shared, &held);
            scope.spawn(move || thread(shared, 2 * seed + number, held));
        }
    });
    let mut metrics = MaybeUninit::<koshi_metrics>::zeroed();
    let size = size_of::<koshi_metrics>();
    // SAFETY: a live decoder, a struct of plain numbers.
    let metrics = unsafe {
        assert_eq!(call(|err| koshi_decoder_metrics(decoder, metrics.as_mut_ptr(), size, err)), 0);
        metrics.assume_init()
    };
    assert_eq!((metrics.num_channels, metrics.queued_frames), (0, 0));
    // A batch that is at work when its channel is freed ends first, and only then lets go of the listener.
    free(koshi_decoder_free, decoder);
    assert_eq!(DROPPED.load(Ordering::SeqCst), shared.registered.load(Ordering::SeqCst));
    // Handles are places of a table: one that is not given back makes the table longer.
    let probe = self::decoder(1, 1);
    let place = (probe as u64) >> 32 & 0xff_ffff;
    assert!(place < MOST_HANDLES, "a new handle has place {place}");
    free(koshi_decoder_free, probe);

    let held = held.into_inner().unwrap();
    let (early, late) = (greatest(&held, 10, 40), greatest(&held, 70, 100));
    let (compared, cancelled) = (shared.compared.into_inner(), shared.cancelled.into_inner());
    println!(
        "{:.0?}: {compared} utterances compared, {cancelled} cancelled, {} frames queued and searched; \
         {} KiB held early, {} KiB late; a new handle has place {place}",
        start.elapsed(),
        metrics.frames,
        early >> 10,
        late >> 10
    );
    assert!(compared > 20 && cancelled > 5);
    assert!(late <= early + early / 10 + (4 << 20), "{early} bytes early, {late} late");
}
