//! Commits on endless streams against the plain reference, bit for bit: which tokens are kept where a commit is forced, with and
//! without phrases, and end points whose silence goes over commits.

mod common;

use std::sync::Arc;

use common::biased::{List, paired, phrases, random_list};
use common::committing::LOOK;
use common::graph::{Rng, arc, source};
use common::random_endpoints::{SHIFT, endpoint};
use common::random_search::{COLUMNS, random_graph, stop_of};
use common::reference::{Reference, Searched};
use koshi::decoder::{BackendChoice, Channel, Decoder, DecoderConfig, SegmentEnd};
use koshi::graph::{Columns, Graph, GraphArc, VecSource};
use koshi::lattice::RawLattice;
use koshi::search::{CommitConfig, EndpointAction, EndpointConfig, EndpointRule, Rows, SearchConfig, Silence};

/// A random graph twice over, behind one start, so that paths of equal cost keep apart for ever and commits have to be forced.
/// Some arcs cross over, at some cost or none.
fn twice(rng: &mut Rng) -> VecSource {
    let mut graph = random_graph(rng);
    // A way to go on from each state, whatever the rows.
    let count = graph.states.len() as u32;
    for (_, arcs) in &mut graph.states {
        let labels = [1 + rng.below(COLUMNS) as i32, 1 + rng.below(COLUMNS / 2) as i32];
        arcs.extend(labels.map(|label| arc(label, rng.below(5) as i32, 1.5, rng.below(count.into()) as u32)));
    }
    let start = graph.start.unwrap();
    let mut states = vec![(f32::INFINITY, vec![arc(0, 0, 0.0, 1 + start), arc(0, 0, 0.0, 1 + count + start)])];
    let more = [0.0, 1.0, 4.5][rng.below(3) as usize];
    for copy in 0..2 {
        for (end, arcs) in &graph.states {
            let moved = |one: &GraphArc, more: f32, to: u32| {
                arc(one.ilabel, one.olabel, one.weight + more, one.next + 1 + count * to)
            };
            let mut all: Vec<GraphArc> = arcs.iter().map(|one| moved(one, 0.0, copy)).collect();
            let across = arcs.iter().filter(|one| one.ilabel > 0 && rng.below(8) == 0);
            all.extend(across.map(|one| moved(one, more, 1 - copy)));
            states.push((*end, all));
        }
    }
    source(Some(0), states)
}

/// Rows of steps of a quarter, in stretches in which some columns are rare: silence, where those are the last three.
fn rows_of(rng: &mut Rng, frames: usize) -> Vec<f32> {
    let mut rows = Vec::new();
    let (mut left, mut silent) = (0, true);
    for _ in 0..frames {
        if left == 0 {
            (left, silent) = (if silent { 60 } else { 260 } + rng.below(100), !silent);
        }
        left -= 1;
        let value = |column: u64, rng: &mut Rng| {
            -(rng.below(24) as f32) * 0.25 - if silent && column >= COLUMNS / 2 { 24.0 } else { 0.0 }
        };
        rows.extend((0..COLUMNS).map(|column| value(column, rng)));
    }
    rows
}

fn search(rng: &mut Rng) -> SearchConfig {
    let max_active = if rng.below(2) == 0 { 4 + rng.below(20) as u32 } else { 10_000 };
    SearchConfig {
        beam: [6.0, 12.0, 40.0][rng.below(3) as usize],
        lattice_beam: [1.0, 3.0, 7.0][rng.below(3) as usize],
        max_active,
        min_active: rng.below(4) as u32,
        link_budget: [1, 300, 100_000][rng.below(3) as usize],
        ..SearchConfig::default()
    }
}

fn rules(rng: &mut Rng) -> EndpointConfig {
    let never = EndpointRule {
        must_contain_nonsilence: false,
        min_trailing_silence: f64::INFINITY,
        max_relative_cost: f32::INFINITY,
        min_utterance_length: 0.0,
    };
    // Longer than from one look to what is committed there, most of them.
    let long = |rng: &mut Rng| EndpointRule {
        must_contain_nonsilence: rng.below(4) > 0,
        min_trailing_silence: (150 + rng.below(60)) as f64 * SHIFT,
        min_utterance_length: (200 + rng.below(200)) as f64 * SHIFT,
        ..never
    };
    let silence = match rng.below(2) {
        0 => Silence::Ilabels((1..=COLUMNS as i32 / 2).collect()),
        _ => Silence::Olabels(vec![1, 2]),
    };
    EndpointConfig {
        rules: [long(rng), long(rng), never, never, never],
        silence,
        action: EndpointAction::Note,
        segments_kept: 0,
    }
}

/// What became of the cases.
#[derive(Debug, Default)]
struct Seen {
    commits: usize,
    forced: usize,
    /// Forced where some token of the last time was dropped.
    dropped: usize,
    ends: usize,
    /// End points whose silence began before what was committed by then.
    ends_across: usize,
}

fn assert_same(channel: &mut Channel, reference: &Reference, name: &str) {
    for use_final in [true, false] {
        let ours = channel.lattice(use_final).unwrap();
        assert!(same(&ours, &reference.lattice(use_final)), "lattice of {name}");
        assert_eq!(channel.best_path(use_final).unwrap(), reference.best_path(use_final), "{name}");
    }
    assert_eq!(channel.final_relative_cost().unwrap(), reference.final_relative_cost(), "{name}");
    assert_eq!(channel.partial().unwrap().0, reference.partial(), "{name}");
}

/// To the bit: costs of 0 have a sign.
fn same(ours: &RawLattice, theirs: &RawLattice) -> bool {
    let bits = |lattice: &RawLattice| -> Vec<[u32; 2]> {
        lattice.arcs.iter().map(|arc| [arc.weight.graph, arc.weight.acoustic].map(f32::to_bits)).collect()
    };
    ours == theirs && bits(ours) == bits(theirs)
}

/// One stream; with phrases where `lists` says so.
fn run(backend: BackendChoice, case: u64, frames: usize, with_phrases: bool, seen: &mut Seen) {
    let rng = &mut Rng(case.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (graph, search, rows, rules) = (twice(rng), search(rng), rows_of(rng, frames), rules(rng));
    // From the start on, and others on the way, some of them at a look.
    let mut changes: Vec<(usize, List)> = vec![(0, List::new())];
    if with_phrases {
        let of = |rng: &mut Rng| random_list(rng).into_iter().take(2).collect::<List>();
        changes[0].1 = if rng.below(3) == 0 { List::new() } else { of(rng) };
        let at = rng.below(frames as u64) as usize;
        changes.push((if rng.below(2) == 0 { at - at % LOOK } else { at }.max(1), of(rng)));
    }
    let lists: Vec<List> = changes.iter().map(|(_, list)| list.clone()).collect();
    let searched = |now: usize| -> Searched {
        if !with_phrases {
            return Searched::plain(&graph);
        }
        let mut paired = paired(&graph, &lists, now);
        paired.biased = lists[..=now].iter().any(|list| !list.is_empty());
        paired
    };
    let name = format!("case {case}");
    let config =
        DecoderConfig { search, backend, num_lanes: 1, num_threads: 1, frame_shift: SHIFT, ..DecoderConfig::default() };
    let decoder = Decoder::new(Arc::new(Graph::from_source(&graph, Columns::Labels).unwrap()), config).unwrap();
    decoder.set_endpoint_rules(Some(&rules)).unwrap();
    let mut channel = decoder.new_channel().unwrap();
    channel.set_commit(Some(CommitConfig { frames: 256, lattice_frames: u64::MAX })).unwrap();
    channel.set_bias(&phrases(&lists[0])).unwrap();
    channel.begin().unwrap();
    let mut reference = Reference::begin_on(searched(0), search).unwrap();
    let mut end = None;
    for (frame, row) in rows.chunks(COLUMNS as usize).enumerate() {
        for (now, (_, list)) in changes.iter().enumerate().skip(1).filter(|(_, (at, _))| *at == frame) {
            channel.set_bias(&phrases(list)).unwrap();
            reference.graph = searched(now);
        }
        let tokens = reference.tokens[frame].len();
        let commit = reference.look(256);
        let (expected, got) = (reference.advance(row), channel.push(Rows::dense(row, row.len()).unwrap()));
        assert_eq!(got.as_ref().map_err(stop_of).copied(), expected, "{name}, frame {frame}");
        assert_eq!(channel.committed_frames() as usize, reference.base(), "{name}, frame {frame}");
        if let Some(commit) = commit {
            let piece = channel.take_committed().unwrap().unwrap();
            assert_eq!(piece.first_frame, commit.piece.first_frame, "{name}, frame {frame}");
            assert!(same(&piece.lattice, &commit.piece.lattice), "piece at frame {frame} of {name}");
            seen.commits += 1;
            seen.forced += usize::from(commit.forced);
            seen.dropped += usize::from(reference.tokens[frame].len() < tokens);
            assert_same(&mut channel, &reference, &format!("{name}, frame {frame}"));
        }
        assert_eq!(channel.take_committed().unwrap(), None, "{name}, frame {frame}");
        if expected.is_err() {
            break;
        }
        if end.is_none() {
            end = endpoint(&reference, &rules);
            seen.ends += usize::from(end.is_some());
            let across = end.is_some_and(|end| ((end.frames - end.trailing_silence) as usize) < reference.base());
            seen.ends_across += usize::from(across);
        }
    }
    let end = end.map(|endpoint| SegmentEnd { segment: 0, first_frame: 0, endpoint });
    assert_eq!(channel.endpoint().unwrap(), end, "{name}");
    assert_same(&mut channel, &reference, &name);
}

#[test]
fn streams_on_random_graphs() {
    let mut seen = Seen::default();
    for case in 0..50 {
        run(BackendChoice::Cpu, case, 450, false, &mut seen);
    }
    println!("{seen:?}");
    assert!(seen.forced > 20 && seen.commits > seen.forced + 20 && seen.dropped > 20, "{seen:?}");
    assert!(seen.ends > 20 && seen.ends_across > 10, "{seen:?}");
}

#[test]
fn streams_with_phrases() {
    let mut seen = Seen::default();
    for case in 0..25 {
        run(BackendChoice::Cpu, 1_000 + case, 330, true, &mut seen);
    }
    println!("{seen:?}");
    assert!(seen.forced > 10 && seen.dropped > 10, "{seen:?}");
}

#[test]
fn streams_on_a_gpu() {
    common::gpu();
    let mut seen = Seen::default();
    for case in 0..6 {
        run(BackendChoice::Cuda, 2_000 + case, 330, case % 2 == 0, &mut seen);
    }
    println!("{seen:?}");
    assert!(seen.forced > 1 && seen.dropped > 1, "{seen:?}");
}
