//! Partial results at any frame: equal to the plain reference and to those of a channel that was never
//! asked before, at a cost that does not grow with the utterance. Best paths as lattices say the same.

mod common;

use std::sync::Arc;

use common::graph::Rng;
use common::random_search::{COLUMNS, random_config, random_graph, random_rows};
use common::reference::Reference;
use koshi::decoder::{BackendChoice, Channel, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph, VecSource};
use koshi::lattice::{Path, RawLattice};
use koshi::search::{CommitConfig, Phrase, Rows, SearchConfig};

fn decoder(source: &VecSource, search: SearchConfig, backend: BackendChoice) -> Arc<Decoder> {
    let graph = Arc::new(Graph::from_source(source, Columns::Labels).unwrap());
    let config = DecoderConfig { search, backend, num_lanes: 1, num_threads: 1, ..DecoderConfig::default() };
    Decoder::new(graph, config).unwrap()
}

/// The words that all lists begin with.
fn common_words(lists: &[Vec<i32>]) -> &[i32] {
    let Some((first, rest)) = lists.split_first() else { return &[] };
    let same = |n: &usize| rest.iter().all(|list| list.starts_with(&first[..*n]));
    &first[..(0..=first.len()).rev().find(same).unwrap()]
}

/// What is left of a path without its first words.
fn without(path: &Path, words: usize) -> Path {
    let words = words.min(path.olabels.len());
    let frame = match (words, path.frames.get(words)) {
        (0, _) => 0,
        (_, Some(&frame)) => frame as usize,
        (_, None) => path.ilabels.len(),
    };
    Path {
        ilabels: path.ilabels[frame..].to_vec(),
        olabels: path.olabels[words..].to_vec(),
        frames: path.frames[words..].to_vec(),
        ..path.clone()
    }
}

/// The path of a lattice that has no other.
fn only_path(lattice: &RawLattice) -> Path {
    lattice.validate().unwrap();
    let mut path =
        Path { acoustic_scale: lattice.acoustic_scale, reached_final: lattice.reached_final, ..Path::default() };
    for state in 0..lattice.num_states() as u32 {
        assert_eq!(lattice.arcs_of(state).len(), usize::from(state as usize + 1 < lattice.num_states()));
        for at in lattice.arc_range(state) {
            let arc = &lattice.arcs[at];
            path.ilabels.extend((arc.ilabel != 0).then_some(arc.ilabel));
            path.olabels.extend((arc.olabel != 0).then_some(arc.olabel));
            path.frames.extend((arc.olabel != 0).then_some(lattice.times[state as usize]));
            path.graph_cost += f64::from(arc.weight.graph);
            path.acoustic_cost += f64::from(arc.weight.acoustic);
            path.bias_cost += f64::from(lattice.bias.arc(at));
        }
    }
    if let Some(last) = lattice.num_states().checked_sub(1) {
        assert!(lattice.finals[..last].iter().all(|cost| cost.is_absent()));
        path.graph_cost += f64::from(lattice.finals[last].graph);
        path.bias_cost += f64::from(lattice.bias.end(last));
        assert_eq!(lattice.finals[last].acoustic, 0.0);
    }
    path
}

/// Questions at random frames of one case, held to the reference. Gives the number of words that
/// stood firm, in all answers together.
fn ask_at_random(backend: BackendChoice, case: u64, frames: u64) -> usize {
    let rng = &mut Rng(case.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let source = random_graph(rng);
    let search = SearchConfig { candidate_capacity: u64::MAX, ..random_config(rng) };
    let rows = random_rows(rng, frames);
    let name = format!("case {case}: {source:?} {search:?}");
    let Ok(mut reference) = Reference::begin(&source, search) else { return 0 };
    let mut channel = decoder(&source, search, backend).new_channel().unwrap();
    channel.begin().unwrap();
    let (mut firm, mut total) = (Vec::new(), 0);
    let rows = Rows::dense(&rows, COLUMNS as usize).unwrap();
    let mut frame = 0;
    while frame < frames as usize {
        let push = rows.slice(frame, 1 + rng.below(3) as usize * rng.below(3) as usize);
        if (0..push.frames()).try_for_each(|at| reference.advance(push.row(at))).is_err() {
            break;
        }
        channel.push(push).unwrap();
        frame += push.frames();
        for _ in 0..rng.below(4) / 2 {
            let name = format!("frame {frame} of {name}");
            if rng.below(3) == 0 {
                let use_final = rng.below(2) == 0;
                let best = reference.best_path(use_final);
                assert_eq!(channel.best_path(use_final).unwrap(), best, "{name}");
                assert_eq!(only_path(&channel.best_lattice(use_final).unwrap()), best, "{name}");
                continue;
            }
            let from = if rng.below(2) == 0 { 0 } else { rng.below(12) as usize };
            let (path, stable) = channel.partial_from(from).unwrap();
            let whole = reference.best_path(false);
            assert_eq!(path, without(&whole, from), "{name}");
            let words = reference.words_of_emitting();
            let common = common_words(&words);
            assert_eq!(stable, common.len(), "{name}");
            assert!(whole.olabels.starts_with(common) && common.starts_with(&firm), "{name}");
            firm = common.to_vec();
            total += stable;
        }
    }
    total
}

#[test]
fn questions_at_random_frames() {
    let words: usize = (0..3_000).map(|case| ask_at_random(BackendChoice::Cpu, case, 12)).sum();
    assert!(words > 3_000, "words that stood firm: {words}");
    let words: usize = (0..250).map(|case| ask_at_random(BackendChoice::Cpu, 1_000_000 + case, 70)).sum();
    assert!(words > 10_000, "words that stood firm: {words}");
}

#[test]
fn questions_at_random_frames_on_the_gpu() {
    common::gpu();
    let words: usize = (0..100).map(|case| ask_at_random(BackendChoice::Cuda, 3_000_000 + case, 30)).sum();
    assert!(words > 500, "words that stood firm: {words}");
}

fn busy() -> (VecSource, Vec<f32>, usize, SearchConfig) {
    let (source, rows, dim) = Rng(5).busy();
    (source, rows, dim, SearchConfig { beam: 9.0, lattice_beam: 6.0, max_active: 800, ..SearchConfig::default() })
}

/// A channel that is asked after every `every` frames, beside others that are asked once.
fn asked_often_or_once(frames: usize, every: usize, marks: &[usize]) -> Channel {
    let (source, rows, dim, search) = busy();
    let decoder = decoder(&source, search, BackendChoice::Cpu);
    let row = |frame: usize| Rows::new(&rows[frame % 400 * dim..][..dim], 1, dim, dim).unwrap();
    let mut often = decoder.new_channel().unwrap();
    often.begin().unwrap();
    let mut firm: Vec<i32> = Vec::new();
    for frame in 0..frames {
        often.push(row(frame)).unwrap();
        if frame % every == 0 {
            let (path, stable) = often.partial().unwrap();
            assert!(path.olabels[..stable].starts_with(&firm), "frame {frame}");
            firm.truncate(0);
            firm.extend_from_slice(&path.olabels[..stable]);
        }
        if marks.contains(&frame) {
            let mut once = decoder.new_channel().unwrap();
            once.begin().unwrap();
            (0..=frame).for_each(|frame| once.push(row(frame)).unwrap());
            assert_eq!(often.partial().unwrap(), once.partial().unwrap(), "frame {frame}");
            assert_eq!(often.best_path(true).unwrap(), once.best_path(true).unwrap(), "frame {frame}");
        }
    }
    assert!(firm.len() > frames / 3, "words became firm: {} in {frames} frames", firm.len());
    often
}

#[test]
fn a_best_path_as_a_lattice_has_its_bias_and_begins_behind_what_is_committed() {
    let (source, rows, dim, search) = busy();
    let mut channel = decoder(&source, search, BackendChoice::Cpu).new_channel().unwrap();
    assert!(channel.best_lattice(true).is_err(), "it has not begun");
    let push = |channel: &mut Channel, frames: std::ops::Range<usize>| {
        for frame in frames {
            channel.push(Rows::new(&rows[frame % 400 * dim..][..dim], 1, dim, dim).unwrap()).unwrap();
        }
    };
    channel.begin().unwrap();
    push(&mut channel, 0..40);
    let word = channel.best_path(false).unwrap().olabels[0];
    channel
        .set_bias(&[Phrase { labels: &[word, word], bonus: 2.5 }, Phrase { labels: &[word], bonus: -0.75 }])
        .unwrap();
    channel.begin().unwrap();
    let mut biased = 0;
    for frame in (0..120).step_by(10) {
        push(&mut channel, frame..frame + 10);
        for use_final in [false, true] {
            let best = channel.best_path(use_final).unwrap();
            biased += usize::from(best.bias_cost != 0.0);
            assert_eq!(only_path(&channel.best_lattice(use_final).unwrap()), best, "frame {frame}");
        }
    }
    assert!(biased > 4, "{biased} paths had a bias");

    channel.set_bias(&[]).unwrap();
    channel.set_commit(Some(CommitConfig { frames: 256, lattice_frames: 0 })).unwrap();
    channel.begin().unwrap();
    push(&mut channel, 0..1_000);
    let committed = channel.committed_frames();
    assert!(committed > 256);
    let (whole, lattice) = (channel.best_path(true).unwrap(), channel.best_lattice(true).unwrap());
    assert_eq!(u64::from(lattice.num_frames), 1_000 - committed);
    let rest = only_path(&lattice);
    assert_eq!(rest.ilabels, whole.ilabels);
    assert!(whole.olabels.ends_with(&rest.olabels) && rest.olabels.len() < whole.olabels.len());
    let times = rest.frames.iter().map(|time| time + committed as u32);
    assert!(times.eq(whole.frames[whole.frames.len() - rest.frames.len()..].iter().copied()));
}

#[test]
fn asked_often_or_once_is_the_same() {
    let channel = asked_often_or_once(900, 1, &[0, 7, 60, 111, 250, 600, 899]);
    // The trace was compacted on the way, which renumbers its tokens.
    let stats = channel.stats().unwrap();
    assert!(stats.trace_links > 1 << 14, "{stats:?}");
    for every in [2, 17, 120] {
        asked_often_or_once(400, every, &[121, 399]);
    }
}

#[test]
fn a_partial_costs_the_same_after_a_minute_as_after_an_hour() {
    let (source, rows, dim, search) = busy();
    let search = SearchConfig { max_active: 60, min_active: 30, ..search };
    let mut channel = decoder(&source, search, BackendChoice::Cpu).new_channel().unwrap();
    channel.begin().unwrap();
    let (mut words, mut steps, mut followed) = (0, Vec::new(), 0);
    for frame in 0..20_000 {
        channel.push(Rows::new(&rows[frame % 400 * dim..][..dim], 1, dim, dim).unwrap()).unwrap();
        let (path, stable) = channel.partial_from(words).unwrap();
        // What is copied does not grow either.
        assert!(path.olabels.len() < 200 && path.ilabels.len() < 200, "frame {frame}");
        words = stable;
        let so_far = channel.stats().unwrap().links_followed;
        steps.push(so_far - followed);
        followed = so_far;
    }
    let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len() as f64;
    let (early, late) = (mean(&steps[1_000..3_000]), mean(&steps[18_000..]));
    assert!(words > 5_000 && early > 10.0, "{words} words, {early} steps a partial");
    assert!(late < 1.05 * early, "{early} steps a partial became {late}");
    let most = |part: &[u64]| part.iter().copied().max().unwrap();
    assert!(most(&steps[10_000..]) < 2 * most(&steps[1_000..10_000]), "{}", most(&steps[10_000..]));
}
