//! GPU lanes on the software CUDA device, held to the CPU lanes bit for bit: batches, chunks,
//! capacities, schedules, rows in device memory, several devices and decoders; how the work is
//! spread; and what a driver that fails leaves behind.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};

use common::graph::{Rng, arc, source};
use common::soft;
use cudarc::driver::CudaContext;
use face::{C, Face, Matrix, Results, Rust, Status, on_gpu, results};
use koshi::cpu::CpuLanes;
use koshi::cuda::{CudaChannel, CudaLanes, DeviceRows};
use koshi::decoder::{BackendChoice, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph, VecSource};
use koshi::search::{Holds, LaneChannel, LaneWork, Lanes, Rows, SearchConfig, SearchStats, TimeSearch};
use koshi::table::{MatrixHolder, SequentialReader, Transitions};

/// The compiled kernels, empty where no compiler was at hand.
static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin"));

/// What runs on the software device and, bundled by `examples/gpu_check.sh`, on a real one.
mod on_any_gpu {
    #[test]
    fn capacities_strike_as_on_the_cpu() {
        super::capacities_strike_as_on_the_cpu(super::soft::any_alone());
    }

    #[test]
    fn speech_in_any_batch() {
        super::speech_in_any_batch(super::soft::any_alone());
    }

    #[test]
    fn rows_in_device_memory() {
        let _device = super::soft::any_alone();
        super::push_rows_of_the_device::<super::Rust>();
        super::push_rows_of_the_device::<super::C>();
    }

    #[test]
    fn both_faces_give_the_same() {
        super::both_faces_give_the_same(super::soft::any_alone());
    }

    #[test]
    fn columns_that_are_needed() {
        super::columns_that_are_needed(super::soft::any_alone());
    }
}

fn config(backend: BackendChoice, num_lanes: u32, search: SearchConfig) -> DecoderConfig {
    DecoderConfig { search, backend, num_lanes, num_threads: 1, ..DecoderConfig::default() }
}

/// Stats without what depends on the clock or on how memory is laid out.
fn counts(stats: SearchStats) -> SearchStats {
    SearchStats { trace_links: 0, trace_bytes: 0, memory: 0, seconds: 0.0, links_followed: 0, ..stats }
}

/// The results of rows in one push, and the counts; or the failure, with the results before it.
fn solo(graph: &Arc<Graph>, config: &DecoderConfig, rows: Matrix) -> (Option<Status>, Results, SearchStats) {
    let decoder = Rust::decoder(graph, config).unwrap();
    assert_eq!(decoder.backend_name(), if config.backend == BackendChoice::Cuda { "cuda" } else { "cpu" });
    let mut channel = Rust::channel(&decoder).unwrap();
    Rust::begin(&mut channel).unwrap();
    let pushed = Rust::push(&mut channel, rows).err().map(|fault| fault.status);
    let stats = counts(channel.stats().unwrap());
    (pushed, results::<Rust>(&mut channel), stats)
}

/// The first `frames` rows of a graph on which a search has much to do.
fn busy(frames: usize) -> (Arc<Graph>, Vec<f32>, usize) {
    let (source, mut rows, dim) = Rng(5).busy();
    rows.truncate(frames * dim);
    (Arc::new(Graph::from_source(&source, Columns::Labels).unwrap()), rows, dim)
}

fn search() -> SearchConfig {
    SearchConfig { beam: 9.0, lattice_beam: 6.0, max_active: 150, min_active: 20, ..SearchConfig::default() }
}

#[test]
fn every_schedule_gives_the_bits_of_the_cpu() {
    let (_alone, soft) = soft::alone("");
    let (graph, rows, dim) = busy(12);
    let rows = Matrix::dense(&rows, dim);
    let expected = solo(&graph, &config(BackendChoice::Cpu, 1, search()), rows);
    assert!(expected.2.max_active_held > 3 && expected.1.lattices[0].num_arcs() > 50, "{:?}", expected.2);
    let random: Vec<String> = (1..=10).map(|seed| format!("random:{seed}")).collect();
    for schedule in ["rr", "reverse"].into_iter().chain(random.iter().map(String::as_str)) {
        for lazy in [0, 1] {
            soft.configure(&format!("schedule={schedule},lazy={lazy}"));
            let found = solo(&graph, &config(BackendChoice::Cuda, 1, search()), rows);
            assert_eq!(found, expected, "{schedule}, lazy {lazy}");
        }
    }
}

/// A time may have more arcs than there is room to keep the costs of, whether or not all candidates fit.
#[test]
fn more_arcs_than_are_kept() {
    let (_alone, soft) = soft::alone("");
    let (source, rows, dim) = Rng(3).fans();
    let graph = Arc::new(Graph::from_source(&source, Columns::Labels).unwrap());
    for (candidates, beam, held) in [(3_000, 9.0, true), (17_000, 9.0, true), (3_000, 0.5, false)] {
        let search = SearchConfig {
            beam,
            lattice_beam: 2.0,
            min_active: 0,
            candidate_capacity: candidates,
            token_capacity: 2_000,
            link_capacity: 4_000,
            ..SearchConfig::default()
        };
        let rows = Matrix::dense(&rows, dim);
        let expected = solo(&graph, &config(BackendChoice::Cpu, 1, search), rows);
        assert!(expected.2.arcs > 40_000 && (expected.2.capacity_held > 0) == held, "{:?}", expected.2);
        for schedule in ["rr", "reverse"] {
            soft.configure(&format!("schedule={schedule}"));
            let found = solo(&graph, &config(BackendChoice::Cuda, 1, search), rows);
            assert_eq!(found, expected, "{candidates} candidates, beam {beam}, {schedule}");
        }
    }
}

/// Runs in a process of its own, as all builds of the kernels but the plain one: they are compiled once
/// a process.
#[test]
#[ignore = "runs in a process of its own"]
fn under_the_race_detector() {
    let _device = soft::alone("kernels=race");
    for case in 0..60 {
        common::random_search::run(BackendChoice::Cuda, 5_000 + case, 4, 2);
    }
    let (graph, rows, dim) = busy(6);
    let search = SearchConfig { candidate_capacity: 300, token_capacity: 150, link_capacity: 200, ..search() };
    let found = solo(&graph, &config(BackendChoice::Cuda, 1, search), Matrix::dense(&rows, dim));
    assert_eq!(found, solo(&graph, &config(BackendChoice::Cpu, 1, search), Matrix::dense(&rows, dim)));
    assert!(found.2.capacity_held > 0);
    push_rows_of_the_device::<Rust>();
}

/// Runs in a process of its own: see `sanitizers_have_nothing_to_report`.
#[test]
#[ignore = "needs the sanitizers preloaded"]
fn under_the_sanitizers() {
    let _device = soft::alone("kernels=asan");
    for case in 0..60 {
        common::random_search::run(BackendChoice::Cuda, 6_000 + case, 4, 2);
    }
    let (graph, rows, dim) = busy(6);
    let search = SearchConfig { candidate_capacity: 300, token_capacity: 150, link_capacity: 200, ..search() };
    let found = solo(&graph, &config(BackendChoice::Cuda, 1, search), Matrix::dense(&rows, dim));
    assert_eq!(found, solo(&graph, &config(BackendChoice::Cpu, 1, search), Matrix::dense(&rows, dim)));
    push_rows_of_the_device::<Rust>();
}

#[test]
fn sanitizers_have_nothing_to_report() {
    soft::pass_alone("under_the_sanitizers", &soft::asan_variables());
}

#[test]
fn the_race_detector_has_nothing_to_report() {
    soft::pass_alone("under_the_race_detector", &[]);
}

#[test]
fn arcs_are_spread_over_the_threads() {
    soft::pass_alone("counting_steps", &[]);
}

#[test]
fn traffic_and_barriers_stay_within_bounds() {
    soft::pass_alone("counting_traffic", &[]);
}

/// Least capacity that does not strike on these rows.
fn needed(graph: &Arc<Graph>, rows: Matrix, set: impl Fn(&mut SearchConfig, u64)) -> u64 {
    let strikes = |capacity| {
        let mut search = search();
        set(&mut search, capacity);
        let (failed, _, stats) = solo(graph, &config(BackendChoice::Cpu, 1, search), rows);
        failed.is_some() || stats.capacity_held > 0
    };
    let (mut low, mut high) = (1, 1 << 20);
    assert!(strikes(low) && !strikes(high));
    while high - low > 1 {
        let middle = (low + high) / 2;
        if strikes(middle) { low = middle } else { high = middle }
    }
    high
}

fn capacities_strike_as_on_the_cpu(_device: MutexGuard<'static, ()>) {
    let (graph, rows, dim) = busy(8);
    let rows = Matrix::dense(&rows, dim);
    type Set = fn(&mut SearchConfig, u64);
    let sets: [(&str, Set); 3] = [
        ("candidates", |search, capacity| search.candidate_capacity = capacity),
        ("tokens", |search, capacity| search.token_capacity = capacity),
        ("links", |search, capacity| search.link_capacity = capacity),
    ];
    for (name, set) in sets {
        let enough = needed(&graph, rows, set);
        assert!(enough > 100, "{name}: {enough}");
        for capacity in [enough - 1, enough, enough + 1, enough / 2, 50, 7, 2, 1] {
            let mut search = search();
            set(&mut search, capacity);
            let found = solo(&graph, &config(BackendChoice::Cuda, 1, search), rows);
            assert_eq!(found, solo(&graph, &config(BackendChoice::Cpu, 1, search), rows), "{name}: {capacity}");
            assert_eq!(found.0.is_some() || found.2.capacity_held > 0, capacity < enough, "{name}: {capacity}");
        }
    }
}

struct Speech {
    graph: Arc<Graph>,
    utterances: Vec<(Vec<f32>, usize)>,
}

/// Prompts of the repository's example, by way of the files.
fn speech() -> Speech {
    let file = |name: &str| common::root().join("examples/data/prompts").join(name);
    let model = Transitions::read_file(file("trans.mdl").to_str().unwrap()).unwrap();
    let pdf = |id| model.pdf(id).map_or(-1, |pdf| pdf as i32);
    let columns: Vec<i32> = (0..=model.num_ids()).map(pdf).collect();
    let graph = Rust::graph_read(&file("HCLG.fst"), Some(&columns)).unwrap();
    Speech { graph, utterances: rows_of(&format!("ark:{}", file("loglikes.ark").display())) }
}

fn rows_of(rspecifier: &str) -> Vec<(Vec<f32>, usize)> {
    let mut reader = SequentialReader::<MatrixHolder<f32>>::open(rspecifier).unwrap();
    let mut all = Vec::new();
    while let Some((_, matrix)) = reader.next().unwrap() {
        all.push((matrix.data().to_vec(), matrix.cols()));
    }
    all
}

fn speech_search(max_active: u32) -> SearchConfig {
    let acoustic_scale = 0.083_333;
    SearchConfig { beam: 13.0, lattice_beam: 6.0, max_active, acoustic_scale, ..SearchConfig::default() }
}

/// More channels than lanes, in batches of any size and order, cut in any way, with other mates
/// each time.
fn speech_in_any_batch(_device: MutexGuard<'static, ()>) {
    let Speech { graph, mut utterances } = speech();
    utterances.sort_by_key(|(data, dim)| data.len() / dim);
    utterances.truncate(7);
    let rows: Vec<Matrix> = utterances.iter().map(|(data, dim)| Matrix::dense(data, *dim)).collect();
    let search = speech_search(700);
    let expected: Vec<Results> =
        rows.iter().map(|rows| solo(&graph, &config(BackendChoice::Cpu, 1, search), *rows).1).collect();
    assert!(expected.iter().all(|results| results.lattices[0].num_arcs() > 50));
    let mut rng = Rng(7);
    for num_lanes in [1, 3] {
        let threads = num_lanes.min(2);
        let config = DecoderConfig { num_threads: threads, ..config(BackendChoice::Cuda, num_lanes, search) };
        let decoder = Rust::decoder(&graph, &config).unwrap();
        let mut channels: Vec<_> = rows.iter().map(|_| Rust::channel(&decoder).unwrap()).collect();
        channels.iter_mut().for_each(|channel| Rust::begin(channel).unwrap());
        let mut done = vec![0; rows.len()];
        while done.iter().zip(&rows).any(|(done, rows)| *done < rows.frames) {
            let mut items: Vec<(usize, &mut _, Matrix)> = Vec::new();
            for (at, channel) in channels.iter_mut().enumerate() {
                if rng.below(4) > 0 {
                    let end = rows[at].frames.min(done[at] + [0, 1, 7, 40, 150][rng.below(5) as usize]);
                    items.push((at, channel, rows[at].part(done[at], end)));
                    done[at] = end;
                }
            }
            rng.shuffle(&mut items);
            let mut batch: Vec<_> = items.into_iter().map(|(_, channel, rows)| (channel, rows)).collect();
            assert!(Rust::batch(&decoder, &mut batch).iter().all(Result::is_ok));
        }
        for (channel, expected) in channels.iter_mut().zip(&expected) {
            assert_eq!(&results::<Rust>(channel), expected, "{num_lanes} lanes");
        }
    }
}

/// Ten utterances of the real prompts at the usual setting.
#[test]
fn real_prompts() {
    let Some(likes) = common::realdata("prompts/loglikes.ark") else { return };
    let _device = soft::alone("");
    let mut utterances = rows_of(&format!("ark:{}", likes.display()));
    utterances.sort_by_key(|(data, dim)| data.len() / dim);
    let Speech { graph, .. } = speech();
    let search = speech_search(7_000);
    for (data, dim) in &utterances[..10] {
        let rows = Matrix::dense(data, *dim);
        let found = solo(&graph, &config(BackendChoice::Cuda, 1, search), rows);
        assert_eq!(found, solo(&graph, &config(BackendChoice::Cpu, 1, search), rows));
        assert_eq!(found.2.capacity_held, 0, "the capacities of the GPU do not strike");
    }
}

#[test]
fn rows_in_device_memory_wait_for_what_makes_them() {
    let _device = soft::alone("lazy=1,schedule=reverse");
    push_rows_of_the_device::<Rust>();
    push_rows_of_the_device::<C>();
}

/// A face that can push rows of the device.
trait PushDevice: Face {
    fn push_device(channel: &mut Self::Channel, rows: DeviceRows) -> Result<(), Status>;
}

impl PushDevice for Rust {
    fn push_device(channel: &mut Self::Channel, rows: DeviceRows) -> Result<(), Status> {
        // SAFETY: memory and streams of a live context.
        unsafe { channel.push_device(rows) }.map(drop).map_err(|error| match error.root() {
            koshi::Error::Scores { .. } => Status::KOSHI_E_SCORES,
            koshi::Error::Shape(_) => Status::KOSHI_E_SHAPE,
            koshi::Error::Argument(_) => Status::KOSHI_E_ARGUMENT,
            koshi::Error::Unsupported(_) => Status::KOSHI_E_UNSUPPORTED,
            other => panic!("{other}"),
        })
    }
}

impl PushDevice for C {
    fn push_device(channel: &mut Self::Channel, rows: DeviceRows) -> Result<(), Status> {
        use koshi::ffi::*;
        let DeviceRows { at, frames, dim, stride, stream } = rows;
        let stream = std::ptr::without_provenance_mut(stream);
        let none = std::ptr::null_mut();
        // SAFETY: as above, and a live handle.
        let status = unsafe { koshi_channel_push_device(channel.pointer(), at, frames, dim, stride, stream, none) };
        let all =
            [Status::KOSHI_E_SCORES, Status::KOSHI_E_SHAPE, Status::KOSHI_E_ARGUMENT, Status::KOSHI_E_UNSUPPORTED];
        if status == 0 { Ok(()) } else { Err(*all.iter().find(|code| **code as i32 == status).unwrap()) }
    }
}

fn push_rows_of_the_device<F: PushDevice>() {
    // Longer than a launch, with a stride and one column more than the graph reads.
    let (source, data, dim) = Rng(9).busy();
    let (frames, stride) = (70, dim + 5);
    let mut padded = vec![f32::NAN; frames * stride];
    for (row, from) in padded.chunks_mut(stride).zip(data.chunks(dim)) {
        row[..dim].copy_from_slice(from);
        row[dim] = 0.5;
    }
    let search =
        SearchConfig { beam: 4.0, lattice_beam: 4.0, max_active: 60, min_active: 10, ..SearchConfig::default() };
    let graph = face::graph::<F>(&source);
    let rows = Matrix { data: &padded, frames, dim: dim + 1, stride };
    let run = |backend, push: &mut dyn FnMut(&mut F::Channel)| {
        let decoder = F::decoder(&graph, &config(backend, 1, search)).unwrap();
        let mut channel = F::channel(&decoder).unwrap();
        F::begin(&mut channel).unwrap();
        push(&mut channel);
        results::<F>(&mut channel)
    };
    let expected = run(BackendChoice::Cpu, &mut |channel| F::push(channel, rows).unwrap());

    let context = CudaContext::new(0).unwrap();
    // SAFETY: this test orders its streams itself.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let memory = stream.clone_htod(&padded).unwrap();
    let at = {
        use cudarc::driver::DevicePtr;
        memory.device_ptr(&stream).0
    };
    let all = DeviceRows { at, frames, dim: dim + 1, stride, stream: stream.cu_stream() as usize };
    // Not waited for: the call orders itself behind the stream.
    let found = run(BackendChoice::Cuda, &mut |channel| F::push_device(channel, all).unwrap());
    assert_eq!(found, expected);
    // In pieces.
    let found = run(BackendChoice::Cuda, &mut |channel| {
        F::push_device(channel, DeviceRows { frames: 0, ..all }).unwrap();
        F::push_device(channel, DeviceRows { frames: 1, ..all }).unwrap();
        F::push_device(channel, all.behind(1)).unwrap();
    });
    assert_eq!(found, expected);
    // A bad value in the column that the graph does not read: the frames before it are kept.
    let mut spoilt = padded.clone();
    spoilt[40 * stride + dim] = f32::NAN;
    let memory = stream.clone_htod(&spoilt).unwrap();
    let at = {
        use cudarc::driver::DevicePtr;
        memory.device_ptr(&stream).0
    };
    let bad = DeviceRows { at, ..all };
    let found = run(BackendChoice::Cuda, &mut |channel| {
        assert_eq!(F::push_device(channel, bad), Err(Status::KOSHI_E_SCORES));
        assert_eq!(F::num_frames(channel), 40);
    });
    let expected = run(BackendChoice::Cpu, &mut |channel| {
        let fault = F::push(channel, Matrix { data: &spoilt, ..rows }).unwrap_err();
        assert_eq!(fault.status, Status::KOSHI_E_SCORES);
    });
    assert_eq!(found, expected);
    run(BackendChoice::Cuda, &mut |channel| {
        assert_eq!(F::push_device(channel, DeviceRows { stride: dim, ..all }), Err(Status::KOSHI_E_SHAPE));
        assert_eq!(F::push_device(channel, DeviceRows { dim: 3, ..all }), Err(Status::KOSHI_E_SHAPE));
        assert_eq!(F::push_device(channel, DeviceRows { at: 0, ..all }), Err(Status::KOSHI_E_ARGUMENT));
        assert_eq!(F::push_device(channel, DeviceRows { at: at + 1, ..all }), Err(Status::KOSHI_E_ARGUMENT));
    });
    run(BackendChoice::Cpu, &mut |channel| {
        assert_eq!(F::push_device(channel, all), Err(Status::KOSHI_E_UNSUPPORTED));
    });
    stream.synchronize().unwrap();
}

#[test]
fn several_devices_decoders_and_graphs_from_several_threads() {
    let (_alone, soft) = soft::alone("");
    let before = [soft.memory_used(0), soft.memory_used(1)];
    let (graph, rows, dim) = busy(10);
    let other = Arc::new(Graph::from_source(&Rng(3).busy().0, Columns::Labels).unwrap());
    let rows = Matrix::dense(&rows, dim);
    let cpu = |graph| solo(graph, &config(BackendChoice::Cpu, 1, search()), rows);
    let expected = [cpu(&graph), cpu(&other)];
    let on = |device: u32| DecoderConfig { device, ..config(BackendChoice::Cuda, 2, search()) };
    std::thread::scope(|scope| {
        for (at, graph) in [&graph, &other, &graph].into_iter().enumerate() {
            let expected = &expected[at % 2];
            let decoder = Rust::decoder(graph, &on(at as u32 % 2)).unwrap();
            for _ in 0..2 {
                let decoder = Arc::clone(&decoder);
                scope.spawn(move || {
                    // The thread's own context stays the current one.
                    let mine = CudaContext::new(0).unwrap();
                    mine.bind_to_thread().unwrap();
                    let mut channel = Rust::channel(&decoder).unwrap();
                    Rust::begin(&mut channel).unwrap();
                    for frame in 0..rows.frames {
                        Rust::push(&mut channel, rows.part(frame, frame + 1)).unwrap();
                    }
                    let found = (None, results::<Rust>(&mut channel), counts(channel.stats().unwrap()));
                    assert_eq!(&found, expected);
                    let current = cudarc::driver::result::ctx::get_current().unwrap();
                    assert_eq!(current, Some(mine.cu_ctx()));
                });
            }
        }
    });
    assert_eq!([soft.memory_used(0), soft.memory_used(1)], before, "everything was given back");
    let fault = Rust::decoder(&graph, &on(2)).unwrap_err();
    assert_eq!(fault.status, Status::KOSHI_E_NO_DEVICE);
    assert!(fault.message.contains("there are 2 GPUs"), "{}", fault.message);
}

/// Rows B46, B47 and B51 of the list of inputs that broke other decoders.
#[test]
fn memory_of_the_device_is_asked_for_once_and_given_back() {
    let (_alone, soft) = soft::alone("memory=33554432");
    let (graph, rows, dim) = busy(5);
    let rows = Matrix::dense(&rows, dim);
    let expected = solo(&graph, &config(BackendChoice::Cpu, 1, search()), rows);
    let empty = soft.memory_used(0);
    for _ in 0..3 {
        let fault = Rust::decoder(&graph, &config(BackendChoice::Cuda, 60_000, search())).unwrap_err();
        assert_eq!(fault.status, Status::KOSHI_E_NO_MEMORY, "{}", fault.message);
        assert!(fault.message.contains("60000 lanes on GPU 0, where "), "{}", fault.message);
        assert_eq!(soft.memory_used(0), empty, "nothing is left of the one that failed");
        // What is needed was told before.
        let config = config(BackendChoice::Cuda, 2, search());
        let needed = CudaLanes::device_bytes(&graph, &config.search, 2).unwrap() as usize;
        let decoder = Rust::decoder(&graph, &config).unwrap();
        let taken = soft.memory_used(0) - empty;
        let with_graph = needed + size_of_val(graph.words());
        assert!(taken.abs_diff(with_graph) < 8192, "{taken} bytes taken, {with_graph} said");
        // A second decoder over the graph shares it; channels and pushes take nothing.
        let second = Rust::decoder(&graph, &config).unwrap();
        let both = soft.memory_used(0) - empty;
        assert!((2 * taken - size_of_val(graph.words())).abs_diff(both) < 8192, "{taken} and {both}");
        let mut channels: Vec<_> = (0..20).map(|_| Rust::channel(&decoder).unwrap()).collect();
        for channel in &mut channels {
            Rust::begin(channel).unwrap();
            Rust::push(channel, rows).unwrap();
            assert_eq!(results::<Rust>(channel), expected.1);
        }
        assert_eq!(soft.memory_used(0) - empty, both);
        drop((channels, decoder, second));
        assert_eq!(soft.memory_used(0), empty);
    }
}

#[test]
fn calls_of_the_driver_that_fail() {
    let (_alone, soft) = soft::alone("");
    let (graph, rows, dim) = busy(5);
    let rows = Matrix::dense(&rows, dim);
    let expected = solo(&graph, &config(BackendChoice::Cpu, 1, search()), rows);
    let on_gpu = config(BackendChoice::Cuda, 1, search());
    let empty = soft.memory_used(0);
    // Without what was built in, of whose failures the source makes good.
    soft.configure("refuse_binary=1");
    let loads = if IMAGE.is_empty() { 1 } else { 3 };
    // Making a decoder: each call fails in turn, with its name and code in the message.
    let calls = [
        ("cuDevicePrimaryCtxRetain", 101, Status::KOSHI_E_NO_DEVICE),
        ("cuCtxGetCurrent", 999, Status::KOSHI_E_DEVICE),
        ("cuModuleLoadData", 209, Status::KOSHI_E_DEVICE),
        ("cuModuleGetFunction", 500, Status::KOSHI_E_DEVICE),
        ("cuStreamCreate", 999, Status::KOSHI_E_DEVICE),
        ("cuEventCreate", 999, Status::KOSHI_E_DEVICE),
        ("cuMemAlloc_v2", 2, Status::KOSHI_E_NO_MEMORY),
        ("cuMemAlloc_v2", 999, Status::KOSHI_E_DEVICE),
        ("cuMemHostAlloc", 2, Status::KOSHI_E_NO_MEMORY),
        ("cuMemcpyHtoDAsync_v2", 700, Status::KOSHI_E_DEVICE),
        ("cuLaunchKernel", 701, Status::KOSHI_E_DEVICE),
        ("cuStreamSynchronize", 700, Status::KOSHI_E_DEVICE),
    ];
    for (call, code, status) in calls {
        for auto in [false, true] {
            let nth = if call == "cuModuleLoadData" { loads } else { 1 };
            soft.configure(&format!("fail={call}:{nth}:{code}"));
            if auto {
                let automatic = config(BackendChoice::Auto, 1, search());
                let decoder = Decoder::new(Arc::clone(&graph), automatic).unwrap();
                let named = call.trim_end_matches("_v2").trim_end_matches("Async");
                let why = decoder.why_not_gpu();
                assert!(decoder.backend_name() == "cpu" && !why.is_empty() && !why.contains('\n'), "{call}: {why}");
                assert!(code == 2 || why.contains(named), "{call}: {why}");
            } else {
                let fault = Rust::decoder(&graph, &on_gpu).unwrap_err();
                assert_eq!(fault.status, status, "{call}: {}", fault.message);
            }
            soft.reset();
            assert_eq!(soft.memory_used(0), empty, "{call}");
        }
        assert_eq!(solo(&graph, &on_gpu, rows), expected, "the next one works after {call}");
    }
    // A push: the channel stays as it was, and the next push goes on.
    for call in
        ["cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuCtxGetCurrent"]
    {
        let decoder = Rust::decoder(&graph, &on_gpu).unwrap();
        let mut channel = Rust::channel(&decoder).unwrap();
        Rust::begin(&mut channel).unwrap();
        Rust::push(&mut channel, rows.part(0, 2)).unwrap();
        let held = results::<Rust>(&mut channel);
        soft.configure(&format!("fail={call}:1:719"));
        let fault = Rust::push(&mut channel, rows.part(2, 5)).unwrap_err();
        assert_eq!(fault.status, Status::KOSHI_E_DEVICE, "{call}");
        assert!(fault.message.contains("719"), "{call}: {}", fault.message);
        assert_eq!(results::<Rust>(&mut channel), held, "{call}");
        Rust::push(&mut channel, rows.part(2, 5)).unwrap();
        assert_eq!(results::<Rust>(&mut channel), expected.1, "{call}");
    }
    // A kernel that dies takes the context with it: every call says so, the CPU goes on.
    let decoder = Rust::decoder(&graph, &on_gpu).unwrap();
    let mut channel = Rust::channel(&decoder).unwrap();
    Rust::begin(&mut channel).unwrap();
    soft.configure("fail=kernel:1:700");
    for _ in 0..3 {
        let fault = Rust::push(&mut channel, rows).unwrap_err();
        assert_eq!(fault.status, Status::KOSHI_E_DEVICE, "{}", fault.message);
    }
    assert_eq!(Rust::num_frames(&channel), 0);
    assert_eq!(solo(&graph, &config(BackendChoice::Cpu, 1, search()), rows), expected);
    drop((channel, decoder));
    soft.reset();
}

/// Where the image is refused, or the driver is older than the compiler, what that was made of or the source makes good.
#[test]
fn an_image_that_is_refused() {
    let (_alone, soft) = soft::alone("");
    let (graph, rows, dim) = busy(3);
    let rows = Matrix::dense(&rows, dim);
    let expected = solo(&graph, &config(BackendChoice::Cpu, 1, search()), rows);
    for settings in
        ["driver=13000", "driver=12040", "refuse_binary=1", "refuse_binary=0,fail=cuModuleGetFunction:2:500"]
    {
        if IMAGE.is_empty() && settings.contains("fail") {
            continue; // nothing to fall back on
        }
        soft.configure(settings);
        assert_eq!(solo(&graph, &config(BackendChoice::Cuda, 1, search()), rows), expected, "{settings}");
        soft.reset();
    }
}

/// Without an image and without a compiler there are no kernels: in a process of its own, since the
/// kernels are compiled once a process.
#[test]
#[ignore = "runs in a process of its own"]
fn no_compiler() {
    let (_alone, soft) = soft::alone("refuse_binary=1,fail=nvrtcCompileProgram:1:6");
    let (graph, rows, dim) = busy(2);
    let fault = Rust::decoder(&graph, &config(BackendChoice::Cuda, 1, search())).unwrap_err();
    assert_eq!(fault.status, Status::KOSHI_E_DEVICE);
    assert!(fault.message.contains("no kernels; not from machine code: "), "{}", fault.message);
    assert!(fault.message.contains("nvrtcCompileProgram answered 6"), "{}", fault.message);
    soft.reset();
    solo(&graph, &config(BackendChoice::Cuda, 1, search()), Matrix::dense(&rows, dim));
}

#[test]
fn a_compiler_that_fails() {
    soft::pass_alone("no_compiler", &[]);
}

/// How the work of a launch is spread: on the build that counts basic blocks.
#[test]
#[ignore = "runs in a process of its own"]
fn counting_steps() {
    let (_alone, soft) = soft::alone("kernels=steps");
    // 0 leads to `arcs` states, and each of those on to one of its own.
    let fan = |arcs: u32| {
        let first = (1..=arcs).map(|at| arc(1, 1, 0.0, at)).collect();
        let middle = (1..=arcs).map(|at| (0.0, vec![arc(1, 1, 0.0, at + arcs)]));
        let last = (1..=arcs).map(|_| (0.0, vec![]));
        source(Some(0), std::iter::once((0.0, first)).chain(middle).chain(last).collect())
    };
    let search = SearchConfig { max_active: 100_000, ..SearchConfig::default() };
    let span = |source: &VecSource| {
        let graph = Arc::new(Graph::from_source(source, Columns::Labels).unwrap());
        let decoder = Rust::decoder(&graph, &config(BackendChoice::Cuda, 1, search)).unwrap();
        let mut channel = Rust::channel(&decoder).unwrap();
        Rust::begin(&mut channel).unwrap();
        [0, 1].map(|_| {
            Rust::push(&mut channel, Matrix::dense(&[-1.0], 1)).unwrap();
            let steps = soft.thread_steps();
            assert_eq!(steps.len(), 256);
            (soft.stats().span, steps)
        })
    };
    let [(one_state, steps), (many_states, _)] = span(&fan(10_000));
    assert!(one_state <= 2 * many_states, "one state {one_state}, many states {many_states}");
    let most = *steps.iter().max().unwrap();
    let taking_part = steps.iter().filter(|steps| **steps > most / 2).count();
    assert!(taking_part >= 128, "{taking_part} threads take part: {steps:?}");
    // A lane's steps grow with the arcs a thread.
    let [(twice, _), _] = span(&fan(20_000));
    assert!((1.6..2.4).contains(&(twice as f64 / one_state as f64)), "{one_state} steps, then {twice}");
    assert!(one_state < 10_000 * 40, "{one_state} steps for 10,000 arcs over 256 threads");
    // One epsilon chain, all of whose states are reached at once: a round takes one of them, and what it costs does
    // not grow with how many wait.
    let chain = |length: u32| {
        let first = (0..length).map(|at| arc(1, 1, 0.0, 1 + at * 7 % length)).collect();
        let next = |at| if at < length { arc(0, 0, 0.5, at + 1) } else { arc(1, 1, 0.0, at) };
        let states = (1..=length).map(|at| (0.0, vec![next(at)]));
        source(Some(0), std::iter::once((0.0, first)).chain(states).collect())
    };
    let [short, long] = [5_000, 10_000].map(|length| span(&chain(length))[0].0);
    assert!(long < 5 * short / 2 && long < 10_000 * 600, "{short} steps for 5,000 states, {long} for 10,000");
}

/// What a frame of a launch asked for.
struct Asked {
    arcs: f64,
    tokens: f64,
    links: f64,
    device_loads: f64,
    loaded_bytes: f64,
    stored_bytes: f64,
    atomics: f64,
    barriers: f64,
}

/// Counts what a frame of these rows asks for, and prints it as kernels/README.md has it.
fn count_frames(soft: &soft::Soft, graph: &Arc<Graph>, search: SearchConfig, rows: Matrix) -> Asked {
    let decoder = Rust::decoder(graph, &config(BackendChoice::Cuda, 1, search)).unwrap();
    let mut channel = Rust::channel(&decoder).unwrap();
    Rust::begin(&mut channel).unwrap();
    let before = soft.traffic();
    Rust::push(&mut channel, rows).unwrap();
    let after = soft.traffic();
    let stats = channel.stats().unwrap();
    assert!(stats.frames > 40 && stats.capacity_held == 0, "{stats:?}");
    let frames = stats.frames as f64;
    let count = |of: fn(&soft::Traffic) -> u64| (of(&after) - of(&before)) as f64 / frames;
    let asked = Asked {
        arcs: stats.arcs as f64 / frames,
        tokens: stats.tokens as f64 / frames,
        links: stats.links as f64 / frames,
        device_loads: count(|t| t.device.loads),
        loaded_bytes: count(|t| t.device.loaded_bytes),
        stored_bytes: count(|t| t.device.stored_bytes),
        atomics: count(|t| t.device.atomics),
        barriers: count(|t| t.barriers),
    };
    let Asked { arcs, tokens, links, device_loads, loaded_bytes, stored_bytes, atomics, barriers } = asked;
    println!("a frame: {arcs:.0} arcs, {tokens:.0} tokens, {links:.0} links; {frames} frames");
    println!("device memory: {device_loads:.0} loads of {loaded_bytes:.0} bytes");
    println!(
        "device memory: {:.0} stores of {stored_bytes:.0} bytes, {atomics:.0} atomics",
        count(|t| t.device.stores)
    );
    println!(
        "shared memory: {:.0} loads, {:.0} stores, {:.0} atomics",
        count(|t| t.shared.loads),
        count(|t| t.shared.stores),
        count(|t| t.shared.atomics)
    );
    println!("{barriers:.1} barriers of the block, {:.0} collectives of warps", count(|t| t.collectives));
    asked
}

/// What a frame asks of memory and how often its block waits, on real speech at the usual setting: on the build that
/// counts accesses. `cargo test --test cuda_lanes counting_traffic -- --include-ignored --nocapture` prints what
/// kernels/README.md reckons with.
#[test]
#[ignore = "runs in a process of its own"]
fn counting_traffic() {
    let (_alone, soft) = soft::alone("kernels=traffic");
    let Speech { graph, mut utterances } = speech();
    utterances.sort_by_key(|(data, dim)| data.len() / dim);
    let (data, dim) = &utterances[utterances.len() / 2];
    let rows = Matrix::dense(data, *dim);
    let rows = rows.part(0, rows.frames.min(128));
    let Asked { arcs, tokens, links, device_loads, loaded_bytes, stored_bytes, atomics, barriers } =
        count_frames(soft, &graph, speech_search(7_000), rows);
    // Wide bounds: they say when a stage goes over its items far more often, or waits far more.
    assert!(loaded_bytes > 8.0 * arcs && stored_bytes > 12.0 * links, "{loaded_bytes}, {stored_bytes} bytes");
    assert!(device_loads < 60.0 * arcs, "{device_loads} loads for {arcs} arcs");
    assert!((links..4.0 * (links + tokens)).contains(&atomics), "{atomics} atomics for {links} links");
    assert!((20.0..250.0).contains(&barriers), "{barriers} barriers");
}

/// The same where there are many arcs, by the files named: what the tables of kernels/README.md were made from.
/// `KOSHI_COUNT=HCLG,TRANS.MDL,LOGLIKES,UTTERANCE,BEAM,LATTICE-BEAM,MAX-ACTIVE,ACOUSTIC-SCALE`, the utterance by its number.
#[test]
#[ignore = "needs KOSHI_COUNT, and takes a minute"]
fn counting_named_files() {
    let Ok(named) = std::env::var("KOSHI_COUNT") else { return };
    let named: Vec<&str> = named.split(',').collect();
    let [graph, model, scores, utterance, beam, lattice_beam, max_active, acoustic_scale] = named[..] else {
        panic!("KOSHI_COUNT: {named:?}")
    };
    let search = SearchConfig {
        beam: beam.parse().unwrap(),
        lattice_beam: lattice_beam.parse().unwrap(),
        max_active: max_active.parse().unwrap(),
        acoustic_scale: acoustic_scale.parse().unwrap(),
        ..SearchConfig::default()
    };
    let (_alone, soft) = soft::alone("kernels=traffic");
    let columns = Columns::Transitions(Arc::new(Transitions::read_file(model).unwrap()));
    let graph = Arc::new(Graph::read(Path::new(graph), columns).unwrap());
    let (data, dim) = &rows_of(scores)[utterance.parse::<usize>().unwrap()];
    count_frames(soft, &graph, search, Matrix::dense(data, *dim));
}

/// What is asked of the GPU through C too: a batch of everything at once.
fn both_faces_give_the_same(_device: MutexGuard<'static, ()>) {
    fn run<F: Face>() -> Vec<Results> {
        let (source, data, dim) = Rng(11).busy();
        let decoder = F::decoder(&face::graph::<F>(&source), &config(BackendChoice::Auto, 2, search())).unwrap();
        let mut channels: Vec<F::Channel> = (0..3).map(|_| F::channel(&decoder).unwrap()).collect();
        channels.iter_mut().for_each(|channel| F::begin(channel).unwrap());
        let rows = Matrix::dense(&data, dim);
        let parts = [rows.part(0, 8), rows.part(20, 25), rows.part(30, 30)];
        let mut items: Vec<_> = channels.iter_mut().zip(parts).collect();
        assert!(F::batch(&decoder, &mut items).iter().all(Result::is_ok));
        channels.iter_mut().map(results::<F>).collect()
    }
    assert_eq!(on_gpu(run::<Rust>), on_gpu(run::<C>));
}

/// A row that is pulled needs only the columns that are asked for.
fn columns_that_are_needed(_device: MutexGuard<'static, ()>) {
    let (graph, rows, dim) = busy(4);
    let marks = [BackendChoice::Cpu, BackendChoice::Cuda].map(|backend| {
        let decoder = Decoder::new(Arc::clone(&graph), config(backend, 1, search())).unwrap();
        let mut channel = decoder.new_channel().unwrap();
        channel.begin().unwrap();
        struct Marks<'a>(Vec<Vec<bool>>, Rows<'a>);
        impl koshi::decoder::Decodable for Marks<'_> {
            fn num_columns(&mut self) -> koshi::Result<usize> {
                Ok(self.1.dim())
            }
            fn num_frames_ready(&mut self) -> koshi::Result<u64> {
                Ok(self.1.frames() as u64)
            }
            fn is_last_frame(&mut self, frame: u64) -> koshi::Result<bool> {
                Ok(frame + 1 == self.1.frames() as u64)
            }
            fn fill_row(&mut self, frame: u64, needed: &dyn Fn(&mut [bool]), row: &mut [f32]) -> koshi::Result<()> {
                let mut asked = vec![false; row.len()];
                needed(&mut asked);
                for (column, to) in row.iter_mut().enumerate().filter(|(column, _)| asked[*column]) {
                    *to = self.1.row(frame as usize)[column];
                }
                self.0.push(asked);
                Ok(())
            }
        }
        let mut marks = Marks(Vec::new(), Rows::dense(&rows, dim).unwrap());
        channel.advance(&mut marks, None).unwrap();
        (marks.0, channel.lattice(true).unwrap())
    });
    assert!(marks[0] == marks[1] && marks[0].0[0].iter().any(|needed| !needed));
}

/// A channel that calls `pause` each time the lanes turn to it.
struct Paused<'a>(CudaChannel, &'a (dyn Fn() + Sync));

impl Holds<CudaChannel> for Paused<'_> {
    fn held(&mut self) -> Option<&mut CudaChannel> {
        (self.1)();
        Some(&mut self.0)
    }
}

/// While one call scales rows or takes in what came back, another one's launch runs from beginning to end.
#[test]
fn the_hosts_part_of_a_call_keeps_no_other_waiting() {
    let (_alone, soft) = soft::alone("");
    let (graph, rows, dim) = busy(5);
    let rows = Rows::dense(&rows, dim).unwrap();
    for lazy in [0, 1] {
        soft.configure(&format!("lazy={lazy}"));
        let host = |search| Ok(Box::new(CpuLanes::new(Arc::clone(&graph), search, 1, 1)?) as Box<dyn TimeSearch>);
        let lanes = CudaLanes::new(Arc::clone(&graph), search(), 0, 2, 1, host).unwrap();
        let push = |pause: &(dyn Fn() + Sync)| {
            let mut channel = lanes.new_channel().unwrap();
            channel.begin(None, None).unwrap();
            let (mut paused, go_on) = (Paused(channel, pause), AtomicBool::new(false));
            let mut work = [LaneWork::new(&mut paused, rows, &go_on)];
            lanes.advance(&mut work);
            work[0].result.as_ref().unwrap();
            paused.0.lattice(true).unwrap()
        };
        let expected = push(&|| ());
        let pauses = AtomicUsize::new(0);
        let found = push(&|| {
            pauses.fetch_add(1, Ordering::Relaxed);
            std::thread::scope(|scope| {
                let (done, other) = std::sync::mpsc::channel();
                let push = &push;
                scope.spawn(move || drop(done.send(push(&|| ()))));
                let other = other.recv_timeout(std::time::Duration::from_secs(60));
                // It would go on only when this call is through.
                let Ok(other) = other else {
                    eprintln!("the other call waits for this one");
                    std::process::abort()
                };
                assert_eq!(other.arcs.len(), expected.arcs.len());
            });
        });
        assert_eq!(found, expected);
        // To see what there is, to scale, and to take in; and to see that there is no more.
        assert_eq!(pauses.load(Ordering::Relaxed), 3);
    }
}
