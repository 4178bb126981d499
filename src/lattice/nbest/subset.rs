//! The states that a prefix of words leads to.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::{Result, try_reserve};
use crate::lattice::Route;
use crate::lattice::best_path::Scales;
use crate::lattice::topology::{View, filled};

use super::log_add;

/// A state that a prefix leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    pub state: u32,
    /// Least cost of reaching it by the words of the prefix.
    pub cost: f64,
    /// Log-sum of the costs of all ways to do so.
    pub sum: f64,
}

/// Where each further word leads, by ascending word.
pub(super) type Groups = Vec<(i32, Vec<Element>)>;

/// Costs of ending a sentence.
pub(super) struct Ends {
    pub cost: f64,
    pub sum: f64,
}

/// A state as it was reached.
#[derive(Clone, Copy)]
struct Reached {
    element: Element,
    /// The arc that the best way comes over, and the place of the state before it; [`NONE`] at the start.
    arc: u32,
    from: u32,
}

const NONE: u32 = u32::MAX;

/// Follows words through a lattice.
pub(super) struct Subsets<'a> {
    view: View<'a>,
    scales: Scales,
    /// Place of each state in `reached`, or [`NONE`].
    place: Vec<u32>,
    /// States reached and not yet left, the lowest first: nothing reached later leads to it.
    open: BinaryHeap<Reverse<u32>>,
    reached: Vec<Reached>,
    /// Places in `reached` by ascending state.
    order: Vec<u32>,
}

impl<'a> Subsets<'a> {
    pub fn new(view: View<'a>, scales: Scales) -> Result<Subsets<'a>> {
        let place = filled(view.num_states(), NONE)?;
        Ok(Subsets { view, scales, place, open: BinaryHeap::new(), reached: Vec::new(), order: Vec::new() })
    }

    fn reach(&mut self, new: Reached) -> Result<()> {
        let state = new.element.state;
        match self.reached.get_mut(self.place[state as usize] as usize) {
            Some(old) => {
                let sum = log_add(old.element.sum, new.element.sum);
                if new.element.cost < old.element.cost {
                    *old = new;
                }
                old.element.sum = sum;
            }
            None => {
                self.place[state as usize] = self.reached.len() as u32;
                try_reserve(&mut self.reached, 1, "n-best list")?;
                self.reached.push(new);
                self.open.push(Reverse(state));
            }
        }
        Ok(())
    }

    /// Fills `reached` and `order` with the states that arcs without a word lead to from
    /// `front`. Places begin at `base` where arcs say where they come from.
    fn close(&mut self, front: impl Iterator<Item = Reached>, base: u32) -> Result<()> {
        self.reached.clear();
        self.order.clear();
        for reached in front {
            self.reach(reached)?;
        }
        while let Some(Reverse(state)) = self.open.pop() {
            let place = self.place[state as usize];
            let Element { cost, sum, .. } = self.reached[place as usize].element;
            try_reserve(&mut self.order, 1, "n-best list")?;
            self.order.push(place);
            for arc in self.view.arc_range(state as usize) {
                let link = &self.view.arcs[arc];
                if link.olabel == 0 {
                    let step = self.scales.total(link.weight);
                    let element = Element { state: link.next, cost: cost + step, sum: sum + step };
                    self.reach(Reached { element, arc: arc as u32, from: base + place })?;
                }
            }
        }
        for reached in &self.reached {
            self.place[reached.element.state as usize] = NONE;
        }
        Ok(())
    }

    /// The costs of ending after a prefix, and where each further word leads.
    pub fn expand(&mut self, elements: &[Element]) -> Result<(Ends, Groups)> {
        let front = elements.iter().map(|&element| Reached { element, arc: NONE, from: NONE });
        self.close(front, 0)?;
        let mut ends = Ends { cost: f64::INFINITY, sum: f64::INFINITY };
        let mut steps: Vec<(i32, Element)> = Vec::new();
        for &place in &self.order {
            let Element { state, cost, sum } = self.reached[place as usize].element;
            let last = self.scales.total(self.view.finals[state as usize]);
            ends = Ends { cost: ends.cost.min(cost + last), sum: log_add(ends.sum, sum + last) };
            for arc in self.view.arcs_of(state as usize).iter().filter(|arc| arc.olabel != 0) {
                let step = self.scales.total(arc.weight);
                try_reserve(&mut steps, 1, "n-best list")?;
                steps.push((arc.olabel, Element { state: arc.next, cost: cost + step, sum: sum + step }));
            }
        }
        // In place: a stable sort would take memory that may not be there.
        steps.sort_unstable_by(|(word, a), (other, b)| {
            let costs = || a.cost.total_cmp(&b.cost).then(a.sum.total_cmp(&b.sum));
            (word, a.state).cmp(&(other, b.state)).then_with(costs)
        });
        Ok((ends, grouped(&steps)?))
    }

    /// The best route of the sentence `words`, which the lattice has.
    pub fn align(&mut self, words: &[i32]) -> Result<Route> {
        let mut all: Vec<Reached> = Vec::new();
        let start = Element { state: 0, cost: 0.0, sum: 0.0 };
        let mut front = vec![Reached { element: start, arc: NONE, from: NONE }];
        for word in words.iter().map(Some).chain([None]) {
            let base = all.len() as u32;
            self.close(front.drain(..), base)?;
            try_reserve(&mut all, self.reached.len(), "n-best list")?;
            all.extend_from_slice(&self.reached);
            let Some(&word) = word else { break };
            for &place in &self.order {
                let Element { state, cost, sum } = self.reached[place as usize].element;
                for arc in self.view.arc_range(state as usize) {
                    let link = &self.view.arcs[arc];
                    if link.olabel == word {
                        let step = self.scales.total(link.weight);
                        let element = Element { state: link.next, cost: cost + step, sum: sum + step };
                        try_reserve(&mut front, 1, "n-best list")?;
                        front.push(Reached { element, arc: arc as u32, from: base + place });
                    }
                }
            }
        }
        self.back(&all)
    }

    /// From the best end among the states reached last, back to the start.
    fn back(&self, all: &[Reached]) -> Result<Route> {
        let base = all.len() - self.reached.len();
        let mut best = (f64::INFINITY, NONE);
        for &place in &self.order {
            let Element { state, cost, .. } = self.reached[place as usize].element;
            let total = cost + self.scales.total(self.view.finals[state as usize]);
            if total < best.0 {
                best = (total, base as u32 + place);
            }
        }
        let mut route = Route::default();
        let mut next = all.get(best.1 as usize);
        route.last = next.map(|reached| reached.element.state);
        while let Some(reached) = next.filter(|reached| reached.arc != NONE) {
            try_reserve(&mut route.arcs, 1, "n-best list")?;
            route.arcs.push(reached.arc);
            next = all.get(reached.from as usize);
        }
        route.arcs.reverse();
        Ok(route)
    }
}

/// Steps by word and, within it, by state; those to one state become one.
fn grouped(steps: &[(i32, Element)]) -> Result<Groups> {
    let mut groups = Groups::new();
    for of_word in steps.chunk_by(|a, b| a.0 == b.0) {
        let mut elements = Vec::new();
        for of_state in of_word.chunk_by(|a, b| a.1.state == b.1.state) {
            let mut element = of_state[0].1;
            for (_, other) in &of_state[1..] {
                element.cost = element.cost.min(other.cost);
                element.sum = log_add(element.sum, other.sum);
            }
            try_reserve(&mut elements, 1, "n-best list")?;
            elements.push(element);
        }
        try_reserve(&mut groups, 1, "n-best list")?;
        groups.push((of_word[0].0, elements));
    }
    Ok(groups)
}
