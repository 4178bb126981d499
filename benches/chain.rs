//! The denominator's forward-backward with its derivative, and the whole objective.
//!
//! Without arguments: on a graph made up here. Where the real data is at hand (`KOSHI_SHARED`, else `../shared`), on
//! the real den.fst, 128 sequences of 50 frames.

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use koshi::chain::{ChainBackend, ChainConfig, DenominatorGraph, Scores, ScoresMut, Supervision, chain_objective};
use koshi::graph::{GraphArc, VecSource};

const SEQUENCES: usize = 128;
const FRAMES: usize = 50;

/// Numbers between -1 and 1 that are the same in each run.
fn numbers(count: usize) -> Vec<f32> {
    let mut bits = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (bits >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// A graph of the size of a small phone language model's.
fn made_up() -> VecSource {
    const STATES: u32 = 800;
    const PDFS: u32 = 140;
    let arc = |state: u32, step: u32| GraphArc {
        ilabel: ((state * 7 + step) % PDFS) as i32 + 1,
        olabel: 0,
        weight: 3f32.ln(),
        next: (state * 13 + step * 101 + 1) % STATES,
    };
    let states = (0..STATES).map(|state| (f32::INFINITY, (0..3).map(|step| arc(state, step)).collect()));
    VecSource { start: Some(0), states: states.collect() }
}

fn denominator(bencher: &mut Criterion, name: &str, graph: &DenominatorGraph) {
    let (rows, cols) = (SEQUENCES * FRAMES, graph.num_pdfs());
    let output = numbers(rows * cols);
    let mut deriv = vec![0.0; rows * cols];
    let mut group = bencher.benchmark_group("chain denominator");
    group.throughput(Throughput::Elements(rows as u64));
    for threads in [1, 2] {
        let config = ChainConfig {
            backend: ChainBackend::Cpu,
            num_threads: threads,
            leaky_hmm_coefficient: 0.1,
            ..ChainConfig::default()
        };
        group.bench_function(format!("{name}, {threads} threads"), |bencher| {
            bencher.iter(|| {
                let scores = Scores::new(&output, rows, cols, cols).unwrap();
                let mut target = ScoresMut::new(&mut deriv, rows, cols, cols).unwrap();
                let found = graph.forward_backward(&config, scores, SEQUENCES, None, Some((-1.0, &mut target)), None);
                black_box(found.unwrap())
            })
        });
    }
}

fn objective(bencher: &mut Criterion, graph: &DenominatorGraph, supervision: &Supervision) {
    let (rows, cols) = (supervision.num_sequences() * supervision.frames_per_sequence(), graph.num_pdfs());
    let output = numbers(rows * cols);
    let mut deriv = vec![0.0; rows * cols];
    let mut group = bencher.benchmark_group("chain objective");
    group.throughput(Throughput::Elements(rows as u64));
    for threads in [1, 2] {
        let config = ChainConfig {
            backend: ChainBackend::Cpu,
            num_threads: threads,
            l2_regularize: 5e-5,
            ..ChainConfig::default()
        };
        group.bench_function(format!("den.fst, {threads} threads"), |bencher| {
            bencher.iter(|| {
                let scores = Scores::new(&output, rows, cols, cols).unwrap();
                let mut target = ScoresMut::new(&mut deriv, rows, cols, cols).unwrap();
                let found = chain_objective(graph, supervision, &config, scores, Some(&mut target), None, None);
                black_box(found.unwrap())
            })
        });
    }
}

fn all(bencher: &mut Criterion) {
    denominator(bencher, "made up", &DenominatorGraph::from_source(&made_up(), 140).unwrap());
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let shared = std::env::var_os("KOSHI_SHARED").map_or_else(beside, Into::into).join("oracles/chain");
    if !shared.is_dir() {
        return eprintln!("{} is absent: no real graph", shared.display());
    }
    let file = |name: &str| shared.join(name).display().to_string();
    let graph = DenominatorGraph::read(&file("graphs/den.fst"), 145).unwrap();
    denominator(bencher, "den.fst", &graph);
    let chunks: Vec<Supervision> = (0..SEQUENCES)
        .map(|at| Supervision::open(&file(&format!("supervision/chunk{}.bin", at % 8))).unwrap())
        .collect();
    objective(bencher, &graph, &Supervision::merge(&chunks).unwrap());
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = all
}
criterion_main!(benches);
