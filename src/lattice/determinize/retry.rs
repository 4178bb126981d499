//! What is done where the memory does not suffice: a narrower beam, and the best path at least.

use crate::error::{Result, try_filled, try_reserve};

use super::collect::segments;
use super::pass::{Limits, Work, run};
use super::segments::Segments;
use super::source::Source;

/// Kaldi's `max_num_iters`.
const MOST_ATTEMPTS: usize = 10;

/// Kaldi's `retry_cutoff`: a result whose effective beam is below this share of the beam is
/// not taken; the source is pruned and determinized again.
const LEAST_SHARE: f64 = 0.5;

/// Determinizes within the limits; gives the lattice and the beam within which it is whole.
///
/// Kaldi's rule (`DeterminizeLatticePruned`): where the effective beam e falls below half of
/// the beam b, the source is pruned to the beam `max(b / 2, sqrt(b * e))` and tried again, up
/// to ten times in all. Kaldi may end with an empty lattice then; here the best path stays.
pub(super) fn determinize<S: Source>(source: &S, limits: &Limits, work: &mut Work) -> Result<(Segments, f64)> {
    let mut limits = *limits;
    let mut pruned: Option<S> = None;
    for attempt in 1.. {
        let effective = run(pruned.as_ref().unwrap_or(source), &limits, work)?;
        let enough = effective >= limits.beam * LEAST_SHARE || limits.beam == f64::INFINITY;
        if enough || attempt == MOST_ATTEMPTS {
            let found = segments(work)?;
            if !found.ends.is_empty() || source.num_states() == 0 {
                return Ok((found, effective));
            }
            break;
        }
        limits.beam = (limits.beam * effective).sqrt().max(limits.beam * 0.5);
        pruned = Some(prune(pruned.as_ref().unwrap_or(source), &limits)?);
    }
    run(&best_path(source, limits.scale)?, &Limits { max_mem: 0, beam: 0.0, ..limits }, work)?;
    Ok((segments(work)?, 0.0))
}

/// Least cost from the start to each state, and from each state to the end.
fn costs<S: Source>(source: &S, scale: f64) -> Result<(Vec<f64>, Vec<f64>)> {
    let states = source.num_states();
    let mut from_start = try_filled(f64::INFINITY, states, "determinization: pruning")?;
    let mut to_end = try_filled(f64::INFINITY, states, "determinization: pruning")?;
    from_start.iter_mut().take(1).for_each(|cost| *cost = 0.0);
    for state in 0..states {
        for number in source.links(state as u32) {
            let through = from_start[state] + source.link(number).costs.total(scale);
            let next = &mut from_start[real(source, number) as usize];
            *next = next.min(through);
        }
    }
    for state in (0..states).rev() {
        let mut least = source.last(state as u32).map_or(f64::INFINITY, |costs| costs.total(scale));
        for number in source.links(state as u32) {
            least = least.min(source.link(number).costs.total(scale) + to_end[real(source, number) as usize]);
        }
        to_end[state] = least;
    }
    Ok((from_start, to_end))
}

/// Where a link leads, past the state in the middle of an arc.
fn real<S: Source>(source: &S, number: u32) -> u32 {
    let next = source.link(number).next;
    if (next as usize) < source.num_states() {
        return next;
    }
    source.links(next).next().map_or(next, |number| source.link(number).next)
}

/// What lies on a path within the beam.
fn prune<S: Source>(source: &S, limits: &Limits) -> Result<S> {
    let (from_start, to_end) = costs(source, limits.scale)?;
    let limit = to_end.first().copied().unwrap_or(f64::INFINITY) + limits.beam;
    let limit = limit + 1e-12 * (1.0 + limit.abs());
    let mut links = try_filled(false, source.num_links(), "determinization: pruning")?;
    let mut ends = try_filled(false, source.num_states(), "determinization: pruning")?;
    for state in 0..source.num_states() {
        let before = from_start[state];
        for number in source.links(state as u32) {
            let after = source.link(number).costs.total(limits.scale) + to_end[real(source, number) as usize];
            links[number as usize] = before + after <= limit;
        }
        let last = source.last(state as u32).map_or(f64::INFINITY, |costs| costs.total(limits.scale));
        ends[state] = before + last <= limit;
    }
    source.filtered(&links, &ends)
}

/// The best path alone; of equal ones that by the lowest link numbers.
fn best_path<S: Source>(source: &S, scale: f64) -> Result<S> {
    let (_, to_end) = costs(source, scale)?;
    let mut links = try_filled(false, source.num_links(), "determinization: best path")?;
    let mut ends = try_filled(false, source.num_states(), "determinization: best path")?;
    let mut states: Vec<u32> = Vec::new();
    try_reserve(&mut states, 1, "determinization: best path")?;
    states.push(0);
    while let Some(state) = states.pop() {
        let through = |number: &u32| source.link(*number).costs.total(scale) + to_end[real(source, *number) as usize];
        let best = source.links(state).min_by(|a, b| through(a).total_cmp(&through(b)));
        let last = source.last(state).map_or(f64::INFINITY, |costs| costs.total(scale));
        match best {
            Some(link) if through(&link) < last => {
                links[link as usize] = true;
                states.push(real(source, link));
            }
            _ => ends[state as usize] = true,
        }
    }
    source.filtered(&links, &ends)
}
