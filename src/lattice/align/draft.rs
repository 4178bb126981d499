//! The automaton that an alignment builds, and its way into a lattice.
//!
//! Reading an arc of the lattice and giving one out happen at different times, so a draft has silent arcs: those that
//! only read. They carry costs. Removing them gives the aligned lattice.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::rc::Rc;

use super::Stop;
use super::lines::room;
use crate::error::{Error, Result, try_filled, try_reserve};
use crate::lattice::{CompactLattice, LatticeArc, LatticeWeight, PartsBuilder, Strings};

/// An acyclic automaton; node 0 is the start.
#[derive(Default)]
pub(super) struct Draft {
    pub nodes: Vec<Node>,
    /// Transition-ids of the arcs.
    pub strings: Strings,
}

#[derive(Default)]
pub(super) struct Node {
    pub arcs: Vec<DraftArc>,
    /// Whether a path may end here, at no cost.
    pub is_final: bool,
}

#[derive(Clone, Copy)]
pub(super) struct DraftArc {
    pub next: u32,
    /// `None` for a silent arc.
    pub label: Option<i32>,
    pub weight: LatticeWeight,
    /// Number of its string.
    pub string: u32,
}

impl Draft {
    /// Adds a node and gives its number.
    pub fn add_node(&mut self) -> Result<u32> {
        if self.nodes.len() >= u32::MAX as usize {
            return Err(Error::Limit("an aligned lattice would have more than 2^32 - 1 states".to_string()));
        }
        try_reserve(&mut self.nodes, 1, WHAT)?;
        self.nodes.push(Node::default());
        Ok(self.nodes.len() as u32 - 1)
    }

    /// Adds an arc that only reads.
    pub fn add_silent(&mut self, from: u32, next: u32, weight: LatticeWeight) -> Result<()> {
        self.add(from, next, None, weight, &[])
    }

    /// Adds an arc that gives something out.
    pub fn add_arc(&mut self, from: u32, next: u32, label: i32, ids: &[i32]) -> Result<()> {
        self.add(from, next, Some(label), LatticeWeight::ONE, ids)
    }

    fn add(&mut self, from: u32, next: u32, label: Option<i32>, weight: LatticeWeight, ids: &[i32]) -> Result<()> {
        let string = self.strings.len() as u32;
        self.strings.push(ids)?;
        let arcs = &mut self.nodes[from as usize].arcs;
        try_reserve(arcs, 1, WHAT)?;
        arcs.push(DraftArc { next, label, weight, string });
        Ok(())
    }

    /// Transition-ids of an arc.
    pub fn ids(&self, arc: &DraftArc) -> &[i32] {
        self.strings.get(arc.string as usize).unwrap_or_default()
    }

    /// The lattice of the arcs that are not silent. Where silent paths lead from one node to another the best at
    /// `acoustic_scale` counts; costs are added in binary64 and rounded once.
    pub fn into_lattice(self, acoustic_scale: f32) -> Result<CompactLattice> {
        let mut removal = Removal::new(&self, acoustic_scale)?;
        let mut builder = PartsBuilder::default();
        if !self.nodes.is_empty() {
            builder.set_start(0);
            removal.want(0)?;
        }
        while let Some(node) = removal.wanted.pop() {
            removal.close(node)?;
            removal.write(node, &mut builder)?;
        }
        CompactLattice::from_parts(builder.finish(true)?)
    }
}

const WHAT: &str = "states of an aligned lattice";

/// A draft while it grows: a node for each thing that may be pending.
pub(super) struct Nodes<P> {
    pub draft: Draft,
    numbers: HashMap<Rc<P>, u32>,
    /// What still has to be looked at, with its node; the last one comes first.
    pub open: Vec<(Rc<P>, u32)>,
    most: Option<usize>,
    /// Transition-ids and words of all that was ever pending.
    held: usize,
    most_held: usize,
}

/// Most transition-ids and words that may be held in all, 1 GiB. Without it a lattice whose phones never end, which
/// holds everything read so far at each node, would take all memory long before there are too many nodes.
const MOST_HELD: usize = 1 << 28;

/// What is read and not yet given out.
pub(super) trait Held {
    /// Transition-ids, words and phones in it.
    fn held(&self) -> usize;
}

impl<P: Eq + Hash + Held> Nodes<P> {
    /// `first` is pending at the start; there will be at most `most` nodes.
    pub fn new(first: P, most: Option<usize>) -> Result<Nodes<P>, Stop> {
        Nodes::holding(first, most, MOST_HELD)
    }

    fn holding(first: P, most: Option<usize>, most_held: usize) -> Result<Nodes<P>, Stop> {
        let (draft, numbers, open) = Default::default();
        let mut nodes = Nodes { draft, numbers, open, most, held: 0, most_held };
        nodes.number(first)?;
        Ok(nodes)
    }

    /// The node of `pending`; a new one is open.
    pub fn number(&mut self, pending: P) -> Result<u32, Stop> {
        if let Some(&number) = self.numbers.get(&pending) {
            return Ok(number);
        }
        let number = self.draft.add_node()?;
        if let Some(most) = self.most.filter(|&most| self.draft.nodes.len() > most) {
            return Err(Stop::Mismatch(format!("more than {most} states would be needed (max-expand)")));
        }
        self.held = self.held.saturating_add(pending.held());
        if self.held > self.most_held {
            let most = self.most_held;
            return Err(Stop::Mismatch(format!("more than {most} transition-ids and words would have to be held")));
        }
        let pending = Rc::new(pending);
        room(&mut self.numbers, WHAT)?;
        self.numbers.insert(Rc::clone(&pending), number);
        try_reserve(&mut self.open, 1, WHAT)?;
        self.open.push((pending, number));
        Ok(number)
    }
}

#[derive(Clone, Copy, Default)]
struct Cost {
    graph: f64,
    acoustic: f64,
}

impl Cost {
    fn plus(self, weight: LatticeWeight) -> Cost {
        Cost { graph: self.graph + f64::from(weight.graph), acoustic: self.acoustic + f64::from(weight.acoustic) }
    }

    fn weight(self) -> Result<LatticeWeight> {
        let weight = LatticeWeight { graph: self.graph as f32, acoustic: self.acoustic as f32 };
        if weight.graph.is_finite() && weight.acoustic.is_finite() {
            return Ok(weight.canonical());
        }
        Err(Error::Argument(format!("lattice: aligned arcs cost {},{}: too much", self.graph, self.acoustic)))
    }
}

/// Removal of silent arcs: each node that an arc leads to gets the arcs of all nodes that it reaches silently.
struct Removal<'a> {
    draft: &'a Draft,
    acoustic_scale: f64,
    /// Nodes still to write.
    wanted: Vec<u32>,
    is_wanted: Vec<bool>,
    /// Nodes that the present one reaches silently, in topological order once reversed.
    closure: Vec<u32>,
    /// Which node last reached each, and at what cost.
    reached_by: Vec<u32>,
    cost: Vec<Cost>,
}

impl<'a> Removal<'a> {
    fn new(draft: &'a Draft, acoustic_scale: f32) -> Result<Removal<'a>> {
        let nodes = draft.nodes.len();
        Ok(Removal {
            draft,
            acoustic_scale: f64::from(acoustic_scale),
            wanted: Vec::new(),
            is_wanted: try_filled(false, nodes, WHAT)?,
            closure: Vec::new(),
            reached_by: try_filled(u32::MAX, nodes, WHAT)?,
            cost: try_filled(Cost::default(), nodes, WHAT)?,
        })
    }

    fn want(&mut self, node: u32) -> Result<()> {
        if !std::mem::replace(&mut self.is_wanted[node as usize], true) {
            try_reserve(&mut self.wanted, 1, WHAT)?;
            self.wanted.push(node);
        }
        Ok(())
    }

    fn total(&self, cost: Cost) -> f64 {
        cost.graph + self.acoustic_scale * cost.acoustic
    }

    /// Finds what `start` reaches silently: depth first for the order, then least costs.
    fn close(&mut self, start: u32) -> Result<()> {
        self.closure.clear();
        let mut walk: Vec<(u32, usize)> = vec![(start, 0)];
        self.reached_by[start as usize] = start;
        while let Some((node, at)) = walk.last_mut() {
            let Some(arc) = self.draft.nodes[*node as usize].arcs.get(*at) else {
                try_reserve(&mut self.closure, 1, WHAT)?;
                self.closure.push(*node);
                walk.pop();
                continue;
            };
            *at += 1;
            let next = arc.next as usize;
            if arc.label.is_none() && self.reached_by[next] != start {
                self.reached_by[next] = start;
                self.cost[next] = Cost { graph: f64::INFINITY, acoustic: 0.0 };
                try_reserve(&mut walk, 1, WHAT)?;
                walk.push((arc.next, 0));
            }
        }
        self.closure.reverse();
        self.cost[start as usize] = Cost::default();
        for &node in &self.closure {
            let here = self.cost[node as usize];
            for arc in self.draft.nodes[node as usize].arcs.iter().filter(|arc| arc.label.is_none()) {
                let there = here.plus(arc.weight);
                if self.total(there) < self.total(self.cost[arc.next as usize]) {
                    self.cost[arc.next as usize] = there;
                }
            }
        }
        Ok(())
    }

    /// Writes the arcs of the closure as those of `start`. Of arcs that agree in all but cost the best stays.
    fn write(&mut self, start: u32, builder: &mut PartsBuilder) -> Result<()> {
        let mut arcs: Vec<(DraftArc, Cost)> = Vec::new();
        let mut places: HashMap<(i32, u32, &[i32]), usize> = HashMap::new();
        let mut ends: Option<Cost> = None;
        for &node in &self.closure {
            let here = self.cost[node as usize];
            if self.draft.nodes[node as usize].is_final && ends.is_none_or(|end| self.total(here) < self.total(end)) {
                ends = Some(here);
            }
            for arc in &self.draft.nodes[node as usize].arcs {
                let Some(label) = arc.label else { continue };
                let cost = here.plus(arc.weight);
                room(&mut places, WHAT)?;
                match places.entry((label, arc.next, self.draft.ids(arc))) {
                    Entry::Vacant(place) => {
                        place.insert(arcs.len());
                        try_reserve(&mut arcs, 1, WHAT)?;
                        arcs.push((*arc, cost));
                    }
                    Entry::Occupied(place) => {
                        let other = &mut arcs[*place.get()].1;
                        if self.total(cost) < self.total(*other) {
                            *other = cost;
                        }
                    }
                }
            }
        }
        for (arc, cost) in arcs {
            let label = arc.label.unwrap_or(0);
            let weight = cost.weight()?;
            let ids = self.draft.ids(&arc);
            builder.add_arc(start, LatticeArc { next: arc.next, ilabel: label, olabel: label, weight }, ids)?;
            self.want(arc.next)?;
        }
        match ends {
            Some(cost) => builder.set_final(start, cost.weight()?, &[]),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Held for Vec<i32> {
        fn held(&self) -> usize {
            self.len()
        }
    }

    #[test]
    fn what_is_pending_may_not_take_all_memory() {
        let Ok(mut nodes) = Nodes::holding(vec![1; 60], None, 100) else { panic!("60 fit") };
        assert!(nodes.number(vec![1; 60]).is_ok(), "known already");
        assert!(nodes.number(vec![2; 40]).is_ok(), "100 in all");
        let Err(Stop::Mismatch(why)) = nodes.number(vec![3]) else { panic!("101 do not fit") };
        assert!(why.contains("100 transition-ids"), "{why}");
    }
}
