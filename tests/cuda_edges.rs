//! GPU lanes held to the CPU lanes, bit for bit, at the edges of what options, graphs and rows may be, in batches of more
//! channels than lanes and any chunks; and commits where closures are searched on the host.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::graph::{Rng, arc, source};
use face::{Face, Fault, Matrix, Results, Rust, Status, results};
use koshi::cpu::CpuLanes;
use koshi::cuda::{CudaChannel, CudaLanes};
use koshi::decoder::{BackendChoice, Channel, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph, VecSource};
use koshi::lattice::RawLattice;
use koshi::search::{
    CommitConfig, CommittedLattice, Holds, LaneChannel, LaneWork, Lanes, Rows, SearchConfig, SearchStats, TimeSearch,
};

const COLUMNS: u64 = 5;

fn of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.below(all.len() as u64) as usize]
}

/// Up to 40 states, with ties, parallel arcs, epsilon weights below 0, and now and then weights near the ends of the range.
fn graph_at_random(rng: &mut Rng) -> VecSource {
    let count = of(rng, &[1, 2, 5, 40]);
    let wild = rng.below(4) == 0;
    let weights: &[f32] = if wild { &[0.0, 1e30, -1e30, 3e38, -3e38, 1.0] } else { &[0.0, -2.0, 1.0, 0.25, 3.0] };
    let mut rank: Vec<u32> = (0..count as u32).collect();
    rng.shuffle(&mut rank);
    let states = (0..count as usize).map(|state| {
        let cost = if rng.below(3) == 0 { of(rng, weights) } else { f32::INFINITY };
        let arcs = (0..rng.below(12)).map(|_| {
            let next = rng.below(count) as u32;
            let epsilon = rank[next as usize] > rank[state] && rng.below(2) == 0;
            let ilabel = if epsilon { 0 } else { 1 + rng.below(COLUMNS) as i32 };
            arc(ilabel, rng.below(3) as i32, of(rng, weights), next)
        });
        (cost, arcs.collect())
    });
    let states = states.collect();
    source(Some(rng.below(count) as u32), states)
}

fn rows_at_random(rng: &mut Rng, frames: usize, dim: usize) -> Vec<f32> {
    let wild = rng.below(4) == 0;
    let none = rng.below(6) == 0;
    let value = |rng: &mut Rng| match rng.below(10) {
        0 if none => f32::NEG_INFINITY,
        1 if wild => of(rng, &[3e38, -3e38, 1e30, f32::MIN_POSITIVE, 1e-45]),
        2 if wild && rng.below(20) == 0 => f32::NAN,
        _ => rng.below(16) as f32 * 0.5 - 6.0,
    };
    let mut rows: Vec<f32> = (0..frames * dim).map(|_| value(rng)).collect();
    if rng.below(10) == 0 && frames > 0 {
        let at = rng.below(frames as u64) as usize;
        rows[at * dim..(at + 1) * dim].fill(f32::NEG_INFINITY);
    }
    rows
}

fn search_at_random(rng: &mut Rng) -> SearchConfig {
    let max_active = of(rng, &[2, 3, 5, 10_000, u32::MAX]);
    let capacity = |rng: &mut Rng| if rng.below(4) == 0 { 1 + rng.below(30) } else { u64::MAX };
    SearchConfig {
        beam: of(rng, &[1e-3, 1.0, 6.0, 50.0, 1e30, f32::MAX]),
        lattice_beam: of(rng, &[1e-3, 1.0, 6.0, 50.0, 1e30, f32::MAX]),
        max_active,
        min_active: of(rng, &[0, 1, 4, max_active]).min(max_active),
        beam_delta: of(rng, &[f32::MIN_POSITIVE, 0.5, 1e30, f32::MAX]),
        acoustic_scale: of(rng, &[1.0, 1.0, 0.1, -0.5, 0.0, 1e30]),
        link_budget: of(rng, &[1, 100, 80_000]),
        candidate_capacity: capacity(rng),
        token_capacity: capacity(rng),
        link_capacity: capacity(rng),
        max_frames: if rng.below(6) == 0 { 1 + rng.below(80) } else { u64::MAX },
        ..SearchConfig::default()
    }
}

/// Stats without what depends on the clock or on how memory is laid out.
fn counts(channel: &Channel) -> SearchStats {
    SearchStats {
        trace_links: 0,
        trace_bytes: 0,
        memory: 0,
        seconds: 0.0,
        links_followed: 0,
        ..channel.stats().unwrap()
    }
}

type Found = (Option<Fault>, Results, SearchStats);

fn on_cpu(graph: &Arc<Graph>, search: SearchConfig, rows: Matrix) -> Result<Found, Fault> {
    let config = DecoderConfig { search, backend: BackendChoice::Cpu, num_threads: 1, ..DecoderConfig::default() };
    let decoder = Rust::decoder(graph, &config)?;
    let mut channel = Rust::channel(&decoder)?;
    Rust::begin(&mut channel)?;
    let fault = Rust::push(&mut channel, rows).err();
    Ok((fault, results::<Rust>(&mut channel), counts(&channel)))
}

/// Three utterances on two lanes, in batches of any order and chunks of any size, 0 included.
fn on_gpu(graph: &Arc<Graph>, search: SearchConfig, all: &[Matrix], rng: &mut Rng) -> Result<Vec<Found>, Fault> {
    let config = DecoderConfig {
        search,
        backend: BackendChoice::Cuda,
        num_lanes: 2,
        num_threads: 1,
        ..DecoderConfig::default()
    };
    let decoder = Rust::decoder(graph, &config)?;
    let mut channels = Vec::new();
    for _ in all {
        let mut channel = Rust::channel(&decoder)?;
        Rust::begin(&mut channel)?;
        channels.push((channel, 0, None::<Fault>));
    }
    while channels.iter().zip(all).any(|((_, done, fault), rows)| fault.is_none() && *done < rows.frames) {
        let mut items = Vec::new();
        for (at, (channel, done, fault)) in channels.iter_mut().enumerate() {
            if fault.is_none() && rng.below(5) > 0 {
                let end = all[at].frames.min(*done + of(rng, &[0, 1, 3, 64, 65, 200]));
                items.push((at, channel, all[at].part(*done, end)));
                *done = end;
            }
        }
        rng.shuffle(&mut items);
        let order: Vec<usize> = items.iter().map(|(at, ..)| *at).collect();
        let mut batch: Vec<_> = items.into_iter().map(|(_, channel, rows)| (channel, rows)).collect();
        let outcome = Rust::batch(&decoder, &mut batch);
        for (at, outcome) in order.into_iter().zip(outcome) {
            channels[at].2 = outcome.err().map(|status| Fault { status, message: String::new() });
        }
    }
    Ok(channels
        .into_iter()
        .map(|(mut channel, _, fault)| (fault, results::<Rust>(&mut channel), counts(&channel)))
        .collect())
}

#[test]
fn whatever_options_graphs_and_rows_may_be() {
    common::gpu();
    let (mut failed, mut lived, mut refused) = (0u64, 0, 0);
    let cases = std::env::var("KOSHI_TEST_CASES").map_or(30u64, |count| count.parse().unwrap());
    // Case 279 has tokens whose cost above the least is infinite, and that emit.
    for case in 260..260 + cases {
        let rng = &mut Rng(case.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let source = graph_at_random(rng);
        let search = search_at_random(rng);
        let dim = COLUMNS as usize + of(rng, &[0, 0, 1, 300]);
        let data: Vec<Vec<f32>> = (0..3)
            .map(|_| {
                let frames = of(rng, &[0, 1, 9, 70, 150]);
                rows_at_random(rng, frames, dim)
            })
            .collect();
        let rows: Vec<Matrix> = data.iter().map(|rows| Matrix::dense(rows, dim)).collect();
        let Ok(graph) = Graph::from_source(&source, Columns::Labels) else {
            refused += 1;
            continue;
        };
        let graph = Arc::new(graph);
        let expected: Result<Vec<Found>, Fault> = rows.iter().map(|rows| on_cpu(&graph, search, *rows)).collect();
        let found = on_gpu(&graph, search, &rows, rng);
        let name = format!("case {case}: {source:?} {search:?} {dim} columns");
        match (expected, found) {
            (Err(expected), Err(found)) => assert_eq!(expected, found, "{name}"),
            (Ok(expected), Ok(found)) => {
                for (expected, found) in expected.iter().zip(&found) {
                    let status = |found: &Found| found.0.as_ref().map(|fault| fault.status);
                    assert_eq!(status(expected), status(found), "{name}: {:?}", expected.0);
                    assert_eq!(expected.2, found.2, "{name}");
                    assert_eq!(expected.1, found.1, "{name}");
                    if found.0.is_some() { failed += 1 } else { lived += 1 }
                }
            }
            (expected, found) => panic!("{name}: {:?} and {:?}", expected.err(), found.err()),
        }
    }
    assert!(failed > 0 && lived > cases / 4 && refused < cases, "{failed} {lived} {refused}");
}

/// Two equal halves behind one start, whose paths keep apart for ever. In each, column 0 stays at a hub's foot and column 1
/// leads to the hub, from which epsilon arcs lead to more leaves than a lane's working memory has room for; a few
/// leaves lead back.
fn halves_with_hubs(leaves: u32) -> VecSource {
    let size = 2 + leaves;
    let mut states = vec![(0.0, vec![arc(0, 0, 0.0, 1), arc(0, 0, 0.0, 1 + size)])];
    for half in 0..2 {
        let (foot, word) = (1 + half * size, 10 * half as i32);
        states.push((
            0.0,
            vec![arc(1, word + 1, 0.5, foot), arc(1, word + 2, 0.75, foot), arc(2, word + 3, 0.0, foot + 1)],
        ));
        let leaf = |at: u32| arc(0, 0, (at * 7919 % 4001) as f32 / 1000.0, foot + 2 + at);
        states.push((f32::INFINITY, (0..leaves).map(leaf).collect()));
        let back = |at: u32| {
            if at.is_multiple_of(3) { vec![arc(1, word + 4, 0.25, foot), arc(2, word + 5, 0.5, foot)] } else { vec![] }
        };
        states.extend((0..leaves).map(|at| (0.5, back(at))));
    }
    source(Some(0), states)
}

/// What a channel that commits gives.
#[derive(Debug, PartialEq)]
struct Committed {
    pieces: Vec<CommittedLattice>,
    rest: [RawLattice; 2],
    results: Vec<(usize, usize)>,
    stats: SearchStats,
}

fn committed(decoder: &Arc<Decoder>, frames: u64, rows: Matrix, chunks: &[usize]) -> Committed {
    let mut channel = Rust::channel(decoder).unwrap();
    channel.set_commit(Some(CommitConfig { frames, lattice_frames: u64::MAX })).unwrap();
    Rust::begin(&mut channel).unwrap();
    let (mut done, mut partials) = (0, Vec::new());
    for chunk in chunks.iter().cycle() {
        let end = rows.frames.min(done + chunk);
        Rust::push(&mut channel, rows.part(done, end)).unwrap();
        done = end;
        if done == rows.frames {
            break;
        }
    }
    let (path, stable) = channel.partial().unwrap();
    partials.push((path.olabels.len(), stable));
    let rest = [true, false].map(|use_final| channel.lattice(use_final).unwrap());
    let pieces = std::iter::from_fn(|| channel.take_committed().unwrap()).collect();
    Committed { pieces, rest, results: partials, stats: counts(&channel) }
}

#[test]
fn commits_where_closures_are_searched_on_the_host() {
    common::gpu();
    let graph = Arc::new(Graph::from_source(&halves_with_hubs(8_300), Columns::Labels).unwrap());
    let frames = 300;
    // The hubs every 23 frames, and once more where a launch and a commit end.
    let hub = |frame: usize| frame % 23 == 22 || frame == 64 || frame == 255;
    let rows: Vec<f32> = (0..frames).flat_map(|frame| if hub(frame) { [-30.0, 0.0] } else { [-0.5, -30.0] }).collect();
    let rows = Matrix::dense(&rows, 2);
    for (tokens, links) in [(40, 4_000), (9_000, 300)] {
        let search = SearchConfig {
            beam: 6.0,
            lattice_beam: 3.0,
            candidate_capacity: 3_000,
            token_capacity: tokens,
            link_capacity: links,
            ..SearchConfig::default()
        };
        let config =
            |backend| DecoderConfig { search, backend, num_lanes: 1, num_threads: 1, ..DecoderConfig::default() };
        let cpu = Rust::decoder(&graph, &config(BackendChoice::Cpu)).unwrap();
        let gpu = Rust::decoder(&graph, &config(BackendChoice::Cuda)).unwrap();
        let expected = committed(&cpu, 256, rows, &[1]);
        assert!(expected.stats.capacity_held > 5 && expected.stats.committed_frames > 0, "{:?}", expected.stats);
        assert!(expected.stats.forced_commits > 0, "{:?}", expected.stats);
        let before = gpu.stage_seconds().unwrap().on_host;
        for chunks in [&[frames][..], &[1, 70, 3, 0, 40]] {
            let found = committed(&gpu, 256, rows, chunks);
            assert!(found == expected, "{tokens} {links} {chunks:?}: {:?}, not {:?}", found.stats, expected.stats);
        }
        let on_host = gpu.stage_seconds().unwrap().on_host - before;
        assert!(on_host > 20, "{on_host} times were searched on the host");
    }
}

/// A channel that a call for it is cancelled from the `left`-th time on that the lanes turn to it.
struct Cancelled<'a> {
    channel: CudaChannel,
    left: usize,
    flag: &'a AtomicBool,
}

impl Holds<CudaChannel> for Cancelled<'_> {
    fn held(&mut self) -> Option<&mut CudaChannel> {
        self.left = self.left.saturating_sub(1);
        self.flag.store(self.left == 0, Ordering::Relaxed);
        Some(&mut self.channel)
    }
}

fn busy() -> (Arc<Graph>, Vec<f32>, usize) {
    let (source, rows, dim) = Rng(5).busy();
    (Arc::new(Graph::from_source(&source, Columns::Labels).unwrap()), rows, dim)
}

fn narrow() -> SearchConfig {
    SearchConfig { beam: 6.0, lattice_beam: 4.0, max_active: 30, min_active: 5, ..SearchConfig::default() }
}

/// Whenever it comes, what was searched before stands, and the mates of the batch do not notice.
#[test]
fn a_cancel_between_two_launches() {
    common::gpu();
    let (graph, rows, dim) = busy();
    let whole = Matrix::dense(&rows[..130 * dim], dim);
    let expected = [0, 64, 128, 130].map(|frames| {
        let config = DecoderConfig { search: narrow(), backend: BackendChoice::Cpu, ..DecoderConfig::default() };
        let mut channel = Rust::channel(&Rust::decoder(&graph, &config).unwrap()).unwrap();
        Rust::begin(&mut channel).unwrap();
        Rust::push(&mut channel, whole.part(0, frames)).unwrap();
        channel.lattice(true).unwrap()
    });
    let host = |search| Ok(Box::new(CpuLanes::new(Arc::clone(&graph), search, 1, 1)?) as Box<dyn TimeSearch>);
    let lanes = CudaLanes::new(Arc::clone(&graph), narrow(), 0, 2, 1, host).unwrap();
    let mut seen = [0; 4];
    for left in 1..12 {
        let (flag, other) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut channels = [(); 2].map(|()| lanes.new_channel().unwrap());
        channels.iter_mut().for_each(|channel| channel.begin(None, None).unwrap());
        let [one, two] = channels;
        let mut holders =
            [Cancelled { channel: one, left, flag: &flag }, Cancelled { channel: two, left: usize::MAX, flag: &other }];
        let [one, two] = &mut holders;
        let rows = Rows::dense(whole.data, dim).unwrap();
        let mut work = [LaneWork::new(one, rows, &flag), LaneWork::new(two, rows, &other)];
        lanes.advance(&mut work);
        let [one, two] = work.map(|work| work.result);
        two.unwrap();
        assert!(holders[1].channel.lattice(true).unwrap() == expected[3]);
        let frames = holders[0].channel.num_frames();
        assert_eq!(one.is_err(), frames < 130, "{one:?}");
        assert!(one.is_ok() || matches!(one, Err(koshi::Error::Cancelled)), "{one:?}");
        let at = [0, 64, 128, 130].iter().position(|&done| done == frames).unwrap();
        assert!(holders[0].channel.lattice(true).unwrap() == expected[at]);
        seen[at] += 1;
    }
    assert!(seen.iter().all(|&times| times > 0), "{seen:?}");
}

/// A channel that outgrows its memory in the middle of a batch says so and keeps what it has; its mates go on, and its next
/// utterance is like any other.
#[test]
fn a_memory_limit_in_the_middle_of_a_batch() {
    common::gpu();
    let (graph, rows, dim) = busy();
    let long = Matrix::dense(&rows[..200 * dim], dim);
    let cpu = |frames| {
        let config = DecoderConfig { search: narrow(), backend: BackendChoice::Cpu, ..DecoderConfig::default() };
        let mut channel = Rust::channel(&Rust::decoder(&graph, &config).unwrap()).unwrap();
        Rust::begin(&mut channel).unwrap();
        Rust::push(&mut channel, long.part(0, frames)).unwrap();
        results::<Rust>(&mut channel)
    };
    let short = cpu(20);
    let mut stopped = Vec::new();
    for memory_limit in [1, 20_000, 35_000, 50_000, 100_000_000] {
        let search = SearchConfig { memory_limit, ..narrow() };
        let config = DecoderConfig {
            search,
            backend: BackendChoice::Cuda,
            num_lanes: 2,
            num_threads: 2,
            ..DecoderConfig::default()
        };
        let decoder = Rust::decoder(&graph, &config).unwrap();
        let mut channels: Vec<Channel> = (0..3).map(|_| Rust::channel(&decoder).unwrap()).collect();
        channels.iter_mut().for_each(|channel| Rust::begin(channel).unwrap());
        let mut batch: Vec<_> = channels.iter_mut().zip([long.part(0, 20), long, long.part(0, 20)]).collect();
        let outcome = Rust::batch(&decoder, &mut batch);
        let frames = Rust::num_frames(&channels[1]);
        assert_eq!(outcome[1], if frames < 200 { Err(Status::KOSHI_E_LIMIT) } else { Ok(()) });
        assert!(results::<Rust>(&mut channels[1]) == cpu(frames as usize), "{memory_limit}: {frames} frames");
        stopped.push(frames);
        if memory_limit > 1 {
            assert_eq!([outcome[0], outcome[2]], [Ok(()); 2], "{memory_limit}");
            assert!(results::<Rust>(&mut channels[0]) == short && results::<Rust>(&mut channels[2]) == short);
            Rust::begin(&mut channels[1]).unwrap();
            Rust::push(&mut channels[1], long.part(0, 20)).unwrap();
            assert!(results::<Rust>(&mut channels[1]) == short);
        }
    }
    assert!(
        stopped[0] == 0 && stopped[4] == 200 && stopped.iter().any(|frames| (1..200).contains(frames)),
        "{stopped:?}"
    );
}
