//! The trace: surviving tokens and links of all times that are closed.
//!
//! Tokens of a time stand in canonical order (level, then graph state); links of a time are
//! those that lead to its tokens, by (destination, index of the graph arc in the file). The
//! lattice follows that order, so it does not depend on how the search went about its work.

use crate::error::{Result, try_reserve};

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
        &self.states[self.tokens_at(time)]
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

    /// Extra cost above the best path of every token of the times from `from` to `to`, from the end
    /// values `ends` of the tokens of time `to`; `+inf` where it passes `lattice_beam`. A plain walk
    /// backwards: when a token is reached as a destination, all links that leave it have been seen.
    pub(super) fn extras(
        &self,
        from: usize,
        to: usize,
        ends: impl Iterator<Item = f32>,
        lattice_beam: f32,
        extras: &mut Vec<f32>,
    ) -> Result<()> {
        extras.clear();
        if to >= self.starts.len() {
            return Ok(());
        }
        let first = self.starts[from].tokens;
        let count = self.end_of(to).tokens - first;
        try_reserve(extras, count, "extra costs")?;
        extras.resize(count, f32::INFINITY);
        for (extra, end) in extras[self.starts[to].tokens - first..].iter_mut().zip(ends) {
            *extra = if end <= lattice_beam { end } else { f32::INFINITY };
        }
        for time in (from..=to).rev() {
            let here = self.starts[time].tokens - first;
            let before = (time > from).then(|| self.starts[time - 1].tokens - first);
            for link in self.links_at(time).iter().rev() {
                let sum = link.extra + extras[here + link.dst as usize];
                if sum <= lattice_beam
                    && let Some(source) = source(link, here, before)
                {
                    extras[source] = extras[source].min(sum);
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
        self.extras(0, self.starts.len().saturating_sub(1), std::iter::repeat(0.0), lattice_beam, extras)?;
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

    /// Index of the first token of a time, and of the first behind it.
    pub(super) fn tokens_at(&self, time: usize) -> std::ops::Range<usize> {
        self.starts[time].tokens..self.end_of(time).tokens
    }
}

/// Index of a link's source: tokens of its time start at `here`, those of the time before at
/// `before`, if that is there.
pub(super) fn source(link: &TraceLink, here: usize, before: Option<usize>) -> Option<usize> {
    match link.src & EPSILON {
        0 => before.map(|before| before + link.src as usize),
        _ => Some(here + (link.src & !EPSILON) as usize),
    }
}
