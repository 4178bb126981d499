//! Limits that a caller sets: a status each time, what came before is kept, `begin` starts afresh.

mod common;

use std::sync::Arc;

use common::graph::Rng;
use koshi::Error;
use koshi::decoder::{BackendChoice, Decodable, Decoder, DecoderConfig, SharedChannel, Source};
use koshi::graph::{Columns, Graph};
use koshi::search::{Rows, SearchConfig};

fn graph_and_rows(rng: &mut Rng) -> (Arc<Graph>, Vec<f32>, usize) {
    let (graph, rows, dim) = rng.busy();
    let graph = Arc::new(Graph::from_source(&graph, Columns::Labels).unwrap());
    (graph, rows, dim)
}

#[test]
fn the_memory_limit_holds_until_the_next_begin() {
    let (graph, rows, dim) = graph_and_rows(&mut Rng(5));
    let limit = 2_000_000;
    let search = SearchConfig { beam: 9.0, lattice_beam: 6.0, memory_limit: limit, ..SearchConfig::default() };
    let decoder = Decoder::new(graph, DecoderConfig { search, num_threads: 1, ..DecoderConfig::default() }).unwrap();
    let mut channel = decoder.new_channel().unwrap();
    let all = Rows::dense(&rows, dim).unwrap();
    let mut frames = Vec::new();
    for _ in 0..2 {
        channel.begin().unwrap();
        for _ in 0..3 {
            assert!(matches!(channel.push(all).unwrap_err(), Error::Limit(_)));
            frames.push(channel.num_frames());
        }
        assert!(channel.stats().unwrap().memory < 2 * limit, "{:?}", channel.stats());
        assert_eq!(channel.lattice(true).unwrap().num_frames as u64, channel.num_frames());
    }
    assert!(frames[0] > 5, "{frames:?}");
    assert!(frames[..3].iter().all(|n| *n == frames[0]), "{frames:?}");
    assert!(frames[3] > 5, "begin gives the memory back: {frames:?}");
}

#[test]
fn max_frames_is_exact() {
    let (graph, rows, dim) = graph_and_rows(&mut Rng(6));
    let search = SearchConfig { max_frames: 7, ..SearchConfig::default() };
    let decoder = Decoder::new(graph, DecoderConfig { search, num_threads: 1, ..DecoderConfig::default() }).unwrap();
    let mut channel = decoder.new_channel().unwrap();
    for _ in 0..2 {
        channel.begin().unwrap();
        channel.push(Rows::dense(&rows[..7 * dim], dim).unwrap()).unwrap();
        assert!(matches!(channel.push(Rows::dense(&rows[..dim], dim).unwrap()), Err(Error::Limit(_))));
        assert_eq!(channel.num_frames(), 7);
        assert_eq!(channel.best_path(true).unwrap().ilabels.len(), 7);
    }
}

#[test]
fn looking_does_not_use_up_the_memory_limit() {
    let (graph, rows, dim) = graph_and_rows(&mut Rng(7));
    let all = Rows::dense(&rows, dim).unwrap();
    let reached = |memory_limit: u64, looks: bool| {
        let search = SearchConfig { beam: 9.0, lattice_beam: 6.0, memory_limit, ..SearchConfig::default() };
        let config = DecoderConfig { search, num_threads: 1, ..DecoderConfig::default() };
        let mut channel = Decoder::new(Arc::clone(&graph), config).unwrap().new_channel().unwrap();
        channel.begin().unwrap();
        for frame in 0..all.frames() {
            if channel.push(all.slice(frame, 1)).is_err() {
                break;
            }
            if looks && frame % 7 == 0 {
                channel.lattice(true).unwrap();
                channel.best_path(true).unwrap();
                channel.partial().unwrap();
            }
        }
        channel.num_frames()
    };
    for memory_limit in [500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000] {
        assert_eq!(reached(memory_limit, true), reached(memory_limit, false), "{memory_limit}");
    }
}

/// A decodable that says to have `columns` columns, and fills those that it is asked for, or whole rows.
struct Wide {
    columns: usize,
    whole: bool,
}

impl Decodable for Wide {
    fn num_columns(&mut self) -> koshi::Result<usize> {
        Ok(self.columns)
    }

    fn num_frames_ready(&mut self) -> koshi::Result<u64> {
        Ok(3)
    }

    fn is_last_frame(&mut self, frame: u64) -> koshi::Result<bool> {
        Ok(frame == 2)
    }

    fn fills_whole_rows(&self) -> bool {
        self.whole
    }

    fn fill_row(&mut self, _: u64, _: &dyn Fn(&mut [bool]), row: &mut [f32]) -> koshi::Result<()> {
        row.fill(-1.0);
        Ok(())
    }
}

impl Source for Wide {
    fn with(&self, body: &mut dyn FnMut(&mut dyn Decodable) -> koshi::Result<()>) -> koshi::Result<()> {
        body(&mut Wide { ..*self })
    }
}

/// Whatever a decodable says of its width: no row is longer than the limit, nor are all rows of a pull together.
#[test]
fn a_decodable_is_not_believed_any_width() {
    let (graph, _, dim) = graph_and_rows(&mut Rng(8));
    let config = DecoderConfig { num_threads: 1, backend: BackendChoice::Cpu, ..DecoderConfig::default() };
    let decoder = Decoder::new(graph, config).unwrap();
    let mut pushed = decoder.new_channel().unwrap();
    pushed.begin().unwrap();
    pushed.push(Rows::dense(&vec![-1.0; 3 * dim], dim).unwrap()).unwrap();
    let wanted = pushed.lattice(true).unwrap();
    let line = SharedChannel::new(decoder.new_channel().unwrap()).unwrap();
    const MOST: usize = 1 << 24;
    let cases = [(dim, true), (dim, false), (MOST, true), (MOST + 1, true), (MOST + 1, false)];
    for (columns, whole) in cases.into_iter().chain([true, false].map(|whole| (i32::MAX as usize, whole))) {
        let refused = columns > MOST;
        line.begin().unwrap();
        let advanced = line.write_unqueued().unwrap().advance(&mut Wide { columns, whole }, None);
        line.begin().unwrap();
        line.submit_from(Arc::new(Wide { columns, whole })).unwrap();
        let waited = line.wait(None);
        if refused {
            assert!(matches!(advanced, Err(Error::Limit(_))) && matches!(waited, Err(Error::Limit(_))), "{columns}");
        } else {
            assert_eq!((advanced.unwrap(), waited.unwrap()), (3, true), "{columns}");
            assert!(line.write().unwrap().lattice(true).unwrap() == wanted, "{columns}");
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    // A row of all columns, one in the queue, and its costs.
    assert!(peak < 600 << 10, "{peak} kB");
}

#[test]
fn options_out_of_range_are_named() {
    let (graph, ..) = graph_and_rows(&mut Rng(7));
    let refused = |config: DecoderConfig, name: &str| {
        let error = Decoder::new(Arc::clone(&graph), config).unwrap_err();
        assert!(matches!(error, Error::Config(_)) && error.to_string().starts_with(name), "{error}");
    };
    for num_threads in [0, DecoderConfig::MOST_THREADS + 1, u32::MAX] {
        refused(DecoderConfig { num_threads, ..DecoderConfig::default() }, "num_threads");
    }
    for num_lanes in [0, DecoderConfig::MOST_LANES + 1, u32::MAX] {
        refused(DecoderConfig { num_lanes, ..DecoderConfig::default() }, "num_lanes");
    }
    for frame_shift in [0.0, -0.01, f64::NAN, f64::INFINITY] {
        refused(DecoderConfig { frame_shift, ..DecoderConfig::default() }, "frame_shift");
    }
    refused(DecoderConfig { max_channels: 0, ..DecoderConfig::default() }, "max_channels");
    refused(DecoderConfig { queue_frames: 0, ..DecoderConfig::default() }, "queue_frames");
    refused(DecoderConfig { chunk_frames: 0, ..DecoderConfig::default() }, "chunk_frames");
    for max_batch_wait in [-0.001, 10.5, f64::NAN, f64::INFINITY] {
        refused(DecoderConfig { max_batch_wait, ..DecoderConfig::default() }, "max_batch_wait");
    }
}
