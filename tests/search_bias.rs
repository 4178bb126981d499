//! Phrases in the search: against the plain reference over the explicit pairs of graph and bias states, bit
//! for bit, on random graphs and phrases; and what must not change by them.

mod common;

use std::sync::Arc;

use common::biased::{List, paired, phrases, random_list};
use common::graph::Rng;
use common::random_search::{COLUMNS, assert_same_results, random_config, random_graph, random_rows, stop_of};
use common::reference::{Reference, Searched};
use koshi::decoder::{BackendChoice, Channel, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph, VecSource};
use koshi::lattice::BiasCosts;
use koshi::search::{Rows, SearchConfig};

/// The lists of an utterance, each with the frame from which on it holds. Tokens without phrases have
/// the list of none.
struct Plan {
    changes: Vec<(usize, List)>,
}

impl Plan {
    fn random(rng: &mut Rng, frames: usize) -> Plan {
        let mut changes = vec![(0, if rng.below(4) == 0 { List::new() } else { random_list(rng) })];
        for frame in 0..frames {
            if rng.below(frames as u64) == 0 {
                let list = if rng.below(4) == 0 { List::new() } else { random_list(rng) };
                // Before the first frame there is a token already, which the list of `begin` has biased.
                changes.push((frame, list));
            }
        }
        Plan { changes }
    }

    fn lists(&self) -> Vec<List> {
        self.changes.iter().map(|(_, list)| list.clone()).collect()
    }

    /// The graph for the arcs of a frame, at first for those of time 0; whether any list has come yet.
    fn graph(&self, graph: &VecSource, now: usize) -> Searched {
        let mut paired = paired(graph, &self.lists(), now);
        paired.biased = self.changes[..=now].iter().any(|(_, list)| !list.is_empty());
        paired
    }

    /// Begins an utterance under the first list.
    fn begin(&self, channel: &mut Channel) -> koshi::Result<()> {
        channel.set_bias(&phrases(&self.changes[0].1)).unwrap();
        channel.begin()
    }

    /// Sets the lists that hold from a frame on; gives the last one's number.
    fn change(&self, channel: &mut Channel, frame: usize) -> Option<usize> {
        let now = (1..self.changes.len()).filter(|&at| self.changes[at].0 == frame);
        now.inspect(|&at| channel.set_bias(&phrases(&self.changes[at].1)).unwrap()).last()
    }
}

fn decoder(graph: &VecSource, search: SearchConfig, backend: BackendChoice) -> Arc<Decoder> {
    let graph = Arc::new(Graph::from_source(graph, Columns::Labels).unwrap());
    let config = DecoderConfig { search, backend, num_lanes: 2, num_threads: 1, ..DecoderConfig::default() };
    Decoder::new(graph, config).unwrap()
}

fn one_row(row: &[f32]) -> Rows<'_> {
    Rows::new(row, 1, row.len(), row.len()).unwrap()
}

/// One case, compared after each `every`-th frame, and in random cuts at the end.
fn run(backend: BackendChoice, case: u64, frames: u64, every: usize) {
    let rng = &mut Rng(case.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let graph = random_graph(rng);
    let mut config = random_config(rng);
    if frames > 20 {
        config.candidate_capacity = u64::MAX;
    }
    let rows = random_rows(rng, frames);
    let plan = Plan::random(rng, frames as usize);
    let name = format!("case {case}: {graph:?} {config:?} {:?}", plan.changes);
    let decoder = decoder(&graph, config, backend);
    let mut channel = decoder.new_channel().unwrap();
    let begun = plan.begin(&mut channel);
    let mut reference = match Reference::begin_on(plan.graph(&graph, 0), config) {
        Ok(reference) => reference,
        Err(stop) => {
            assert_eq!(stop_of(&begun.unwrap_err()), stop, "{name}");
            return;
        }
    };
    begun.unwrap();
    assert_same_results(&mut channel, &reference, &name);
    let mut searched = 0;
    for (frame, row) in rows.chunks(COLUMNS as usize).enumerate() {
        if let Some(now) = plan.change(&mut channel, frame) {
            // Nothing of the present time changes yet.
            reference.graph.biased = plan.graph(&graph, now).biased;
            assert_same_results(&mut channel, &reference, &format!("change at {frame} of {name}"));
            reference.graph = plan.graph(&graph, now);
        }
        let (expected, got) = (reference.advance(row), channel.push(one_row(row)));
        assert_eq!(got.as_ref().map_err(stop_of).copied(), expected.as_ref().map_err(|s| *s).copied(), "{name}");
        if frame.is_multiple_of(every) || got.is_err() {
            assert_same_results(&mut channel, &reference, &format!("frame {frame} of {name}"));
        }
        if got.is_err() {
            break;
        }
        searched += 1;
    }
    assert_same_results(&mut channel, &reference, &name);

    let mut cut = decoder.new_channel().unwrap();
    plan.begin(&mut cut).unwrap();
    let all = Rows::dense(&rows, COLUMNS as usize).unwrap();
    let mut done = 0;
    while done < searched {
        plan.change(&mut cut, done);
        let next = plan.changes.iter().map(|&(frame, _)| frame).filter(|&frame| frame > done).min();
        let most = next.unwrap_or(searched).min(searched) - done;
        let take = 1 + rng.below(most as u64) as usize;
        cut.push(all.slice(done, take)).unwrap();
        done += take;
    }
    if searched < frames as usize {
        plan.change(&mut cut, searched);
    }
    assert_same_results(&mut cut, &reference, &format!("other cuts of {name}"));
}

#[test]
fn short_utterances_on_random_graphs() {
    for case in 0..3_000 {
        run(BackendChoice::Cpu, case, 6, 1);
    }
}

#[test]
fn long_utterances_prune_on_the_way() {
    for case in 0..60 {
        run(BackendChoice::Cpu, 1_000_000 + case, 70, 13);
    }
}

#[test]
fn utterances_on_a_gpu() {
    common::gpu();
    for case in 0..200 {
        run(BackendChoice::Cuda, case, 6, 1);
    }
    for case in 0..6 {
        run(BackendChoice::Cuda, 1_000_000 + case, 70, 13);
    }
}

/// What a list of phrases that are never said leaves as it is, bit for bit, in what is found.
#[test]
fn phrases_that_are_never_said_change_no_cost() {
    let mut compared = 0;
    for case in 0..500 {
        let rng = &mut Rng(case * 2 + 1);
        let graph = random_graph(rng);
        let search = SearchConfig { beam: 6.0, lattice_beam: 3.0, ..SearchConfig::default() };
        let rows = random_rows(rng, 8);
        let rows = Rows::dense(&rows, COLUMNS as usize).unwrap();
        let decoder = decoder(&graph, search, BackendChoice::Cpu);
        let mut channel = decoder.new_channel().unwrap();
        channel.begin().unwrap();
        if channel.push(rows).is_err() {
            continue;
        }
        let (plain, path) = (channel.lattice(true).unwrap(), channel.best_path(true).unwrap());
        channel.set_bias(&phrases(&vec![(vec![5, 1], 9.0), (vec![77], 3.0)])).unwrap();
        channel.begin().unwrap();
        channel.push(rows).unwrap();
        let (mut biased, with_list) = (channel.lattice(true).unwrap(), channel.best_path(true).unwrap());
        assert!(biased.bias.arcs.iter().chain(&biased.bias.finals).all(|cost| cost.to_bits() == 0));
        biased.bias = BiasCosts::default();
        assert_eq!((biased, with_list), (plain, path), "case {case}");
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
}
