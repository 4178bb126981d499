//! What is done where the memory does not suffice: a narrower beam, and the best path at least.

use std::cmp::Ordering;

use crate::error::{Result, try_filled};

use super::arena::{Arena, ROOT};
use super::collect::segments;
use super::compose::QUANTUM;
use super::costs::Costs;
use super::pass::{Limits, Work, run};
use super::segments::Segments;
use super::source::Source;

/// Kaldi's `max_num_iters`.
const MOST_ATTEMPTS: usize = 10;

/// Kaldi's `retry_cutoff`: a result whose effective beam is below this share of the beam is
/// not taken; the source is pruned and determinized again.
const LEAST_SHARE: f64 = 0.5;

/// What stays in a result however little memory there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// The best path.
    BestPath,
    /// The best path to each link with a label from this one on: where the lattice will go on.
    BestPathTo(u32),
}

/// How much of a beam is too little to hold the best paths to all exits, whose costs are rounded.
const NO_BEAM: f64 = 4.0 * QUANTUM;

/// Determinizes within the limits; gives the lattice and the beam within which it is whole.
///
/// Kaldi's rule (`DeterminizeLatticePruned`): where the effective beam e falls below half of
/// the beam b, the source is pruned to the beam `max(b / 2, sqrt(b * e))` and tried again, up
/// to ten times in all. Kaldi may end with an empty lattice then; here what `keep` says stays.
pub(super) fn determinize<S: Source>(
    source: &S,
    whole: &Limits,
    keep: Keep,
    work: &mut Work,
) -> Result<(Segments, f64)> {
    let mut limits = *whole;
    let mut pruned: Option<S> = None;
    for attempt in 1.. {
        let effective = run(pruned.as_ref().unwrap_or(source), &limits, work)?;
        let enough = effective >= limits.beam * LEAST_SHARE || limits.beam == f64::INFINITY;
        if enough || attempt == MOST_ATTEMPTS {
            let found = segments(work)?;
            // A pass that was cut short may have ended a worse path and not yet the best one.
            let best = work.best().unwrap_or(f64::INFINITY);
            let has_best = match keep {
                Keep::BestPath => found.best(limits.scale)? <= best + 1e-9 * (1.0 + best.abs()),
                Keep::BestPathTo(_) => effective > NO_BEAM,
            };
            if effective == limits.beam || has_best {
                return Ok((found, effective));
            }
            break;
        }
        limits.beam = (limits.beam * effective).sqrt().max(limits.beam * 0.5);
        pruned = Some(prune(pruned.as_ref().unwrap_or(source), &limits)?);
    }
    let best = best_paths(source, limits.scale, keep, &mut work.arena)?;
    let beam = if keep == Keep::BestPath { 0.0 } else { whole.beam };
    run(&best, &Limits { max_mem: 0, beam, ..limits }, work)?;
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

/// The best way to a state.
#[derive(Clone, Copy)]
struct Way {
    costs: Costs,
    string: u32,
    /// State and link before it.
    from: u32,
    link: u32,
}

/// The best paths alone: those that determinization at any beam would keep for their words.
fn best_paths<S: Source>(source: &S, scale: f64, keep: Keep, arena: &mut Arena) -> Result<S> {
    arena.clear();
    let states = source.num_states();
    let mut ways: Vec<Option<Way>> = try_filled(None, states, "determinization: best path")?;
    let start = Way { costs: Costs::ONE, string: ROOT, from: 0, link: 0 };
    ways.iter_mut().take(1).for_each(|way| *way = Some(start));
    let mut best: Option<(Costs, u32, u32)> = None;
    for state in 0..states {
        let Some(way) = ways[state] else { continue };
        if let Some(last) = source.last(state as u32) {
            let costs = way.costs.plus(last);
            let better = best.is_none_or(|(known, string, _)| {
                costs.order(known, scale).then_with(|| arena.order(way.string, string)).is_lt()
            });
            if better {
                best = Some((costs, way.string, state as u32));
            }
        }
        for link in source.links(state as u32) {
            let next = real(source, link) as usize;
            let costs = way.costs.plus(source.link(link).costs);
            let order = ways[next].map_or(Ordering::Less, |known| costs.order(known.costs, scale));
            if order.is_gt() {
                continue;
            }
            let string = arena.append(way.string, source.string(link))?;
            if order.is_lt() || ways[next].is_some_and(|known| arena.order(string, known.string).is_lt()) {
                ways[next] = Some(Way { costs, string, from: state as u32, link });
            }
        }
    }
    let mut links = try_filled(false, source.num_links(), "determinization: best path")?;
    let mut ends = try_filled(false, states, "determinization: best path")?;
    if let Keep::BestPathTo(first) = keep {
        // The best way to each state is a tree; the labels from `first` on lead out of it.
        ways.iter().flatten().skip(1).for_each(|way| links[way.link as usize] = true);
        let leads_out =
            |link: &usize| matches!(source.link(*link as u32).label, label if label & 1 == 1 && label >= first);
        (0..source.num_links()).filter(leads_out).for_each(|link| links[link] = true);
        ends.iter_mut().enumerate().for_each(|(state, end)| *end = source.last(state as u32).is_some());
    } else if let Some((_, _, last)) = best {
        ends[last as usize] = true;
        let mut state = last;
        while let Some(Way { from, link, .. }) = ways[state as usize].filter(|_| state != 0) {
            links[link as usize] = true;
            state = from;
        }
    }
    source.filtered(&links, &ends)
}
