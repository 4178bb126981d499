//! Epsilon levels, and the cycle that keeps a graph from having them.

use super::huge;
use crate::error::{Error, Result, try_reserve};

/// States of a cycle that a message names.
const NAMED: usize = 10;

/// The level of each state: the number of arcs of the longest path over `arcs` (source,
/// destination; sorted by source; all below `num_states`) that ends in it. A cycle is
/// refused with its states. Linear in states and arcs.
pub(super) fn epsilon_levels(num_states: u32, arcs: &[(u32, u32)]) -> Result<Vec<u32>> {
    let mut levels = zeros(num_states)?;
    if arcs.is_empty() {
        return Ok(levels);
    }
    let mut waiting = zeros(num_states)?; // arcs into a state that no longest path has come along yet
    let mut first = zeros(num_states)?; // index of a state's first arc
    for (index, &(from, to)) in arcs.iter().enumerate().rev() {
        waiting[to as usize] += 1;
        first[from as usize] = index as u32;
    }
    let mut ready: Vec<u32> = Vec::new();
    let sources = arcs.chunk_by(|a, b| a.0 == b.0);
    try_reserve(&mut ready, sources.clone().count(), "epsilon levels")?;
    ready.extend(sources.map(|group| group[0].0).filter(|&from| waiting[from as usize] == 0));

    let mut done = 0;
    while let Some(from) = ready.pop() {
        let level = levels[from as usize] + 1;
        for &(_, to) in arcs[first[from as usize] as usize..].iter().take_while(|arc| arc.0 == from) {
            done += 1;
            let to = to as usize;
            levels[to] = levels[to].max(level);
            waiting[to] -= 1;
            let next = arcs.get(first[to] as usize).filter(|arc| arc.0 == to as u32);
            if waiting[to] == 0 && next.is_some() {
                ready.push(to as u32);
            }
        }
    }
    if done < arcs.len() { Err(cycle_error(&find_cycle(arcs, &waiting)?)) } else { Ok(levels) }
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

fn cycle_error(cycle: &[u32]) -> Error {
    let named: Vec<String> = cycle.iter().take(NAMED).map(u32::to_string).collect();
    let path = named.join(" -> ");
    Error::Graph(match cycle {
        [state] => format!("epsilon cycle: state {state} has an epsilon arc to itself"),
        _ if cycle.len() <= NAMED => {
            format!("epsilon cycle of {} states: {path} -> {}", cycle.len(), cycle[0])
        }
        _ => format!("epsilon cycle of {} states, the first {NAMED}: {path} -> ...", cycle.len()),
    })
}

fn zeros(len: u32) -> Result<Vec<u32>> {
    let mut vec = huge::reserve(len as usize, "epsilon levels")?;
    vec.resize(len as usize, 0);
    Ok(vec)
}
