//! What survives of the younger window takes the older one's place.

use std::hint::select_unpredictable;

use crate::error::{Result, try_reserve};
use crate::graph::Graph;

use super::backward::{GONE, ROOM, Room, Windows, move_times, walk_back};
use super::trace::{EPSILON, Trace};
use super::window::{Link, TimeStart, Window};

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
        places.clear();
        try_reserve(places, most, ROOM)?;
    }
    older.reserve_survivors(younger, room)?;
    let start = keep == 0 && trace.num_times() == 0;
    move_times(graph, Windows { older, younger }, keep, room, boundary, trace)?;
    // From here on nothing fails.
    let (mut here, mut before) = (std::mem::take(&mut room.places), std::mem::take(&mut room.places_before));
    let mut places = Places { here: &mut here, before: &mut before };
    older.clear();
    for at in keep..times {
        let kind = (at + 1 == times, start && at == keep);
        older.take_survivors(younger, at - keep, kind, room.kept_at(at), &mut places);
    }
    (room.places, room.places_before) = (here, before);
    std::mem::swap(&mut older.rows, &mut younger.rows);
    younger.clear();
    Ok(())
}

/// New places of the tokens of a time, and of those of the time before.
struct Places<'a> {
    here: &'a mut Vec<u32>,
    before: &'a mut Vec<u32>,
}

impl Window {
    /// Room for what survives of `younger`, the last times that were walked over, in place of what is held.
    fn reserve_survivors(&mut self, younger: &Window, room: &Room) -> Result<()> {
        let times = younger.num_times();
        let links = room.num_kept_of_last(times);
        // A link leads to each, but to that at the start of all; and all of the last time stay. One more is
        // written in vain.
        let tokens = links + 2 + younger.last_count();
        let more = |held: usize, needed: usize| needed.saturating_sub(held);
        self.reserve(more(self.states.len(), tokens), more(self.links.len(), links))?;
        let biased = if younger.bias.is_empty() { 0 } else { tokens };
        let (more_bias, more_starts) = (more(self.bias.len(), biased), more(self.starts.len(), times));
        try_reserve(&mut self.bias, more_bias, "tokens")?;
        try_reserve(&mut self.starts, more_starts, "times")
    }

    /// Appends time `at` of `younger`: the links `kept`, latest first, and the tokens that they lead to; all of
    /// them, in their places, where it is taken `whole`. `start`: the first of all begins the utterance.
    fn take_survivors(
        &mut self,
        younger: &Window,
        at: usize,
        (whole, start): (bool, bool),
        kept: &[u32],
        places: &mut Places<'_>,
    ) {
        let time = younger.time(at);
        let first = self.states.len();
        self.starts.push(TimeStart { tokens: first, links: self.links.len(), row: younger.starts[at].row });
        let links = self.links.len();
        // There is room for one token a link, and one that is written in vain.
        let most = if whole { time.states.len() } else { kept.len() + 1 };
        self.states.resize(first + most + 1, 0);
        self.alphas.resize(first + most + 1, 0.0);
        self.bias.resize(if time.bias.is_empty() { 0 } else { first + most + 1 }, 0);
        self.links.resize(links + kept.len(), Link { src: 0, arc: 0, cost: 0.0, dst: 0 });
        let (states, alphas) = (&mut self.states[first..], &mut self.alphas[first..]);
        let bias = self.bias.get_mut(first..).unwrap_or(&mut []);
        let mut count = 0;
        places.here.clear();
        if whole {
            places.here.extend(0..time.states.len() as u32);
            states[..time.states.len()].copy_from_slice(time.states);
            alphas[..time.states.len()].copy_from_slice(time.alphas);
            bias[..time.bias.len()].copy_from_slice(time.bias);
            count = time.states.len();
        } else {
            places.here.resize(time.states.len(), GONE);
        }
        // Written always, counted if the token is new: a branch would be mispredicted.
        let mut take = |token: u32, here: &mut [u32]| {
            let old = token as usize;
            states[count] = time.states[old];
            alphas[count] = time.alphas[old];
            if let (Some(to), Some(&from)) = (bias.get_mut(count), time.bias.get(old)) {
                *to = from;
            }
            let new = here[old] == GONE;
            let place = select_unpredictable(new, count as u32, here[old]);
            here[old] = place;
            count += usize::from(new);
            place
        };
        if start {
            take(0, places.here);
        }
        for (to, &link) in self.links[links..].iter_mut().zip(kept.iter().rev()) {
            let link = time.links[link as usize];
            let src = match (link.src & EPSILON, at) {
                (0, 0) => link.src, // as `boundary` knows it
                (0, _) => places.before[link.src as usize],
                // A link that leads to its source stands before it.
                _ => take(link.src & !EPSILON, places.here) | EPSILON,
            };
            let dst = take(link.dst, places.here);
            *to = Link { src, dst, ..link };
        }
        self.states.truncate(first + count);
        self.alphas.truncate(first + count);
        self.bias.truncate(first + count);
        std::mem::swap(places.here, places.before);
    }
}
