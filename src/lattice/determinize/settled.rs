//! What incremental determinization will not touch again.

use std::collections::HashMap;

use crate::error::{Error, Result, try_copy, try_filled, try_reserve};

use super::compose::{Leaf, Specials, Tail, floored};
use super::costs::Costs;
use super::piece::Exit;
use super::segments::{End, Segment, Segments};

/// In [`Arc::from`]: the place before the first state.
const BEFORE: u32 = u32::MAX;

/// What the memory of this file is for, in messages.
const WHAT: &str = "determinization: settled states";

/// An arc between settled states.
#[derive(Clone, Copy, Debug)]
struct Arc {
    from: u32,
    segment: Segment,
}

/// An arc from a settled state into the tail. Each step may add to its costs and string.
#[derive(Clone, Debug)]
struct Open {
    from: u32,
    label: u32,
    costs: Costs,
    string: Vec<i32>,
    /// Number of the tail's entry.
    entry: u32,
}

/// Settled states, in topological order, and the arcs that leave them.
#[derive(Debug)]
pub(super) struct Settled {
    /// By state the least cost from the start.
    from_start: Vec<f64>,
    arcs: Vec<Arc>,
    /// Holds the strings of the arcs, and nothing else.
    strings: Segments,
    open: Vec<Open>,
    /// Costs and string that all paths begin with, once the first state is settled.
    prefix: (Costs, Vec<i32>),
    /// Scale of acoustic costs in totals.
    scale: f64,
}

impl Settled {
    /// Before the first piece: nothing but the way into the tail.
    pub fn start(scale: f64) -> Settled {
        let open = Open { from: BEFORE, label: 0, costs: Costs::ONE, string: Vec::new(), entry: 0 };
        Settled {
            from_start: Vec::new(),
            arcs: Vec::new(),
            strings: Segments::default(),
            open: vec![open],
            prefix: (Costs::ONE, Vec::new()),
            scale,
        }
    }

    pub fn num_states(&self) -> usize {
        self.from_start.len()
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.from_start.capacity() * 8
            + self.arcs.capacity() * size_of::<Arc>()
            + self.strings.labels.capacity() * 4
            + self.open.iter().map(|open| size_of::<Open>() + open.string.capacity() * 4).sum::<usize>()
    }

    /// What the best way to each of `entries` entries of the tail costs above the best of all, rounded down.
    pub fn entry_costs(&self, entries: usize) -> Result<Vec<f64>> {
        let mut costs = try_filled(f64::INFINITY, entries, WHAT)?;
        for open in &self.open {
            let cost = &mut costs[open.entry as usize];
            *cost = cost.min(self.cost_to(open.from) + open.costs.total(self.scale));
        }
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        costs.iter_mut().for_each(|cost| *cost = floored(*cost - least));
        Ok(costs)
    }

    /// Takes in a determinized step: what no exit can change any more is settled; the rest is
    /// the tail that is given back. On an error there is no use in going on.
    pub fn take(&mut self, step: &Step<'_>, exits: &[Exit], exit_costs: &[f64]) -> Result<Tail> {
        let places = self.places(step)?;
        let settled = places.iter().filter(|place| matches!(place, Place::Settled(_))).count();
        try_reserve(&mut self.from_start, settled, WHAT)?;
        self.from_start.resize(self.from_start.len() + settled, f64::INFINITY);
        let mut into = Into { tail: tail_of(step, &places, exits, exit_costs)?, entries: HashMap::new(), places };
        for Open { from, label, costs, mut string, entry } in std::mem::take(&mut self.open) {
            // An entry without a link lies too far above the best by now.
            let Some(link) = step.entry(entry) else { continue };
            let costs = costs.plus(step.costs_after_entry(entry, link));
            let more = step.lattice.string(link.string);
            try_reserve(&mut string, more.len(), WHAT)?;
            string.extend_from_slice(more);
            self.lead(Open { from, label, costs, string, entry }, link.next, &mut into)?;
        }
        for state in 0..into.places.len() {
            let Place::Settled(from) = into.places[state] else { continue };
            for &Segment { next, label, costs, string } in step.links(state) {
                let string = try_copy(step.lattice.string(string), WHAT)?;
                self.lead(Open { from, label, costs, string, entry: 0 }, next, &mut into)?;
            }
        }
        Ok(into.tail)
    }

    /// Adds an arc from a settled state to a state of the step.
    fn lead(&mut self, arc: Open, next: u32, into: &mut Into) -> Result<()> {
        match into.places[next as usize] {
            Place::Settled(to) => self.close(arc, to),
            Place::Tail(state) => {
                let entry = into.entry(state)?;
                try_reserve(&mut self.open, 1, WHAT)?;
                self.open.push(Open { entry, ..arc });
                Ok(())
            }
            Place::Aside => Ok(()),
        }
    }

    fn close(&mut self, Open { from, label, costs, string, .. }: Open, to: u32) -> Result<()> {
        let through = self.cost_to(from) + costs.total(self.scale);
        let cost = &mut self.from_start[to as usize];
        *cost = cost.min(through);
        if from == BEFORE {
            self.prefix = (costs, string);
            return Ok(());
        }
        let string = self.strings.push_string(&string)?;
        try_reserve(&mut self.arcs, 1, WHAT)?;
        self.arcs.push(Arc { from, segment: Segment { next: to, label, costs, string } });
        Ok(())
    }

    /// Least cost from the start to a settled state.
    fn cost_to(&self, state: u32) -> f64 {
        if state == BEFORE { 0.0 } else { self.from_start[state as usize] }
    }

    /// Where each state of a step goes. An exit changes the states that it can be reached from
    /// by one label, and what they lead to.
    fn places(&self, step: &Step<'_>) -> Result<Vec<Place>> {
        let states = step.lattice.ends.len();
        let mut places = try_filled(Place::Aside, states, WHAT)?;
        let mut changes = try_filled(false, states, WHAT)?;
        let (mut settled, mut tail) = (self.num_states() as u32, 0);
        for state in 1..states {
            // Exits lead to states that end; those stand for nothing.
            if step.lattice.ends[state].is_some() {
                continue;
            }
            let links = step.links(state);
            changes[state] |= links.iter().any(|link| step.specials.exit(link.label).is_some());
            if changes[state] {
                links.iter().for_each(|link| changes[link.next as usize] = true);
                places[state] = Place::Tail(tail);
                tail += 1;
            } else {
                places[state] = Place::Settled(settled);
                settled += 1;
            }
        }
        Ok(places)
    }

    /// The whole lattice, with a step behind which nothing follows.
    pub fn whole(&self, step: &Step<'_>) -> Result<Segments> {
        let first = self.num_states() as u32;
        let steps = step.lattice.ends.len().saturating_sub(1);
        let mut arcs = try_copy(&self.arcs, WHAT)?;
        let mut whole = Segments { labels: try_copy(&self.strings.labels, WHAT)?, ..Segments::default() };
        whole.ends = try_filled(None, first as usize, WHAT)?;
        let mut prefix = (self.prefix.0, try_copy(&self.prefix.1, WHAT)?);
        for open in &self.open {
            let Some(link) = step.entry(open.entry) else { continue };
            let costs = open.costs.plus(step.costs_after_entry(open.entry, link));
            let string = whole.push_strings([&open.string, step.lattice.string(link.string)])?;
            if open.from == BEFORE {
                // The first state of the step follows.
                prefix = (costs, try_copy(whole.string(string), WHAT)?);
                continue;
            }
            let segment = Segment { next: first + link.next - 1, label: open.label, costs, string };
            try_reserve(&mut arcs, 1, WHAT)?;
            arcs.push(Arc { from: open.from, segment });
        }
        for state in 1..=steps {
            for link in step.links(state) {
                let string = whole.push_string(step.lattice.string(link.string))?;
                try_reserve(&mut arcs, 1, WHAT)?;
                let segment = Segment { next: first + link.next - 1, string, ..*link };
                arcs.push(Arc { from: first + state as u32 - 1, segment });
            }
            let end = step.lattice.ends[state];
            let string = end.map(|end| whole.push_string(step.lattice.string(end.string))).transpose()?;
            try_reserve(&mut whole.ends, 1, WHAT)?;
            whole.ends.push(end.zip(string).map(|(end, string)| End { string, ..end }));
        }
        sorted(arcs, &mut whole)?;
        begin_with(&mut whole, prefix)?;
        Ok(whole)
    }
}

/// A determinized step, and what is needed to read it.
pub(super) struct Step<'a> {
    pub lattice: &'a Segments,
    pub specials: Specials,
    pub entry_costs: &'a [f64],
}

impl Step<'_> {
    fn links(&self, state: usize) -> &[Segment] {
        let offsets = &self.lattice.offsets;
        &self.lattice.segments[offsets[state] as usize..offsets[state + 1] as usize]
    }

    /// The link of an entry, if there is one.
    fn entry(&self, entry: u32) -> Option<&Segment> {
        let links = if self.lattice.ends.is_empty() { &[] } else { self.links(0) };
        let at = links.binary_search_by_key(&self.specials.entry(entry), |link| link.label).ok()?;
        Some(&links[at])
    }

    /// What the link of an entry costs without what that costs in this step alone.
    fn costs_after_entry(&self, entry: u32, link: &Segment) -> Costs {
        link.costs.minus(Costs { graph: self.entry_costs[entry as usize], acoustic: 0.0 })
    }
}

/// Where a state of a step goes.
#[derive(Clone, Copy, Debug)]
enum Place {
    Settled(u32),
    Tail(u32),
    Aside,
}

/// Where arcs into a step lead.
struct Into {
    places: Vec<Place>,
    tail: Tail,
    /// The entry of each state of the tail that has one.
    entries: HashMap<u32, u32>,
}

impl Into {
    fn entry(&mut self, state: u32) -> Result<u32> {
        if let Some(&entry) = self.entries.get(&state) {
            return Ok(entry);
        }
        let entry = self.tail.entries.len() as u32;
        let no_memory = |_| Error::NoMemory { what: WHAT.into(), asked: 16 * (u64::from(entry) + 1) };
        self.entries.try_reserve(1).map_err(no_memory)?;
        try_reserve(&mut self.tail.entries, 1, WHAT)?;
        self.entries.insert(state, entry);
        self.tail.entries.push(state);
        Ok(entry)
    }
}

/// The states of a step that may still change.
fn tail_of(step: &Step<'_>, places: &[Place], exits: &[Exit], exit_costs: &[f64]) -> Result<Tail> {
    let mut tail = Tail::default();
    tail.segments.offsets.push(0);
    for (state, place) in places.iter().enumerate() {
        let Place::Tail(number) = *place else { continue };
        for &Segment { next, label, costs, string } in step.links(state) {
            let string = tail.segments.push_string(step.lattice.string(string))?;
            if let Some(exit) = step.specials.exit(label) {
                let costs = costs.minus(Costs { graph: exit_costs[exit], acoustic: 0.0 });
                try_reserve(&mut tail.leaves, 1, WHAT)?;
                tail.leaves.push(Leaf { state: number, key: exits[exit].key, costs, string });
            } else if let Place::Tail(next) = places[next as usize] {
                try_reserve(&mut tail.segments.segments, 1, WHAT)?;
                tail.segments.segments.push(Segment { next, label, costs, string });
            }
        }
        try_reserve(&mut tail.segments.offsets, 1, WHAT)?;
        try_reserve(&mut tail.segments.ends, 1, WHAT)?;
        tail.segments.offsets.push(tail.segments.segments.len() as u32);
        tail.segments.ends.push(None);
    }
    Ok(tail)
}

/// Puts the arcs into `whole`, by the state that they leave and by label.
fn sorted(mut arcs: Vec<Arc>, whole: &mut Segments) -> Result<()> {
    whole.offsets = try_filled(0, whole.ends.len() + 1, WHAT)?;
    for arc in &arcs {
        whole.offsets[arc.from as usize + 1] += 1;
    }
    for state in 0..whole.ends.len() {
        whole.offsets[state + 1] += whole.offsets[state];
    }
    arcs.sort_unstable_by_key(|arc| (arc.from, arc.segment.label));
    try_reserve(&mut whole.segments, arcs.len(), WHAT)?;
    whole.segments.extend(arcs.iter().map(|arc| arc.segment));
    Ok(())
}

/// Puts costs and string before all paths.
fn begin_with(whole: &mut Segments, (costs, string): (Costs, Vec<i32>)) -> Result<()> {
    if (costs == Costs::ONE && string.is_empty()) || whole.ends.is_empty() {
        return Ok(());
    }
    for at in 0..whole.offsets[1] as usize {
        let segment = whole.segments[at];
        let string = whole.push_strings([&string, &try_copy(whole.string(segment.string), WHAT)?])?;
        whole.segments[at] = Segment { costs: segment.costs.plus(costs), string, ..segment };
    }
    if let Some(mut end) = whole.ends[0] {
        end.string = whole.push_strings([&string, &try_copy(whole.string(end.string), WHAT)?])?;
        end.costs = end.costs.plus(costs);
        whole.ends[0] = Some(end);
    }
    Ok(())
}
