//! The search as its definition reads: maps and loops over plain lists, nothing pruned before
//! the end, no thought for speed. The decoder is held to it bit for bit.
#![allow(dead_code)] // each test file uses its own part

use std::collections::BTreeMap;

use koshi::graph::VecSource;
use koshi::lattice::{LatticeArc, LatticeWeight, Path, RawLattice};
use koshi::search::SearchConfig;

/// A link between two tokens, named by time and graph state.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub src: (usize, u32),
    pub dst: (usize, u32),
    /// Index of the arc in the file.
    pub arc: u32,
    pub cost: f32,
    pub acoustic: f32,
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
pub struct Reference<'g> {
    graph: &'g VecSource,
    config: SearchConfig,
    first_arc: Vec<u32>,
    levels: Vec<u32>,
    /// By time: cost of each token before the subtraction of the least.
    pub tokens: Vec<BTreeMap<u32, f32>>,
    pub links: Vec<Link>,
    next_beam: f32,
    cutoff: f32,
}

impl<'g> Reference<'g> {
    /// Time 0. `Err` if even that does not fit the capacities.
    pub fn begin(graph: &'g VecSource, config: SearchConfig) -> Result<Reference<'g>, Stop> {
        let mut first_arc = vec![0];
        for (_, arcs) in &graph.states {
            first_arc.push(first_arc.last().unwrap() + arcs.len() as u32);
        }
        let mut reference = Reference {
            graph,
            config,
            first_arc,
            levels: super::graph::levels(graph),
            tokens: Vec::new(),
            links: Vec::new(),
            next_beam: 0.0,
            cutoff: 0.0,
        };
        let start = Link { src: (0, 0), dst: (0, graph.start.unwrap()), arc: u32::MAX, cost: 0.0, acoustic: 0.0 };
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
            for (place, arc) in self.graph.states[state as usize].1.iter().enumerate() {
                if arc.ilabel == 0 {
                    continue;
                }
                let ll = row[arc.ilabel as usize - 1];
                let cost = a + (arc.weight + ac(ll));
                if cost < f32::INFINITY {
                    candidates.push(Link {
                        src: (time, state),
                        dst: (time + 1, arc.next),
                        arc: self.first_arc[state as usize] + place as u32,
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
            let links: Vec<Link> = links.into_iter().filter(|link| link.arc != u32::MAX).collect();
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
                for (place, arc) in self.graph.states[state as usize].1.iter().enumerate() {
                    let cost = alpha + arc.weight;
                    if arc.ilabel == 0 && cost <= theta {
                        let index = self.first_arc[state as usize] + place as u32;
                        found.push(Link { src: (time, state), dst: (time, arc.next), arc: index, cost, acoustic: 0.0 });
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

    fn least(&self, time: usize) -> f32 {
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
        let time = self.tokens.len() - 1;
        let least = self.least(time);
        let plain = self.tokens[time].iter().map(|(&state, &alpha)| (state, alpha - least));
        let with_final: Vec<(u32, f32, f32)> = plain
            .clone()
            .map(|(state, a)| (state, a + self.graph.states[state as usize].0, self.graph.states[state as usize].0))
            .filter(|end| end.1 < f32::INFINITY)
            .collect();
        let best = with_final.iter().map(|end| end.1).fold(f32::INFINITY, f32::min);
        if use_final && best < f32::INFINITY {
            return (with_final.into_iter().map(|(state, sum, cost)| (state, (sum - best, cost))).collect(), true);
        }
        (plain.map(|(state, a)| (state, (a, 0.0))).collect(), false)
    }

    /// Extra cost of every token from the ends.
    fn extras(&self, ends: &BTreeMap<u32, (f32, f32)>) -> BTreeMap<(usize, u32), f32> {
        let last = self.tokens.len() - 1;
        let mut extras: BTreeMap<(usize, u32), f32> =
            ends.iter().map(|(&state, &(extra, _))| ((last, state), extra)).collect();
        let mut by_time: Vec<Vec<&Link>> = vec![Vec::new(); last + 1];
        self.links.iter().for_each(|link| by_time[link.dst.0].push(link));
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
        let beam = self.config.lattice_beam;
        let (ends, reached_final) = self.ends(use_final);
        if use_final && !reached_final && self.tokens.len() == 1 {
            return RawLattice::empty(self.config.acoustic_scale);
        }
        let extras = self.extras(&ends);
        let mut order: Vec<(usize, u32, u32)> = extras
            .iter()
            .filter(|(_, extra)| **extra <= beam)
            .map(|(&(time, state), _)| (time, self.levels[state as usize], state))
            .collect();
        order.sort();
        let number: BTreeMap<(usize, u32), u32> =
            order.iter().enumerate().map(|(number, &(time, _, state))| ((time, state), number as u32)).collect();
        let mut arcs: Vec<(u32, u32, u32, LatticeArc)> = Vec::new();
        for link in &self.links {
            let extra = link.cost - self.tokens[link.dst.0][&link.dst.1];
            let survives = extras.get(&link.dst).is_some_and(|to| extra + to <= beam);
            if survives {
                let arc =
                    self.graph.states[link.src.1 as usize].1[(link.arc - self.first_arc[link.src.1 as usize]) as usize];
                let weight = LatticeWeight { graph: arc.weight, acoustic: link.acoustic };
                let next = number[&link.dst];
                let arc = LatticeArc { next, ilabel: arc.ilabel, olabel: arc.olabel, weight };
                arcs.push((number[&link.src], next, link.arc, arc));
            }
        }
        arcs.sort_by_key(|&(src, dst, index, _)| (src, dst, index));
        let mut offsets = vec![0u32; order.len() + 1];
        for &(src, ..) in &arcs {
            offsets[src as usize + 1] += 1;
        }
        for state in 1..offsets.len() {
            offsets[state] += offsets[state - 1];
        }
        let last = self.tokens.len() - 1;
        let finals = order.iter().map(|&(time, _, state)| match ends.get(&state) {
            Some(&(extra, graph)) if time == last && extra <= beam => LatticeWeight { graph, acoustic: 0.0 },
            _ => LatticeWeight::ZERO,
        });
        RawLattice {
            finals: finals.collect(),
            times: order.iter().map(|&(time, ..)| time as u32).collect(),
            arcs: arcs.into_iter().map(|(.., arc)| arc).collect(),
            offsets,
            acoustic_scale: self.config.acoustic_scale,
            num_frames: last as u32,
            reached_final,
        }
    }

    /// The best path by the tie rules.
    pub fn best_path(&self, use_final: bool) -> Path {
        let (ends, reached_final) = self.ends(use_final);
        let mut path = Path { acoustic_scale: self.config.acoustic_scale, reached_final, ..Path::default() };
        if use_final && !reached_final && self.tokens.len() == 1 {
            return path;
        }
        let (&state, &(_, final_cost)) = ends.iter().find(|(_, end)| end.0 == 0.0).unwrap();
        let mut at = (self.tokens.len() - 1, state);
        let mut steps = Vec::new();
        loop {
            let alpha = self.tokens[at.0][&at.1];
            let into = self.links.iter().filter(|link| link.dst == at && link.cost - alpha == 0.0);
            let Some(link) = into.min_by_key(|link| link.arc) else { break };
            steps.push(*link);
            at = link.src;
        }
        for link in steps.into_iter().rev() {
            let arc =
                self.graph.states[link.src.1 as usize].1[(link.arc - self.first_arc[link.src.1 as usize]) as usize];
            path.graph_cost += f64::from(arc.weight);
            path.acoustic_cost += f64::from(link.acoustic);
            if arc.ilabel != 0 {
                path.ilabels.push(arc.ilabel);
            }
            if arc.olabel != 0 {
                path.olabels.push(arc.olabel);
                path.frames.push(link.src.0 as u32);
            }
        }
        path.graph_cost += f64::from(final_cost);
        path
    }

    /// Best path words to each token that emits next.
    pub fn words_of_emitting(&self) -> Vec<Vec<i32>> {
        let last = self.tokens.len() - 1;
        let least = self.least(last);
        let emitting = self.tokens[last].iter().filter(|(_, alpha)| **alpha - least <= self.cutoff);
        let words = emitting.map(|(&state, _)| {
            let mut words = Vec::new();
            let mut at = (last, state);
            loop {
                let alpha = self.tokens[at.0][&at.1];
                let into = self.links.iter().filter(|link| link.dst == at && link.cost - alpha == 0.0);
                let Some(link) = into.min_by_key(|link| link.arc) else { break };
                let place = (link.arc - self.first_arc[link.src.1 as usize]) as usize;
                let olabel = self.graph.states[link.src.1 as usize].1[place].olabel;
                words.extend((olabel != 0).then_some(olabel));
                at = link.src;
            }
            words.reverse();
            words
        });
        words.collect()
    }
}
