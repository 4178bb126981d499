//! Phrases on GPU lanes, on the software CUDA device: searched there and not on the host, held to the CPU lanes bit for bit
//! beside channels without phrases; capacities, closures that outgrow a lane, schedules, and device memory.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use std::sync::Arc;

use common::biased::{List, phrases, random_list};
use common::graph::{Rng, arc, source};
use common::random_endpoints::Case;
use common::soft;
use cudarc::driver::{CudaContext, DevicePtr};
use face::{Face, Matrix, Results, Rust, Status, results};
use koshi::cuda::{CudaLanes, DeviceRows};
use koshi::decoder::{BackendChoice, Channel, Decoder, DecoderConfig, SegmentEnd};
use koshi::graph::{Columns, Graph, VecSource};
use koshi::lattice::{Path, RawLattice};
use koshi::search::{CommitConfig, CommittedLattice, EndpointAction, Phrase, Phrases, SearchConfig, SearchStats};

fn decoder(graph: &Arc<Graph>, backend: BackendChoice, num_lanes: u32, search: SearchConfig) -> Arc<Decoder> {
    let config = DecoderConfig { search, backend, num_lanes, num_threads: 1, ..DecoderConfig::default() };
    Rust::decoder(graph, &config).unwrap()
}

/// A graph on which a search has much to do, with output labels up to 4.
fn busy() -> (Arc<Graph>, Vec<f32>, usize) {
    let (source, rows, dim) = Rng(5).busy();
    (Arc::new(Graph::from_source(&source, Columns::Labels).unwrap()), rows, dim)
}

fn search() -> SearchConfig {
    SearchConfig { beam: 9.0, lattice_beam: 6.0, max_active: 150, min_active: 20, ..SearchConfig::default() }
}

/// The lists of an utterance, and the frames from which on they hold; none where it begins without.
#[derive(Clone, Debug)]
struct Lists(Vec<(usize, List)>);

impl Lists {
    fn random(rng: &mut Rng, frames: usize) -> Lists {
        let mut lists = Vec::new();
        for frame in 0..frames {
            if rng.below(if frame == 0 { 2 } else { 8 }) == 0 {
                lists.push((frame, if rng.below(4) == 0 { List::new() } else { random_list(rng) }));
            }
        }
        Lists(lists)
    }

    fn begin(&self, channel: &mut Channel) -> Result<(), face::Fault> {
        let first = self.0.first().filter(|(frame, _)| *frame == 0).map(|(_, list)| list);
        channel.set_bias(&phrases(first.unwrap_or(&List::new()))).unwrap();
        Rust::begin(channel)
    }

    /// Sets what holds from `frame` on, and gives how many frames may be searched before the next change.
    fn set(&self, channel: &mut Channel, frame: usize) -> usize {
        for (_, list) in self.0.iter().filter(|(at, _)| *at == frame && frame > 0) {
            channel.set_bias(&phrases(list)).unwrap();
        }
        self.0.iter().map(|(at, _)| *at).filter(|at| *at > frame).min().map_or(usize::MAX, |at| at - frame)
    }
}

#[derive(Debug, PartialEq)]
struct Found {
    failed: Option<Status>,
    results: Results,
    partial: (Vec<i32>, usize),
    stats: SearchStats,
}

fn found(channel: &mut Channel, failed: Option<Status>) -> Found {
    let stats = SearchStats {
        trace_links: 0,
        trace_bytes: 0,
        memory: 0,
        seconds: 0.0,
        links_followed: 0,
        ..channel.stats().unwrap()
    };
    let (path, stable) = channel.partial().unwrap();
    Found { failed, partial: (path.olabels, stable), results: results::<Rust>(channel), stats }
}

/// One utterance in pushes of up to `most` rows.
fn solo(decoder: &Arc<Decoder>, lists: &Lists, rows: Matrix, most: usize) -> Found {
    let mut channel = Rust::channel(decoder).unwrap();
    let mut failed = lists.begin(&mut channel).err();
    let mut done = 0;
    while done < rows.frames && failed.is_none() {
        let take = lists.set(&mut channel, done).min(most).min(rows.frames - done);
        failed = Rust::push(&mut channel, rows.part(done, done + take)).err();
        done += take;
    }
    if let Some(fault) = failed.as_ref().filter(|fault| fault.status == Status::KOSHI_E_DEVICE) {
        panic!("{}", fault.message);
    }
    found(&mut channel, failed.map(|fault| fault.status))
}

/// Times that were searched on the host, and launches.
fn host_and_launches(decoder: &Decoder) -> (u64, u64) {
    let stages = decoder.stage_seconds().unwrap();
    (stages.on_host, stages.launches)
}

/// Utterances with and without phrases on few lanes, in batches of any order and chunks of any size, with lists that change
/// on the way: each is what it is alone on the CPU, and not one frame is searched on the host.
fn in_any_batch(case: u64, num_lanes: u32, frames: usize) {
    let rng = &mut Rng(case * 0x9e37_79b9 + 1);
    let (graph, data, dim) = busy();
    let on_cpu = decoder(&graph, BackendChoice::Cpu, 1, search());
    let on_gpu = decoder(&graph, BackendChoice::Cuda, num_lanes, search());
    let utterances: Vec<(Lists, Matrix)> = (0..5)
        .map(|at| {
            let rows = Matrix::dense(&data, dim).part(at * 40, at * 40 + 1 + rng.below(frames as u64) as usize);
            (if at % 3 == 0 { Lists(Vec::new()) } else { Lists::random(rng, rows.frames) }, rows)
        })
        .collect();
    let expected: Vec<Found> = utterances.iter().map(|(lists, rows)| solo(&on_cpu, lists, *rows, usize::MAX)).collect();
    let mut channels: Vec<(Channel, usize)> = utterances.iter().map(|_| (Rust::channel(&on_gpu).unwrap(), 0)).collect();
    for ((channel, _), (lists, _)) in channels.iter_mut().zip(&utterances) {
        lists.begin(channel).unwrap();
    }
    let before = host_and_launches(&on_gpu);
    while channels.iter().zip(&utterances).any(|((_, done), (_, rows))| *done < rows.frames) {
        let mut items = Vec::new();
        for ((channel, done), (lists, rows)) in channels.iter_mut().zip(&utterances) {
            if rng.below(4) > 0 {
                let most = lists.set(channel, *done).min([0, 1, 7, 40, 150][rng.below(5) as usize]);
                let end = rows.frames.min(*done + most);
                items.push((channel, rows.part(*done, end)));
                *done = end;
            }
        }
        rng.shuffle(&mut items);
        assert!(Rust::batch(&on_gpu, &mut items).iter().all(Result::is_ok));
    }
    for (((channel, _), expected), (lists, _)) in channels.iter_mut().zip(&expected).zip(&utterances) {
        assert_eq!(&found(channel, None), expected, "case {case}: {lists:?}");
    }
    let after = host_and_launches(&on_gpu);
    assert!(after.0 == before.0 && after.1 > before.1, "searched on the GPU: {before:?}, then {after:?}");
}

#[test]
fn channels_with_and_without_phrases_in_any_batch() {
    let _device = soft::alone("");
    for case in 0..6 {
        in_any_batch(case, 1 + 2 * (case as u32 % 2), 40);
    }
}

/// More frames than a launch takes, with one push to the GPU and many to the CPU.
#[test]
fn long_launches() {
    let _device = soft::alone("");
    let (graph, data, dim) = busy();
    let rows = Matrix::dense(&data, dim).part(0, 150);
    let rng = &mut Rng(3);
    let lists = Lists(vec![(0, random_list(rng)), (20, random_list(rng)), (90, List::new()), (97, random_list(rng))]);
    for lattice_beam in [2.0, 9.0] {
        let search = SearchConfig { lattice_beam, link_budget: 3_000, ..search() };
        let expected = solo(&decoder(&graph, BackendChoice::Cpu, 1, search), &lists, rows, 1);
        let on_gpu = decoder(&graph, BackendChoice::Cuda, 1, search);
        assert_eq!(solo(&on_gpu, &lists, rows, usize::MAX), expected, "{lattice_beam}");
        // Time 0 of the decoder; one launch for each stretch of at most 64 frames.
        assert_eq!(host_and_launches(&on_gpu).0, 0);
        assert!((6..12).contains(&host_and_launches(&on_gpu).1), "{:?}", host_and_launches(&on_gpu));
    }
}

/// The windows of the history make no launch shorter.
#[test]
fn launches_are_as_long_as_they_may_be() {
    let _device = soft::alone("");
    let (graph, data, dim) = busy();
    let on_gpu = decoder(&graph, BackendChoice::Cuda, 1, SearchConfig { lattice_beam: 2.0, ..search() });
    let before = host_and_launches(&on_gpu);
    solo(&on_gpu, &Lists(Vec::new()), Matrix::dense(&data, dim).part(0, 128), usize::MAX);
    assert_eq!(host_and_launches(&on_gpu), (before.0, before.1 + 2), "64 frames each");
}

#[test]
fn every_schedule_gives_the_bits_of_the_cpu() {
    let (_alone, soft) = soft::alone("");
    let random: Vec<String> = (1..=10).map(|seed| format!("random:{seed}")).collect();
    for (case, schedule) in ["rr", "reverse"].into_iter().chain(random.iter().map(String::as_str)).enumerate() {
        for lazy in [0, 1] {
            soft.configure(&format!("schedule={schedule},lazy={lazy}"));
            in_any_batch(100 + case as u64, 3, 8);
        }
    }
    soft.configure("schedule=rr,lazy=0");
}

type Set = fn(&mut SearchConfig, u64);
const CAPACITIES: [(&str, Set); 3] = [
    ("candidates", |search, capacity| search.candidate_capacity = capacity),
    ("tokens", |search, capacity| search.token_capacity = capacity),
    ("links", |search, capacity| search.link_capacity = capacity),
];

#[test]
fn capacities_strike_as_on_the_cpu() {
    let _device = soft::alone("");
    let (graph, data, dim) = busy();
    let rows = Matrix::dense(&data, dim).part(0, 7);
    let lists = Lists(vec![(0, random_list(&mut Rng(4))), (4, random_list(&mut Rng(8)))]);
    for (name, set) in CAPACITIES {
        let at = |backend, capacity| {
            let mut search = search();
            set(&mut search, capacity);
            solo(&decoder(&graph, backend, 1, search), &lists, rows, usize::MAX)
        };
        let strikes = |found: &Found| found.failed.is_some() || found.stats.capacity_held > 0;
        let (mut low, mut enough) = (1, 1 << 20);
        while enough - low > 1 {
            let middle = (low + enough) / 2;
            if strikes(&at(BackendChoice::Cpu, middle)) { low = middle } else { enough = middle }
        }
        assert!(enough > 100, "{name}: {enough}");
        for capacity in [enough - 1, enough, enough + 1, enough / 2, 50, 7, 1] {
            let found = at(BackendChoice::Cuda, capacity);
            assert_eq!(found, at(BackendChoice::Cpu, capacity), "{name}: {capacity}");
            assert_eq!(strikes(&found), capacity < enough, "{name}: {capacity}");
        }
    }
}

/// One word after another, each of a few, between two states: so few states and arcs that pairs with bias states
/// are more than the graph has, which bounds capacities without phrases.
#[test]
fn there_may_be_more_tokens_than_states() {
    let _device = soft::alone("");
    let words = |next| (1..=6).map(|word| arc(word, word, word as f32 / 8.0, next)).collect::<Vec<_>>();
    let source = source(Some(0), vec![(0.0, words(1)), (0.5, words(0))]);
    let graph = Arc::new(Graph::from_source(&source, Columns::Labels).unwrap());
    let rng = &mut Rng(11);
    let list = (0..40).map(|_| ((0..5).map(|_| 1 + rng.below(6) as i32).collect(), 2.0)).collect();
    let lists = Lists(vec![(0, list), (12, vec![(vec![1, 2], 3.0)])]);
    let rows: Vec<f32> = (0..20 * 6).map(|_| -(rng.below(40) as f32) / 80.0).collect();
    let rows = Matrix::dense(&rows, 6);
    let all = |search: &mut SearchConfig, capacity| CAPACITIES.iter().for_each(|(_, set)| set(search, capacity));
    let cases: [(Set, u64); 7] = [
        (all, u64::MAX),
        (all, 1 << 40),
        (all, 60),
        (all, 20),
        (CAPACITIES[1].1, 40),
        (CAPACITIES[1].1, 15),
        (CAPACITIES[2].1, 60),
    ];
    for (set, capacity) in cases {
        let mut search = SearchConfig { lattice_beam: 4.0, ..SearchConfig::default() };
        set(&mut search, capacity);
        let expected = solo(&decoder(&graph, BackendChoice::Cpu, 1, search), &lists, rows, usize::MAX);
        assert_eq!(expected.stats.capacity_held == 0, capacity > 60, "{:?}", expected.stats);
        assert!(capacity < 100 || expected.stats.max_tokens > 50, "{:?}", expected.stats);
        let on_gpu = decoder(&graph, BackendChoice::Cuda, 1, search);
        assert_eq!(solo(&on_gpu, &lists, rows, usize::MAX), expected, "{capacity}");
        assert_eq!(host_and_launches(&on_gpu).0, 0);
        // Without phrases afterwards, in the memory that is there.
        let plain = Lists(Vec::new());
        let expected = solo(&decoder(&graph, BackendChoice::Cpu, 1, search), &plain, rows, usize::MAX);
        assert_eq!(solo(&on_gpu, &plain, rows, usize::MAX), expected, "{capacity}, without phrases");
    }
}

/// Output labels of more than 16 bits, which a graph then keeps in 32: in arcs and in phrases, alone and where taking the
/// lower half would make another label of them. And more arcs in a time than there is room to keep the costs of.
#[test]
fn labels_of_more_than_16_bits() {
    let (_alone, soft) = soft::alone("");
    let (source, rows, dim) = Rng(3).fans();
    let graph = Arc::new(Graph::from_source(&source, Columns::Labels).unwrap());
    let rows = Matrix::dense(&rows, dim);
    let first: List =
        vec![(vec![65_536, 131_073], 3.0), (vec![1, 65_537], 2.5), (vec![i32::MAX], 1.0), (vec![65_535, 2, 1], 4.0)];
    let second: List = vec![(vec![131_073, 65_536], 2.0), (vec![i32::MAX, 131_073], 1.5)];
    let lists = Lists(vec![(0, first), (3, second)]);
    for (beam, held) in [(1.5, false), (8.0, true)] {
        let search = SearchConfig {
            beam,
            lattice_beam: 2.0,
            min_active: 0,
            candidate_capacity: 3_000,
            token_capacity: 2_500,
            link_capacity: 4_000,
            ..SearchConfig::default()
        };
        let on_cpu = decoder(&graph, BackendChoice::Cpu, 1, search);
        let expected = solo(&on_cpu, &lists, rows, usize::MAX);
        assert!(expected.failed.is_none() && expected.stats.arcs > 40_000, "{:?}", expected.stats);
        assert_eq!(expected.stats.capacity_held > 0, held, "{:?}", expected.stats);
        assert_ne!(expected.results, solo(&on_cpu, &Lists(Vec::new()), rows, usize::MAX).results, "phrases tell");
        for schedule in ["rr", "reverse"] {
            soft.configure(&format!("schedule={schedule}"));
            let on_gpu = decoder(&graph, BackendChoice::Cuda, 1, search);
            assert_eq!(solo(&on_gpu, &lists, rows, usize::MAX), expected, "beam {beam}, {schedule}");
            assert_eq!(host_and_launches(&on_gpu).0, 0);
        }
    }
}

/// A hub that is reached with two bias states, and from which more labelled epsilon arcs lead on than a lane's memory
/// has room for; some of the leaves lead back.
fn hub(leaves: u32) -> VecSource {
    let mut states = vec![(f32::INFINITY, vec![arc(1, 1, 0.0, 1), arc(1, 2, 0.5, 1), arc(2, 3, 0.0, 0)])];
    states.push((
        f32::INFINITY,
        (0..leaves).map(|at| arc(0, 1 + (at % 5) as i32, (at * 7919 % 4001) as f32 / 800.0 + 6.0, 2 + at)).collect(),
    ));
    states.extend(
        (0..leaves).map(|at| (0.5, if at % 500 == 0 { vec![arc(1, 2, 0.0, 1), arc(2, 3, 0.5, 0)] } else { vec![] })),
    );
    source(Some(0), states)
}

#[test]
fn closures_that_outgrow_a_lane() {
    let _device = soft::alone("");
    let list: List = vec![(vec![1, 2], 3.0), (vec![2, 3, 1], 2.5), (vec![4], -1.0), (vec![1, 4, 2], 4.0)];
    let lists = Lists(vec![(0, list), (2, vec![(vec![3, 5], 2.0)])]);
    let rows = [-1.0, -0.5, -0.75, -1.5, -1.0, -0.25, -0.5, -0.5];
    let rows = Matrix::dense(&rows, 2);
    // Two tokens at the hub, and so two links to each leaf. What fits are 16,384 tokens, and as many links more than the capacity.
    for (leaves, tokens, links, is_on_host) in
        [(8_100, 40, 60, false), (8_250, 40, 60, true), (8_250, 9_000, 12_000, false), (10_000, 9_000, 12_000, true)]
    {
        let graph = Arc::new(Graph::from_source(&hub(leaves), Columns::Labels).unwrap());
        let search = SearchConfig {
            candidate_capacity: 50,
            token_capacity: tokens,
            link_capacity: links,
            lattice_beam: 2.0,
            ..SearchConfig::default()
        };
        for most in [1, usize::MAX] {
            let expected = solo(&decoder(&graph, BackendChoice::Cpu, 1, search), &lists, rows, most);
            assert!(expected.failed.is_none() && expected.stats.capacity_held > 0, "{:?}", expected.stats);
            let on_gpu = decoder(&graph, BackendChoice::Cuda, 1, search);
            assert_eq!(solo(&on_gpu, &lists, rows, most), expected, "{leaves} leaves, {tokens} and {links}");
            let times = host_and_launches(&on_gpu).0;
            assert_eq!(times > 0, is_on_host, "{leaves} leaves: {times} times on the host");
        }
    }
}

/// Commits, forced ones too, with lists that change before and after them.
#[test]
fn commits() {
    let _device = soft::alone("");
    let (graph, data, dim) = busy();
    let rows = Matrix::dense(&data, dim).part(0, 400);
    let rng = &mut Rng(2);
    let lists = Lists([0, 70, 200, 300].map(|frame| (frame, random_list(rng))).to_vec());
    let search = SearchConfig { beam: 5.0, lattice_beam: 4.0, max_active: 40, min_active: 5, ..search() };
    type Committed = (Vec<CommittedLattice>, Found);
    let run = |backend, most: usize| -> Committed {
        let decoder = decoder(&graph, backend, 2, search);
        let mut channel = Rust::channel(&decoder).unwrap();
        channel.set_commit(Some(CommitConfig { frames: 256, lattice_frames: u64::MAX })).unwrap();
        lists.begin(&mut channel).unwrap();
        let mut done = 0;
        while done < rows.frames {
            let take = lists.set(&mut channel, done).min(most).min(rows.frames - done);
            Rust::push(&mut channel, rows.part(done, done + take)).unwrap();
            done += take;
        }
        (std::iter::from_fn(|| channel.take_committed().unwrap()).collect(), found(&mut channel, None))
    };
    let expected = run(BackendChoice::Cpu, 1);
    assert!(expected.1.stats.committed_frames > 0, "{:?}", expected.1.stats);
    for most in [7, usize::MAX] {
        assert_eq!(run(BackendChoice::Cuda, most), expected);
    }
}

/// Paths and lattices of the closed segments with their ends, and of what is open.
type Spoken = (Vec<(SegmentEnd, Path, RawLattice)>, Option<SegmentEnd>, [Path; 2], [RawLattice; 2]);

/// An utterance with end points in pushes of a few rows; how far it came, and why no further.
fn spoken(
    case: &Case,
    lists: &Lists,
    backend: BackendChoice,
    rng: &mut Rng,
) -> Option<(usize, Option<String>, Spoken)> {
    let decoder = case.decoder(backend, 32);
    let mut channel = decoder.new_channel().unwrap();
    lists.begin(&mut channel).ok()?;
    let (rows, mut done, mut failed) = (case.rows(), 0, None);
    while done < rows.frames() && failed.is_none() {
        let most = lists.set(&mut channel, done).min(1 + rng.below(6) as usize);
        failed = channel.push_rows(rows.slice(done, most)).err().map(|error| error.to_string());
        done = channel.num_frames() as usize;
    }
    assert!(backend == BackendChoice::Cpu || host_and_launches(&decoder).1 > 0);
    let segment = |number| {
        let segment = channel.segment(number).unwrap();
        (segment.end, (*segment.best_path).clone(), (*segment.lattice).clone().into_raw().unwrap())
    };
    let closed = (0..channel.num_segments()).map(segment).collect();
    let end = channel.endpoint().unwrap();
    let paths = [true, false].map(|use_final| channel.best_path(use_final).unwrap());
    let lattices = [true, false].map(|use_final| channel.lattice(use_final).unwrap());
    Some((done, failed, (closed, end, paths, lattices)))
}

/// End points noted, stopped at and as borders of segments, with lists that change on the way.
#[test]
fn end_points() {
    let _device = soft::alone("");
    let (mut ends, mut segments) = (0, 0);
    for number in 0..120 {
        let action = [EndpointAction::Note, EndpointAction::Stop, EndpointAction::Segment][number as usize % 3];
        let (case, mut rng) = Case::new(number, 12, action);
        let mut lists = Lists::random(&mut rng, 12);
        if lists.0.first().is_none_or(|(frame, _)| *frame > 0) {
            lists.0.insert(0, (0, random_list(&mut rng)));
        }
        let expected = spoken(&case, &lists, BackendChoice::Cpu, &mut rng);
        assert_eq!(spoken(&case, &lists, BackendChoice::Cuda, &mut rng), expected, "{} {lists:?}", case.name);
        let Some((_, _, (closed, end, ..))) = expected else { continue };
        ends += usize::from(end.is_some());
        segments += closed.len();
    }
    assert!(ends > 20 && segments > 20, "{ends} end points, {segments} segments");
}

/// Lists as nobody would make them: thousands of phrases, long ones, the same twice, bonuses of any size, labels that the
/// graph has not.
#[test]
fn lists_without_measure() {
    let _device = soft::alone("");
    let rng = &mut Rng(11);
    let (graph, data, dim) = busy();
    let rows = Matrix::dense(&data, dim).part(0, 12);
    let mut word = |labels: u64| 1 + rng.below(labels) as i32;
    let many: List =
        (0..4000).map(|at| ((0..1 + at % 9).map(|_| word(6)).collect(), 0.25 * (at % 16) as f32 - 1.0)).collect();
    let long: List = [1, 200, 3000].map(|len| ((0..len).map(|_| word(4)).collect(), len as f32)).to_vec();
    let twice = vec![(vec![1, 2], 2.0), (vec![1, 2], 2.0), (vec![2], -1.0), (vec![2], -0.0), (vec![3], 0.0)];
    let strange = vec![(vec![i32::MAX, 1], 3.0), (vec![1, i32::MAX], 3.0), (vec![70_000], 1.0)];
    let sized = |bonus: f32| vec![(vec![1], bonus), (vec![2, 3], -bonus), (vec![1, 4, 1], bonus)];
    let (on_cpu, on_gpu) =
        (decoder(&graph, BackendChoice::Cpu, 1, search()), decoder(&graph, BackendChoice::Cuda, 2, search()));
    let lists = [many, long, twice, strange, sized(f32::MIN_POSITIVE), sized(1e4), sized(3e29)];
    for (at, list) in lists.iter().enumerate() {
        let changing = (0..12).map(|frame| (frame, if frame % 2 == 0 { list.clone() } else { lists[2].clone() }));
        for lists in [Lists(vec![(0, list.clone())]), Lists(changing.collect())] {
            assert_eq!(solo(&on_gpu, &lists, rows, 5), solo(&on_cpu, &lists, rows, 12), "list {at}");
        }
    }
    let mut channel = Rust::channel(&on_gpu).unwrap();
    for bonus in [f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        assert!(channel.set_bias(&[Phrase { labels: &[1], bonus }]).is_err());
    }
}

#[test]
fn rows_in_device_memory() {
    let _device = soft::alone("");
    let (graph, data, dim) = busy();
    let rows = Matrix::dense(&data, dim).part(0, 70);
    let lists = Lists(vec![(0, random_list(&mut Rng(4)))]);
    let expected = solo(&decoder(&graph, BackendChoice::Cpu, 1, search()), &lists, rows, usize::MAX);
    let stream = CudaContext::new(0).unwrap().new_stream().unwrap();
    let memory = stream.clone_htod(rows.data).unwrap();
    let at = memory.device_ptr(&stream).0;
    let mut channel = Rust::channel(&decoder(&graph, BackendChoice::Cuda, 1, search())).unwrap();
    lists.begin(&mut channel).unwrap();
    let on_device = DeviceRows { at, frames: rows.frames, dim, stride: dim, stream: stream.cu_stream() as usize };
    // SAFETY: memory and a stream that live until the test ends.
    unsafe { channel.push_device(on_device) }.unwrap();
    assert_eq!(found(&mut channel, None), expected);
}

/// Phrases take memory when they first come, as much as was told; channels that share a list share its memory; and where
/// there is too little, what was before goes on.
#[test]
fn memory_of_the_device() {
    let (_alone, soft) = soft::alone("");
    let (graph, data, dim) = busy();
    let rows = Matrix::dense(&data, dim).part(0, 6);
    let lists = Lists(vec![(0, random_list(&mut Rng(4)))]);
    let cpu = decoder(&graph, BackendChoice::Cpu, 1, search());
    let (expected, plain) = (solo(&cpu, &lists, rows, 2), solo(&cpu, &Lists(Vec::new()), rows, 2));
    let empty = (soft.memory_used(0), soft.pinned_used());

    let gpu = decoder(&graph, BackendChoice::Cuda, 2, search());
    let (before, told) = (soft.memory_used(0), gpu.memory());
    let mut channel = Rust::channel(&gpu).unwrap();
    lists.begin(&mut channel).unwrap();
    let (first, growth) = (soft.memory_used(0) - before, gpu.memory() - told);
    let states = Phrases::new(&phrases(&lists.0[0].1), |_| true).unwrap().num_states();
    let (old, new) = (
        CudaLanes::device_bytes(&graph, &search(), 2).unwrap(),
        CudaLanes::biased_device_bytes(&graph, &search(), 2, states).unwrap(),
    );
    let labels = graph.num_arcs() as usize * 4 + graph.num_arcs() as usize / 5;
    assert!(first.abs_diff((new - old) as usize + labels) < labels / 2, "{first} bytes, {old} and {new} told");
    assert!(growth > first - labels && growth < 3 * first, "{growth} bytes more, {first} of them the device's");
    let held = soft.memory_used(0);
    // Pushes, further utterances with the same list, and channels without take no more.
    Rust::push(&mut channel, rows).unwrap();
    Rust::begin(&mut channel).unwrap();
    Rust::push(&mut channel, rows).unwrap();
    assert_eq!(solo(&gpu, &Lists(Vec::new()), rows, 2), plain);
    assert_eq!(soft.memory_used(0), held);
    // A list that is gone gives its memory back.
    channel.set_bias(&[]).unwrap();
    Rust::begin(&mut channel).unwrap();
    let without = soft.memory_used(0);
    assert!(without < held);
    let long = [Phrase { labels: &[3; 5000], bonus: 1.0 }];
    channel.set_bias(&long).unwrap();
    Rust::begin(&mut channel).unwrap();
    assert!(soft.memory_used(0) > without + 5000 * 24);
    drop((channel, gpu));
    assert_eq!((soft.memory_used(0), soft.pinned_used()), empty, "everything was given back");

    // Too little for the lanes, and then for a list.
    let gpu = decoder(&graph, BackendChoice::Cuda, 2, search());
    let mut channel = Rust::channel(&gpu).unwrap();
    Rust::begin(&mut channel).unwrap();
    Rust::push(&mut channel, rows.part(0, 2)).unwrap();
    let held = (soft.memory_used(0), soft.pinned_used());
    soft.configure(&format!("memory={}", held.0 + 4096));
    for _ in 0..2 {
        let error = channel.set_bias(&phrases(&lists.0[0].1)).unwrap_err();
        assert!(matches!(error.root(), koshi::Error::NoMemory { .. }), "{error}");
        assert!(error.to_string().contains("2 lanes with phrases on GPU 0, where "), "{error}");
        assert_eq!((soft.memory_used(0), soft.pinned_used()), held, "nothing is left of what failed");
    }
    Rust::push(&mut channel, rows.part(2, 6)).unwrap();
    assert_eq!(found(&mut channel, None), plain, "the utterance goes on without phrases");
    soft.configure("memory=4294967296");
    assert_eq!(solo(&gpu, &lists, rows, 2), expected, "the next one has room");
    soft.configure(&format!("memory={}", soft.memory_used(0) + 4096));
    lists.begin(&mut channel).unwrap();
    Rust::push(&mut channel, rows.part(0, 2)).unwrap();
    let error = channel.set_bias(&long).unwrap_err();
    assert!(matches!(error.root(), koshi::Error::NoMemory { .. }), "{error}");
    Rust::push(&mut channel, rows.part(2, 6)).unwrap();
    assert_eq!(found(&mut channel, None).results, expected.results, "the list from before holds");
    channel.set_bias(&[]).unwrap();
    soft.configure("memory=4294967296");
}

/// An utterance without phrases asks as much of the device after others have had some as before.
#[test]
#[ignore = "runs in a process of its own"]
fn counting_traffic() {
    let (_alone, soft) = soft::alone("kernels=traffic");
    let (graph, data, dim) = busy();
    let rows = Matrix::dense(&data, dim).part(0, 20);
    let gpu = decoder(&graph, BackendChoice::Cuda, 2, search());
    let plain = Lists(Vec::new());
    let traffic = |lists: &Lists| {
        let (launches, before) = (soft.stats().launches, soft.traffic());
        solo(&gpu, lists, rows, usize::MAX);
        let after = soft.traffic();
        let device = (after.device.loaded_bytes - before.device.loaded_bytes) as f64;
        let stored = (after.device.stored_bytes - before.device.stored_bytes) as f64;
        let rest = after.device.atomics - before.device.atomics;
        (device, stored, rest, after.barriers - before.barriers, soft.stats().launches - launches)
    };
    let alone = traffic(&plain);
    let biased = traffic(&Lists(vec![(0, random_list(&mut Rng(4)))]));
    let again = traffic(&plain);
    println!("without {alone:?}, with {biased:?}, without again {again:?}");
    assert_eq!((alone.3, alone.4), (again.3, again.4), "barriers and launches");
    let near = |a: f64, b: f64| (a - b).abs() <= 0.01 * a;
    assert!(near(alone.0, again.0) && near(alone.1, again.1), "{alone:?} {again:?}");
    assert!(near(alone.2 as f64, again.2 as f64), "{alone:?} {again:?}");
    assert!(biased.0 < 3.0 * alone.0 && biased.4 == alone.4, "{alone:?} {biased:?}");
}

#[test]
fn phrases_cost_channels_without_them_nothing() {
    soft::pass_alone("counting_traffic", &[]);
}

/// Runs in a process of its own, as all builds of the kernels but the plain one: they are compiled once a
/// process.
#[test]
#[ignore = "runs in a process of its own"]
fn under_a_build_that_watches() {
    let kernels = std::env::var("KOSHI_TEST_KERNELS").unwrap();
    let _device = soft::alone(&format!("kernels={kernels}"));
    for case in 0..2 {
        in_any_batch(200 + case, 3, 7);
    }
    let (graph, data, dim) = busy();
    let rows = Matrix::dense(&data, dim).part(0, 6);
    let search = SearchConfig { candidate_capacity: 300, token_capacity: 150, link_capacity: 200, ..search() };
    let lists = Lists(vec![(0, random_list(&mut Rng(4))), (3, random_list(&mut Rng(5)))]);
    let expected = solo(&decoder(&graph, BackendChoice::Cpu, 1, search), &lists, rows, usize::MAX);
    assert!(expected.stats.capacity_held > 0);
    assert_eq!(solo(&decoder(&graph, BackendChoice::Cuda, 1, search), &lists, rows, usize::MAX), expected);
}

#[test]
fn sanitizers_and_the_race_detector_have_nothing_to_report() {
    let mut variables = soft::asan_variables();
    for kernels in ["asan", "race"] {
        variables.push(("KOSHI_TEST_KERNELS", kernels.into()));
        soft::pass_alone("under_a_build_that_watches", &variables);
        variables.clear();
    }
}
