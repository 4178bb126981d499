//! Cuts a raw lattice into the pieces in which it might have grown.

use koshi::lattice::{Exit, Exits, LatticeArc, LatticePiece, RawLattice};

/// The pieces between `cuts` (times, ascending, below the last). What comes behind a cut is seen
/// for `ahead` frames, as a search sees it that is so far ahead.
pub fn pieces(lattice: &RawLattice, cuts: &[u32], ahead: u32, scale: f32) -> Vec<LatticePiece> {
    assert!(lattice.times.is_sorted() && lattice.times.len() == lattice.num_states());
    let mut all = Vec::new();
    let mut from: Option<u32> = None;
    for &cut in cuts {
        let extras = extras(lattice, cut, ahead, scale);
        let exits = |first: u32, states: &[u32]| {
            let exit = |(at, &state): (usize, &u32)| Exit {
                state: at as u32,
                key: u128::from(state) * 3 + 1,
                extra: extras[state as usize - first as usize],
            };
            let here = states.iter().enumerate().filter(|&(_, &state)| lattice.times[state as usize] == cut);
            Exits::On(here.map(exit).collect())
        };
        all.push(piece(lattice, from, Some(cut), exits));
        from = Some(cut);
    }
    let ends = |_: u32, states: &[u32]| {
        let finals = states.iter().enumerate().map(|(at, &state)| (at as u32, lattice.finals[state as usize]));
        Exits::Ends(finals.filter(|(_, weight)| !weight.is_absent()).collect())
    };
    all.push(piece(lattice, from, None, ends));
    all
}

/// States of the times from one cut to the next, and the arcs into those behind the first.
fn piece(
    lattice: &RawLattice,
    from: Option<u32>,
    to: Option<u32>,
    exits: impl FnOnce(u32, &[u32]) -> Exits,
) -> LatticePiece {
    let time = |state: u32| lattice.times[state as usize];
    let within = |&state: &u32| from.is_none_or(|from| time(state) >= from) && to.is_none_or(|to| time(state) <= to);
    let states: Vec<u32> = (0..lattice.num_states() as u32).filter(within).collect();
    let first = states[0];
    let mut piece = LatticePiece { offsets: vec![0], ..LatticePiece::default() };
    for &state in &states {
        for arc in lattice.arcs_of(state) {
            let behind = from.is_none_or(|from| time(arc.next) > from) && to.is_none_or(|to| time(arc.next) <= to);
            if behind {
                piece.arcs.push(LatticeArc { next: arc.next - first, ..*arc });
            }
        }
        piece.offsets.push(piece.arcs.len() as u32);
        if from == Some(time(state)) {
            piece.entries.push(u128::from(state) * 3 + 1);
        }
    }
    if from.is_none() {
        piece.entries.push(LatticePiece::START);
    }
    piece.exits = exits(first_at(lattice, to), &states);
    piece
}

/// The first state of a time.
fn first_at(lattice: &RawLattice, time: Option<u32>) -> u32 {
    time.map_or(0, |time| lattice.times.partition_point(|&other| other < time) as u32)
}

/// How far each state of time `cut` lies at least above the best path, by what can be seen of the
/// `ahead` times behind it.
fn extras(lattice: &RawLattice, cut: u32, ahead: u32, scale: f32) -> Vec<f32> {
    let states = lattice.num_states();
    let mut alpha = vec![f64::INFINITY; states];
    alpha[0] = 0.0;
    for (state, arc) in lattice.arcs_with_source() {
        let through = alpha[state as usize] + arc.weight.total(scale);
        alpha[arc.next as usize] = alpha[arc.next as usize].min(through);
    }
    let horizon = cut + ahead;
    let total = |state: usize| alpha[state] + lattice.finals[state].total(scale);
    let best = (0..states).filter(|&state| !lattice.finals[state].is_absent()).map(total).fold(f64::INFINITY, f64::min);
    let mut extra = vec![f64::INFINITY; states];
    for state in (0..states).rev() {
        if lattice.times[state] >= horizon && horizon < lattice.num_frames {
            extra[state] = if lattice.times[state] == horizon { 0.0 } else { f64::INFINITY };
            continue;
        }
        if !lattice.finals[state].is_absent() {
            extra[state] = total(state) - best;
        }
        for arc in lattice.arcs_of(state as u32) {
            let link = alpha[state] + arc.weight.total(scale) - alpha[arc.next as usize];
            extra[state] = extra[state].min(link + extra[arc.next as usize]);
        }
    }
    let range = lattice.times.iter().zip(&extra).filter(|(time, _)| **time == cut);
    range.map(|(_, &extra)| (extra as f32).next_down().max(0.0)).collect()
}
