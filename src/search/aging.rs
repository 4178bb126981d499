//! What survives of the younger window takes the older one's place.

use std::ops::Range;

use crate::error::{Result, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS};

use super::backward::{ROOM, Room, Survivor, Windows, move_times, walk_back};
use super::trace::{EPSILON, Trace};
use super::window::{Link, NO_LINK, TimeStart, Token, Window};

/// Walks back over both windows. What survives of the older one moves to the trace, and what survives of the
/// younger to the older, in as much less room; the younger is empty then. The tokens of the last time, all of
/// which survive, keep their places; those of other times do not. `boundary` gives, for the tokens of
/// the time before the first, their places in the trace. On an error nothing has changed.
pub(super) fn age(
    graph: &Graph,
    older: &mut Window,
    younger: &mut Window,
    lattice_beam: f32,
    room: &mut Room,
    boundary: &mut Vec<u32>,
    trace: &mut Trace,
) -> Result<()> {
    let windows = Windows { older, younger };
    let (keep, times) = (older.num_times(), windows.num_times());
    walk_back(windows, boundary.len(), lattice_beam, room)?;
    let most = (0..younger.num_times()).map(|at| younger.time(at).states.len()).max().unwrap_or(0);
    for places in [&mut room.places, &mut room.places_before] {
        try_reserve(places, most.saturating_sub(places.len()), ROOM)?;
    }
    older.reserve_survivors(younger, room)?;
    move_times(graph, Windows { older, younger }, keep, room, boundary, trace)?;
    // From here on nothing fails.
    for places in [&mut room.places, &mut room.places_before] {
        places.resize(most.max(places.len()), 0);
    }
    let biased = !younger.bias.is_empty();
    older.clear();
    std::mem::swap(&mut older.starts, &mut younger.starts);
    std::mem::swap(&mut older.rows, &mut younger.rows);
    younger.clear();
    for at in keep..times {
        older.take_survivors(at - keep, room.tokens_at(at), at + 1 == times, biased, room);
        std::mem::swap(&mut room.places, &mut room.places_before);
    }
    Ok(())
}

impl Window {
    /// Room for what survives of `younger`, the last times that were walked over, in place of what is held.
    fn reserve_survivors(&mut self, younger: &Window, room: &Room) -> Result<()> {
        let tokens = room.tokens_of_last(younger.num_times());
        let links = tokens.last().map_or(0, |last| last.links_end as usize);
        let closed = tokens.iter().filter(|token| token.state & HAS_EPSILONS != 0).count();
        let biased = if younger.bias.is_empty() { 0 } else { tokens.len() };
        let more = |held: usize, needed: usize| needed.saturating_sub(held);
        self.reserve(more(self.states.len(), tokens.len()), more(self.links.len(), links))?;
        let (more_bias, more_closed) = (more(self.bias.len(), biased), more(self.closed.len(), closed));
        try_reserve(&mut self.bias, more_bias, "tokens")?;
        try_reserve(&mut self.closed, more_closed, "tokens")
    }

    /// Appends the survivors of time `at`. `keep_places` leaves its tokens, all of which survive, where they are.
    fn take_survivors(&mut self, at: usize, survivors: Range<usize>, keep_places: bool, biased: bool, room: &mut Room) {
        let first = self.states.len();
        let start = &mut self.starts[at];
        *start = TimeStart { tokens: first, links: self.links.len(), closed: self.closed.len(), row: start.row };
        self.states.resize(first + survivors.len(), 0);
        self.tokens.resize(first + survivors.len(), Token { alpha: 0.0, head: NO_LINK });
        self.bias.resize(if biased { first + survivors.len() } else { 0 }, 0);
        // Back to front: those with epsilon arcs by ascending level, then the others, so that the source of
        // an epsilon arc has its place before the destination.
        for (count, survivor) in survivors.rev().enumerate() {
            let Survivor { place: old, state, bias, alpha, .. } = room.tokens[survivor];
            let place = if keep_places { old } else { count as u32 };
            room.places[old as usize] = place;
            let mut head = NO_LINK;
            for link in room.links_of(survivor) {
                let src = match (link.src & EPSILON, at) {
                    (0, 0) => link.src, // as `boundary` knows it
                    (0, _) => room.places_before[link.src as usize],
                    _ => room.places[(link.src & !EPSILON) as usize] | EPSILON,
                };
                let next = head;
                head = self.links.len() as u32;
                self.links.push(Link { src, arc: link.arc, cost: link.cost, next });
            }
            if state & HAS_EPSILONS != 0 {
                self.closed.push(place);
            }
            let place = first + place as usize;
            self.states[place] = state;
            self.tokens[place] = Token { alpha, head };
            if let Some(slot) = self.bias.get_mut(place) {
                *slot = bias;
            }
        }
    }
}
