//! Once a channel has seen an utterance, decoding it again takes no memory from the allocator.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use common::graph::Rng;
use koshi::decoder::{BackendChoice, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::search::{Rows, SearchConfig, SearchStats};

/// Counts what this thread asks for.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is handed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
        let before = COUNT.with(Cell::get);
        channel.push(rows).unwrap();
        taken.push(COUNT.with(Cell::get) - before);
    }
    (channel.stats().unwrap(), taken)
}
