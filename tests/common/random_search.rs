//! A decoder against the plain reference, bit for bit, on random graphs: epsilon chains,
//! negative epsilon weights, ties, `-inf` scores, parallel arcs, dead ends, several finals.
#![allow(dead_code)] // each test file uses its own part

use std::sync::Arc;

use super::graph::{Rng, arc, source};
use super::reference::{Reference, Stop};
use koshi::Error;
use koshi::decoder::{BackendChoice, Channel, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph, VecSource};
use koshi::lattice::LatticeWeight;
use koshi::search::{Rows, SearchConfig};

pub const COLUMNS: u64 = 6;

/// Small weights on a coarse grid, so that ties are common.
pub fn random_graph(rng: &mut Rng) -> VecSource {
    let num_states = 1 + rng.below(9);
    let mut rank: Vec<u32> = (0..num_states as u32).collect();
    rng.shuffle(&mut rank);
    let grid = [1.0, 0.5, 0.37][rng.below(3) as usize];
    let states = (0..num_states).map(|state| {
        let cost = if rng.below(3) == 0 { rng.below(5) as f32 * grid - 1.0 } else { f32::INFINITY };
        let arcs = (0..rng.below(6)).map(|_| {
            let next = rng.below(num_states) as u32;
            let forward = rank[next as usize] > rank[state as usize];
            let ilabel = if forward && rng.below(2) == 0 { 0 } else { 1 + rng.below(COLUMNS) as i32 };
            let olabel = if rng.below(2) == 0 { 0 } else { 1 + rng.below(4) as i32 };
            let weight = if rng.below(40) == 0 { f32::INFINITY } else { rng.below(9) as f32 * grid - 2.0 };
            arc(ilabel, olabel, weight, next)
        });
        (cost, arcs.collect())
    });
    let states = states.collect();
    source(Some(rng.below(num_states) as u32), states)
}

pub fn random_rows(rng: &mut Rng, frames: u64) -> Vec<f32> {
    let value = |rng: &mut Rng| match rng.below(12) {
        0 => f32::NEG_INFINITY,
        1 => 0.0,
        _ => rng.below(40) as f32 * 0.25 - 8.0,
    };
    (0..frames * COLUMNS).map(|_| value(rng)).collect()
}

pub fn random_config(rng: &mut Rng) -> SearchConfig {
    let max_active = if rng.below(2) == 0 { 2 + rng.below(6) as u32 } else { 10_000 };
    let capacity = |rng: &mut Rng| if rng.below(3) == 0 { 1 + rng.below(10) } else { u64::MAX };
    SearchConfig {
        beam: [1.0, 3.0, 6.0, 50.0][rng.below(4) as usize],
        lattice_beam: [0.5, 2.0, 7.0, 60.0][rng.below(4) as usize],
        max_active,
        min_active: if rng.below(2) == 0 { 0 } else { rng.below(u64::from(max_active.min(8)) + 1) as u32 },
        beam_delta: 0.5,
        acoustic_scale: [1.0, 0.1, -0.5, 0.0][rng.below(12).saturating_sub(8) as usize],
        link_budget: [1, 20, 100_000][rng.below(3) as usize],
        candidate_capacity: capacity(rng),
        token_capacity: capacity(rng),
        link_capacity: capacity(rng),
        ..SearchConfig::default()
    }
}

pub fn stop_of(error: &Error) -> Stop {
    match *error.root() {
        Error::Scores { frame, column, .. } => Stop::Scores { frame, column },
        Error::NoTokens { frame } => Stop::NoTokens { frame },
        Error::Capacity { frame, .. } => Stop::Capacity { frame },
        ref other => panic!("unexpected error: {other}"),
    }
}

pub fn assert_same_results(channel: &mut Channel, reference: &Reference, case: &str) {
    for use_final in [true, false] {
        let (ours, theirs) = (channel.lattice(use_final).unwrap(), reference.lattice(use_final));
        assert_eq!(ours, theirs, "{case}, use_final {use_final}");
        let bits = |lattice: &koshi::lattice::RawLattice| -> Vec<(u32, u32, u32)> {
            let bias = |arc: usize| lattice.bias.arc(arc).to_bits();
            let of = |arc: usize, w: LatticeWeight| (w.graph.to_bits(), w.acoustic.to_bits(), bias(arc));
            lattice.arcs.iter().enumerate().map(|(at, arc)| of(at, arc.weight)).collect()
        };
        assert_eq!(bits(&ours), bits(&theirs), "{case}: bits");
        assert_eq!(channel.best_path(use_final).unwrap(), reference.best_path(use_final), "{case}: best path");
    }
    assert_eq!(channel.final_relative_cost().unwrap(), reference.final_relative_cost(), "{case}: relative cost");
    let words = reference.words_of_emitting();
    let (path, stable) = channel.partial().unwrap();
    assert_eq!(path, reference.partial(), "{case}: partial");
    let common = match words.first() {
        None => 0,
        Some(first) => (0..=first.len()).rev().find(|&n| words.iter().all(|w| w.starts_with(&first[..n]))).unwrap(),
    };
    assert_eq!(stable, common.min(path.olabels.len()), "{case}: stable words");
}

/// One case: `frames` rows, compared after each `every`-th and at the end.
pub fn run(backend: BackendChoice, case: u64, frames: u64, every: u64) {
    let rng = &mut Rng(case.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let source = random_graph(rng);
    let mut config = random_config(rng);
    if frames > 20 {
        // Long runs are for pruning on the way: let them live.
        config.candidate_capacity = u64::MAX;
    }
    let rows = random_rows(rng, frames);
    let name = format!("case {case}: {source:?} {config:?}");
    let graph = Arc::new(Graph::from_source(&source, Columns::Labels).unwrap());
    let config_all =
        DecoderConfig { search: config, backend, num_lanes: 2, num_threads: 1, ..DecoderConfig::default() };
    let decoder = Decoder::new(graph, config_all).unwrap();
    let mut channel = decoder.new_channel().unwrap();
    let begun = channel.begin();
    let mut reference = match Reference::begin(&source, config) {
        Ok(reference) => reference,
        Err(stop) => {
            assert_eq!(stop_of(&begun.unwrap_err()), stop, "{name}");
            return;
        }
    };
    begun.unwrap();
    assert_same_results(&mut channel, &reference, &name);
    for (frame, row) in rows.chunks(COLUMNS as usize).enumerate() {
        let expected = reference.advance(row);
        let got = channel.push(Rows::new(row, 1, row.len(), row.len()).unwrap());
        assert_eq!(got.as_ref().map_err(stop_of).copied(), expected.as_ref().map_err(|s| *s).copied(), "{name}");
        if (frame as u64).is_multiple_of(every) || got.is_err() {
            assert_same_results(&mut channel, &reference, &format!("frame {frame} of {name}"));
        }
        if got.is_err() {
            break;
        }
    }
    assert_same_results(&mut channel, &reference, &name);
}

/// One case whose rows come in one push, or two: launches of many frames.
pub fn run_whole(backend: BackendChoice, case: u64, frames: u64) {
    let rng = &mut Rng(case.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let source = random_graph(rng);
    let config = SearchConfig { candidate_capacity: u64::MAX, ..random_config(rng) };
    let rows = random_rows(rng, frames);
    let name = format!("case {case}: {source:?} {config:?}");
    let graph = Arc::new(Graph::from_source(&source, Columns::Labels).unwrap());
    let config_all =
        DecoderConfig { search: config, backend, num_lanes: 1, num_threads: 1, ..DecoderConfig::default() };
    let decoder = Decoder::new(graph, config_all).unwrap();
    let mut channel = decoder.new_channel().unwrap();
    let Ok(mut reference) = Reference::begin(&source, config) else { return };
    channel.begin().unwrap();
    let all = Rows::dense(&rows, COLUMNS as usize).unwrap();
    let first = rng.below(frames + 1) as usize;
    let expected = rows.chunks(COLUMNS as usize).try_for_each(|row| reference.advance(row));
    let got = channel.push(all.slice(0, first)).and_then(|()| channel.push(all.slice(first, usize::MAX)));
    assert_eq!(got.as_ref().map_err(stop_of).copied(), expected, "{name}");
    assert_same_results(&mut channel, &reference, &name);
}
