//! Random graphs at the edges of the arithmetic, through both faces, held to the plain reference
//! bit for bit: costs near the ends of binary32, denormals, zeros of both signs, infinite weights,
//! beams from the smallest to the largest float, tight bounds of every kind.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use std::sync::Arc;

use common::graph::{Rng, arc, source};
use common::reference::{Reference, Stop};
use face::{C, Face, Fault, Matrix, Rust, Status, graph, on_gpu, results};
use koshi::decoder::{BackendChoice, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph as KoshiGraph, VecSource};
use koshi::search::{Rows, SearchConfig};

const COLUMNS: usize = 4;

/// Costs from a palette: plain small ones on a grid, and the ends of the range.
fn cost(rng: &mut Rng, wild: u64) -> f32 {
    const EDGES: [f32; 12] =
        [0.0, -0.0, 1e-45, -1e-45, 1.2e-38, 3e38, -3e38, f32::MAX, 1e30, -1e30, 16_777_216.0, -16_777_217.0];
    if rng.below(100) < wild { EDGES[rng.below(12) as usize] } else { rng.below(12) as f32 * 0.25 - 1.0 }
}

fn random_graph(rng: &mut Rng, wild: u64) -> VecSource {
    let num_states = 1 + rng.below(8);
    let mut rank: Vec<u32> = (0..num_states as u32).collect();
    rng.shuffle(&mut rank);
    let states = (0..num_states).map(|state| {
        let end = if rng.below(3) == 0 { cost(rng, wild) } else { f32::INFINITY };
        let arcs = (0..rng.below(6)).map(|_| {
            let next = rng.below(num_states) as u32;
            let forward = rank[next as usize] > rank[state as usize];
            let ilabel = if forward && rng.below(2) == 0 { 0 } else { 1 + rng.below(COLUMNS as u64) as i32 };
            let weight = if rng.below(40) == 0 { f32::INFINITY } else { cost(rng, wild) };
            arc(ilabel, rng.below(4) as i32, weight, next)
        });
        (end, arcs.collect())
    });
    source(Some(0), states.collect())
}

fn random_config(rng: &mut Rng) -> SearchConfig {
    let pick = |rng: &mut Rng, values: &[f32]| values[rng.below(values.len() as u64) as usize];
    let max_active = [2, 3, 5, u32::MAX][rng.below(4) as usize];
    let capacity = |rng: &mut Rng| if rng.below(4) == 0 { 1 + rng.below(8) } else { u64::MAX };
    SearchConfig {
        beam: pick(rng, &[1e-45, 0.25, 3.0, 1e30, f32::MAX]),
        lattice_beam: pick(rng, &[1e-45, 0.5, 6.0, 1e30, f32::MAX]),
        max_active,
        min_active: [0, 1, max_active, max_active.min(4)][rng.below(4) as usize],
        beam_delta: pick(rng, &[1e-45, 0.5, f32::MAX]),
        acoustic_scale: pick(rng, &[1.0, 0.1, 0.0, -0.0, -1.0, 1e-40, 1e38, -1e38]),
        link_budget: [1, 1000][rng.below(2) as usize],
        candidate_capacity: capacity(rng),
        token_capacity: capacity(rng),
        link_capacity: capacity(rng),
        ..SearchConfig::default()
    }
}

fn stop(fault: &Fault, frame: u64) -> Stop {
    let number = |after: &str| fault.message.split(after).nth(1)?.split([',', ':']).next()?.parse().ok();
    assert_eq!(number("frame "), Some(frame), "{}", fault.message);
    match fault.status {
        // A cost fell to -inf, on an emitting arc or on an epsilon arc.
        _ if fault.message.contains("below the range") => Stop::Range { frame },
        Status::KOSHI_E_SCORES => Stop::Scores { frame, column: number("column ").unwrap() as usize },
        Status::KOSHI_E_NO_TOKENS => Stop::NoTokens { frame },
        Status::KOSHI_E_CAPACITY => Stop::Capacity { frame },
        other => panic!("{other:?}: {}", fault.message),
    }
}

fn check<F: Face>(name: &str, source: &VecSource, search: SearchConfig, data: &[f32]) {
    let config = DecoderConfig { search, num_threads: 1, num_lanes: 1, ..DecoderConfig::default() };
    let decoder = F::decoder(&graph::<F>(source), &config).unwrap();
    let mut channel = F::channel(&decoder).unwrap();
    let begun = F::begin(&mut channel);
    let mut reference = match Reference::begin(source, search) {
        Ok(reference) => reference,
        Err(expected) => return assert_eq!(stop(&begun.unwrap_err(), 0), expected, "{name}"),
    };
    begun.unwrap_or_else(|fault| panic!("{fault:?}: {name}"));
    for (frame, row) in data.chunks(COLUMNS).enumerate() {
        let expected = reference.advance(row);
        let pushed = F::push(&mut channel, Matrix::dense(row, COLUMNS));
        assert_eq!(pushed.as_ref().map_err(|fault| stop(fault, frame as u64)).copied(), expected, "{name}");
        let found = results::<F>(&mut channel);
        let lattices = [true, false].map(|use_final| reference.lattice(use_final));
        assert_eq!(found.lattices, lattices, "{name}");
        assert!(!found.bits.contains(&(-0.0f32).to_bits()), "no cost that leaves is -0: {name}");
        for (path, use_final) in found.paths.iter().zip([true, false]) {
            let expected = reference.best_path(use_final);
            assert_eq!(
                (&path.ilabels, &path.olabels, &path.frames),
                (&expected.ilabels, &expected.olabels, &expected.frames),
                "{name}"
            );
            assert_eq!((path.graph_cost, path.acoustic_cost), (expected.graph_cost, expected.acoustic_cost), "{name}");
        }
        if pushed.is_err() {
            break;
        }
    }
}

fn run(seeds: std::ops::Range<u64>, wild: u64, check: fn(&str, &VecSource, SearchConfig, &[f32])) {
    for seed in seeds {
        let rng = &mut Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let (source, search) = (random_graph(rng, wild), random_config(rng));
        let data: Vec<f32> =
            (0..5 * COLUMNS).map(|_| if rng.below(12) == 0 { f32::NEG_INFINITY } else { -cost(rng, wild) }).collect();
        let name = format!("seed {seed}, wild {wild}: {source:?} {search:?} {data:?}");
        check(&name, &source, search, &data);
    }
}

#[test]
fn plain_costs_and_tight_bounds() {
    run(0..3_000, 0, check::<Rust>);
    run(0..3_000, 0, check::<C>);
}

#[test]
fn costs_at_the_ends_of_the_range() {
    run(100_000..103_000, 10, check::<Rust>);
    run(100_000..103_000, 10, check::<C>);
    run(200_000..201_500, 50, check::<Rust>);
    run(200_000..201_500, 50, check::<C>);
}

#[test]
fn plain_costs_and_tight_bounds_on_the_gpu() {
    on_gpu(|| run(0..150, 0, check::<Rust>));
    on_gpu(|| run(150..200, 0, check::<C>));
}

#[test]
fn costs_at_the_ends_of_the_range_on_the_gpu() {
    on_gpu(|| run(100_000..100_100, 10, check::<Rust>));
    on_gpu(|| run(200_000..200_100, 50, check::<C>));
}

/// The arc is another one than the first of its state, and its label not the first of its column.
#[test]
fn the_label_of_a_cost_below_the_range_is_named() {
    common::gpu();
    let states = vec![
        (0.0, vec![arc(1, 0, 0.5, 1)]),
        (0.0, vec![arc(3, 0, 0.0, 0), arc(4, 0, 0.0, 1), arc(2, 0, -3e38, 1)]),
        (0.0, vec![arc(1, 0, 0.0, 0)]),
    ];
    let columns = Columns::Table(vec![-1, 0, 0, 1, 1]);
    let graph = Arc::new(KoshiGraph::from_source(&source(Some(0), states), columns).unwrap());
    for backend in [BackendChoice::Cpu, BackendChoice::Cuda] {
        let search = SearchConfig { acoustic_scale: 1.0, ..SearchConfig::default() };
        let config = DecoderConfig { search, backend, num_lanes: 1, ..DecoderConfig::default() };
        let mut channel = Decoder::new(Arc::clone(&graph), config).unwrap().new_channel().unwrap();
        channel.begin().unwrap();
        let error = channel.push(Rows::new(&[0.0, 0.0, 3e38, 0.0], 2, 2, 2).unwrap()).unwrap_err();
        assert!(error.chain().contains("an arc with ilabel 2 takes"), "{}", error.chain());
    }
}
