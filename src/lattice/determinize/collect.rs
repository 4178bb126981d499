//! From what a pass holds to a lattice in order.

use crate::error::{Result, try_filled, try_reserve};

use super::arena::Tail;
use super::pass::{Arc, Work};
use super::segments::{End, Segment, Segments, Span};

const LEFT_OUT: u32 = u32::MAX;

/// The states that lead to an end, in topological order, each one's arcs by label. Empty
/// where the pass was cut short before it had a whole path.
pub(super) fn segments(work: &Work) -> Result<Segments> {
    let states = work.states.len();
    let mut order = Vec::new();
    try_reserve(&mut order, states, "determinization: states")?;
    order.extend(0..states as u32);
    order.sort_unstable_by_key(|&state| (work.states[state as usize].rank, state));
    let (offsets, arcs) = arcs_by_state(work)?;
    let arcs_of = |state: u32| &arcs[offsets[state as usize] as usize..offsets[state as usize + 1] as usize];

    let mut end_of = try_filled(LEFT_OUT, states, "determinization: states")?;
    work.finals.iter().enumerate().for_each(|(index, end)| end_of[end.state as usize] = index as u32);
    let mut alive = try_filled(false, states, "determinization: states")?;
    for &state in order.iter().rev() {
        let leads_on = arcs_of(state).iter().any(|&arc| alive[work.arcs[arc as usize].to as usize]);
        alive[state as usize] = leads_on || end_of[state as usize] != LEFT_OUT;
    }
    order.retain(|&state| alive[state as usize]);
    let mut number = try_filled(LEFT_OUT, states, "determinization: states")?;
    order.iter().enumerate().for_each(|(new, &old)| number[old as usize] = new as u32);

    let mut out = Segments { offsets: vec![0], ..Segments::default() };
    try_reserve(&mut out.offsets, order.len(), "determinization: states")?;
    try_reserve(&mut out.ends, order.len(), "determinization: states")?;
    try_reserve(&mut out.segments, work.arcs.len(), "determinization: arcs")?;
    for &state in &order {
        for &arc in arcs_of(state) {
            let Arc { to, label, costs, strings, .. } = work.arcs[arc as usize];
            let next = number[to as usize];
            if next != LEFT_OUT {
                let string = string(work, &strings, &mut out)?;
                out.segments.push(Segment { next, label, costs, string });
            }
        }
        let end = work.finals.get(end_of[state as usize] as usize);
        let end = end.map(|end| Ok(End { costs: end.costs, string: string(work, &[end.string], &mut out)? }));
        out.ends.push(end.transpose()?);
        out.offsets.push(out.segments.len() as u32);
    }
    Ok(out)
}

/// Numbers of the arcs by the state that they leave, those of a state by label.
fn arcs_by_state(work: &Work) -> Result<(Vec<u32>, Vec<u32>)> {
    let mut offsets = try_filled(0u32, work.states.len() + 1, "determinization: states")?;
    for arc in &work.arcs {
        offsets[arc.from as usize + 1] += 1;
    }
    for state in 0..work.states.len() {
        offsets[state + 1] += offsets[state];
    }
    let mut place = try_filled(0u32, work.states.len(), "determinization: states")?;
    place.copy_from_slice(&offsets[..work.states.len()]);
    let mut arcs = try_filled(0u32, work.arcs.len(), "determinization: arcs")?;
    for (number, arc) in work.arcs.iter().enumerate() {
        let at = &mut place[arc.from as usize];
        arcs[*at as usize] = number as u32;
        *at += 1;
    }
    for state in 0..work.states.len() {
        arcs[offsets[state] as usize..offsets[state + 1] as usize]
            .sort_unstable_by_key(|&arc| work.arcs[arc as usize].label);
    }
    Ok((offsets, arcs))
}

fn string(work: &Work, tails: &[Tail], out: &mut Segments) -> Result<Span> {
    let len = tails.iter().map(|&tail| work.arena.tail_len(tail)).sum();
    let span = out.reserve_string(len)?;
    let mut rest = &mut out.labels[span.from as usize..];
    for &tail in tails {
        let (place, behind) = rest.split_at_mut(work.arena.tail_len(tail));
        work.arena.write_tail(tail, place);
        rest = behind;
    }
    Ok(span)
}
