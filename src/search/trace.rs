//! The trace: surviving tokens and links of all times that are closed.
//!
//! Tokens of a time stand in canonical order (level, then graph state, then bias state); links of a
//! time are those that lead to its tokens, by (destination, index of the graph arc in the file, bias
//! state of the source). The lattice follows that order, so it does not depend on how the search went about its work.

use crate::error::{Result, shrink_to, try_reserve};

use super::bias::bias_state;

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
    room: [usize; 4],
}

/// Surviving tokens and links, time by time from 0.
#[derive(Debug, Default)]
pub struct Trace {
    /// The first time that is held: what came before has been committed.
    base: usize,
    starts: Vec<TimeStart>,
    states: Vec<u32>,
    /// Bias state of each token; empty without phrases.
    bias: Vec<u32>,
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
        self.base = 0;
        self.starts.clear();
        self.states.clear();
        self.bias.clear();
        self.links.clear();
        self.links_after_prune = 0;
    }

    /// The present length.
    pub fn mark(&self) -> Mark {
        let room = [self.starts.capacity(), self.states.capacity(), self.links.capacity(), self.bias.capacity()];
        Mark { times: self.starts.len(), tokens: self.states.len(), links: self.links.len(), room }
    }

    /// Cuts back to an earlier length, and gives back the memory that was taken since: who only
    /// looks does not use up the channel's memory limit.
    pub fn cut_back(&mut self, mark: Mark) {
        self.starts.truncate(mark.times);
        self.states.truncate(mark.tokens);
        self.bias.truncate(mark.tokens);
        self.links.truncate(mark.links);
        shrink_to(&mut self.starts, mark.room[0]);
        shrink_to(&mut self.states, mark.room[1]);
        shrink_to(&mut self.links, mark.room[2]);
        shrink_to(&mut self.bias, mark.room[3]);
    }

    /// Number of times closed: frames closed + 1, or 0.
    pub fn num_times(&self) -> usize {
        self.base + self.starts.len()
    }

    /// The first time that is held. From 0 on its one token is where all paths begin.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Where a time begins that is held.
    fn start_of(&self, time: usize) -> TimeStart {
        self.starts[time - self.base]
    }

    /// Number of links held.
    pub fn num_links(&self) -> usize {
        self.links.len()
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.starts.capacity() * size_of::<TimeStart>()
            + (self.states.capacity() + self.bias.capacity()) * 4
            + self.links.capacity() * size_of::<TraceLink>()
            + (self.room.extras.capacity() + self.room.places.capacity() + self.room.places_before.capacity()) * 4
    }

    /// Appends a time. `states` are in canonical order, with their `bias` states if there are phrases;
    /// `links` sorted by (dst, file arc, bias state of the source).
    pub fn push_time(&mut self, states: &[u32], bias: &[u32], links: &[TraceLink]) -> Result<()> {
        try_reserve(&mut self.starts, 1, "trace")?;
        try_reserve(&mut self.states, states.len(), "trace")?;
        try_reserve(&mut self.bias, bias.len(), "trace")?;
        try_reserve(&mut self.links, links.len(), "trace")?;
        self.starts.push(TimeStart { tokens: self.states.len(), links: self.links.len() });
        self.states.extend_from_slice(states);
        self.bias.extend_from_slice(bias);
        self.links.extend_from_slice(links);
        Ok(())
    }

    /// State ids of the tokens of `time`.
    pub fn states_at(&self, time: usize) -> &[u32] {
        &self.states[self.tokens_at(time)]
    }

    /// Bias states of the tokens of `time`; empty without phrases.
    pub fn bias_at(&self, time: usize) -> &[u32] {
        self.bias.get(self.tokens_at(time)).unwrap_or(&[])
    }

    /// Gives all tokens bias state 0, if they had none.
    pub fn start_bias(&mut self) -> Result<()> {
        let more = self.states.len().saturating_sub(self.bias.len());
        try_reserve(&mut self.bias, more, "trace")?;
        self.bias.resize(self.states.len(), 0);
        Ok(())
    }

    /// Takes the bias states off again.
    pub fn stop_bias(&mut self) {
        self.bias.clear();
    }

    /// Links into the tokens of `time`.
    pub fn links_at(&self, time: usize) -> &[TraceLink] {
        &self.links[self.start_of(time).links..self.end_of(time).links]
    }

    /// The best link into token `place` of `time`: extra 0, the smallest file arc, then the smallest bias state; `None` at the start.
    pub fn best_link(&self, time: usize, place: u32) -> Option<&TraceLink> {
        let links = self.links_at(time);
        let first = links.partition_point(|link| link.dst < place);
        links[first..].iter().take_while(|link| link.dst == place).find(|link| link.extra == 0.0)
    }

    fn end_of(&self, time: usize) -> TimeStart {
        let end = TimeStart { tokens: self.states.len(), links: self.links.len() };
        self.starts.get(time + 1 - self.base).copied().unwrap_or(end)
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
        if to >= self.num_times() {
            return Ok(());
        }
        let first = self.start_of(from).tokens;
        let count = self.end_of(to).tokens - first;
        try_reserve(extras, count, "extra costs")?;
        extras.resize(count, f32::INFINITY);
        for (extra, end) in extras[self.start_of(to).tokens - first..].iter_mut().zip(ends) {
            *extra = if end <= lattice_beam { end } else { f32::INFINITY };
        }
        for time in (from..=to).rev() {
            let here = self.start_of(time).tokens - first;
            let before = (time > from).then(|| self.start_of(time - 1).tokens - first);
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
        let last = self.num_times().saturating_sub(1);
        self.extras(self.base, last, std::iter::repeat(0.0), lattice_beam, &mut room.extras)?;
        self.reserve_places(room)?;
        self.keep(lattice_beam, room);
        Ok(())
    }

    /// Room for the places of any time: the rest of pruning takes no memory.
    fn reserve_places(&self, room: &mut Room) -> Result<()> {
        let most = (self.base..self.num_times()).map(|time| self.states_at(time).len()).max().unwrap_or(0);
        for list in [&mut room.places, &mut room.places_before] {
            list.clear();
            try_reserve(list, most, "trace")?;
        }
        Ok(())
    }

    /// Keeps the tokens with an extra cost in `room.extras` that is within the beam, and the links
    /// between them that are.
    fn keep(&mut self, lattice_beam: f32, room: &mut Room) {
        let Room { extras, places, places_before } = room;
        let (mut tokens, mut links, mut before) = (0usize, 0usize, 0usize);
        for time in self.base..self.num_times() {
            let (start, end) = (self.start_of(time), self.end_of(time));
            // New place of each old token of the present and the earlier time.
            std::mem::swap(places, places_before);
            places.clear();
            let first_token = tokens;
            for (old, &extra) in extras.iter().enumerate().take(end.tokens).skip(start.tokens) {
                places.push((tokens - first_token) as u32);
                if extra <= lattice_beam {
                    self.states[tokens] = self.states[old];
                    if !self.bias.is_empty() {
                        self.bias[tokens] = self.bias[old];
                    }
                    tokens += 1;
                }
            }
            let first_link = links;
            for old in start.links..end.links {
                let mut link = self.links[old];
                let sum = link.extra + extras[start.tokens + link.dst as usize];
                // Its source has at most that extra cost, unless it has been dropped for other reasons.
                let source = source(&link, start.tokens, Some(before)).map_or(f32::INFINITY, |source| extras[source]);
                if sum <= lattice_beam && source <= lattice_beam {
                    link.dst = places[link.dst as usize];
                    let place = (link.src & !EPSILON) as usize;
                    link.src = if link.src & EPSILON != 0 { places[place] | EPSILON } else { places_before[place] };
                    self.links[links] = link;
                    links += 1;
                }
            }
            self.starts[time - self.base] = TimeStart { tokens: first_token, links: first_link };
            before = start.tokens;
        }
        self.states.truncate(tokens);
        self.bias.truncate(tokens);
        self.links.truncate(links);
        self.links_after_prune = links;
    }

    /// The last of `times` that all links within the beam leave from one token: the time and that token.
    /// `extras` are those of all tokens held.
    pub(super) fn narrow(
        &self,
        times: std::ops::Range<usize>,
        extras: &[f32],
        lattice_beam: f32,
    ) -> Option<(usize, u32)> {
        times.rev().find_map(|time| {
            let here = self.start_of(time + 1).tokens;
            let within = |link: &&TraceLink| link.extra + extras[here + link.dst as usize] <= lattice_beam;
            let mut sources = self.links_at(time + 1).iter().filter(|link| link.src & EPSILON == 0).filter(within);
            let only = sources.next()?.src;
            sources.all(|link| link.src == only).then_some((time, only))
        })
    }

    /// Gives infinite costs to all tokens of the times up to `time` but `token` of that, and with
    /// `others` to those behind it whose best path does not go through it.
    pub(super) fn single_out(&self, (time, token): (usize, u32), others: bool, lattice_beam: f32, extras: &mut [f32]) {
        let kept = self.start_of(time).tokens + token as usize;
        let behind = self.end_of(time).tokens;
        let dropped = |(at, _): &(usize, &mut f32)| *at != kept;
        extras[..behind].iter_mut().enumerate().filter(dropped).for_each(|(_, extra)| *extra = f32::INFINITY);
        for time in if others { time + 1..self.num_times() } else { 0..0 } {
            let (here, before) = (self.start_of(time).tokens, self.start_of(time - 1).tokens);
            // In the order of tokens, epsilon arcs lead on.
            for at in self.tokens_at(time) {
                let best = self.best_link(time, (at - here) as u32);
                let source = best.and_then(|link| source(link, here, Some(before)));
                if source.is_none_or(|source| extras[source] > lattice_beam) {
                    extras[at] = f32::INFINITY;
                }
            }
        }
    }

    /// Room for [`Trace::commit`], which then takes no memory.
    pub(super) fn reserve_commit(&mut self) -> Result<()> {
        let mut room = std::mem::take(&mut self.room);
        let reserved = self.reserve_places(&mut room);
        self.room = room;
        reserved
    }

    /// Drops all before `time`, and what has an extra cost outside the beam. `boundary` gives places of
    /// tokens of the last time, and follows.
    pub(super) fn commit(&mut self, time: usize, extras: Vec<f32>, lattice_beam: f32, boundary: &mut [u32]) {
        let last = self.tokens_at(self.num_times() - 1);
        let mut room = std::mem::take(&mut self.room);
        room.extras = extras;
        self.keep(lattice_beam, &mut room);
        for place in boundary {
            let kept = room.extras.get(last.start + *place as usize).is_some_and(|&extra| extra <= lattice_beam);
            *place = if kept { room.places[*place as usize] } else { u32::MAX };
        }
        self.room = room;
        self.starts.drain(..time - self.base);
        self.base = time;
    }

    /// Index of the first token of a time, and of the first behind it.
    pub(super) fn tokens_at(&self, time: usize) -> std::ops::Range<usize> {
        self.start_of(time).tokens..self.end_of(time).tokens
    }

    /// Bias state of a token, by its index; 0 without phrases.
    pub(super) fn bias_of(&self, token: usize) -> u32 {
        bias_state(&self.bias, token)
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
