//! Supervisions joined into a minibatch.

use std::borrow::Borrow;

use super::acceptor::{Acceptor, AcceptorArc};
use super::supervision::{Paths, Supervision};
use crate::error::{Error, Result, try_filled, try_reserve};

const WHAT: &str = "merged supervision";

impl Supervision {
    /// Joins supervisions into one whose sequences are all of theirs, in order. One alone is copied as it is.
    ///
    /// As in Kaldi, all must have the same number of pdfs, weight and frames per sequence, and be all end-to-end or
    /// none ([`Error::Shape`]). Pdfs of alignments are left out, and refused where the FSTs are not end-to-end
    /// ([`Error::Unsupported`]).
    pub fn merge<S: Borrow<Supervision>>(parts: &[S]) -> Result<Supervision> {
        let [first, others @ ..] = parts else {
            return Err(Error::Argument("there is nothing to merge".to_string()));
        };
        let first = first.borrow();
        if others.is_empty() {
            return first.try_clone();
        }
        let mut num_sequences = 0usize;
        for (at, part) in parts.iter().enumerate() {
            let part = part.borrow();
            check(first, part).map_err(|error| error.context(format!("supervision {at}")))?;
            num_sequences = num_sequences
                .checked_add(part.num_sequences)
                .ok_or_else(|| Error::Limit("too many sequences".to_string()))?;
        }
        let mut fsts = Vec::new();
        if first.is_end_to_end() {
            for part in parts {
                Acceptor::copy_all(part.borrow().fsts(), &mut fsts)?;
            }
        } else {
            try_reserve(&mut fsts, 1, WHAT)?;
            fsts.push(join(parts)?);
        }
        let numbers = [num_sequences, first.frames_per_sequence, first.label_dim];
        Supervision::new(first.weight, numbers, fsts, first.is_end_to_end(), Vec::new())
    }
}

fn check(first: &Supervision, part: &Supervision) -> Result<()> {
    let shape = |what: &str, found: String, expected: String| {
        Err(Error::Shape(format!("{what} {found} where the first has {expected}")))
    };
    if part.label_dim != first.label_dim {
        return shape("has", format!("{} pdfs", part.label_dim), first.label_dim.to_string());
    }
    if part.weight != first.weight {
        return shape("has weight", part.weight.to_string(), first.weight.to_string());
    }
    if part.frames_per_sequence != first.frames_per_sequence {
        let found = format!("{} frames per sequence", part.frames_per_sequence);
        return shape("has", found, first.frames_per_sequence.to_string());
    }
    match (&first.paths, &part.paths) {
        (Paths::Joined { .. }, Paths::Joined { .. }) if part.alignment_pdfs.is_empty() => Ok(()),
        (Paths::Joined { .. }, Paths::Joined { .. }) => {
            let why = "it has pdfs of an alignment, which cannot be merged; write it without";
            Err(Error::Unsupported(why.to_string()))
        }
        (Paths::EndToEnd(_), Paths::EndToEnd(_)) => Ok(()),
        _ => Err(Error::Shape("some are end-to-end and some are not".to_string())),
    }
}

/// One FST behind the other: a final state takes over the arcs of the next one's start.
fn join<S: Borrow<Supervision>>(parts: &[S]) -> Result<Acceptor> {
    let fsts: Vec<&Acceptor> = parts.iter().filter_map(|part| part.borrow().fsts().first()).collect();
    let total: usize = fsts.iter().map(|fst| fst.num_states()).sum();
    // The number of each part's first state.
    let mut bases = Vec::new();
    try_reserve(&mut bases, fsts.len(), WHAT)?;
    bases.extend(fsts.iter().scan(0usize, |base, fst| {
        let this = *base;
        *base += fst.num_states();
        Some(this)
    }));
    let too_many = || Error::Limit(format!("{WHAT}: {total} states"));
    u32::try_from(total).map_err(|_| too_many())?;
    let mut arcs = Vec::new();
    // Breadth first from the start: states that only ended a part, or only began one, are not met.
    let mut joined = Acceptor::default();
    let mut numbers = try_filled(u32::MAX, total, WHAT)?;
    let mut queue: Vec<(usize, usize)> = Vec::new();
    try_reserve(&mut queue, total, WHAT)?;
    queue.push((0, 0));
    if let Some(first) = numbers.first_mut() {
        *first = 0;
    }
    let mut at = 0;
    while let Some(&(part, state)) = queue.get(at) {
        at += 1;
        arcs.clear();
        let final_cost = outgoing(&fsts, part, state, &mut arcs)?;
        // Removing epsilons turns the arcs of a state round, so states get the numbers that Kaldi gives them.
        for &(to, arc) in arcs.iter().rev() {
            let place = bases[to] + arc.next as usize;
            if numbers[place] == u32::MAX {
                numbers[place] = queue.len() as u32;
                queue.push((to, arc.next as usize));
            }
            joined.push(AcceptorArc { next: numbers[place], ..arc })?;
        }
        joined.end_state(final_cost)?;
    }
    Ok(joined)
}

/// All arcs of a state of part `part`, with the part that they lead into, and its final cost.
fn outgoing(fsts: &[&Acceptor], part: usize, state: usize, arcs: &mut Vec<(usize, AcceptorArc)>) -> Result<f32> {
    let fst = fsts[part];
    try_reserve(arcs, fst.arcs(state).len(), WHAT)?;
    arcs.extend(fst.arcs(state).iter().map(|arc| (part, *arc)));
    let cost = fst.finals[state];
    let Some(next) = fsts.get(part + 1).filter(|_| cost != f32::INFINITY) else { return Ok(cost) };
    try_reserve(arcs, next.arcs(0).len(), WHAT)?;
    arcs.extend(next.arcs(0).iter().map(|arc| (part + 1, AcceptorArc { cost: arc.cost + cost, ..*arc })));
    Ok(f32::INFINITY)
}
