//! Words that change on their way from the device to the host: what cannot be right is refused as KOSHI_E_DEVICE, and can
//! be asked for again; what is let through breaks nothing, and no path in it costs less than the best one.

#[path = "support/changed_words.rs"]
mod changed_words;
mod common;
#[path = "common/face/mod.rs"]
mod face;

use std::sync::{Arc, MutexGuard};

use changed_words::each_changed;
use common::graph::Rng;
use common::soft::{self, Soft};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};
use face::{Face, Fault, Matrix, Outcome, Results, Rust, Status, results};
use koshi::cuda::DeviceRows;
use koshi::decoder::{BackendChoice, Channel, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::search::{Phrase, SearchConfig};

const FRAMES: usize = 20;
const PHRASES: [Phrase<'static>; 2] =
    [Phrase { labels: &[1, 2], bonus: 2.0 }, Phrase { labels: &[2, 3, 1], bonus: 3.0 }];

/// How rows come to the decoder.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Host,
    /// From the host too, with phrases.
    Biased,
    /// From device memory.
    Device,
    /// From the host, to two channels side by side.
    Batch,
}

struct Work {
    graph: Arc<Graph>,
    config: DecoderConfig,
    rows: Vec<f32>,
    dim: usize,
    /// The same in device memory.
    memory: CudaSlice<f32>,
    stream: Arc<CudaStream>,
    soft: &'static Soft,
    _alone: MutexGuard<'static, ()>,
}

fn work() -> Work {
    let (alone, soft) = soft::alone("");
    let (source, rows, dim) = Rng(5).busy();
    let rows = rows[..FRAMES * dim].to_vec();
    let stream = CudaContext::new(0).unwrap().new_stream().unwrap();
    let memory = stream.clone_htod(&rows).unwrap();
    stream.synchronize().unwrap();
    // So that windows are pruned on the way.
    let search = SearchConfig { link_budget: 100, ..soft::narrow() };
    let backend = BackendChoice::Cuda;
    let config = DecoderConfig { search, backend, num_lanes: 2, num_threads: 1, ..DecoderConfig::default() };
    let graph = Arc::new(Graph::from_source(&source, Columns::Labels).unwrap());
    Work { graph, config, rows, dim, memory, stream, soft, _alone: alone }
}

/// Makes a call again that fails, and keeps what it answered.
fn insist<T>(faults: &mut Vec<Fault>, mut call: impl FnMut() -> Outcome<T>) -> T {
    loop {
        match call() {
            Ok(done) => return done,
            Err(fault) => faults.push(fault),
        }
        assert!(faults.len() < 5, "{faults:?}");
    }
}

impl Work {
    fn decoder(&self) -> Outcome<Arc<Decoder>> {
        Rust::decoder(&self.graph, &self.config)
    }

    fn rows(&self, from: usize, to: usize) -> Matrix<'_> {
        Matrix::dense(&self.rows, self.dim).part(from, to)
    }

    fn push_device(&self, channel: &mut Channel, from: usize, to: usize) -> Outcome {
        let (at, stream) = (self.memory.device_ptr(&self.stream).0, self.stream.cu_stream() as usize);
        let all = DeviceRows { at, frames: to, dim: self.dim, stride: self.dim, stream };
        // SAFETY: memory and a stream of the device, which live as long as this.
        unsafe { channel.push_device(all.behind(from)) }.map(|_| ()).map_err(|error| {
            let device = matches!(error.root(), koshi::Error::Device(_));
            let status = if device { Status::KOSHI_E_DEVICE } else { Status::KOSHI_E_INTERNAL };
            Fault { status, message: error.chain() }
        })
    }

    /// An utterance of a fresh channel, and what failed on the way.
    fn utterance(&self, decoder: &Arc<Decoder>, how: How) -> (Results, Vec<Fault>) {
        let mut faults = Vec::new();
        let [mut one, mut other] = [(); 2].map(|()| Rust::channel(decoder).unwrap());
        for channel in [&mut one, &mut other] {
            channel.set_bias(if how == How::Biased { &PHRASES } else { &[] }).unwrap();
            insist(&mut faults, || Rust::begin(channel));
        }
        for end in [1, 9, FRAMES] {
            insist(&mut faults, || match (Rust::num_frames(&one) as usize, how) {
                (begin, _) if begin == end => Ok(()),
                (begin, How::Host | How::Biased) => Rust::push(&mut one, self.rows(begin, end)),
                (begin, How::Device) => self.push_device(&mut one, begin, end),
                (begin, How::Batch) => {
                    let rest = self.rows(Rust::num_frames(&other) as usize, end);
                    let outcomes = Rust::batch(decoder, &mut [(&mut one, self.rows(begin, end)), (&mut other, rest)]);
                    let status = outcomes.into_iter().find_map(Result::err);
                    status.map_or(Ok(()), |status| Err(Fault { status, message: String::new() }))
                }
            });
            assert_eq!(Rust::num_frames(&one), end as u64, "{faults:?}");
        }
        (results::<Rust>(&mut one), faults)
    }
}

fn cost(results: &Results) -> f64 {
    let [_, path] = &results.paths;
    path.graph_cost + path.acoustic_cost + path.bias_cost
}

fn changed(how: How, seed: u64) {
    let work = work();
    let decoder = work.decoder().unwrap();
    let run = || work.utterance(&decoder, how);
    // Scores in device memory are what the device says they are.
    let can_be = |found: &Results, expected: &Results| {
        found.frames == FRAMES as u64 && (how == How::Device || cost(found) >= cost(expected) - 1e-3)
    };
    let counts = each_changed(work.soft, &mut Rng(seed), 40, |fault: &Fault| fault.status, run, can_be);
    assert!(counts.refused > 10, "{counts:?}");
    println!("{how:?}: {counts:?}");
}

#[test]
fn rows_of_the_host() {
    changed(How::Host, 11);
}

#[test]
fn with_phrases() {
    changed(How::Biased, 12);
}

#[test]
fn rows_of_the_device() {
    changed(How::Device, 13);
}

#[test]
fn batches() {
    changed(How::Batch, 14);
}

/// What a launch says of a lane and of its first frame: each number that would lead astray.
const REPORTS: [(&str, &str); 12] = [
    // Frames done, status, words of output.
    ("flip=1:0:1", "after 0 of 1 frames"),
    ("flip=1:0:2", "after 3 of 1 frames"),
    ("flip=1:0:0x80000000", "of 1 frames"),
    ("flip=1:1:2", "status 2 (0) after 1 of 1 frames"),
    ("flip=1:1:6", "status 6 (0) after 1 of 1 frames"),
    ("flip=1:3:0x80000000", "words of output"),
    // Several at once: no such status, a capacity that is none, no room for a first frame.
    ("flip=1:0:1,flip=1:1:7", "status 7"),
    ("flip=1:0:1,flip=1:1:4,flip=1:2:3", "status 4 (3)"),
    ("flip=1:0:1,flip=1:1:1", "status 1"),
    // Tokens, the cutoff, and of the words the first token.
    ("flip=2:3:0x100000", "more than it has written"),
    ("flip=2:14:0x80000000", "cannot be right"),
    ("flip=3:0:1", "cannot be right"),
];

#[test]
fn reports() {
    let work = work();
    let refused = |settings: &str, reason: &str, outcome: Outcome| {
        let (told, fault) = (work.soft.report(), outcome.expect_err(settings));
        work.soft.reset();
        assert_eq!(fault.status, Status::KOSHI_E_DEVICE, "{settings}: {}", fault.message);
        assert!(fault.message.contains(reason), "{settings}: {told}: {}", fault.message);
    };
    let decoder = work.decoder().unwrap();
    let (expected, _) = work.utterance(&decoder, How::Host);
    let mut channel = Rust::channel(&decoder).unwrap();
    Rust::begin(&mut channel).unwrap();
    for (settings, reason) in REPORTS {
        // Time 0 is searched when a decoder is made.
        work.soft.configure(settings);
        let made = work.decoder().and_then(|decoder| Rust::begin(&mut Rust::channel(&decoder).unwrap()));
        refused(settings, reason, made);
        work.soft.configure(settings);
        refused(settings, reason, Rust::push(&mut channel, work.rows(0, 1)));
    }
    // Of rows: a column that there is not, one with nothing wrong, and a score that is no number.
    let nan = work.rows[0].to_bits() ^ f32::NAN.to_bits();
    for settings in ["flip=1:0:0x80000000".into(), "flip=1:0:0xffffffff".into(), format!("flip=2:0:{nan}")] {
        work.soft.configure(&settings);
        refused(&settings, "of rows", work.push_device(&mut channel, 0, 1));
    }
    assert_eq!(Rust::num_frames(&channel), 0);
    Rust::push(&mut channel, work.rows(0, FRAMES)).unwrap();
    assert!(results::<Rust>(&mut channel) == expected);
}
