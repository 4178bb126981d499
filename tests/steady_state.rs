//! Once a channel has seen an utterance, decoding it again takes no memory from the allocator.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use common::graph::Rng;
use koshi::decoder::{Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::search::{Rows, SearchConfig};

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
    let rng = &mut Rng(5);
    let (graph, rows, dim) = rng.busy();
    let graph = Arc::new(Graph::from_source(&graph, Columns::Labels).unwrap());
    let search = SearchConfig { beam: 9.0, lattice_beam: 6.0, max_active: 800, ..SearchConfig::default() };
    let config = DecoderConfig { search, num_threads: 1, ..DecoderConfig::default() };
    let decoder = Decoder::new(graph, config).unwrap();
    let mut channel = decoder.new_channel().unwrap();
    let rows = Rows::dense(&rows, dim).unwrap();
    let mut taken = Vec::new();
    for _ in 0..2 {
        channel.begin().unwrap();
        let before = COUNT.with(Cell::get);
        channel.push(rows).unwrap();
        taken.push(COUNT.with(Cell::get) - before);
    }
    let stats = channel.stats().unwrap();
    assert!(stats.trace_links > 1_000, "the trace was pruned on the way: {stats:?}");
    assert!(stats.max_active_held > 0 && stats.links > 100_000, "the search had work to do: {stats:?}");
    assert!(taken[0] > 10, "the counter counts: {taken:?}");
    assert_eq!(taken[1], 0, "{taken:?}");
}
