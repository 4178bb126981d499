//! GPU lanes on the software CUDA device: every call of the driver fails once, in the whole life of a decoder; decoders
//! come and go while others work; and rows in device memory that are badly placed.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use std::sync::Arc;

use common::graph::Rng;
use common::soft::{self, Soft};
use cudarc::driver::{CudaContext, DevicePtr, result};
use face::{Face, Fault, Matrix, Results, Rust, Status, results};
use koshi::cuda::DeviceRows;
use koshi::decoder::{BackendChoice, Channel, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::search::Phrase;

const FRAMES: usize = 4;

fn config(backend: BackendChoice, device: u32) -> DecoderConfig {
    DecoderConfig { search: soft::narrow(), backend, device, num_lanes: 2, num_threads: 2, ..DecoderConfig::default() }
}

/// Lists of phrases: from the start of an utterance, and from its third frame on.
const LISTS: [&[Phrase<'static>]; 2] = [
    &[Phrase { labels: &[1, 2], bonus: 2.0 }, Phrase { labels: &[2, 3, 1], bonus: 3.0 }],
    &[Phrase { labels: &[4], bonus: 1.5 }],
];

/// A graph, rows for three utterances, and what the CPU makes of each, and of the first one with phrases.
struct Work {
    graph: Arc<Graph>,
    rows: Vec<Vec<f32>>,
    dim: usize,
    expected: Vec<Results>,
    with_phrases: Results,
}

fn work() -> Work {
    let (source, rows, dim) = Rng(5).busy();
    let graph = Arc::new(Graph::from_source(&source, Columns::Labels).unwrap());
    let rows: Vec<Vec<f32>> = rows.chunks(FRAMES * dim).take(3).map(<[f32]>::to_vec).collect();
    let expected = rows.iter().map(|rows| on_cpu(&graph, Matrix::dense(rows, dim))).collect();
    let decoder = Rust::decoder(&graph, &config(BackendChoice::Cpu, 0)).unwrap();
    let with_phrases = biased(&decoder, Matrix::dense(&rows[0], dim), &mut Vec::new());
    Work { graph, rows, dim, expected, with_phrases }
}

/// An utterance with phrases that change on the way. What fails is noted and asked for again.
fn biased(decoder: &Arc<Decoder>, rows: Matrix, faults: &mut Vec<Fault>) -> Results {
    fn insist(faults: &mut Vec<Fault>, mut call: impl FnMut() -> Result<(), Fault>) {
        while let Err(fault) = call() {
            faults.push(fault);
        }
    }
    let mut channel = Rust::channel(decoder).unwrap();
    channel.set_bias(LISTS[0]).unwrap();
    insist(faults, || Rust::begin(&mut channel));
    for (end, list) in [(2, None), (FRAMES, Some(LISTS[1]))] {
        if let Some(list) = list {
            insist(faults, || Rust::set_bias(&mut channel, list));
        }
        insist(faults, || {
            let done = Rust::num_frames(&channel) as usize;
            Rust::push(&mut channel, rows.part(done, end))
        });
    }
    results::<Rust>(&mut channel)
}

fn on_cpu(graph: &Arc<Graph>, rows: Matrix) -> Results {
    let decoder = Rust::decoder(graph, &config(BackendChoice::Cpu, 0)).unwrap();
    let mut channel = Rust::channel(&decoder).unwrap();
    Rust::begin(&mut channel).unwrap();
    Rust::push(&mut channel, rows).unwrap();
    results::<Rust>(&mut channel)
}

impl Work {
    fn rows(&self, at: usize) -> Matrix<'_> {
        Matrix::dense(&self.rows[at], self.dim)
    }

    /// A decoder's life but for its end: one channel by itself, from the host and from the device; all of them in batches. What
    /// fails is noted and asked for again. No decoder where making it failed.
    fn live(&self, in_memory: &[DeviceRows], faults: &mut Vec<Fault>) -> Option<Arc<Decoder>> {
        let decoder = match Rust::decoder(&self.graph, &config(BackendChoice::Cuda, 0)) {
            Ok(decoder) => decoder,
            Err(fault) => {
                faults.push(fault);
                return None;
            }
        };
        let mut channel = Rust::channel(&decoder).unwrap();
        Rust::begin(&mut channel).unwrap();
        for end in [1, 3] {
            while Rust::num_frames(&channel) < end {
                let rest = self.rows(0).part(Rust::num_frames(&channel) as usize, end as usize);
                faults.extend(Rust::push(&mut channel, rest).err());
            }
        }
        while Rust::num_frames(&channel) < FRAMES as u64 {
            let rest = in_memory[0].behind(Rust::num_frames(&channel) as usize);
            // SAFETY: memory and a stream of the device, which live until the test ends.
            if let Err(error) = unsafe { channel.push_device(rest) } {
                faults.push(Fault { status: Status::KOSHI_E_DEVICE, message: error.chain() });
            }
        }
        assert!(results::<Rust>(&mut channel) == self.expected[0], "{faults:?}");
        assert!(biased(&decoder, self.rows(0), faults) == self.with_phrases, "{faults:?}");

        let mut channels: Vec<Channel> = self.rows.iter().map(|_| Rust::channel(&decoder).unwrap()).collect();
        channels.iter_mut().for_each(|channel| Rust::begin(channel).unwrap());
        while channels.iter().any(|channel| Rust::num_frames(channel) < FRAMES as u64) {
            let rest = |at: usize, channel: &Channel| self.rows(at).part(Rust::num_frames(channel) as usize, FRAMES);
            let rests: Vec<_> = channels.iter().enumerate().map(|(at, channel)| rest(at, channel)).collect();
            let mut batch: Vec<_> = channels.iter_mut().zip(rests).collect();
            let outcome = Rust::batch(&decoder, &mut batch);
            for ((channel, rest), outcome) in batch.iter().zip(&outcome) {
                assert!(outcome.is_err() || Rust::num_frames(channel) == FRAMES as u64, "{rest:?}");
            }
            let failed = outcome.iter().find_map(|outcome| outcome.err());
            faults.extend(failed.map(|status| Fault { status, message: String::new() }));
        }
        for (channel, expected) in channels.iter_mut().zip(&self.expected) {
            assert!(&results::<Rust>(channel) == expected, "{faults:?}");
        }
        Some(decoder)
    }
}

/// What a driver has given out: memory, page-locked memory, objects.
fn given(soft: &Soft) -> [usize; 4] {
    [soft.memory_used(0), soft.memory_used(1), soft.pinned_used(), soft.stats().objects as usize]
}

/// Of all calls that a decoder's life makes, each in turn: what fails says so once, what was there before goes on, all
/// is given back, and the caller's context stays current.
#[test]
fn each_call_fails_in_turn() {
    let (_alone, soft) = soft::alone("");
    let work = work();
    // The caller's own context is that of the other device.
    let (theirs, mine) = (CudaContext::new(0).unwrap(), CudaContext::new(1).unwrap());
    let stream = theirs.new_stream().unwrap();
    let memory: Vec<_> = work.rows.iter().map(|rows| stream.clone_htod(rows).unwrap()).collect();
    stream.synchronize().unwrap();
    let (frames, dim) = (FRAMES, work.dim);
    let of = |at: u64| DeviceRows { at, frames, dim, stride: dim, stream: stream.cu_stream() as usize };
    let in_memory: Vec<DeviceRows> = memory.iter().map(|memory| of(memory.device_ptr(&stream).0)).collect();
    mine.bind_to_thread().unwrap();
    let current = || result::ctx::get_current().unwrap();
    // The driver is asked what it has once a process: not among what fails.
    koshi::cuda::devices().unwrap();
    for lazy in [0, 1] {
        soft.configure(&format!("lazy={lazy}"));
        let mut nth = 1;
        loop {
            let code = [999, 700, 2][(nth + lazy) as usize % 3];
            let (before, first) = (given(soft), soft.stats().calls);
            soft.configure(&format!("fail=any:{nth}:{code}"));
            let mut faults = Vec::new();
            let decoder = work.live(&in_memory, &mut faults);
            drop(decoder);
            let total = soft.stats().calls - first;
            let told = soft.report();
            soft.reset();
            let case = format!("call {nth} of {total}, code {code}: {told} {faults:?}");
            if nth > total {
                assert!(faults.is_empty(), "{case}");
                break;
            }
            let allowed = [Status::KOSHI_E_DEVICE, Status::KOSHI_E_NO_DEVICE, Status::KOSHI_E_NO_MEMORY];
            assert!(faults.len() <= 1 && faults.iter().all(|fault| allowed.contains(&fault.status)), "{case}");
            for fault in &faults {
                let named = fault.message.is_empty() || code == 2 || fault.message.contains(&code.to_string());
                assert!(named && !fault.message.contains('\n'), "{case}");
            }
            if told.starts_with("cuCtxSetCurrent") {
                mine.bind_to_thread().unwrap();
            }
            assert_eq!(current(), Some(mine.cu_ctx()), "{case}");
            // What a call that gives back refuses cannot be given back.
            let gives_back = ["Free", "Destroy", "Unload", "Release", "cuCtx"].iter().any(|word| told.contains(word));
            assert!(given(soft) == before || gives_back, "{case}: {:?} given, before {before:?}", given(soft));
            nth += 1;
        }
        assert!(nth > 300, "{nth} calls");
    }
}

/// Pushes of two threads to a decoder, while a third one makes decoders and lets them go, some of them with a channel that
/// outlives them, and a fourth works on the other device.
#[test]
fn decoders_come_and_go_beside_pushes() {
    let (_alone, soft) = soft::alone("");
    let work = work();
    koshi::cuda::devices().unwrap();
    let before = given(soft);
    let frame_by_frame = |decoder: &Arc<Decoder>, at: usize| {
        let mut channel = Rust::channel(decoder).unwrap();
        Rust::begin(&mut channel).unwrap();
        for frame in 0..FRAMES {
            Rust::push(&mut channel, work.rows(at).part(frame, frame + 1)).unwrap();
        }
        assert!(results::<Rust>(&mut channel) == work.expected[at]);
        channel
    };
    let new = |device| Rust::decoder(&work.graph, &config(BackendChoice::Cuda, device)).unwrap();
    let current = || result::ctx::get_current().unwrap();
    for lazy in [0, 1] {
        soft.configure(&format!("lazy={lazy}"));
        let shared = new(0);
        std::thread::scope(|scope| {
            for at in 0..2 {
                let (shared, frame_by_frame) = (&shared, &frame_by_frame);
                scope.spawn(move || {
                    for _ in 0..5 {
                        frame_by_frame(shared, at);
                        assert_eq!(current(), None, "a thread without a context has none afterwards");
                    }
                });
            }
            scope.spawn(|| {
                let mine = CudaContext::new(1).unwrap();
                mine.bind_to_thread().unwrap();
                let mut kept = Vec::new();
                for round in 0..6 {
                    let decoder = new(0);
                    let channel = frame_by_frame(&decoder, 2);
                    if round % 2 == 0 {
                        kept.push(channel);
                    }
                    drop(decoder);
                    assert_eq!(current(), Some(mine.cu_ctx()));
                }
                for channel in &mut kept {
                    assert!(results::<Rust>(channel) == work.expected[2]);
                    Rust::begin(channel).unwrap();
                    Rust::push(channel, work.rows(1)).unwrap();
                    assert!(results::<Rust>(channel) == work.expected[1]);
                }
                drop(kept);
                assert_eq!(current(), Some(mine.cu_ctx()));
            });
            scope.spawn(|| {
                for round in 0..4 {
                    frame_by_frame(&new(1), round % 3);
                    assert_eq!(current(), None);
                }
            });
        });
        drop(shared);
        assert_eq!(given(soft), before);
    }
}

/// A decoder that goes while a copy out may still be under way, since one behind it failed: the software device ends the
/// process where memory is freed that a queued copy writes to.
#[test]
fn memory_outlives_the_copies_to_it() {
    let (_alone, soft) = soft::alone("lazy=1");
    let work = work();
    koshi::cuda::devices().unwrap();
    for nth in 1..=4 {
        let decoder = Rust::decoder(&work.graph, &config(BackendChoice::Cuda, 0)).unwrap();
        let mut channels: Vec<Channel> = (0..2).map(|_| Rust::channel(&decoder).unwrap()).collect();
        channels.iter_mut().for_each(|channel| Rust::begin(channel).unwrap());
        soft.configure(&format!("fail=cuMemcpyDtoHAsync_v2:{nth}:999"));
        let mut batch: Vec<_> = channels.iter_mut().zip([work.rows(0), work.rows(1)]).collect();
        let outcome = Rust::batch(&decoder, &mut batch);
        assert!(outcome.iter().any(Result::is_err), "two copies of reports, and two of output");
        drop((channels, decoder));
        soft.reset();
    }
}

/// Rows at any multiple of 4 bytes, with any stride; streams of another device, and addresses of nothing.
#[test]
fn rows_of_the_device_that_are_badly_placed() {
    let (_alone, soft) = soft::alone("");
    let work = work();
    let (context, other) = (CudaContext::new(0).unwrap(), CudaContext::new(1).unwrap());
    let (stream, elsewhere) = (context.new_stream().unwrap(), other.new_stream().unwrap());
    let decoder = Rust::decoder(&work.graph, &config(BackendChoice::Cuda, 0)).unwrap();
    let mut channel = Rust::channel(&decoder).unwrap();
    let push = |channel: &mut Channel, rows: DeviceRows| {
        // SAFETY: memory and streams of the software device, which checks them.
        unsafe { channel.push_device(rows) }
    };
    let dim = work.dim;
    let place = |offset: usize, stride: usize| {
        let mut cells = vec![f32::NAN; offset + FRAMES * stride];
        for (to, from) in cells[offset..].chunks_mut(stride).zip(work.rows[0].chunks(dim)) {
            to[..dim].copy_from_slice(from);
        }
        stream.clone_htod(&cells).unwrap()
    };
    for lazy in [1, 0] {
        soft.configure(&format!("lazy={lazy}"));
        for (offset, extra) in [(0, 0), (1, 0), (1, 1), (3, 3), (2, 63), (63, 1_000)] {
            let stride = dim + extra;
            let memory = place(offset, stride);
            let at = memory.device_ptr(&stream).0 + 4 * offset as u64;
            for stream in [stream.cu_stream() as usize, 0] {
                if stream == 0 {
                    context.bind_to_thread().unwrap();
                    result::ctx::synchronize().unwrap();
                }
                Rust::begin(&mut channel).unwrap();
                push(&mut channel, DeviceRows { at, frames: FRAMES, dim, stride, stream }).unwrap();
                assert!(results::<Rust>(&mut channel) == work.expected[0], "at {offset}, {extra} beside");
            }
        }
    }
    let memory = place(0, dim);
    let good = DeviceRows {
        at: memory.device_ptr(&stream).0,
        frames: FRAMES,
        dim,
        stride: dim,
        stream: stream.cu_stream() as usize,
    };
    stream.synchronize().unwrap();
    Rust::begin(&mut channel).unwrap();
    push(&mut channel, good).unwrap();
    let held = results::<Rust>(&mut channel);
    let refused = [
        DeviceRows { stride: usize::MAX, ..good },
        DeviceRows { frames: usize::MAX, ..good },
        DeviceRows { stride: usize::MAX / 8, frames: 3, ..good },
        DeviceRows { at: u64::MAX - 3, ..good },
        DeviceRows { at: good.at + 2, ..good },
    ];
    for rows in refused {
        let error = push(&mut channel, rows).unwrap_err();
        assert!(matches!(error.root(), koshi::Error::Argument(_)), "{error} for {rows:?}");
    }
    let error = push(&mut channel, DeviceRows { stream: elsewhere.cu_stream() as usize, ..good }).unwrap_err();
    assert!(matches!(error.root(), koshi::Error::Device(_)) && error.chain().contains("cuEventRecord"), "{error}");
    assert!(results::<Rust>(&mut channel) == held, "what is refused changes nothing");
    Rust::begin(&mut channel).unwrap();
    push(&mut channel, good).unwrap();
    assert!(results::<Rust>(&mut channel) == held);
    // A kernel that found nothing there would take the context with it: the driver is asked before. Nothing, no memory of
    // the device, that of another device, more than there is.
    let theirs = elsewhere.clone_htod(&work.rows[0]).unwrap();
    elsewhere.synchronize().unwrap();
    for rows in [
        DeviceRows { at: 4096, ..good },
        DeviceRows { at: work.rows[0].as_ptr() as u64, ..good },
        DeviceRows { at: theirs.device_ptr(&elsewhere).0, ..good },
        DeviceRows { frames: 1 << 33, ..good },
        DeviceRows { at: good.at + (FRAMES * dim * 4) as u64, frames: 1, ..good },
    ] {
        let error = push(&mut channel, rows).unwrap_err();
        assert!(
            matches!(error.root(), koshi::Error::Argument(_)) && error.chain().contains("GPU 0 cannot reach"),
            "{error}"
        );
        assert!(results::<Rust>(&mut channel) == held);
    }
    Rust::begin(&mut channel).unwrap();
    push(&mut channel, good).unwrap();
    assert!(results::<Rust>(&mut channel) == held);
    assert!(on_cpu(&work.graph, work.rows(1)) == work.expected[1]);
    soft.reset();
}
