//! The shape of a lattice: which states lie on a path, in which order, and at which time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::error::{Error, Result, try_reserve};

use super::{LatticeArc, LatticeWeight};

/// In [`Order::number`]: a state that is left out.
pub(crate) const LEFT_OUT: u32 = u32::MAX;

/// The arrays that raw and compact lattices share: arcs of `s` are `arcs[offsets[s]..offsets[s + 1]]`.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub offsets: &'a [u32],
    pub arcs: &'a [LatticeArc],
    pub finals: &'a [LatticeWeight],
}

impl<'a> View<'a> {
    pub fn num_states(self) -> usize {
        self.finals.len()
    }

    pub fn arc_range(self, state: usize) -> Range<usize> {
        self.offsets[state] as usize..self.offsets[state + 1] as usize
    }

    pub fn arcs_of(self, state: usize) -> &'a [LatticeArc] {
        &self.arcs[self.arc_range(state)]
    }

    /// Refuses offsets that do not fit the other arrays, next states out of range,
    /// negative labels, and costs that are NaN or `-inf`.
    pub fn check(self) -> Result<()> {
        let bad = |what: String| Err(Error::Argument(format!("lattice: {what}")));
        let states = self.num_states();
        if states >= LEFT_OUT as usize || self.arcs.len() > u32::MAX as usize {
            return Err(Error::Limit("a lattice has more than 2^32 - 2 states or arcs".to_string()));
        }
        if self.offsets.len() != states + 1 {
            return bad(format!("{} offsets for {states} states", self.offsets.len()));
        }
        let ends = (self.offsets.first(), self.offsets.last());
        if ends != (Some(&0), Some(&(self.arcs.len() as u32))) || self.offsets.windows(2).any(|two| two[0] > two[1]) {
            return bad("offsets do not ascend from 0 to the number of arcs".to_string());
        }
        for (index, arc) in self.arcs.iter().enumerate() {
            if arc.next as usize >= states {
                return bad(format!("arc {index} leads to state {} of {states}", arc.next));
            }
            if arc.ilabel < 0 || arc.olabel < 0 {
                return bad(format!("arc {index} has the labels {} and {}", arc.ilabel, arc.olabel));
            }
            if !arc.weight.is_usable() {
                return bad(format!("arc {index} costs {},{}", arc.weight.graph, arc.weight.acoustic));
            }
        }
        match self.finals.iter().position(|weight| !weight.is_usable()) {
            Some(state) => {
                let weight = self.finals[state];
                bad(format!("final state {state} costs {},{}", weight.graph, weight.acoustic))
            }
            None => Ok(()),
        }
    }

    /// Whether the start is state 0 and every arc leads to a higher state.
    fn is_sorted(self, start: usize) -> bool {
        start == 0
            && (0..self.num_states()).all(|state| self.arcs_of(state).iter().all(|arc| arc.next as usize > state))
    }
}

/// Which states of a lattice are kept, and their new numbers.
pub(crate) struct Order {
    /// Old numbers of the states kept, in topological order; the start first.
    pub states: Vec<u32>,
    /// New number of each old state, or [`LEFT_OUT`].
    pub number: Vec<u32>,
}

/// Keeps the states on paths from `start` over arcs that `keeps_arc` to a state that
/// `keeps_final`, in a topological order: of the states that may come next the lowest
/// number comes first, so that a sorted lattice keeps its order. Weights are not looked
/// at. Fails on a cycle among the states kept, naming its states.
pub(crate) fn sort_and_trim(
    view: View,
    start: Option<u32>,
    keeps_arc: impl Fn(usize) -> bool,
    keeps_final: impl Fn(usize) -> bool,
) -> Result<Order> {
    let states = view.num_states();
    let Some(start) = start.map(|start| start as usize).filter(|&start| start < states) else {
        return Ok(Order { states: Vec::new(), number: filled(states, LEFT_OUT)? });
    };
    let into = if view.is_sorted(start) { None } else { Some(Incoming::new(view)?) };
    let mut kept = filled(states, false)?;
    mark_reachable(view, start, &mut kept, &keeps_arc)?;
    keep_coreachable(view, into.as_ref(), &mut kept, &keeps_arc, &keeps_final)?;
    match into {
        None => number_in_order((0..states).filter(|&state| kept[state]).map(|state| state as u32), states),
        Some(into) => sort(view, start, &into, &kept, &keeps_arc),
    }
}

/// A vector of `len` times `value`, or how much memory was asked for.
pub(crate) fn filled<T: Clone>(len: usize, value: T) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    try_reserve(&mut vec, len, "states of a lattice")?;
    vec.resize(len, value);
    Ok(vec)
}

/// Arcs by the state that they lead to.
struct Incoming {
    offsets: Vec<u32>,
    /// Source state and arc number.
    arcs: Vec<(u32, u32)>,
}

impl Incoming {
    fn new(view: View) -> Result<Incoming> {
        let states = view.num_states();
        let mut offsets = filled(states + 1, 0u32)?;
        for arc in view.arcs {
            offsets[arc.next as usize + 1] += 1;
        }
        for state in 0..states {
            offsets[state + 1] += offsets[state];
        }
        let mut place = filled(offsets.len(), 0u32)?;
        place.copy_from_slice(&offsets);
        let mut arcs = filled(view.arcs.len(), (0u32, 0u32))?;
        for state in 0..states {
            for arc in view.arc_range(state) {
                let at = &mut place[view.arcs[arc].next as usize];
                arcs[*at as usize] = (state as u32, arc as u32);
                *at += 1;
            }
        }
        Ok(Incoming { offsets, arcs })
    }

    fn of(&self, state: usize) -> &[(u32, u32)] {
        &self.arcs[self.offsets[state] as usize..self.offsets[state + 1] as usize]
    }
}

fn mark_reachable(view: View, start: usize, kept: &mut [bool], keeps_arc: &impl Fn(usize) -> bool) -> Result<()> {
    kept[start] = true;
    let mut open = vec![start as u32];
    while let Some(state) = open.pop() {
        for arc in view.arc_range(state as usize).filter(|&arc| keeps_arc(arc)) {
            let next = view.arcs[arc].next;
            if !std::mem::replace(&mut kept[next as usize], true) {
                try_reserve(&mut open, 1, "states of a lattice")?;
                open.push(next);
            }
        }
    }
    Ok(())
}

/// Drops from `kept` what does not lead to a final state. `into` is `None` for a sorted lattice.
fn keep_coreachable(
    view: View,
    into: Option<&Incoming>,
    kept: &mut [bool],
    keeps_arc: &impl Fn(usize) -> bool,
    keeps_final: &impl Fn(usize) -> bool,
) -> Result<()> {
    let Some(into) = into else {
        for state in (0..view.num_states()).rev() {
            let leads_on = |arc: usize| keeps_arc(arc) && kept[view.arcs[arc].next as usize];
            kept[state] &= keeps_final(state) || view.arc_range(state).any(leads_on);
        }
        return Ok(());
    };
    let mut leads_on = filled(view.num_states(), false)?;
    let mut open: Vec<u32> = Vec::new();
    let mut mark = |state: u32, open: &mut Vec<u32>| -> Result<()> {
        if kept[state as usize] && !std::mem::replace(&mut leads_on[state as usize], true) {
            try_reserve(open, 1, "states of a lattice")?;
            open.push(state);
        }
        Ok(())
    };
    for state in (0..view.num_states()).filter(|&state| keeps_final(state)) {
        mark(state as u32, &mut open)?;
    }
    while let Some(state) = open.pop() {
        for &(source, arc) in into.of(state as usize) {
            if keeps_arc(arc as usize) {
                mark(source, &mut open)?;
            }
        }
    }
    kept.copy_from_slice(&leads_on);
    Ok(())
}

fn number_in_order(order: impl Iterator<Item = u32>, states: usize) -> Result<Order> {
    let mut number = filled(states, LEFT_OUT)?;
    let mut kept = Vec::new();
    for state in order {
        number[state as usize] = kept.len() as u32;
        try_reserve(&mut kept, 1, "states of a lattice")?;
        kept.push(state);
    }
    Ok(Order { states: kept, number })
}

fn sort(view: View, start: usize, into: &Incoming, kept: &[bool], keeps_arc: &impl Fn(usize) -> bool) -> Result<Order> {
    let states = view.num_states();
    let is_arc = |source: usize, arc: usize| kept[source] && keeps_arc(arc);
    let mut waits_for = filled(states, 0u32)?;
    for state in (0..states).filter(|&state| kept[state]) {
        waits_for[state] =
            into.of(state).iter().filter(|&&(source, arc)| is_arc(source as usize, arc as usize)).count() as u32;
    }
    let mut order = Vec::new();
    let mut ready = BinaryHeap::new();
    if kept[start] && waits_for[start] == 0 {
        ready.push(Reverse(start as u32));
    }
    while let Some(Reverse(state)) = ready.pop() {
        try_reserve(&mut order, 1, "states of a lattice")?;
        order.push(state);
        for arc in view.arc_range(state as usize).filter(|&arc| keeps_arc(arc)) {
            let next = view.arcs[arc].next as usize;
            if kept[next] {
                waits_for[next] -= 1;
                if waits_for[next] == 0 {
                    ready.push(Reverse(next as u32));
                }
            }
        }
    }
    if order.len() < kept.iter().filter(|&&kept| kept).count() {
        return Err(cycle(into, &waits_for, is_arc));
    }
    number_in_order(order.into_iter(), states)
}

/// Names the states of one cycle: each state that still waits has a source that still waits.
fn cycle(into: &Incoming, waits_for: &[u32], is_arc: impl Fn(usize, usize) -> bool) -> Error {
    let waiting_source = |state: usize| {
        let mut sources = into.of(state).iter();
        sources.find(|&&(source, arc)| waits_for[source as usize] > 0 && is_arc(source as usize, arc as usize))
    };
    let mut seen = vec![false; waits_for.len()];
    let mut walk: Vec<usize> = Vec::new();
    let mut next = waits_for.iter().position(|&count| count > 0);
    while let Some(state) = next {
        if std::mem::replace(&mut seen[state], true) {
            walk.drain(..walk.iter().position(|&other| other == state).unwrap_or(0));
            break;
        }
        walk.push(state);
        next = waiting_source(state).map(|&(source, _)| source as usize);
    }
    const MOST_NAMED: usize = 10;
    let named: Vec<String> = walk.iter().rev().take(MOST_NAMED).map(usize::to_string).collect();
    let more = if walk.len() > MOST_NAMED { format!(" and {} more", walk.len() - MOST_NAMED) } else { String::new() };
    Error::Argument(format!("lattice has a cycle through the states {}{more}", named.join(", ")))
}

/// Times of the states (frames before them) and the frames of the longest path, where
/// arc `a` spans `arc_frames(a)` frames and final state `s` adds `final_frames(s)`. The
/// lattice is sorted and trimmed. `times` is empty when two paths to one state differ
/// in frames.
pub(crate) fn times(
    view: View,
    arc_frames: impl Fn(usize) -> u32,
    final_frames: impl Fn(usize) -> u32,
) -> Result<(Vec<u32>, u32)> {
    let mut latest = filled(view.num_states(), 0u32)?;
    let mut seen = filled(view.num_states(), false)?;
    let (mut agree, mut num_frames) = (true, 0);
    for state in 0..view.num_states() {
        if !view.finals[state].is_absent() {
            num_frames = num_frames.max(latest[state].saturating_add(final_frames(state)));
        }
        for arc in view.arc_range(state) {
            let next = view.arcs[arc].next as usize;
            let time = latest[state].saturating_add(arc_frames(arc));
            agree &= !std::mem::replace(&mut seen[next], true) || latest[next] == time;
            latest[next] = latest[next].max(time);
        }
    }
    if !agree {
        latest = Vec::new();
    }
    Ok((latest, num_frames))
}
