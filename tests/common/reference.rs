//! The search as its definition reads: maps and loops over plain lists, nothing pruned before
//! the end, no thought for speed. The decoder is held to it bit for bit.
#![allow(dead_code)] // each test file uses its own part

use std::collections::BTreeMap;

use koshi::graph::{GraphArc, VecSource};
use koshi::lattice::{BiasCosts, LatticeArc, LatticeWeight, Path, RawLattice};
use koshi::search::SearchConfig;

/// A link between two tokens, named by time and graph state.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub src: (usize, u32),
    pub dst: (usize, u32),
    pub arc: Arc,
    pub cost: f32,
    pub acoustic: f32,
}

/// An arc, and what its place in the graph says of it.
#[derive(Clone, Copy, Debug)]
pub struct Arc {
    pub given: GraphArc,
    /// The part of its weight that is the graph's, and the phrases' part.
    pub graph: f32,
    pub bias: f32,
    /// Its place in the order of arcs: without phrases the index in the file.
    pub rank: u32,
}

/// What a state of the graph costs an end.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Final cost of the graph alone.
    pub graph: f32,
    /// Given back of the phrases' bonuses, whether final or not.
    pub held: f32,
}

/// A graph as the definition sees it.
#[derive(Clone, Debug, Default)]
pub struct Searched {
    pub start: u32,
    pub arcs: Vec<Vec<Arc>>,
    pub ends: Vec<End>,
    pub levels: Vec<u32>,
    /// Whether there are phrases.
    pub biased: bool,
}

impl Searched {
    /// A graph without phrases.
    pub fn plain(graph: &VecSource) -> Searched {
        let mut rank = 0;
        let mut arcs_of = |arcs: &Vec<GraphArc>| {
            let made = arcs.iter().enumerate().map(|(place, &given)| Arc {
                given,
                graph: given.weight,
                bias: 0.0,
                rank: rank + place as u32,
            });
            let made: Vec<Arc> = made.collect();
            rank += made.len() as u32;
            made
        };
        Searched {
            start: graph.start.unwrap(),
            arcs: graph.states.iter().map(|(_, arcs)| arcs_of(arcs)).collect(),
            ends: graph.states.iter().map(|&(graph, _)| End { graph, held: 0.0 }).collect(),
            levels: super::graph::levels(graph),
            biased: false,
        }
    }
}

/// Why the search stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    Scores {
        frame: u64,
        column: usize,
    },
    NoTokens {
        frame: u64,
    },
    Capacity {
        frame: u64,
    },
    /// A cost fell to -inf, where the definition ends.
    Range {
        frame: u64,
    },
}

/// All tokens and links of an utterance.
pub struct Reference {
    /// The graph; another of the same states may take its place between two frames.
    pub graph: Searched,
    pub(super) config: SearchConfig,
    /// By time: cost of each token before the subtraction of the least.
    pub tokens: Vec<BTreeMap<u32, f32>>,
    pub links: Vec<Link>,
    /// The best path's links up to the time `base`, where lattices begin: a stream may be committed up to there.
    pub(super) committed: Vec<Link>,
    pub(super) base: usize,
    next_beam: f32,
    cutoff: f32,
}

impl Reference {
    /// Time 0. `Err` if even that does not fit the capacities.
    pub fn begin(graph: &VecSource, config: SearchConfig) -> Result<Reference, Stop> {
        Reference::begin_on(Searched::plain(graph), config)
    }

    /// The same over a graph as the definition sees it.
    pub fn begin_on(graph: Searched, config: SearchConfig) -> Result<Reference, Stop> {
        let given = GraphArc { ilabel: 0, olabel: 0, weight: 0.0, next: graph.start };
        let arc = Arc { given, graph: 0.0, bias: 0.0, rank: u32::MAX };
        let start = Link { src: (0, 0), dst: (0, graph.start), arc, cost: 0.0, acoustic: 0.0 };
        let mut reference = Reference {
            graph,
            config,
            tokens: Vec::new(),
            links: Vec::new(),
            committed: Vec::new(),
            base: 0,
            next_beam: 0.0,
            cutoff: 0.0,
        };
        reference.settle(0, &[start], config.beam)?;
        Ok(reference)
    }

    /// One row; labels are one-based columns.
    pub fn advance(&mut self, row: &[f32]) -> Result<(), Stop> {
        let frame = self.tokens.len() as u64 - 1;
        let ac = |ll: f32| if ll == f32::NEG_INFINITY { f32::INFINITY } else { -(self.config.acoustic_scale * ll) };
        if let Some(column) =
            row.iter().position(|&ll| ll.is_nan() || ll == f32::INFINITY || ac(ll) == f32::NEG_INFINITY)
        {
            return Err(Stop::Scores { frame, column });
        }
        let time = self.tokens.len() - 1;
        let least = self.least(time);
        let mut candidates = Vec::new();
        for (&state, &alpha) in &self.tokens[time] {
            let a = alpha - least;
            if a > self.cutoff {
                continue;
            }
            for arc in &self.graph.arcs[state as usize] {
                if arc.given.ilabel == 0 {
                    continue;
                }
                let ll = row[arc.given.ilabel as usize - 1];
                let cost = a + (arc.given.weight + ac(ll));
                if cost < f32::INFINITY {
                    candidates.push(Link {
                        src: (time, state),
                        dst: (time + 1, arc.given.next),
                        arc: *arc,
                        cost,
                        acoustic: if ll == 0.0 { 0.0 } else { -ll },
                    });
                }
            }
        }
        let Some(best) = candidates.iter().map(|link| link.cost).reduce(f32::min) else {
            return Err(Stop::NoTokens { frame });
        };
        if best == f32::NEG_INFINITY {
            return Err(Stop::Range { frame });
        }
        let theta = best + self.next_beam;
        self.settle(frame, &candidates, if theta == f32::INFINITY { f32::MAX } else { theta })
    }

    fn settle(&mut self, frame: u64, candidates: &[Link], mut theta: f32) -> Result<(), Stop> {
        let fit = |costs: &[f32], capacity: u64| -> Result<Option<f32>, Stop> {
            if costs.len() as u64 <= capacity {
                return Ok(None);
            }
            let fits = |x: f32| costs.iter().filter(|&&cost| cost <= x).count() as u64 <= capacity;
            let bound = costs.iter().copied().filter(|&x| fits(x)).max_by(f32::total_cmp);
            bound.map(Some).ok_or(Stop::Capacity { frame })
        };
        let within: Vec<f32> = candidates.iter().map(|link| link.cost).filter(|&cost| cost <= theta).collect();
        theta = fit(&within, self.config.candidate_capacity)?.unwrap_or(theta);
        let (tokens, links) = loop {
            let (tokens, links) = self.close(candidates, theta);
            if tokens.is_empty() {
                return Err(Stop::Capacity { frame });
            }
            let alphas: Vec<f32> = tokens.values().copied().collect();
            if let Some(tighter) = fit(&alphas, self.config.token_capacity)? {
                theta = tighter;
                continue;
            }
            let links: Vec<Link> = links.into_iter().filter(|link| link.arc.rank != u32::MAX).collect();
            let costs: Vec<f32> = links.iter().map(|link| link.cost).collect();
            if let Some(tighter) = fit(&costs, self.config.link_capacity)? {
                theta = tighter;
                continue;
            }
            break (tokens, links);
        };
        if tokens.values().any(|&alpha| alpha == f32::NEG_INFINITY) {
            return Err(Stop::Range { frame });
        }
        self.links.extend(links);
        self.tokens.push(tokens);
        self.emission();
        Ok(())
    }

    /// Tokens and links of the next time under `theta`: relaxation until nothing changes.
    fn close(&self, candidates: &[Link], theta: f32) -> (BTreeMap<u32, f32>, Vec<Link>) {
        let time = self.tokens.len();
        let mut links: Vec<Link> = candidates.iter().copied().filter(|link| link.cost <= theta).collect();
        let mut tokens: BTreeMap<u32, f32> = BTreeMap::new();
        for link in &links {
            let alpha = tokens.entry(link.dst.1).or_insert(f32::INFINITY);
            *alpha = alpha.min(link.cost);
        }
        let epsilons = |tokens: &BTreeMap<u32, f32>| -> Vec<Link> {
            let mut found = Vec::new();
            for (&state, &alpha) in tokens {
                for arc in &self.graph.arcs[state as usize] {
                    let cost = alpha + arc.given.weight;
                    if arc.given.ilabel == 0 && cost <= theta {
                        let dst = (time, arc.given.next);
                        found.push(Link { src: (time, state), dst, arc: *arc, cost, acoustic: 0.0 });
                    }
                }
            }
            found
        };
        loop {
            let before = tokens.clone();
            for link in epsilons(&before) {
                let alpha = tokens.entry(link.dst.1).or_insert(f32::INFINITY);
                *alpha = alpha.min(link.cost);
            }
            if tokens == before {
                break;
            }
        }
        links.extend(epsilons(&tokens));
        (tokens, links)
    }

    pub(super) fn least(&self, time: usize) -> f32 {
        self.tokens[time].values().copied().fold(f32::INFINITY, f32::min)
    }

    fn emission(&mut self) {
        let time = self.tokens.len() - 1;
        let least = self.least(time);
        let mut a: Vec<f32> = self.tokens[time].values().map(|alpha| alpha - least).collect();
        a.sort_by(f32::total_cmp);
        let (n, beam, delta) = (a.len(), self.config.beam, self.config.beam_delta);
        let (max, min) = (self.config.max_active as usize, self.config.min_active as usize);
        (self.cutoff, self.next_beam) = if n > max && a[max] <= beam {
            (a[max], a[max] + delta)
        } else if n <= min {
            (f32::INFINITY, f32::INFINITY)
        } else if min > 0 && a[min] > beam {
            (a[min], a[min] + delta)
        } else {
            (beam, beam)
        };
    }

    /// End value and final cost of each token of the last time, and whether finals were reached.
    fn ends(&self, use_final: bool) -> (BTreeMap<u32, (f32, f32)>, bool) {
        let with_final = self.end_costs(|end| end.graph);
        let best = least(&with_final);
        let (costs, reached) =
            if use_final && best < f32::INFINITY { (with_final, true) } else { (self.end_costs(|_| 0.0), false) };
        let best = least(&costs);
        let costs = costs.into_iter().filter(|(_, sum)| *sum < f32::INFINITY);
        let cost_of = |state: u32| if reached { self.graph.ends[state as usize].graph } else { 0.0 };
        let ends = costs.map(|(state, sum)| (state, (sum - best, cost_of(state)))).collect();
        (ends, reached)
    }

    /// What an end at each token of the last time costs above the best token, with the given part of its end.
    fn end_costs(&self, graph: impl Fn(End) -> f32) -> BTreeMap<u32, f32> {
        let time = self.tokens.len() - 1;
        let least = self.least(time);
        let cost = |state: u32, alpha: f32| {
            let end = self.graph.ends[state as usize];
            (alpha - least) + (graph(end) + end.held)
        };
        self.tokens[time].iter().map(|(&state, &alpha)| (state, cost(state, alpha))).collect()
    }

    /// Cost of the best final end above the best end.
    pub fn final_relative_cost(&self) -> f32 {
        least(&self.end_costs(|end| end.graph)) - least(&self.end_costs(|_| 0.0))
    }

    /// Extra cost of every token from the ends at time `last`.
    pub(super) fn extras(&self, last: usize, ends: &BTreeMap<u32, (f32, f32)>) -> BTreeMap<(usize, u32), f32> {
        let mut extras: BTreeMap<(usize, u32), f32> =
            ends.iter().map(|(&state, &(extra, _))| ((last, state), extra)).collect();
        let mut by_time: Vec<Vec<&Link>> = vec![Vec::new(); last + 1];
        self.links.iter().filter(|link| link.dst.0 <= last).for_each(|link| by_time[link.dst.0].push(link));
        for links in by_time.iter().rev() {
            // Epsilon links among them: round after round, until nothing changes.
            loop {
                let mut quiet = true;
                for link in links {
                    let Some(&extra) = extras.get(&link.dst) else { continue };
                    let sum = link.cost - self.tokens[link.dst.0][&link.dst.1] + extra;
                    if sum <= self.config.lattice_beam {
                        let entry = extras.entry(link.src).or_insert(f32::INFINITY);
                        quiet &= *entry <= sum;
                        *entry = entry.min(sum);
                    }
                }
                if quiet {
                    break;
                }
            }
        }
        extras
    }

    /// The raw lattice in canonical order.
    pub fn lattice(&self, use_final: bool) -> RawLattice {
        let (ends, reached_final) = self.ends(use_final);
        if use_final && !reached_final && self.tokens.len() == 1 {
            return RawLattice::empty(self.config.acoustic_scale);
        }
        self.lattice_to(self.tokens.len() - 1, &ends, reached_final)
    }

    /// The lattice from where lattices begin to the ends at time `last`.
    pub(super) fn lattice_to(&self, last: usize, ends: &BTreeMap<u32, (f32, f32)>, reached_final: bool) -> RawLattice {
        let beam = self.config.lattice_beam;
        let extras = self.extras(last, ends);
        let mut order: Vec<(usize, u32, u32)> = extras
            .iter()
            .filter(|(_, extra)| **extra <= beam)
            .map(|(&(time, state), _)| (time, self.graph.levels[state as usize], state))
            .collect();
        order.sort();
        let number: BTreeMap<(usize, u32), u32> =
            order.iter().enumerate().map(|(number, &(time, _, state))| ((time, state), number as u32)).collect();
        let mut arcs: Vec<(u32, u32, u32, LatticeArc, f32)> = Vec::new();
        for link in self.links.iter().filter(|link| link.dst.0 <= last) {
            let extra = link.cost - self.tokens[link.dst.0][&link.dst.1];
            let survives = extras.get(&link.dst).is_some_and(|to| extra + to <= beam);
            if survives {
                let Arc { given, graph, bias, rank } = link.arc;
                let weight = LatticeWeight { graph, acoustic: link.acoustic };
                let next = number[&link.dst];
                let arc = LatticeArc { next, ilabel: given.ilabel, olabel: given.olabel, weight };
                arcs.push((number[&link.src], next, rank, arc, bias));
            }
        }
        arcs.sort_by_key(|&(src, dst, rank, ..)| (src, dst, rank));
        let mut offsets = vec![0u32; order.len() + 1];
        for &(src, ..) in &arcs {
            offsets[src as usize + 1] += 1;
        }
        for state in 1..offsets.len() {
            offsets[state] += offsets[state - 1];
        }
        let finals = order.iter().map(|&(time, _, state)| match ends.get(&state) {
            Some(&(extra, graph)) if time == last && extra <= beam => LatticeWeight { graph, acoustic: 0.0 },
            _ => LatticeWeight::ZERO,
        });
        let mut bias = BiasCosts::default();
        if self.graph.biased {
            bias.arcs = arcs.iter().map(|arc| arc.4).collect();
            let held = order.iter().map(|&(time, _, state)| match ends.get(&state) {
                Some(&(extra, _)) if time == last && extra <= beam => self.graph.ends[state as usize].held,
                _ => 0.0,
            });
            bias.finals = held.collect();
        }
        RawLattice {
            bias,
            finals: finals.collect(),
            times: order.iter().map(|&(time, ..)| (time - self.base) as u32).collect(),
            arcs: arcs.into_iter().map(|(.., arc, _)| arc).collect(),
            offsets,
            acoustic_scale: self.config.acoustic_scale,
            num_frames: (last - self.base) as u32,
            reached_final,
        }
    }

    /// The best path by the tie rules.
    pub fn best_path(&self, use_final: bool) -> Path {
        let (ends, reached_final) = self.ends(use_final);
        self.path_of(use_final, &ends, reached_final)
    }

    /// The best path to the best token with the input labels of all frames, those committed too.
    pub fn whole_best_path(&self) -> Path {
        let mut path = self.best_path(false);
        let committed = self.committed.iter().map(|link| link.arc.given.ilabel).filter(|&ilabel| ilabel != 0);
        path.ilabels = committed.chain(path.ilabels).collect();
        path
    }

    /// The best path to a token that emits next.
    pub fn partial(&self) -> Path {
        let least_of_all = self.least(self.tokens.len() - 1);
        let mut costs = self.end_costs(|_| 0.0);
        costs.retain(|state, _| self.tokens[self.tokens.len() - 1][state] - least_of_all <= self.cutoff);
        let best = least(&costs);
        let ends = costs.into_iter().map(|(state, sum)| (state, (sum - best, 0.0))).collect();
        self.path_of(false, &ends, false)
    }

    fn path_of(&self, use_final: bool, ends: &BTreeMap<u32, (f32, f32)>, reached_final: bool) -> Path {
        let mut path = Path { acoustic_scale: self.config.acoustic_scale, reached_final, ..Path::default() };
        if use_final && !reached_final && self.tokens.len() == 1 {
            return path;
        }
        let (&state, &(_, final_cost)) = ends.iter().find(|(_, end)| end.0 == 0.0).unwrap();
        let steps = self.best_links((self.tokens.len() - 1, state));
        for link in self.committed.iter().chain(&steps) {
            let Arc { given, graph, bias, .. } = link.arc;
            path.graph_cost += f64::from(graph);
            path.acoustic_cost += f64::from(link.acoustic);
            path.bias_cost += f64::from(bias);
            if given.ilabel != 0 && link.src.0 >= self.base {
                path.ilabels.push(given.ilabel);
            }
            if given.olabel != 0 {
                path.olabels.push(given.olabel);
                path.frames.push(link.src.0 as u32);
            }
        }
        path.graph_cost += f64::from(final_cost);
        path.bias_cost += f64::from(self.graph.ends[state as usize].held);
        path
    }

    /// The best link into a token by the tie rules.
    pub(super) fn best_link(&self, to: (usize, u32)) -> Option<&Link> {
        let alpha = self.tokens[to.0][&to.1];
        let into = self.links_into(to.0).iter().filter(|link| link.dst == to && link.cost - alpha == 0.0);
        into.min_by_key(|link| link.arc.rank)
    }

    /// The links into the tokens of a time: they stand in the order of times.
    pub(super) fn links_into(&self, time: usize) -> &[Link] {
        let before = |time: usize| self.links.partition_point(|link| link.dst.0 < time);
        &self.links[before(time)..before(time + 1)]
    }

    /// The links of the best path to a token, from where lattices begin.
    pub(super) fn best_links(&self, to: (usize, u32)) -> Vec<Link> {
        let mut links: Vec<Link> =
            std::iter::successors(self.best_link(to), |link| self.best_link(link.src)).copied().collect();
        links.reverse();
        links
    }

    /// Best path words to each token that emits next.
    pub fn words_of_emitting(&self) -> Vec<Vec<i32>> {
        let last = self.tokens.len() - 1;
        let least = self.least(last);
        let emitting = self.tokens[last].iter().filter(|(_, alpha)| **alpha - least <= self.cutoff);
        let words = emitting.map(|(&state, _)| -> Vec<i32> {
            let steps = self.best_links((last, state));
            let olabels = self.committed.iter().chain(&steps).map(|link| link.arc.given.olabel);
            olabels.filter(|&olabel| olabel != 0).collect()
        });
        words.collect()
    }
}

fn least(costs: &BTreeMap<u32, f32>) -> f32 {
    costs.values().copied().fold(f32::INFINITY, f32::min)
}
