//! GPU lanes on the software CUDA device, where the epsilon closure of a time is larger than a lane's working memory:
//! held to the CPU lanes under equal capacities, bit for bit, at the size of that memory and beyond it; and
//! launches whose output does not fit.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use std::sync::Arc;

use common::graph::{Rng, arc, source};
use common::soft;
use face::{Face, Matrix, Results, Rust, Status, results};
use koshi::decoder::{BackendChoice, DecoderConfig};
use koshi::graph::{Columns, Graph, VecSource};
use koshi::search::{SearchConfig, SearchStats};

/// Tokens that a lane's working memory holds at least, and links beyond the capacities.
const ROOM: u32 = 1 << 14;

#[derive(Debug, PartialEq)]
struct Found {
    failed: Option<Status>,
    results: Results,
    stats: SearchStats,
}

/// Begins, pushes the rows one by one or together, and asks for everything; and how many times were
/// searched on the host, time 0 of the decoder's making apart.
fn solo(
    graph: &Arc<Graph>,
    backend: BackendChoice,
    search: SearchConfig,
    rows: Matrix,
    together: bool,
) -> (Found, u64) {
    let config = DecoderConfig { search, backend, num_lanes: 1, num_threads: 1, ..DecoderConfig::default() };
    let decoder = Rust::decoder(graph, &config).unwrap();
    let mut channel = Rust::channel(&decoder).unwrap();
    let mut failed = Rust::begin(&mut channel).err();
    if together {
        failed = failed.or_else(|| Rust::push(&mut channel, rows).err());
    } else {
        for frame in 0..rows.frames {
            failed = failed.or_else(|| Rust::push(&mut channel, rows.part(frame, frame + 1)).err());
        }
    }
    if let Some(fault) = failed.as_ref().filter(|fault| fault.status == Status::KOSHI_E_DEVICE) {
        panic!("{}", fault.message);
    }
    let stats = SearchStats { trace_links: 0, trace_bytes: 0, memory: 0, seconds: 0.0, ..channel.stats().unwrap() };
    let found = Found { failed: failed.map(|fault| fault.status), results: results::<Rust>(&mut channel), stats };
    (found, decoder.stage_seconds().map_or(0, |stages| stages.on_host))
}

/// Holds the GPU to the CPU; gives what it found, and times searched on the host.
fn compare(source: &VecSource, search: SearchConfig, rows: Matrix, together: bool, case: &str) -> (Found, u64) {
    common::gpu();
    let graph = Arc::new(Graph::from_source(source, Columns::Labels).unwrap());
    let (expected, _) = solo(&graph, BackendChoice::Cpu, search, rows, together);
    let (found, on_host) = solo(&graph, BackendChoice::Cuda, search, rows, together);
    assert_eq!(found, expected, "{case}");
    (found, on_host)
}

/// Small capacities, so that the working memory is small too.
fn small(token_capacity: u64, link_capacity: u64) -> SearchConfig {
    SearchConfig { candidate_capacity: 50, token_capacity, link_capacity, lattice_beam: 2.0, ..SearchConfig::default() }
}

/// A start state with one arc to a hub, from which `hubs` epsilon arcs lead on to as many hubs, and those to the
/// same `leaves` leaves; a few leaves lead back to the first hub. `weight` is that of a leaf's epsilon arc.
fn fan(hubs: u32, leaves: u32, mut weight: impl FnMut(u32) -> f32) -> VecSource {
    let first_leaf = 2 + hubs;
    let mut states = vec![(f32::INFINITY, vec![arc(1, 1, 0.0, 1)])];
    states.push((f32::INFINITY, (0..hubs).map(|at| arc(0, 0, 0.25, 2 + at)).collect()));
    for at in 0..hubs {
        let arcs = (0..leaves).map(|leaf| arc(0, 0, weight(at * leaves + leaf), first_leaf + leaf));
        states.push((f32::INFINITY, arcs.collect()));
    }
    states.extend(
        (0..leaves)
            .map(|leaf| (0.5, if leaf % 500 == 0 { vec![arc(1, 2, 0.0, 1), arc(2, 3, 0.5, 0)] } else { vec![] })),
    );
    source(Some(0), states)
}

const ROWS: [f32; 6] = [-1.0, -0.5, -0.75, -1.5, -1.0, -0.25];

/// Where tokens, and then links, are as many as the working memory holds, one fewer and one more.
#[test]
fn closures_of_about_the_size_of_the_working_memory() {
    let rows = Matrix::dense(&ROWS[..2], 2);
    let weight = |at: u32| (at % 7919) as f32 / 800.0;
    // Two hubs and a leaf each: three tokens more than leaves.
    for (leaves, expected) in [(ROOM - 3, 0), (ROOM - 2, 0), (ROOM - 1, 1)] {
        let source = fan(1, leaves, weight);
        for (tokens, links) in [(40, 60), (9_000, 60), (9_000, 12_000)] {
            let case = format!("{leaves} leaves, capacities {tokens} and {links}");
            let (found, on_host) = compare(&source, small(tokens, links), rows, false, &case);
            assert_eq!((found.failed, on_host), (None, expected), "{case}");
            assert!(found.stats.capacity_held > 0, "{case}");
        }
    }
    // One emitting link; one epsilon link to each of two hubs, and two to each leaf; and some in parallel. What fits is
    // the larger capacity, the room, and one that is no arc at time 0.
    let leaves = ROOM / 2 - 1;
    for (extra, expected) in [(59, 0), (60, 0), (61, 1)] {
        let mut source = fan(2, leaves, weight);
        let parallel = source.states[2].1[0];
        source.states[2].1.extend(std::iter::repeat_n(parallel, extra));
        let case = format!("{leaves} leaves, {extra} arcs more");
        let (found, on_host) = compare(&source, small(40, 60), rows, false, &case);
        assert_eq!((found.failed, on_host), (None, expected), "{case}");
        assert!(found.stats.capacity_held > 0);
    }
}

/// Epsilon weights below 0, so that a bound on tokens or links cuts off what leads to better tokens, at several
/// levels; in one launch or several; and where even the tied best do not fit.
#[test]
fn large_closures_at_random() {
    let (mut on_host, mut on_device, mut failed, mut held) = (0, 0, 0, 0);
    for case in 1..=40 {
        let (found, times) = at_random(case);
        on_host += times;
        on_device += u64::from(times == 0);
        failed += u64::from(found.failed == Some(Status::KOSHI_E_CAPACITY));
        held += found.stats.capacity_held;
    }
    assert!(on_host > 20 && on_device > 5 && failed > 5 && held > 10, "{on_host} {on_device} {failed} {held}");
}

fn at_random(case: u64) -> (Found, u64) {
    let rng = &mut Rng(case * 0x9e37_79b9);
    let (hubs, leaves) = (1 + rng.below(6) as u32, 4_000 + rng.below(9_000) as u32);
    let ties = rng.below(3) == 0;
    let source = fan(hubs, leaves, |_| if ties { 1.0 } else { rng.below(4_000) as f32 / 500.0 - 4.0 });
    let capacity = |rng: &mut Rng| [30, 300, 3_000][rng.below(3) as usize];
    let search = SearchConfig { beam: 6.0, ..small(capacity(rng), capacity(rng)) };
    let name = format!("case {case}: {hubs} hubs, {leaves} leaves, {search:?}");
    compare(&source, search, Matrix::dense(&ROWS, 2), rng.below(2) == 0, &name)
}

/// `length` states on epsilon paths of up to `levels` arcs that also meet and branch. Two in three are reached at once,
/// so that more wait for their level than are near, and the others are found among these.
fn paths(rng: &mut Rng, length: u32, levels: u32) -> VecSource {
    let mut order: Vec<u32> = (1..=length).collect();
    rng.shuffle(&mut order);
    order.truncate(2 * length as usize / 3);
    let first = order.iter().map(|&to| arc(1, 1, rng.below(100) as f32 / 50.0, to)).collect();
    let mut states = vec![(0.0, first)];
    for at in 1..=length {
        let on = |rng: &mut Rng, step: u32| arc(0, 0, rng.below(200) as f32 / 400.0 - 0.25, (at + step).min(length));
        let within = |to: u32| to < length && at % levels + (to - at) < levels;
        let far = 2 + rng.below(40) as u32;
        let mut arcs = vec![arc(1, 2, 0.0, 0), on(rng, 1), on(rng, far)];
        arcs.retain(|arc| arc.ilabel != 0 || within(arc.next));
        states.push((0.0, arcs));
    }
    source(Some(0), states)
}

#[test]
fn thousands_of_levels() {
    for (seed, length, levels) in [(1, 9_000, 6_000), (2, 9_000, 20), (3, 9_000, 2), (4, 9_000, 1_000), (5, 7_000, 300)]
    {
        let rng = &mut Rng(seed);
        let source = paths(rng, length, levels);
        let search = SearchConfig { beam: 4.0, lattice_beam: 0.5, max_active: 50_000, ..SearchConfig::default() };
        let case = format!("{length} states, {levels} levels");
        let (found, on_host) = compare(&source, search, Matrix::dense(&ROWS[..3], 1), true, &case);
        assert!(found.failed.is_none() && on_host == 0 && found.stats.max_tokens > 4_096, "{case}: {found:?}");
    }
}

/// A launch of many frames that hand over more than fits: they are pruned on the way, and where that does not
/// help much the launch ends early.
#[test]
fn output_that_does_not_fit() {
    let (graph, rows, dim) = Rng(5).busy();
    let rows = Matrix { frames: 40, ..Matrix::dense(&rows, dim) };
    for (lattice_beam, capacity) in [(1.0, 2_000), (4.0, 2_000), (30.0, 2_000), (30.0, 40_000)] {
        let search = SearchConfig {
            beam: 9.0,
            lattice_beam,
            max_active: 300,
            token_capacity: capacity,
            link_capacity: 2 * capacity,
            ..SearchConfig::default()
        };
        compare(&graph, search, rows, true, &format!("lattice beam {lattice_beam}"));
    }
}

/// Launches whose frames all hand over the same number of words, of which some fill the output to its last word: nothing is written
/// behind it.
#[test]
fn output_to_the_last_words() {
    for states in 1..=7u32 {
        for epsilon in [false, true] {
            // From each state to each; with an epsilon arc to the next one.
            let arcs = |from: u32| {
                let mut arcs: Vec<_> = (0..states).map(|to| arc(1, 1, (to + from) as f32 / 8.0, to)).collect();
                arcs.extend((epsilon && from + 1 < states).then(|| arc(0, 2, 1.0, from + 1)));
                arcs
            };
            let source = source(Some(0), (0..states).map(|from| (0.0, arcs(from))).collect());
            let search = SearchConfig { beam: 1e6, lattice_beam: 1e6, ..SearchConfig::default() };
            let rows = vec![-0.5; 64];
            let case = format!("{states} states, epsilon arcs: {epsilon}");
            let (found, on_host) = compare(&source, search, Matrix::dense(&rows, 1), true, &case);
            assert!(found.failed.is_none() && on_host == 0 && found.stats.capacity_held == 0, "{case}: {found:?}");
        }
    }
}

/// Time 0, which is searched when a decoder is made and then by each channel.
#[test]
fn a_large_closure_before_the_first_frame() {
    let mut source = fan(2, ROOM / 2 + 100, |at| (at % 977) as f32 / 200.0);
    source.start = Some(1);
    let (found, on_host) = compare(&source, small(100, 120), Matrix::dense(&ROWS, 2), true, "time 0");
    assert!(found.failed.is_none() && found.stats.capacity_held > 0 && on_host > 0, "{on_host}");
}

/// Runs in a process of its own, as all builds of the kernels but the plain one: they are compiled once a
/// process.
#[test]
#[ignore = "runs in a process of its own"]
fn under_a_build_that_watches() {
    let kernels = std::env::var("KOSHI_TEST_KERNELS").unwrap();
    soft::load(&common::with_kernels(&format!("kernels={kernels}")));
    for case in [1, 2, 3, 5] {
        at_random(case);
    }
    let search = SearchConfig { beam: 4.0, lattice_beam: 0.5, max_active: 50_000, ..SearchConfig::default() };
    compare(&paths(&mut Rng(3), 6_500, 40), search, Matrix::dense(&ROWS[..2], 1), true, "paths");
}

#[test]
fn sanitizers_and_the_race_detector_have_nothing_to_report() {
    let mut variables = soft::asan_variables();
    for kernels in ["asan", "race"] {
        variables.push(("KOSHI_TEST_KERNELS", kernels.into()));
        let given: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (ok, text) = soft::in_a_process_of_its_own("under_a_build_that_watches", &given);
        assert!(ok && text.contains("1 passed"), "{kernels}: {text}");
        variables.clear();
    }
}

/// A time that outgrew the lane leaves nothing behind in it: a smaller closure over the same states, at higher costs, follows.
#[test]
fn a_small_closure_behind_one_that_did_not_fit() {
    let leaves = ROOM + 500;
    let first_leaf = 3;
    let mut states = vec![(f32::INFINITY, vec![arc(1, 1, 0.0, 1)])];
    states.push((f32::INFINITY, (0..leaves).map(|at| arc(0, 0, (at % 977) as f32 / 977.0, first_leaf + at)).collect()));
    states.push((f32::INFINITY, (0..leaves).step_by(10).map(|at| arc(0, 0, 4.0, first_leaf + at)).collect()));
    states.extend((0..leaves).map(|at| (0.5, if at % 500 == 0 { vec![arc(2, 2, 0.0, 2)] } else { vec![] })));
    let search = small(5_000, 5_000);
    let rows = [0.0, -50.0, -50.0, 0.0, -50.0, 0.0];
    let source = source(Some(0), states);
    let (found, on_host) = compare(&source, search, Matrix::dense(&rows, 2), true, "behind a large closure");
    assert!(found.failed.is_none() && on_host == 1 && found.stats.frames == 3, "{on_host} {found:?}");
}
