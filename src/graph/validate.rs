//! What must hold of a graph, and the words for what does not.

use super::source::{Columns, GraphArc, Source};
use crate::error::{Error, Result};

/// Checks the number of states and the start state, and gives that.
pub(super) fn check_start(source: &impl Source) -> Result<u32> {
    let num_states = source.num_states();
    if num_states > i32::MAX as u32 {
        return Err(Error::Graph(format!("{num_states} states; the limit is {}", i32::MAX)));
    }
    match source.start() {
        None => Err(Error::Graph("the graph has no start state".into())),
        Some(start) if start < num_states => Ok(start),
        Some(start) => {
            Err(Error::Graph(format!("start state {} is out of range: {}", start as i32, states(num_states))))
        }
    }
}

/// Whether `cost` may stand on an arc or a final state: not NaN, not `-inf`.
#[inline(always)]
pub(super) fn is_cost(cost: f32) -> bool {
    cost > f32::NEG_INFINITY
}

/// What is wrong with `state`, whose first arc is number `first_arc` of the file: the layout
/// only notices that something is.
#[cold]
pub(super) fn state_fault(source: &impl Source, columns: &Columns, state: u32, first_arc: u64) -> Error {
    let (mut index, mut input, mut output) = (first_arc, 0, 0);
    for arc in source.arcs(state) {
        if let Some(fault) = arc_fault(&arc, source.num_states(), columns) {
            return Error::Graph(format!("state {state}, arc {index}: {fault}"));
        }
        index += 1;
        input += u32::from(arc.ilabel == 0);
        output += u32::from(arc.olabel == 0);
    }
    let cost = source.final_cost(state);
    if !is_cost(cost) {
        return Error::Graph(format!("state {state}: its final cost is {cost}"));
    }
    source.check_epsilons(state, input, output).err().unwrap_or_else(changed)
}

/// The source is not what it was a moment ago.
pub(super) fn changed() -> Error {
    Error::Graph("the graph changed while it was read".into())
}

fn arc_fault(arc: &GraphArc, num_states: u32, columns: &Columns) -> Option<String> {
    let GraphArc { ilabel, olabel, weight, next } = *arc;
    if ilabel < 0 {
        return Some(format!("ilabel {ilabel} is negative"));
    }
    if olabel < 0 {
        return Some(format!("olabel {olabel} is negative (ilabel {ilabel})"));
    }
    if next >= num_states {
        let states = states(num_states);
        return Some(format!("next state {} is out of range: {states} (ilabel {ilabel})", next as i32));
    }
    if !is_cost(weight) {
        return Some(format!("its weight is {weight} (ilabel {ilabel})"));
    }
    if ilabel == 0 {
        return None;
    }
    columns.column(ilabel).err().map(|error| error.to_string())
}

fn states(count: u32) -> String {
    if count == 1 { "the graph has 1 state".into() } else { format!("the graph has {count} states") }
}
