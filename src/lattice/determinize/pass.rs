//! One pass of determinization with pruning (Povey et al. 2012, "Generating exact lattices in
//! the WFST framework"; Kaldi's `LatticeDeterminizerPruned`).
//!
//! A state of the result is a subset of the source's states that have a labelled link or an
//! end ("minimal"), each with the string and costs by which it lies behind the subset's
//! common string and best costs. A task is one label out of one subset. Tasks are done in the
//! order of the best path through them, so the result can be cut short at any time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::{Error, Result, try_reserve};

use super::arena::{Arena, ROOT, Tail};
use super::closure::Closure;
use super::config::DeterminizeConfig;
use super::costs::Costs;
use super::index::Index;
use super::source::Source;
use super::subset::{Element, Subset, Subsets, fingerprint, normalize, same};

/// What bounds a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub beam: f64,
    pub scale: f64,
    pub delta: f64,
    /// Bytes that may be held; 0 for no cap.
    pub max_mem: u64,
}

impl Limits {
    pub fn of(config: &DeterminizeConfig) -> Limits {
        Limits {
            beam: f64::from(config.beam),
            scale: f64::from(config.acoustic_scale),
            delta: f64::from(config.delta),
            max_mem: config.max_mem,
        }
    }
}

/// A state of the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    subset: Subset,
    fingerprint: u64,
    /// Least cost from the start.
    forward: f64,
    /// Grows along every arc.
    pub rank: u64,
}

/// An arc of the result. Its string is that of both tails.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    pub from: u32,
    pub to: u32,
    pub label: u32,
    pub costs: Costs,
    pub strings: [Tail; 2],
}

/// Where a path may end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Final {
    pub state: u32,
    pub costs: Costs,
    pub string: Tail,
}

/// A subset as it was before its closure, and the state that it led to.
#[derive(Clone, Copy, Debug)]
struct Initial {
    subset: Subset,
    fingerprint: u64,
    to: u32,
    costs: Costs,
    string: Tail,
}

/// A label out of a state, not followed yet. Its subset is not normalized.
#[derive(Clone, Copy, Debug)]
struct Task {
    state: u32,
    label: u32,
    subset: Subset,
}

/// A labelled link of an element, before links are grouped by label.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// Label and then next state.
    key: u64,
    costs: Costs,
    string: u32,
    link: u32,
}

/// All that a pass holds; kept for the next one, so that it need not allocate.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub arena: Arena,
    subsets: Subsets,
    pub states: Vec<State>,
    pub arcs: Vec<Arc>,
    pub finals: Vec<Final>,
    tasks: Vec<Task>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    initials: Vec<Initial>,
    initial_index: Index,
    state_index: Index,
    closure: Closure,
    candidates: Vec<Candidate>,
    to_end: Vec<f64>,
    minimal: Vec<bool>,
}

impl Work {
    fn clear(&mut self) {
        self.arena.clear();
        self.subsets.elements.clear();
        self.states.clear();
        self.arcs.clear();
        self.finals.clear();
        self.tasks.clear();
        self.heap.clear();
        self.initials.clear();
        self.initial_index.clear();
        self.state_index.clear();
    }

    /// Cost of the best path of the last pass's source; `None` without any.
    pub fn best(&self) -> Option<f64> {
        self.to_end.first().copied()
    }

    /// Bytes held by what grows while the pass goes on.
    fn bytes(&self) -> usize {
        self.arena.bytes()
            + self.subsets.elements.len() * size_of::<Element>()
            + self.states.len() * (size_of::<State>() + Index::BYTES_AN_ENTRY)
            + self.initials.len() * (size_of::<Initial>() + Index::BYTES_AN_ENTRY)
            + self.arcs.len() * size_of::<Arc>()
            + self.finals.len() * size_of::<Final>()
            + self.tasks.len() * (size_of::<Task>() + size_of::<(u64, u32)>())
    }
}

/// Bits of a cost that are ordered as the cost is.
fn ordered_bits(cost: f64) -> u64 {
    let bits = (cost + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn from_ordered_bits(bits: u64) -> f64 {
    f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits })
}

/// Determinizes `source` into `work`. Gives the beam within which the result is whole:
/// `limits.beam`, or less where the memory did not suffice.
pub(super) fn run<S: Source>(source: &S, limits: &Limits, work: &mut Work) -> Result<f64> {
    work.clear();
    sweep(source, limits.scale, work)?;
    let Some(best) = work.best() else { return Ok(limits.beam) };
    // Costs of one path summed in another order may differ in the last bits.
    let cutoff = best + limits.beam + 1e-12 * (1.0 + best.abs());
    let mut pass = Pass { source, limits, cutoff, work };
    pass.start()?;
    while let Some(Reverse((cost, task))) = pass.work.heap.pop() {
        if limits.max_mem > 0 && pass.work.bytes() as u64 > limits.max_mem {
            return Ok((from_ordered_bits(cost) - best).clamp(0.0, limits.beam));
        }
        pass.process(pass.work.tasks[task as usize])?;
    }
    Ok(limits.beam)
}

/// Least costs to the end, and which states a subset keeps.
fn sweep<S: Source>(source: &S, scale: f64, work: &mut Work) -> Result<()> {
    let states = source.num_states();
    work.to_end.clear();
    try_reserve(&mut work.to_end, states, "determinization: states")?;
    work.to_end.resize(states, f64::INFINITY);
    work.minimal.clear();
    try_reserve(&mut work.minimal, states, "determinization: states")?;
    work.minimal.resize(states, false);
    work.closure.reset(states)?;
    for state in (0..states).rev() {
        let end = source.last(state as u32);
        let mut least = end.map_or(f64::INFINITY, |costs| costs.total(scale));
        let mut minimal = end.is_some();
        for number in source.links(state as u32) {
            let link = source.link(number);
            minimal |= link.label != 0;
            least = least.min(link.costs.total(scale) + to_end(source, &work.to_end, link.next));
        }
        work.to_end[state] = least;
        work.minimal[state] = minimal;
    }
    Ok(())
}

/// Least cost from any state to the end, those in the middle of arcs included.
fn to_end<S: Source>(source: &S, to_end: &[f64], state: u32) -> f64 {
    match to_end.get(state as usize) {
        Some(&cost) => cost,
        None => source.links(state).map(|link| to_end[source.link(link).next as usize]).fold(f64::INFINITY, f64::min),
    }
}

struct Pass<'a, S: Source> {
    source: &'a S,
    limits: &'a Limits,
    cutoff: f64,
    work: &'a mut Work,
}

impl<S: Source> Pass<'_, S> {
    /// Makes the first state. Its subset is not normalized: what all of its paths share has no
    /// arc before it to stand on.
    fn start(&mut self) -> Result<()> {
        let work = &mut *self.work;
        let from = [Element { state: 0, string: ROOT, costs: Costs::ONE }];
        work.closure.follow(self.source, &from, self.limits.scale, &mut work.arena, &work.minimal)?;
        let fingerprint = fingerprint(&work.closure.elements, ROOT, &work.arena);
        self.add_state(ROOT, fingerprint, 0.0)?;
        Ok(())
    }

    /// Follows a label: finds or makes the state that it leads to, and adds the arc.
    fn process(&mut self, task: Task) -> Result<()> {
        let Limits { scale, delta, .. } = *self.limits;
        let work = &mut *self.work;
        let from = &work.states[task.state as usize];
        let (forward, base) = (from.forward, work.arena.depth(from.subset.prefix));
        let range = task.subset.first as usize..(task.subset.first + task.subset.len) as usize;
        let (best, prefix) = normalize(&mut work.subsets.elements[range.clone()], &work.arena, scale);
        let subset = Subset { prefix, ..task.subset };
        let elements = &work.subsets.elements[range.clone()];
        let hash = fingerprint(elements, prefix, &work.arena);
        let is_it = |other: u32| {
            let other = &work.initials[other as usize];
            let there = (work.subsets.get(other.subset), other.subset.prefix);
            other.fingerprint == hash && same(there, (elements, prefix), &work.arena, (scale, delta))
        };
        if let Some(known) = work.initial_index.find(hash, is_it) {
            let Initial { to, costs, string, .. } = work.initials[known as usize];
            let strings = [Tail { node: prefix, from: base }, string];
            return self.add_arc(Arc { from: task.state, to, label: task.label, costs: best.plus(costs), strings });
        }
        work.closure.follow(self.source, elements, scale, &mut work.arena, &work.minimal)?;
        let (rest, whole) = normalize(&mut work.closure.elements, &work.arena, scale);
        let string = Tail { node: whole, from: work.arena.depth(prefix) };
        let to = self.state_of(whole, forward + best.total(scale) + rest.total(scale))?;
        self.add_initial(Initial { subset, fingerprint: hash, to, costs: rest, string })?;
        let strings = [Tail { node: whole, from: base }, Tail::EMPTY];
        self.add_arc(Arc { from: task.state, to, label: task.label, costs: best.plus(rest), strings })
    }

    /// The state of the normalized subset that the closure holds.
    fn state_of(&mut self, prefix: u32, forward: f64) -> Result<u32> {
        let Limits { scale, delta, .. } = *self.limits;
        let work = &*self.work;
        let elements = work.closure.elements.as_slice();
        let hash = fingerprint(elements, prefix, &work.arena);
        let is_it = |other: u32| {
            let other = &work.states[other as usize];
            let there = (work.subsets.get(other.subset), other.subset.prefix);
            other.fingerprint == hash && same(there, (elements, prefix), &work.arena, (scale, delta))
        };
        match work.state_index.find(hash, is_it) {
            Some(known) => Ok(known),
            None => self.add_state(prefix, hash, forward),
        }
    }

    /// Adds the state of the subset that the closure holds, its end, and tasks for its labels.
    fn add_state(&mut self, prefix: u32, fingerprint: u64, forward: f64) -> Result<u32> {
        let work = &mut *self.work;
        let number = number_of(&work.states, "states")?;
        let rank = work.closure.elements.iter().map(|element| self.source.rank(element.state)).min().unwrap_or(0);
        let subset = work.subsets.push(&work.closure.elements, prefix)?;
        try_reserve(&mut work.states, 1, "determinization: states")?;
        work.states.push(State { subset, fingerprint, forward, rank });
        let states = &work.states;
        work.state_index.insert(fingerprint, number, |state| states[state as usize].fingerprint)?;
        self.add_final(number)?;
        self.add_tasks(number)?;
        Ok(number)
    }

    /// The best end of the subset that the closure holds, if it is within the beam.
    fn add_final(&mut self, state: u32) -> Result<()> {
        let work = &mut *self.work;
        let scale = self.limits.scale;
        let mut best: Option<(Costs, u32)> = None;
        for element in &work.closure.elements {
            if element.state as usize >= self.source.num_states() {
                continue;
            }
            let Some(last) = self.source.last(element.state) else { continue };
            let costs = element.costs.plus(last);
            let better = best.is_none_or(|(known, string)| {
                costs.order(known, scale).then_with(|| work.arena.order(element.string, string)).is_lt()
            });
            if better {
                best = Some((costs, element.string));
            }
        }
        let State { forward, subset, .. } = work.states[state as usize];
        if let Some((costs, node)) = best.filter(|(costs, _)| forward + costs.total(scale) <= self.cutoff) {
            let string = Tail { node, from: work.arena.depth(subset.prefix) };
            try_reserve(&mut work.finals, 1, "determinization: final states")?;
            work.finals.push(Final { state, costs, string });
        }
        Ok(())
    }

    /// Tasks for the labels out of the subset that the closure holds, those within the beam.
    fn add_tasks(&mut self, state: u32) -> Result<()> {
        self.gather()?;
        let mut candidates = std::mem::take(&mut self.work.candidates);
        let added = candidates.chunk_by(|a, b| a.key >> 32 == b.key >> 32).try_for_each(|same_label| {
            let cost = |candidate: &Candidate| {
                candidate.costs.total(self.limits.scale) + to_end(self.source, &self.work.to_end, candidate.key as u32)
            };
            let cost =
                same_label.iter().map(cost).fold(f64::INFINITY, f64::min) + self.work.states[state as usize].forward;
            if cost <= self.cutoff { self.add_task(state, same_label, cost) } else { Ok(()) }
        });
        candidates.clear();
        self.work.candidates = candidates;
        added
    }

    /// All labelled links out of the subset that the closure holds, sorted by label and next state.
    fn gather(&mut self) -> Result<()> {
        let work = &mut *self.work;
        for element in &work.closure.elements {
            for number in self.source.links(element.state) {
                let link = self.source.link(number);
                if link.label != 0 {
                    let key = u64::from(link.label) << 32 | u64::from(link.next);
                    let costs = element.costs.plus(link.costs);
                    try_reserve(&mut work.candidates, 1, "determinization: subsets")?;
                    work.candidates.push(Candidate { key, costs, string: element.string, link: number });
                }
            }
        }
        work.candidates.sort_unstable_by_key(|candidate| (candidate.key, candidate.link));
        Ok(())
    }

    /// Adds a task whose subset has each next state by its best link.
    fn add_task(&mut self, state: u32, same_label: &[Candidate], cost: f64) -> Result<()> {
        let work = &mut *self.work;
        let elements = &mut work.subsets.elements;
        let first = elements.len();
        if first + same_label.len() > u32::MAX as usize {
            return Err(Error::Limit("determinization: more than 2^32 elements".to_string()));
        }
        try_reserve(elements, same_label.len(), "determinization: subsets")?;
        for candidate in same_label {
            let (next, costs) = (candidate.key as u32, candidate.costs);
            let last = elements[first..].last_mut().filter(|last| last.state == next);
            let order = last.as_ref().map(|last| costs.order(last.costs, self.limits.scale));
            if order.is_some_and(|order| order.is_gt()) {
                continue;
            }
            let string = work.arena.append(candidate.string, self.source.string(candidate.link))?;
            let element = Element { state: next, string, costs };
            match last {
                None => elements.push(element),
                Some(last) if order.is_some_and(|order| order.is_lt()) => *last = element,
                Some(last) if work.arena.order(string, last.string).is_lt() => *last = element,
                Some(_) => {}
            }
        }
        let subset = Subset { first: first as u32, len: (elements.len() - first) as u32, prefix: ROOT };
        let number = number_of(&work.tasks, "tasks")?;
        try_reserve(&mut work.tasks, 1, "determinization: tasks")?;
        work.tasks.push(Task { state, label: (same_label[0].key >> 32) as u32, subset });
        work.heap.try_reserve(1).map_err(|_| Error::NoMemory {
            what: "determinization: tasks".to_string(),
            asked: ((work.heap.len() + 1) * size_of::<(u64, u32)>()) as u64,
        })?;
        work.heap.push(Reverse((ordered_bits(cost), number)));
        Ok(())
    }

    fn add_initial(&mut self, initial: Initial) -> Result<()> {
        let work = &mut *self.work;
        let number = number_of(&work.initials, "subsets")?;
        try_reserve(&mut work.initials, 1, "determinization: subsets")?;
        work.initials.push(initial);
        let initials = &work.initials;
        work.initial_index.insert(initial.fingerprint, number, |other| initials[other as usize].fingerprint)
    }

    fn add_arc(&mut self, arc: Arc) -> Result<()> {
        number_of(&self.work.arcs, "arcs")?;
        try_reserve(&mut self.work.arcs, 1, "determinization: arcs")?;
        self.work.arcs.push(arc);
        Ok(())
    }
}

/// The number of the next thing in `vec`.
fn number_of<T>(vec: &[T], what: &str) -> Result<u32> {
    match u32::try_from(vec.len()) {
        Ok(number) if number < u32::MAX - 1 => Ok(number),
        _ => Err(Error::Limit(format!("determinization: more than 2^32 - 2 {what}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_ordered_by_their_bits() {
        let costs = [f64::NEG_INFINITY, -2.5, -1e-300, 0.0, 1e-300, 3.0, 1e300];
        for two in costs.windows(2) {
            assert!(ordered_bits(two[0]) < ordered_bits(two[1]));
        }
        for cost in costs {
            assert_eq!(from_ordered_bits(ordered_bits(cost)), cost);
        }
        assert_eq!(ordered_bits(-0.0), ordered_bits(0.0));
    }
}
