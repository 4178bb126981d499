//! The trace: surviving tokens and links of all times that are closed, and the backward
//! pass that turns it into a raw lattice.
//!
//! Tokens of a time stand in canonical order (level, then graph state); links of a time are
//! those that lead to its tokens, by (destination, index of the graph arc in the file). The
//! lattice follows that order, so it does not depend on how the search went about its work.

use crate::error::{Error, Result, try_filled, try_reserve};
use crate::graph::Graph;
use crate::lattice::{LatticeArc, LatticeWeight, RawLattice};

use super::ends::Ends;

/// Set in [`TraceLink::src`] when the source is a token of the same time.
pub const EPSILON: u32 = 1 << 31;

/// A link that survived, seen from its destination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceLink {
    /// Place of the source among the tokens of the time before, or, with [`EPSILON`], of the same time.
    pub src: u32,
    /// Place of the destination among the tokens of the time.
    pub dst: u32,
    /// Arc number in the graph.
    pub arc: u32,
    /// `candidate - alpha(dst)`, at least 0.
    pub extra: f32,
    /// Acoustic cost without scale, `-ll`; 0 for epsilon arcs.
    pub acoustic: f32,
}

/// Offsets where the tokens and links of a time begin.
#[derive(Clone, Copy, Debug)]
struct TimeStart {
    tokens: usize,
    links: usize,
}

/// A length to which a trace can be cut back, and the room that it had then.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    times: usize,
    tokens: usize,
    links: usize,
    room: [usize; 3],
}

/// Surviving tokens and links, time by time from 0.
#[derive(Debug, Default)]
pub struct Trace {
    starts: Vec<TimeStart>,
    states: Vec<u32>,
    links: Vec<TraceLink>,
    links_after_prune: usize,
    room: Room,
}

/// Working space of pruning, kept so that the steady state takes no memory.
#[derive(Debug, Default)]
struct Room {
    extras: Vec<f32>,
    places: Vec<u32>,
    places_before: Vec<u32>,
}

impl Trace {
    /// Forgets everything; memory is kept.
    pub fn clear(&mut self) {
        self.starts.clear();
        self.states.clear();
        self.links.clear();
        self.links_after_prune = 0;
    }

    /// The present length.
    pub fn mark(&self) -> Mark {
        let room = [self.starts.capacity(), self.states.capacity(), self.links.capacity()];
        Mark { times: self.starts.len(), tokens: self.states.len(), links: self.links.len(), room }
    }

    /// Cuts back to an earlier length, and gives back the memory that was taken since: who only
    /// looks does not use up the channel's memory limit.
    pub fn cut_back(&mut self, mark: Mark) {
        self.starts.truncate(mark.times);
        self.states.truncate(mark.tokens);
        self.links.truncate(mark.links);
        self.starts.shrink_to(mark.room[0]);
        self.states.shrink_to(mark.room[1]);
        self.links.shrink_to(mark.room[2]);
    }

    /// Number of times held: frames closed + 1, or 0.
    pub fn num_times(&self) -> usize {
        self.starts.len()
    }

    /// Number of links held.
    pub fn num_links(&self) -> usize {
        self.links.len()
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.starts.capacity() * size_of::<TimeStart>()
            + self.states.capacity() * 4
            + self.links.capacity() * size_of::<TraceLink>()
            + (self.room.extras.capacity() + self.room.places.capacity() + self.room.places_before.capacity()) * 4
    }

    /// Appends a time. `states` are in canonical order, `links` sorted by (dst, file arc).
    pub fn push_time(&mut self, states: &[u32], links: &[TraceLink]) -> Result<()> {
        try_reserve(&mut self.starts, 1, "trace")?;
        try_reserve(&mut self.states, states.len(), "trace")?;
        try_reserve(&mut self.links, links.len(), "trace")?;
        self.starts.push(TimeStart { tokens: self.states.len(), links: self.links.len() });
        self.states.extend_from_slice(states);
        self.links.extend_from_slice(links);
        Ok(())
    }

    /// State ids of the tokens of `time`.
    pub fn states_at(&self, time: usize) -> &[u32] {
        &self.states[self.starts[time].tokens..self.end_of(time).tokens]
    }

    /// Links into the tokens of `time`.
    pub fn links_at(&self, time: usize) -> &[TraceLink] {
        &self.links[self.starts[time].links..self.end_of(time).links]
    }

    /// The best link into token `place` of `time`: extra 0, the smallest file arc; `None` at the start.
    pub fn best_link(&self, time: usize, place: u32) -> Option<&TraceLink> {
        let links = self.links_at(time);
        let first = links.partition_point(|link| link.dst < place);
        links[first..].iter().take_while(|link| link.dst == place).find(|link| link.extra == 0.0)
    }

    fn end_of(&self, time: usize) -> TimeStart {
        let end = TimeStart { tokens: self.states.len(), links: self.links.len() };
        self.starts.get(time + 1).copied().unwrap_or(end)
    }

    /// Extra cost of every token above the best path, from the end values `ends` of the tokens
    /// of the last time; `+inf` where it passes `lattice_beam`. A plain walk backwards: when a
    /// token is reached as a destination, all links that leave it have been seen.
    fn extras(&self, ends: impl Iterator<Item = f32>, lattice_beam: f32, extras: &mut Vec<f32>) -> Result<()> {
        extras.clear();
        try_reserve(extras, self.states.len(), "extra costs")?;
        extras.resize(self.states.len(), f32::INFINITY);
        let Some(last) = self.starts.last() else { return Ok(()) };
        for (extra, end) in extras[last.tokens..].iter_mut().zip(ends) {
            *extra = if end <= lattice_beam { end } else { f32::INFINITY };
        }
        for time in (0..self.starts.len()).rev() {
            let here = self.starts[time].tokens;
            let before = if time > 0 { self.starts[time - 1].tokens } else { 0 };
            for link in self.links_at(time).iter().rev() {
                let sum = link.extra + extras[here + link.dst as usize];
                if sum <= lattice_beam {
                    let extra = &mut extras[source(link, here, before)];
                    *extra = extra.min(sum);
                }
            }
        }
        Ok(())
    }

    /// Drops tokens and links that no end within `lattice_beam` can need, once the trace has
    /// grown to twice what it was after the last time. All tokens of the last time stay, so
    /// places among them keep their meaning.
    pub fn prune_when_grown(&mut self, lattice_beam: f32) -> Result<()> {
        const LEAST: usize = 1 << 15;
        if self.links.len() < LEAST.max(2 * self.links_after_prune) {
            return Ok(());
        }
        let mut room = std::mem::take(&mut self.room);
        let outcome = self.prune(lattice_beam, &mut room);
        self.room = room;
        outcome
    }

    fn prune(&mut self, lattice_beam: f32, room: &mut Room) -> Result<()> {
        let Room { extras, places, places_before } = room;
        self.extras(std::iter::repeat(0.0), lattice_beam, extras)?;
        // All memory first: from here on the trace changes in place.
        let most = (0..self.starts.len()).map(|time| self.states_at(time).len()).max().unwrap_or(0);
        for list in [&mut *places, &mut *places_before] {
            list.clear();
            try_reserve(list, most, "trace")?;
        }
        let (mut tokens, mut links) = (0usize, 0usize);
        for time in 0..self.starts.len() {
            let (start, end) = (self.starts[time], self.end_of(time));
            // New place of each old token of the present and the earlier time.
            std::mem::swap(places, places_before);
            places.clear();
            let first_token = tokens;
            for (old, &extra) in extras.iter().enumerate().take(end.tokens).skip(start.tokens) {
                places.push((tokens - first_token) as u32);
                if extra <= lattice_beam {
                    self.states[tokens] = self.states[old];
                    tokens += 1;
                }
            }
            let first_link = links;
            for old in start.links..end.links {
                let mut link = self.links[old];
                let sum = link.extra + extras[start.tokens + link.dst as usize];
                // Its source has at most that extra cost, so it is there as well.
                if sum <= lattice_beam {
                    link.dst = places[link.dst as usize];
                    let place = (link.src & !EPSILON) as usize;
                    link.src = if link.src & EPSILON != 0 { places[place] | EPSILON } else { places_before[place] };
                    self.links[links] = link;
                    links += 1;
                }
            }
            self.starts[time] = TimeStart { tokens: first_token, links: first_link };
        }
        self.states.truncate(tokens);
        self.links.truncate(links);
        self.links_after_prune = links;
        Ok(())
    }

    /// The raw lattice with the given ends, one for each token of the last time.
    pub fn lattice(&self, graph: &Graph, ends: &Ends, lattice_beam: f32, acoustic_scale: f32) -> Result<RawLattice> {
        let mut extras = Vec::new();
        self.extras(ends.extras.iter().copied(), lattice_beam, &mut extras)?;
        let alive = |token: usize| extras[token] <= lattice_beam;

        // Lattice states in token order, which is canonical.
        let mut state_of: Vec<u32> = Vec::new();
        try_reserve(&mut state_of, extras.len(), "lattice states")?;
        let mut num_states = 0u32;
        for &extra in &extras {
            state_of.push(num_states);
            num_states += u32::from(extra <= lattice_beam);
        }
        let too_large = || Error::Limit("the lattice has more than 2^32 arcs".into());

        // Arcs grouped by source: links come by (dst, file arc), and counting keeps that order.
        let mut offsets = try_filled(0u32, num_states as usize + 1, "lattice states")?;
        let mut num_arcs = 0u32;
        self.each_survivor(&extras, lattice_beam, |_, src, _| {
            offsets[state_of[src] as usize + 1] += 1;
            num_arcs = num_arcs.checked_add(1).ok_or_else(too_large)?;
            Ok(())
        })?;
        for state in 1..offsets.len() {
            offsets[state] += offsets[state - 1];
        }
        let mut next_arc = Vec::new();
        try_reserve(&mut next_arc, offsets.len(), "lattice states")?;
        next_arc.extend_from_slice(&offsets);
        let blank = LatticeArc { next: 0, ilabel: 0, olabel: 0, weight: LatticeWeight::ONE };
        let mut arcs = try_filled(blank, num_arcs as usize, "lattice arcs")?;
        self.each_survivor(&extras, lattice_beam, |link, src, dst| {
            let state = graph.state(self.states[src]);
            let slot = &mut next_arc[state_of[src] as usize];
            arcs[*slot as usize] = LatticeArc {
                next: state_of[dst],
                ilabel: graph.ilabel(link.arc),
                olabel: graph.olabel(link.arc),
                weight: LatticeWeight { graph: state.weight(link.arc), acoustic: link.acoustic },
            };
            *slot += 1;
            Ok(())
        })?;

        let mut finals = try_filled(LatticeWeight::ZERO, num_states as usize, "lattice states")?;
        if let Some(last) = self.starts.last() {
            for (place, (&extra, &graph)) in ends.extras.iter().zip(&ends.final_costs).enumerate() {
                if extra <= lattice_beam {
                    finals[state_of[last.tokens + place] as usize] = LatticeWeight { graph, acoustic: 0.0 };
                }
            }
        }
        let mut times = Vec::new();
        try_reserve(&mut times, num_states as usize, "lattice states")?;
        for time in 0..self.starts.len() {
            let tokens = self.starts[time].tokens..self.end_of(time).tokens;
            times.extend(tokens.filter(|&token| alive(token)).map(|_| time as u32));
        }
        let num_frames = self.starts.len().saturating_sub(1) as u32;
        Ok(RawLattice { arcs, offsets, finals, times, acoustic_scale, num_frames, reached_final: ends.reached_final })
    }

    /// Calls `visit(link, src, dst)` with token indices for each surviving link, in trace order.
    fn each_survivor(
        &self,
        extras: &[f32],
        lattice_beam: f32,
        mut visit: impl FnMut(&TraceLink, usize, usize) -> Result<()>,
    ) -> Result<()> {
        let mut before = 0;
        for time in 0..self.starts.len() {
            let here = self.starts[time].tokens;
            for link in self.links_at(time) {
                let dst = here + link.dst as usize;
                if link.extra + extras[dst] <= lattice_beam {
                    visit(link, source(link, here, before), dst)?;
                }
            }
            before = here;
        }
        Ok(())
    }
}

/// Token index of a link's source: tokens of its time start at `here`, those of the time before at `before`.
fn source(link: &TraceLink, here: usize, before: usize) -> usize {
    if link.src & EPSILON != 0 { here + (link.src & !EPSILON) as usize } else { before + link.src as usize }
}
