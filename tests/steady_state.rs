//! Once a channel has seen an utterance, decoding it again takes no memory from the allocator.

mod common;
#[path = "support/noting.rs"]
mod noting;

use std::sync::Arc;

use common::graph::Rng;
use koshi::decoder::{BackendChoice, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::search::{Rows, SearchConfig, SearchStats};

#[test]
fn the_second_pass_takes_no_memory() {
    let (stats, taken) = passes(BackendChoice::Cpu, 400, 2);
    assert!(stats.trace_links > 1_000, "the trace was pruned on the way: {stats:?}");
    assert!(stats.max_active_held > 0 && stats.links > 100_000, "the search had work to do: {stats:?}");
    assert!(taken[0] > 10, "the counter counts: {taken:?}");
    assert_eq!(taken[1], 0, "{taken:?}");
}

#[test]
fn nor_does_it_on_the_gpu() {
    common::gpu();
    let (stats, taken) = passes(BackendChoice::Cuda, 130, 6);
    assert!(stats.trace_links > 300 && stats.links > 30_000, "the search had work to do: {stats:?}");
    assert!(taken[0] > 10, "the counter counts: {taken:?}");
    // The two windows change places at each pruning, and grow to what either needs.
    assert_eq!(taken.last(), Some(&0), "{taken:?}");
}

/// What a channel takes of the allocator each time that it decodes an utterance.
fn passes(backend: BackendChoice, frames: usize, count: usize) -> (SearchStats, Vec<u64>) {
    let rng = &mut Rng(5);
    let (graph, rows, dim) = rng.busy();
    let graph = Arc::new(Graph::from_source(&graph, Columns::Labels).unwrap());
    let search = SearchConfig { beam: 9.0, lattice_beam: 6.0, max_active: 800, ..SearchConfig::default() };
    let config = DecoderConfig { search, num_threads: 1, num_lanes: 1, backend, ..DecoderConfig::default() };
    let decoder = Decoder::new(graph, config).unwrap();
    let mut channel = decoder.new_channel().unwrap();
    let rows = Rows::dense(&rows, dim).unwrap().slice(0, frames);
    let mut taken = Vec::new();
    for _ in 0..count {
        channel.begin().unwrap();
        let before = noting::count();
        channel.push(rows).unwrap();
        taken.push(noting::count() - before);
    }
    (channel.stats().unwrap(), taken)
}
