//! Once a channel has seen an utterance, decoding it again takes no memory from the allocator.

mod common;
#[path = "support/noting.rs"]
mod noting;

use std::sync::{Arc, Mutex};

use common::aloud::aloud;
use common::graph::Rng;
use koshi::decoder::{BackendChoice, Channel, Decodable, Decoder, DecoderConfig, Listener, SharedChannel, Source};
use koshi::graph::{Columns, Graph};
use koshi::search::{Phrase, Rows, SearchConfig, SearchStats};

#[test]
fn the_second_pass_takes_no_memory() {
    let (stats, taken) = passes(BackendChoice::Cpu, &[], 400, 2);
    assert!(stats.trace_links > 1_000, "the trace was pruned on the way: {stats:?}");
    assert!((20 * stats.trace_links..stats.memory).contains(&stats.trace_bytes), "{stats:?}");
    assert!(stats.max_active_held > 0 && stats.links > 100_000, "the search had work to do: {stats:?}");
    assert!(taken[0] > 10, "the counter counts: {taken:?}");
    assert_eq!(taken[1], 0, "{taken:?}");
}

#[test]
fn nor_does_it_with_phrases() {
    let list = [(&[1, 2][..], 2.0), (&[2, 3, 4], 3.0), (&[4], -1.0)];
    let list = list.map(|(labels, bonus)| Phrase { labels, bonus });
    let (stats, taken) = passes(BackendChoice::Cpu, &list, 400, 2);
    assert!(stats.trace_links > 1_000 && stats.links > 100_000, "the search had work to do: {stats:?}");
    assert!(taken[0] > 10, "the counter counts: {taken:?}");
    assert_eq!(taken[1], 0, "{taken:?}");
}

#[test]
fn nor_does_it_on_the_gpu() {
    common::gpu();
    let (stats, taken) = passes(BackendChoice::Cuda, &[], 130, 6);
    assert!(stats.trace_links > 300 && stats.links > 30_000, "the search had work to do: {stats:?}");
    assert!(taken[0] > 10, "the counter counts: {taken:?}");
    // The two windows change places at each pruning, and grow to what either needs.
    assert_eq!(taken.last(), Some(&0), "{taken:?}");
}

/// What a channel takes of the allocator each time that it decodes an utterance.
fn passes(backend: BackendChoice, phrases: &[Phrase<'_>], frames: usize, count: usize) -> (SearchStats, Vec<u64>) {
    let (mut channel, rows, dim) = channel(backend);
    channel.set_bias(phrases).unwrap();
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

/// A channel, and rows of `dim` columns that give it work.
fn channel(backend: BackendChoice) -> (Channel, Vec<f32>, usize) {
    let (graph, rows, dim) = Rng(5).busy();
    let graph = Arc::new(Graph::from_source(&graph, Columns::Labels).unwrap());
    let search = SearchConfig { beam: 9.0, lattice_beam: 6.0, max_active: 800, ..SearchConfig::default() };
    let config = DecoderConfig { search, num_threads: 1, num_lanes: 1, backend, ..DecoderConfig::default() };
    (Decoder::new(graph, config).unwrap().new_channel().unwrap(), rows, dim)
}

/// Notes what the threads that tell and that search have taken of the allocator by the end of each utterance.
struct AtEnds {
    telling: Mutex<Vec<u64>>,
    searching: Mutex<Vec<u64>>,
}

/// A source without rows: asked at the end, by the thread that searches.
impl Source for AtEnds {
    fn with(&self, _: &mut dyn FnMut(&mut dyn Decodable) -> koshi::Result<()>) -> koshi::Result<()> {
        self.searching.lock().unwrap().push(noting::count());
        Ok(())
    }
}

impl Listener for AtEnds {
    fn wants_partial(&self) -> bool {
        false
    }
    fn partial(&self) {}
    fn endpoint(&self) {}
    fn finished(&self) {
        self.telling.lock().unwrap().push(noting::count());
    }
    fn failed(&self, error: &koshi::Error) {
        aloud(|| panic!("{error}"));
    }
}

/// Queued rows: neither the thread that submits nor those that search and tell take memory once an utterance like
/// this one has passed.
fn queued(backend: BackendChoice, frames: usize, count: usize) {
    let (channel, rows, dim) = channel(backend);
    let line = SharedChannel::new(channel).unwrap();
    let list = || Mutex::new(Vec::with_capacity(2 * count));
    let ends = Arc::new(AtEnds { telling: list(), searching: list() });
    line.set_listener(Some(Arc::clone(&ends) as Arc<dyn Listener>)).unwrap();
    let rows = Rows::dense(&rows, dim).unwrap();
    let mut submits = Vec::new();
    for _ in 0..count {
        line.begin().unwrap();
        for at in (0..frames).step_by(10) {
            let before = noting::count();
            line.submit(rows.slice(at, 10)).unwrap();
            submits.push(noting::count() - before);
            line.wait(None).unwrap();
        }
        line.submit_from(Arc::clone(&ends) as Arc<dyn Source>).unwrap();
        line.wait(None).unwrap();
        line.finish().unwrap();
        line.wait(None).unwrap();
    }
    let last = &submits[submits.len() - frames / 10..];
    assert!(last[0] > 0 && last[4..].iter().all(|taken| *taken == 0), "{submits:?}");
    let [telling, searching] = [&ends.telling, &ends.searching].map(|list| list.lock().unwrap().clone());
    assert_eq!((telling.len(), searching.len()), (count, 2 * count), "asked at the submit and at the end");
    assert!(searching[0] > 10 && searching[2 * count - 1] == searching[2 * count - 4], "{searching:?}");
    assert_eq!(telling[count - 1], telling[count - 2], "{telling:?}");
}

#[test]
fn queued_rows_take_no_memory() {
    queued(BackendChoice::Cpu, 400, 4);
}

#[test]
fn nor_do_they_on_the_gpu() {
    common::gpu();
    queued(BackendChoice::Cuda, 130, 7);
}
