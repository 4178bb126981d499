//! Epsilon levels, and the cycle that keeps a graph from having them.

use super::labels::Bits;
use crate::error::{Error, Result, try_filled, try_reserve};

/// States of a cycle that a message names.
const NAMED: usize = 10;

/// The level of each state: the number of arcs of the longest epsilon path that ends in it.
/// Only the states that epsilon arcs touch are kept.
pub(super) struct Levels {
    touched: Bits,
    /// Levels of the touched states, in their order.
    levels: Vec<u32>,
}

impl Levels {
    /// Levels over epsilon `arcs` (source, destination; sorted by source; all below `num_states`).
    /// A cycle is refused with its states. Linear in states and arcs.
    pub fn new(num_states: u32, arcs: &[(u32, u32)]) -> Result<Levels> {
        let mut touched = Bits::new(num_states as usize, "epsilon levels")?;
        for &(from, to) in arcs {
            touched.set(from as usize);
            touched.set(to as usize);
        }
        let num_touched = touched.count()?;
        let mut ranked = Vec::new();
        try_reserve(&mut ranked, arcs.len(), "epsilon levels")?;
        ranked.extend(arcs.iter().map(|arc| (touched.rank(arc.0 as usize), touched.rank(arc.1 as usize))));
        match longest_paths(num_touched, &ranked)? {
            Ok(levels) => Ok(Levels { touched, levels }),
            Err(cycle) => Err(cycle_error(&cycle, |rank| touched.select(0, rank as usize, true))),
        }
    }

    /// The level of `state`.
    pub fn get(&self, state: u32) -> u32 {
        let state = state as usize;
        if self.touched.get(state) { self.levels[self.touched.rank(state) as usize] } else { 0 }
    }

    /// The largest level.
    pub fn max(&self) -> u32 {
        self.levels.iter().copied().max().unwrap_or(0)
    }
}

/// Arcs of the longest path that ends in each state, or the states of a cycle.
fn longest_paths(num_states: u32, arcs: &[(u32, u32)]) -> Result<Result<Vec<u32>, Vec<u32>>> {
    let mut levels = zeros(num_states)?;
    let mut waiting = zeros(num_states)?; // arcs into a state that no longest path has come along yet
    let mut first = zeros(num_states)?; // index of a state's first arc
    for (index, &(from, to)) in arcs.iter().enumerate().rev() {
        waiting[to as usize] += 1;
        first[from as usize] = index as u32;
    }
    let mut ready: Vec<u32> = Vec::new();
    try_reserve(&mut ready, num_states as usize, "epsilon levels")?; // each is ready once
    ready.extend((0..num_states).filter(|&state| waiting[state as usize] == 0));

    let mut done = 0;
    while let Some(from) = ready.pop() {
        let level = levels[from as usize] + 1;
        for &(_, to) in arcs[first[from as usize] as usize..].iter().take_while(|arc| arc.0 == from) {
            done += 1;
            let to_level = &mut levels[to as usize];
            *to_level = level.max(*to_level);
            waiting[to as usize] -= 1;
            if waiting[to as usize] == 0 {
                ready.push(to);
            }
        }
    }
    if done < arcs.len() { Ok(Err(find_cycle(arcs, &waiting)?)) } else { Ok(Ok(levels)) }
}

/// A cycle among the states with `waiting` arcs, in the direction of its arcs, least
/// state first. Each such state has a predecessor of its kind, so walking backwards ends in one.
fn find_cycle(arcs: &[(u32, u32)], waiting: &[u32]) -> Result<Vec<u32>> {
    let mut before = zeros(waiting.len() as u32)?;
    let mut at = 0;
    for &(from, to) in arcs {
        if waiting[from as usize] > 0 && waiting[to as usize] > 0 {
            before[to as usize] = from;
            at = to;
        }
    }
    for _ in 0..waiting.len() {
        at = before[at as usize];
    }
    let mut cycle = Vec::new();
    let last = at;
    loop {
        try_reserve(&mut cycle, 1, "epsilon cycle")?;
        cycle.push(at);
        at = before[at as usize];
        if at == last {
            break;
        }
    }
    cycle.reverse();
    let least = (0..cycle.len()).min_by_key(|&place| cycle[place]).unwrap_or(0);
    cycle.rotate_left(least);
    Ok(cycle)
}

/// `cycle` holds ranks, for which `state` gives the state's number.
fn cycle_error(cycle: &[u32], state: impl Fn(u32) -> usize) -> Error {
    let named: Vec<String> = cycle.iter().take(NAMED).map(|&rank| state(rank).to_string()).collect();
    let path = named.join(" -> ");
    Error::Graph(match named.as_slice() {
        [state] => format!("epsilon cycle: state {state} has an epsilon arc to itself"),
        [first, ..] if cycle.len() <= NAMED => format!("epsilon cycle of {} states: {path} -> {first}", cycle.len()),
        _ => format!("epsilon cycle of {} states, the first {NAMED}: {path} -> ...", cycle.len()),
    })
}

fn zeros(len: u32) -> Result<Vec<u32>> {
    try_filled(0, len as usize, "epsilon levels")
}
