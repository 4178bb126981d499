//! The chain objective on the software CUDA device, held to the CPU: random graphs, schedules, sanitizers, matrices in
//! device memory, drivers that fail, drawn occupancies; and how the work is spread.

#[path = "common/chain/mod.rs"]
mod chain;
#[path = "support/changed_words.rs"]
mod changed_words;
mod common;

use std::sync::{Arc, MutexGuard};

use chain::{C, Face, Found, Random, Rust, Scores, Status, arc, bytes, graph, supervision};
use common::soft;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};
use koshi::chain::{ChainBackend, ChainConfig, DenominatorGraph, DeviceMatrix, Supervision, chain_objective_device};
use koshi::ffi::*;

/// What runs on the software device and, bundled by `examples/gpu_check.sh`, on a real one.
mod on_any_gpu {
    #[test]
    fn random_graphs_as_on_the_cpu() {
        let _device = super::soft::any_alone();
        (0..250).for_each(super::random_case);
    }

    #[test]
    fn what_fails_on_the_cpu_fails_on_the_gpu() {
        super::what_fails_on_the_cpu_fails_on_the_gpu(super::soft::any_alone());
    }

    #[test]
    fn matrices_in_device_memory() {
        let _device = super::soft::any_alone();
        super::matrices_of_the_device::<super::Rust>();
        super::matrices_of_the_device::<super::C>();
    }
}

fn config(backend: ChainBackend) -> ChainConfig {
    ChainConfig {
        backend,
        num_threads: 1,
        leaky_hmm_coefficient: 0.1,
        l2_regularize: 1e-3,
        out_of_range_regularize: 0.05,
        ..ChainConfig::default()
    }
}

/// A batch: a graph, what was said, an output with something between its rows.
struct Batch {
    den: DenominatorGraph,
    said: Supervision,
    scores: Scores,
    sequences: usize,
}

impl Batch {
    fn new(random: &mut Random, [states, pdfs, sequences, frames]: [usize; 4], size: f32) -> Batch {
        let mut lines = String::new();
        for at in 0..sequences * frames {
            for _ in 0..1 + random.below(2) {
                let label = 1 + random.below(pdfs);
                lines += &format!("{at} {} {label} {label} {};", at + 1, random.number(1.0));
            }
        }
        let text = supervision([sequences, frames, pdfs], &format!("{lines}{}", sequences * frames));
        let stride = pdfs + random.below(3);
        let padded = random.scores(sequences * frames, stride, size);
        Batch {
            den: DenominatorGraph::from_source(&random.graph(states, pdfs), pdfs).unwrap(),
            said: Supervision::from_memory(&text).unwrap(),
            scores: Scores { cols: pdfs, ..padded },
            sequences,
        }
    }

    fn objf(&self, config: &ChainConfig, weights: Option<&[f32]>) -> Found {
        Rust::objf(&self.den, &self.said, config, &self.scores, weights).unwrap()
    }

    fn denominator(&self, config: &ChainConfig, lengths: Option<&[u32]>) -> Found {
        Rust::denominator(&self.den, config, &self.scores, self.sequences, lengths).unwrap()
    }
}

/// To 1e-5, relative and absolute.
fn agree(found: &Found, expected: &Found, what: &str) {
    assert_eq!(found.ok, expected.ok, "{what}: {} {}", found.value, expected.value);
    let close = |a: f64, b: f64| a.is_finite() && (a - b).abs() <= 1e-5 * b.abs().max(1.0);
    for (a, b) in [(found.value, expected.value), (found.l2_term, expected.l2_term), (found.weight, expected.weight)] {
        assert!(close(a, b), "{what}: {a}, on the CPU {b}");
    }
    assert_eq!((found.deriv.len(), found.xent.len()), (expected.deriv.len(), expected.xent.len()));
    let all = |it: &Found| [it.deriv.clone(), it.xent.clone()].concat();
    for (at, (a, b)) in all(found).into_iter().zip(all(expected)).enumerate() {
        assert!(close(f64::from(a), f64::from(b)), "{what}: element {at} is {a}, on the CPU {b}");
    }
}

/// One random batch on both backends.
fn random_case(seed: u64) {
    let mut random = Random(seed);
    let sizes = [1 + random.below(90), 1 + random.below(20), 1 + random.below(6), 1 + random.below(7)];
    let size = [1.0, 6.0, 45.0][random.below(3)];
    let mut batch = Batch::new(&mut random, sizes, size);
    let [_, pdfs, sequences, frames] = sizes;
    for _ in 0..random.below(4) {
        let at = random.below(batch.scores.data.len());
        batch.scores.data[at] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30][random.below(5)];
    }
    let leak = [0.0, 1e-5, 0.1, 0.6][random.below(4)];
    let weights: Vec<f32> = (0..sequences * frames).map(|_| random.number(2.0)).collect();
    let weights = (random.below(2) == 0).then_some(&weights[..]);
    let lengths: Vec<u32> = (0..sequences).map(|_| random.below(frames + 1) as u32).collect();
    let lengths = (random.below(2) == 0).then_some(&lengths[..]);
    let [cpu, gpu] = [ChainBackend::Cpu, ChainBackend::Cuda].map(|backend| {
        let config = ChainConfig { leaky_hmm_coefficient: leak, ..config(backend) };
        (batch.objf(&config, weights), batch.denominator(&config, lengths))
    });
    let what = format!("seed {seed}, {pdfs} pdfs");
    agree(&gpu.0, &cpu.0, &what);
    agree(&gpu.1, &cpu.1, &what);
}

/// Numbers out of range, frame by frame: the same failures, the same fallback.
fn what_fails_on_the_cpu_fails_on_the_gpu(_device: MutexGuard<'static, ()>) {
    // Probabilities of e^-80 under outputs of -30 are 0 in float32, and with them the sum over states.
    let weak =
        DenominatorGraph::from_source(&graph(vec![vec![arc(0, (-80f32).exp(), 0), arc(1, (-80f32).exp(), 0)]]), 2);
    let weak = weak.unwrap();
    let chain: String = (0..6).map(|at| format!("{at} {} 1 1;", at + 1)).collect();
    let said = Supervision::from_memory(&supervision([2, 3, 2], &format!("{chain}6"))).unwrap();
    let mut fallbacks = 0;
    for value in [-30.0, -29.0, 0.0, 30.0, 80.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for at in 0..12 {
            let mut scores = Scores::dense(&[-30.0; 12], 2);
            scores.data[at] = value;
            let run = |backend| {
                let objf = Rust::objf(&weak, &said, &config(backend), &scores, None).unwrap();
                assert!(objf.is_finite());
                (objf, Rust::denominator(&weak, &config(backend), &scores, 2, None).unwrap())
            };
            let [cpu, gpu] = [ChainBackend::Cpu, ChainBackend::Cuda].map(run);
            agree(&gpu.0, &cpu.0, &format!("{value} at {at}"));
            agree(&gpu.1, &cpu.1, &format!("{value} at {at}"));
            fallbacks += usize::from(!cpu.0.ok);
        }
    }
    assert!(fallbacks > 20, "{fallbacks}");
}

/// A batch in which a state has many arcs and a pdf many groups.
fn busy() -> Batch {
    let mut random = Random(77);
    let mut batch = Batch::new(&mut random, [120, 9, 3, 5], 4.0);
    let hub = (0..120).map(|state| arc((state % 4) as i32, 1.0 / 150.0, state));
    let mut states = vec![hub.collect::<Vec<_>>()];
    states.extend((1..120).map(|state| vec![arc((state % 9) as i32, 0.6, 0), arc(8, 0.3, (state * 7) % 120)]));
    batch.den = DenominatorGraph::from_source(&graph(states), 9).unwrap();
    batch
}

#[test]
fn every_schedule_gives_the_same_bits() {
    let (_alone, soft) = soft::alone("");
    let batch = busy();
    let run = |backend| {
        let lengths = [5, 2, 4];
        (batch.objf(&config(backend), None), batch.denominator(&config(backend), Some(&lengths)))
    };
    let [cpu, first] = [ChainBackend::Cpu, ChainBackend::Cuda].map(run);
    agree(&first.0, &cpu.0, "objective");
    agree(&first.1, &cpu.1, "denominator");
    assert!(first.0.ok && first.1.ok);
    let random: Vec<String> = (1..=10).map(|seed| format!("random:{seed}")).collect();
    for schedule in ["rr", "reverse"].into_iter().chain(random.iter().map(String::as_str)) {
        for lazy in [0, 1] {
            soft.configure(&format!("schedule={schedule},lazy={lazy},poison={lazy}"));
            assert_eq!(run(ChainBackend::Cuda), first, "{schedule}, lazy {lazy}");
        }
    }
}

/// The parts of this file that the race detector and the sanitizers look at.
fn under_watch() {
    (1000..1030).for_each(random_case);
    let batch = busy();
    let drawn = ChainConfig { randomised_thresholds: true, ..config(ChainBackend::Cuda) };
    assert!(batch.objf(&drawn, None).ok);
    matrices_of_the_device::<Rust>();
}

#[test]
#[ignore = "runs in a process of its own"]
fn under_the_race_detector() {
    let _device = soft::alone("kernels=race");
    under_watch();
}

#[test]
#[ignore = "needs the sanitizers preloaded"]
fn under_the_sanitizers() {
    let _device = soft::alone("kernels=asan");
    under_watch();
}

#[test]
fn sanitizers_have_nothing_to_report() {
    soft::pass_alone("under_the_sanitizers", &soft::asan_variables());
}

#[test]
fn the_race_detector_has_nothing_to_report() {
    soft::pass_alone("under_the_race_detector", &[]);
}

/// Words that change on their way to the host: what cannot be right is refused, and all that is let through is finite; with
/// the CPU in place of what is refused it is never an error.
#[test]
fn changed_words() {
    let (_alone, soft) = soft::alone("");
    let mut random = Random(5);
    let batch = Batch::new(&mut random, [12, 5, 2, 4], 4.0);
    let insist = |call: &dyn Fn() -> chain::Outcome<Found>| match call() {
        Ok(found) => (found, vec![]),
        Err(fault) => (call().unwrap(), vec![fault]),
    };
    let objf = |backend| Rust::objf(&batch.den, &batch.said, &config(backend), &batch.scores, None);
    let denominator = |backend| Rust::denominator(&batch.den, &config(backend), &batch.scores, 2, None);
    let calls: [&dyn Fn(ChainBackend) -> chain::Outcome<Found>; 2] = [&objf, &denominator];
    for (at, call) in calls.into_iter().enumerate() {
        let rng = &mut common::graph::Rng(3 + at as u64);
        let run = || insist(&|| call(ChainBackend::Cuda));
        let counts =
            changed_words::each_changed(soft, rng, 400, |fault| fault.status, run, |found, _| found.is_finite());
        assert!(counts.refused > 0 && counts.other > 10, "{counts:?}");
        println!("{counts:?}");
    }
    // Of copies as they come: scores of elements, outcomes, scales, derivatives. A sum of squares that is below 0, what
    // is always 0, and a derivative that is not finite.
    let expected = objf(ChainBackend::Cpu).unwrap();
    let infinite = |found: Found| found.deriv[0].to_bits() ^ f32::INFINITY.to_bits();
    let derivative = format!("flip=4:0:{}", infinite(objf(ChainBackend::Cuda).unwrap()));
    for settings in ["flip=2:7:0x80000000", "flip=2:9:1", &derivative] {
        soft.configure(settings);
        let fault = objf(ChainBackend::Cuda).expect_err(settings);
        assert!(fault.status == Status::KOSHI_E_DEVICE && fault.message.contains("cannot be right"), "{fault:?}");
        soft.configure(settings);
        agree(&objf(ChainBackend::Auto).unwrap(), &expected, settings);
    }
    soft.reset();
}

#[test]
fn arcs_are_spread_over_the_threads() {
    soft::pass_alone("counting_steps", &[]);
}

/// A graph in which all arcs lead to or from one state takes hardly longer than one with as many arcs evenly spread.
#[test]
#[ignore = "runs in a process of its own"]
fn counting_steps() {
    const STATES: u32 = 4000;
    let (_alone, soft) = soft::alone("kernels=steps");
    let span = |states: Vec<Vec<koshi::graph::GraphArc>>| {
        let den = DenominatorGraph::from_source(&graph(states), 3).unwrap();
        let scores = Scores::dense(&[0.5; 6], 3);
        assert!(Rust::denominator(&den, &config(ChainBackend::Cuda), &scores, 1, None).unwrap().ok);
        let steps = soft.thread_steps();
        assert_eq!(steps.len(), 1024);
        soft.stats().span
    };
    let prob = 1.0 / STATES as f32;
    let mut star = vec![(0..STATES).map(|state| arc(0, prob, state)).collect::<Vec<_>>()];
    star.extend((1..STATES).map(|_| vec![arc(0, 0.9, 0)]));
    let even = (0..STATES).map(|state| vec![arc(0, 0.5, (state + 1) % STATES), arc(0, 0.4, (state + 7) % STATES)]);
    let (star, even) = (span(star), span(even.collect()));
    assert!(star < 5 * even, "{star} steps, evenly spread {even}");
}

/// Device memory with what a host's matrix holds.
fn put(stream: &Arc<CudaStream>, numbers: &[f32]) -> (CudaSlice<f32>, u64) {
    let memory = stream.clone_htod(numbers).unwrap();
    let at = memory.device_ptr(stream).0;
    (memory, at)
}

/// A face that takes matrices in device memory.
trait OnDevice: Face {
    #[allow(clippy::too_many_arguments)]
    fn objf_device(
        den: &Self::Den,
        said: &Self::Supervision,
        config: &ChainConfig,
        output: DeviceMatrix,
        deriv: Option<DeviceMatrix>,
        xent: Option<DeviceMatrix>,
        stream: usize,
    ) -> Result<(f64, bool), Status>;
    fn denominator_device(
        den: &Self::Den,
        config: &ChainConfig,
        output: DeviceMatrix,
        sequences: usize,
        lengths: &[u32],
        deriv: DeviceMatrix,
        stream: usize,
    ) -> Result<(f64, bool), Status>;
}

fn status(error: koshi::Error) -> Status {
    match error.root() {
        koshi::Error::Shape(_) => Status::KOSHI_E_SHAPE,
        koshi::Error::Argument(_) => Status::KOSHI_E_ARGUMENT,
        koshi::Error::Unsupported(_) => Status::KOSHI_E_UNSUPPORTED,
        other => panic!("{other}"),
    }
}

impl OnDevice for Rust {
    fn objf_device(
        den: &DenominatorGraph,
        said: &Supervision,
        config: &ChainConfig,
        output: DeviceMatrix,
        deriv: Option<DeviceMatrix>,
        xent: Option<DeviceMatrix>,
        stream: usize,
    ) -> Result<(f64, bool), Status> {
        // SAFETY: memory and streams of a live context.
        let found = unsafe { chain_objective_device(den, said, config, output, deriv, xent, None, stream) };
        found.map(|found| (found.objf + found.l2_term, found.ok)).map_err(status)
    }

    fn denominator_device(
        den: &DenominatorGraph,
        config: &ChainConfig,
        output: DeviceMatrix,
        sequences: usize,
        lengths: &[u32],
        deriv: DeviceMatrix,
        stream: usize,
    ) -> Result<(f64, bool), Status> {
        let target = Some((-2.0, deriv));
        // SAFETY: as above.
        let found =
            unsafe { den.forward_backward_device(config, output, sequences, Some(lengths), target, None, stream) };
        found.map(|found| (found.log_prob, found.ok)).map_err(status)
    }
}

/// The status of a call through C.
fn through_c(status: koshi_status) -> Result<bool, Status> {
    let all = [Status::KOSHI_E_SHAPE, Status::KOSHI_E_ARGUMENT, Status::KOSHI_E_UNSUPPORTED];
    match all.into_iter().find(|code| *code as koshi_status == status) {
        Some(code) => Err(code),
        None if status == Status::KOSHI_OK as koshi_status => Ok(true),
        None if status == Status::KOSHI_OK_PARTIAL as koshi_status => Ok(false),
        None => panic!("status {status}"),
    }
}

fn pointer(matrix: Option<DeviceMatrix>) -> (*mut f32, usize) {
    let at = |matrix: DeviceMatrix| (std::ptr::without_provenance_mut(matrix.at as usize), matrix.stride);
    matrix.map_or((std::ptr::null_mut(), 0), at)
}

impl OnDevice for C {
    fn objf_device(
        den: &Self::Den,
        said: &Self::Supervision,
        config: &ChainConfig,
        output: DeviceMatrix,
        deriv: Option<DeviceMatrix>,
        xent: Option<DeviceMatrix>,
        stream: usize,
    ) -> Result<(f64, bool), Status> {
        let mut options = chain::options(config, None);
        options.memory = koshi_memory::KOSHI_MEMORY_DEVICE as i32;
        options.stream = std::ptr::without_provenance_mut(stream);
        let (mut objf, mut l2) = (0.0, 0.0);
        let (at, stride) = pointer(Some(output));
        let ((deriv, deriv_stride), (xent, xent_stride)) = (pointer(deriv), pointer(xent));
        let none = std::ptr::null_mut();
        // SAFETY: as above, and live handles.
        let status = unsafe {
            koshi_chain_objf(
                den.pointer(),
                said.pointer(),
                &options,
                at,
                output.rows,
                output.cols,
                stride,
                &mut objf,
                &mut l2,
                std::ptr::null_mut(),
                deriv,
                deriv_stride,
                xent,
                xent_stride,
                none,
            )
        };
        through_c(status).map(|ok| (objf + l2, ok))
    }

    fn denominator_device(
        den: &Self::Den,
        config: &ChainConfig,
        output: DeviceMatrix,
        sequences: usize,
        lengths: &[u32],
        deriv: DeviceMatrix,
        stream: usize,
    ) -> Result<(f64, bool), Status> {
        let mut options = chain::options(config, None);
        options.memory = koshi_memory::KOSHI_MEMORY_DEVICE as i32;
        options.stream = std::ptr::without_provenance_mut(stream);
        let mut value = 0.0;
        let ((at, stride), (deriv, deriv_stride)) = (pointer(Some(output)), pointer(Some(deriv)));
        let none = std::ptr::null_mut();
        // SAFETY: as above.
        let status = unsafe {
            koshi_chain_denominator(
                den.pointer(),
                &options,
                sequences,
                lengths.as_ptr(),
                at,
                output.rows,
                output.cols,
                stride,
                &mut value,
                -2.0,
                deriv,
                deriv_stride,
                none,
            )
        };
        through_c(status).map(|ok| (value, ok))
    }
}

#[test]
fn matrices_in_device_memory_wait_for_what_makes_them() {
    let _device = soft::alone("lazy=1,schedule=reverse");
    matrices_of_the_device::<Rust>();
    matrices_of_the_device::<C>();
}

fn matrices_of_the_device<F: OnDevice>() {
    let mut random = Random(21);
    let (pdfs, sequences, frames) = (5, 3, 4);
    let source = random.graph(30, pdfs);
    let lines: String = (0..12).map(|at| format!("{at} {} {} {};", at + 1, at % 5 + 1, at % 5 + 1)).collect();
    let text = supervision([sequences, frames, pdfs], &format!("{lines}12"));
    let (den, said) = (F::den(&bytes(&source), pdfs).unwrap(), F::supervision(&text).unwrap());
    let (rows, stride) = (sequences * frames, pdfs + 2);
    let mut scores = Scores { cols: pdfs, ..random.scores(rows, stride, 3.0) };
    scores.data.chunks_mut(stride).for_each(|row| row[pdfs..].fill(f32::NAN));
    let gpu = config(ChainBackend::Cuda);
    let expected = F::objf(&den, &said, &gpu, &scores, None).unwrap();
    assert!(expected.ok);

    let context = CudaContext::new(0).unwrap();
    // SAFETY: this test orders its streams itself.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let number = stream.cu_stream() as usize;
    let (memory, at) = put(&stream, &scores.data);
    let (deriv, deriv_at) = put(&stream, &vec![7.0; rows * (pdfs + 1)]);
    let (xent, xent_at) = put(&stream, &vec![8.0; rows * pdfs]);
    let output = DeviceMatrix { at, rows, cols: pdfs, stride };
    let to = DeviceMatrix { at: deriv_at, stride: pdfs + 1, ..output };
    let other = DeviceMatrix { at: xent_at, stride: pdfs, ..output };
    // Not waited for: the call orders itself behind the stream.
    let found = F::objf_device(&den, &said, &gpu, output, Some(to), Some(other), number).unwrap();
    assert_eq!(found, (expected.value + expected.l2_term, true));
    let held = |memory: &CudaSlice<f32>| stream.clone_dtoh(memory).unwrap();
    let got = held(&deriv);
    stream.synchronize().unwrap();
    for (row, expected) in got.chunks(pdfs + 1).zip(expected.deriv.chunks(pdfs)) {
        assert!(row[..pdfs] == *expected && row[pdfs] == 7.0, "{row:?} {expected:?}");
    }
    let got = held(&xent);
    stream.synchronize().unwrap();
    assert_eq!(got, expected.xent);
    // One of them, and neither.
    assert_eq!(F::objf_device(&den, &said, &gpu, output, Some(to), None, number).unwrap(), found);
    assert_eq!(F::objf_device(&den, &said, &gpu, output, None, Some(other), number).unwrap(), found);
    assert_eq!(F::objf_device(&den, &said, &gpu, output, None, None, number).unwrap(), found);
    // The denominator adds, to rows of frames that there are.
    let lengths = [4, 0, 2];
    let expected = F::denominator(&den, &gpu, &scores, sequences, Some(&lengths)).unwrap();
    let (sum, sum_at) = put(&stream, &vec![0.5; rows * pdfs]);
    let target = DeviceMatrix { at: sum_at, stride: pdfs, ..output };
    let found = F::denominator_device(&den, &gpu, output, sequences, &lengths, target, number).unwrap();
    assert_eq!(found, (expected.value, true));
    let got = held(&sum);
    stream.synchronize().unwrap();
    for (got, expected) in got.iter().zip(&expected.deriv) {
        assert_eq!(*got, 0.5 + -2.0 * expected);
    }
    // What is refused.
    let refused = |config: &ChainConfig, output: DeviceMatrix, deriv: DeviceMatrix| {
        F::objf_device(&den, &said, config, output, Some(deriv), None, number).unwrap_err()
    };
    assert_eq!(refused(&config(ChainBackend::Cpu), output, to), Status::KOSHI_E_UNSUPPORTED);
    assert_eq!(refused(&gpu, DeviceMatrix { stride: pdfs - 1, ..output }, to), Status::KOSHI_E_SHAPE);
    assert_eq!(refused(&gpu, DeviceMatrix { at: at + 2, ..output }, to), Status::KOSHI_E_ARGUMENT);
    assert_eq!(refused(&gpu, DeviceMatrix { at: 0, ..output }, to), Status::KOSHI_E_ARGUMENT);
    assert_eq!(refused(&gpu, output, DeviceMatrix { at: deriv_at + 1, ..to }), Status::KOSHI_E_ARGUMENT);
    drop((memory, deriv, xent, sum));
}

#[test]
fn memory_of_the_device_that_is_not_there() {
    let (_alone, soft) = soft::alone("memory=33554432");
    let empty = soft.memory_used(0);
    let mut random = Random(31);
    let large = Batch::new(&mut random, [3000, 40, 400, 12], 2.0);
    let small = Batch::new(&mut random, [3000, 40, 4, 12], 2.0);
    let gpu = config(ChainBackend::Cuda);
    let expected = small.objf(&config(ChainBackend::Cpu), None);
    for _ in 0..3 {
        let fault = Rust::objf(&large.den, &large.said, &gpu, &large.scores, None).unwrap_err();
        assert_eq!(fault.status, Status::KOSHI_E_NO_MEMORY, "{}", fault.message);
        assert!(fault.message.contains("the chain objective on GPU 0, where "), "{}", fault.message);
        // The next smaller one works, again and again in the same memory.
        let first = small.objf(&gpu, None);
        agree(&first, &expected, "after want of memory");
        let taken = soft.memory_used(0);
        for _ in 0..2 {
            assert_eq!(small.objf(&gpu, None), first);
        }
        assert_eq!(soft.memory_used(0), taken);
    }
    // Whoever leaves the choice to the library gets the CPU's result.
    let auto = large.denominator(&config(ChainBackend::Auto), None);
    assert_eq!(auto, large.denominator(&config(ChainBackend::Cpu), None));
    drop((large, small));
    assert_eq!(soft.memory_used(0), empty, "everything is given back");
}

#[test]
fn calls_of_the_driver_that_fail() {
    let (_alone, soft) = soft::alone("");
    let batch = busy();
    let [cpu, gpu, auto] = [ChainBackend::Cpu, ChainBackend::Cuda, ChainBackend::Auto].map(config);
    let on_cpu = batch.objf(&cpu, None);
    let expected = batch.objf(&gpu, None);
    agree(&expected, &on_cpu, "before");
    for (call, nth) in [
        ("cuCtxGetCurrent", 1),
        ("cuMemcpyHtoDAsync_v2", 1),
        ("cuLaunchKernel", 1),
        ("cuLaunchKernel", 2),
        ("cuLaunchKernel", 3),
        ("cuLaunchKernel", 4),
        ("cuMemcpyDtoHAsync_v2", 1),
        ("cuMemcpyDtoHAsync_v2", 3),
        ("cuStreamSynchronize", 1),
        ("cuStreamSynchronize", 2),
    ] {
        soft.configure(&format!("fail={call}:{nth}:719"));
        let fault = Rust::objf(&batch.den, &batch.said, &gpu, &batch.scores, None).unwrap_err();
        assert_eq!(fault.status, Status::KOSHI_E_DEVICE, "{call}");
        let named = call.trim_end_matches("_v2").trim_end_matches("Async");
        assert!(fault.message.contains("719") && fault.message.contains(named), "{call}: {}", fault.message);
        soft.configure(&format!("fail={call}:{nth}:719"));
        assert_eq!(batch.objf(&auto, None), on_cpu, "{call} {nth}");
        soft.reset();
        assert_eq!(batch.objf(&gpu, None), expected, "after {call} {nth}");
    }
    // The first call on a graph.
    for (call, code, status) in [
        ("cuDevicePrimaryCtxRetain", 101, Status::KOSHI_E_NO_DEVICE),
        ("cuStreamCreate", 999, Status::KOSHI_E_DEVICE),
        ("cuEventCreate", 999, Status::KOSHI_E_DEVICE),
        ("cuMemAlloc_v2", 2, Status::KOSHI_E_NO_MEMORY),
        ("cuMemAlloc_v2", 999, Status::KOSHI_E_DEVICE),
    ] {
        let batch = busy();
        soft.configure(&format!("fail={call}:1:{code}"));
        let fault = Rust::objf(&batch.den, &batch.said, &gpu, &batch.scores, None).unwrap_err();
        assert_eq!(fault.status, status, "{call}: {}", fault.message);
        soft.reset();
        assert_eq!(batch.objf(&gpu, None), expected, "after {call}");
    }
    // A kernel that dies takes the context with it: every call says so, the CPU goes on.
    soft.configure("fail=kernel:1:700");
    for _ in 0..3 {
        let fault = Rust::objf(&batch.den, &batch.said, &gpu, &batch.scores, None).unwrap_err();
        assert_eq!(fault.status, Status::KOSHI_E_DEVICE, "{}", fault.message);
        assert_eq!(batch.objf(&auto, None), on_cpu);
        assert_eq!(batch.objf(&cpu, None), on_cpu);
    }
    soft.reset();
}

#[test]
fn several_threads_and_devices_at_once() {
    let _device = soft::alone("");
    let batch = busy();
    let expected = batch.objf(&config(ChainBackend::Cuda), None);
    std::thread::scope(|scope| {
        for at in 0..4 {
            let (batch, expected) = (&batch, &expected);
            let config = ChainConfig { device: at % 2, ..config(ChainBackend::Cuda) };
            scope.spawn(move || {
                // The thread's own context stays the current one.
                let mine = CudaContext::new(0).unwrap();
                mine.bind_to_thread().unwrap();
                for _ in 0..3 {
                    assert_eq!(&batch.objf(&config, None), expected);
                }
                let current = cudarc::driver::result::ctx::get_current().unwrap();
                assert_eq!(current, Some(mine.cu_ctx()));
            });
        }
    });
}

#[test]
fn drawn_occupancies_keep_their_mean() {
    let _device = soft::alone("");
    const LEAST: f32 = 1.0 / 16384.0;
    // 256 pdfs out of one state, a few likely and the others not: most occupancies are far below the threshold.
    let arcs = |_| (0..256).map(|pdf| arc(pdf, 1.0 / 256.0, 0)).collect();
    let den = DenominatorGraph::from_source(&graph((0..1).map(arcs).collect()), 256).unwrap();
    let mut random = Random(41);
    let mut scores = random.scores(8, 256, 1.0);
    scores.data.iter_mut().enumerate().for_each(|(at, score)| *score += if at % 64 == 5 { 8.0 } else { 0.0 });
    let run = |randomised_thresholds, seed, backend| {
        let config = ChainConfig { randomised_thresholds, seed, ..config(backend) };
        Rust::denominator(&den, &config, &scores, 2, None).unwrap()
    };
    let plain = run(false, 0, ChainBackend::Cuda);
    assert_eq!(run(false, 9, ChainBackend::Cuda), plain, "off by default, whatever the seed");
    let tiny: Vec<usize> = (0..plain.deriv.len()).filter(|&at| plain.deriv[at] < LEAST).collect();
    assert!(tiny.len() > 100, "{}", tiny.len());
    const ROUNDS: u64 = 300;
    let mut sums = vec![0.0; plain.deriv.len()];
    for seed in 0..ROUNDS {
        let drawn = run(true, seed, ChainBackend::Cuda);
        assert_eq!((drawn.value, drawn.ok), (plain.value, true), "the log-probability is not drawn");
        for &at in &tiny {
            assert!(drawn.deriv[at] == 0.0 || drawn.deriv[at] == LEAST, "{}", drawn.deriv[at]);
        }
        drawn.deriv.iter().zip(&mut sums).for_each(|(value, sum)| *sum += f64::from(*value));
        if seed < 3 {
            assert_eq!(run(true, seed, ChainBackend::Cuda), drawn, "a seed repeats");
        }
    }
    assert_ne!(run(true, 1, ChainBackend::Cuda), run(true, 2, ChainBackend::Cuda));
    let [drawn, expected] = [sums.iter().sum::<f64>() / ROUNDS as f64, plain.deriv.iter().map(|&v| f64::from(v)).sum()];
    assert!((drawn - expected).abs() < 1e-3, "{drawn}, in full {expected}");
    for &at in &tiny {
        // Five standard deviations of a mean of draws.
        let (mean, full) = (sums[at] / ROUNDS as f64, f64::from(plain.deriv[at]));
        let deviation = (full * (f64::from(LEAST) - full) / ROUNDS as f64).sqrt();
        assert!((mean - full).abs() <= 5.0 * deviation + 1e-9, "{mean}, in full {full}");
    }
    let cpu = run(true, 5, ChainBackend::Cpu);
    assert_eq!(cpu, run(false, 5, ChainBackend::Cpu), "the CPU draws none");
}
