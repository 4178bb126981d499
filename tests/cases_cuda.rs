//! Rows of the list of inputs that broke other decoders: memory of a GPU, and which GPU. On the software CUDA device,
//! with two of it.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use common::graph::Rng;
use common::soft;
use cudarc::driver::{CudaContext, result};
use face::{Face, Matrix, Results, Status, graph, results};
use koshi::decoder::{BackendChoice, DecoderConfig};

fn config(backend: BackendChoice, num_lanes: u32) -> DecoderConfig {
    DecoderConfig { search: soft::narrow(), backend, num_lanes, num_threads: 1, ..DecoderConfig::default() }
}

/// Results of an utterance, and on how many of its frames a capacity held.
fn decode<F: Face>(decoder: &F::Decoder, rows: Matrix) -> (Option<Status>, Results, u64) {
    let mut channel = F::channel(decoder).unwrap();
    F::begin(&mut channel).unwrap();
    let failed = F::push(&mut channel, rows).err().map(|fault| fault.status);
    let held = F::stats(&channel).unwrap().capacity_held;
    (failed, results::<F>(&mut channel), held)
}

/// Capacities of which a frame uses all are enough, and so is memory of which a decoder takes all.
fn case_b43_what_fits_exactly<F: Face>() {
    let (_alone, soft) = soft::alone("");
    let (source, data, dim) = Rng(5).busy();
    let graph = graph::<F>(&source);
    let rows = Matrix::dense(&data[..4 * dim], dim);
    let with = |backend, capacities: [u64; 3]| {
        let mut config = config(backend, 1);
        let [candidates, tokens, links] = capacities;
        config.search.candidate_capacity = candidates;
        config.search.token_capacity = tokens;
        config.search.link_capacity = links;
        decode::<F>(&F::decoder(&graph, &config).unwrap(), rows)
    };
    let wide = with(BackendChoice::Cpu, [1_000; 3]);
    assert!(wide.0.is_none() && wide.2 == 0, "{wide:?}");
    // The least of each that does not strike.
    let mut least = [1_000; 3];
    for at in 0..3 {
        let strikes = |capacity: u64| {
            let mut tried = [1_000; 3];
            tried[at] = capacity;
            let found = with(BackendChoice::Cpu, tried);
            found.0.is_some() || found.2 > 0
        };
        let (mut low, mut high) = (1, 1_000);
        assert!(strikes(low), "capacity {at}");
        while high - low > 1 {
            let middle = (low + high) / 2;
            if strikes(middle) { low = middle } else { high = middle }
        }
        least[at] = high;
    }
    for backend in [BackendChoice::Cpu, BackendChoice::Cuda] {
        assert_eq!(with(backend, least), wide, "all three used to the last: {least:?}");
        for at in 0..3 {
            let mut less = least;
            less[at] -= 1;
            let found = with(backend, less);
            assert!(found.0.is_some() || found.2 > 0, "{less:?}");
        }
    }
    // A device that has what a decoder takes, and one that has less by the least that a driver gives out.
    let before = soft.memory_used(0);
    let config = config(BackendChoice::Cuda, 2);
    let decoder = F::decoder(&graph, &config).unwrap();
    let taken = soft.memory_used(0) - before;
    drop(decoder);
    soft.configure(&format!("memory={}", before + taken));
    let found = decode::<F>(&F::decoder(&graph, &config).unwrap(), rows);
    assert_eq!((found.0, found.1), (None, wide.1));
    soft.configure(&format!("memory={}", before + taken - 1));
    let fault = F::decoder(&graph, &config).err().expect("more than the device has");
    assert_eq!(fault.status, Status::KOSHI_E_NO_MEMORY, "{}", fault.message);
}

/// A million lanes are more than there can be; as many as there can be are more than the device has room for, and the
/// message says how much was asked for and how much there is. The next smaller decoder works.
fn case_b46_more_lanes_than_memory<F: Face>() {
    let (_alone, soft) = soft::alone("memory=33554432");
    let (source, data, dim) = Rng(5).busy();
    let graph = graph::<F>(&source);
    let rows = Matrix::dense(&data[..4 * dim], dim);
    let expected = decode::<F>(&F::decoder(&graph, &config(BackendChoice::Cpu, 1)).unwrap(), rows);
    let before = soft.memory_used(0);
    for _ in 0..2 {
        let fault = F::decoder(&graph, &config(BackendChoice::Cuda, 1_000_000)).err().unwrap();
        assert!(fault.status == Status::KOSHI_E_CONFIG && fault.message.contains("num_lanes"), "{}", fault.message);
        let fault = F::decoder(&graph, &config(BackendChoice::Cuda, 65_536)).err().unwrap();
        assert_eq!(fault.status, Status::KOSHI_E_NO_MEMORY, "{}", fault.message);
        let numbers: Vec<u64> =
            fault.message.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect();
        let (asked, free) = (numbers.iter().max().unwrap(), 33_554_432 - before as u64);
        assert!(*asked > free && numbers.iter().any(|&n| n > 0 && n <= free && n != 65_536), "{}", fault.message);
        assert!(fault.message.contains("bytes"), "{}", fault.message);
        assert_eq!(soft.memory_used(0), before, "nothing is left of the one that failed");
        assert_eq!(decode::<F>(&F::decoder(&graph, &config(BackendChoice::Cuda, 2)).unwrap(), rows), expected);
    }
}

/// Graphs, decoders and results come and go: the device and the host have as much memory as before.
/// `KOSHI_LONG=1` does it a thousand times.
fn case_b47_graphs_come_and_go<F: Face>() {
    let (_alone, soft) = soft::alone("");
    let rounds = if std::env::var_os("KOSHI_LONG").is_some_and(|value| value == "1") { 1_000 } else { 40 };
    let (source, data, dim) = Rng(5).busy();
    let rows = Matrix::dense(&data[..2 * dim], dim);
    let given = || (soft.memory_used(0), soft.pinned_used(), soft.stats().objects);
    let mut after_first = None;
    for round in 0..rounds {
        let graph = graph::<F>(&source);
        let decoder = F::decoder(&graph, &config(BackendChoice::Cuda, 1)).unwrap();
        let found = decode::<F>(&decoder, rows);
        assert!(found.0.is_none() && found.1.lattices[0].num_arcs() > 0);
        drop((found, decoder, graph));
        // The first round leaves what is kept for the process.
        assert_eq!(*after_first.get_or_insert(given()), given(), "round {round}");
    }
}

/// A decoder on the second device, made and used by threads whose context is the first device's, or that have none.
fn case_b56_another_device_is_current<F: Face>() {
    let (_alone, soft) = soft::alone("");
    let (source, data, dim) = Rng(5).busy();
    let graph = graph::<F>(&source);
    let rows = Matrix::dense(&data[..4 * dim], dim);
    let expected = decode::<F>(&F::decoder(&graph, &config(BackendChoice::Cpu, 1)).unwrap(), rows);
    let first = CudaContext::new(0).unwrap();
    let before = [soft.memory_used(0), soft.memory_used(1)];
    let on_second = DecoderConfig { device: 1, ..config(BackendChoice::Cuda, 1) };
    let current = || result::ctx::get_current().unwrap();
    first.bind_to_thread().unwrap();
    let decoder = F::decoder(&graph, &on_second).unwrap();
    assert!(soft.memory_used(1) > before[1] && soft.memory_used(0) == before[0], "it lies on the second device");
    assert_eq!(decode::<F>(&decoder, rows), expected);
    assert_eq!(current(), Some(first.cu_ctx()), "what was current is so again");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(current(), None);
            assert_eq!(decode::<F>(&decoder, rows), expected);
            assert_eq!(current(), None, "a thread without a context has none afterwards");
        });
    });
    drop(decoder);
    assert_eq!([soft.memory_used(0), soft.memory_used(1)], before);
}

over_both_faces! {
    case_b43_what_fits_exactly
    case_b46_more_lanes_than_memory
    case_b47_graphs_come_and_go
    case_b56_another_device_is_current
}
