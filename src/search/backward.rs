//! The backward pass over raw windows: what survives moves to the trace, or stays in less room.

use crate::error::{Result, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS, Header};

use super::bias::bias_state;
use super::trace::{EPSILON, Trace, TraceLink};
use super::window::{Time, Window};

/// Working space of the pass.
#[derive(Debug, Default)]
pub struct Room {
    /// Extra costs of the tokens of the time at hand, and of the time before.
    here: Vec<f32>,
    before: Vec<f32>,
    /// Links that survive, by their places among those of their time, latest first, and where each time's begin,
    /// latest time first.
    kept: Vec<u32>,
    begins: Vec<usize>,
    /// Survivors of a time by what their canonical order follows.
    order: Vec<u128>,
    states: Vec<u32>,
    bias: Vec<u32>,
    /// Where the links into each token end.
    ends: Vec<u32>,
    /// Links, destination by destination, with what orders those into one: their places in the file.
    grouped: Vec<(u32, TraceLink)>,
    sorted: Vec<TraceLink>,
    /// Place in the window → new place, at the time at hand and at the time before: [`GONE`] where the token
    /// did not survive.
    pub(super) places: Vec<u32>,
    pub(super) places_before: Vec<u32>,
}

/// In place of a token that did not survive.
pub(super) const GONE: u32 = u32::MAX;

impl Room {
    /// Bytes held.
    pub fn memory(&self) -> usize {
        (self.here.capacity() + self.before.capacity() + self.kept.capacity() + self.ends.capacity()) * 4
            + (self.states.capacity() + self.bias.capacity()) * 4
            + (self.places.capacity() + self.places_before.capacity()) * 4
            + self.begins.capacity() * 8
            + self.order.capacity() * size_of::<u128>()
            + self.grouped.capacity() * size_of::<(u32, TraceLink)>()
            + self.sorted.capacity() * size_of::<TraceLink>()
    }

    /// The links of time `at` that survive, by their places among those of the time, latest first.
    pub(super) fn kept_at(&self, at: usize) -> &[u32] {
        let times = self.begins.len() - 1;
        &self.kept[self.begins[times - 1 - at]..self.begins[times - at]]
    }

    /// How many links of the last `times` times survive.
    pub(super) fn num_kept_of_last(&self, times: usize) -> usize {
        self.begins[times]
    }
}

/// The two windows of a channel as one run of times.
#[derive(Clone, Copy)]
pub(super) struct Windows<'a> {
    pub older: &'a Window,
    pub younger: &'a Window,
}

impl<'a> Windows<'a> {
    pub fn num_times(&self) -> usize {
        self.older.num_times() + self.younger.num_times()
    }

    pub fn time(&self, at: usize) -> Time<'a> {
        match at.checked_sub(self.older.num_times()) {
            None => self.older.time(at),
            Some(at) => self.younger.time(at),
        }
    }
}

/// Walks back from the last time of `windows`, whose tokens all count with extra 0 (so nothing
/// is dropped that a later end could need), and appends what survives to `trace`. `boundary` gives,
/// for the tokens of the time before the first, their places in the trace; afterwards the same for
/// the last time. On an error both are as before.
pub(super) fn move_to_trace(
    graph: &Graph,
    windows: Windows<'_>,
    lattice_beam: f32,
    room: &mut Room,
    boundary: &mut Vec<u32>,
    trace: &mut Trace,
) -> Result<()> {
    let times = windows.num_times();
    walk_back(windows, boundary.len(), lattice_beam, room)?;
    move_times(graph, windows, times, room, boundary, trace)
}

/// Appends the survivors of the first `keep` times that were recorded to `trace`; `boundary` as above,
/// afterwards for the last time that was moved. On an error both are as before.
pub(super) fn move_times(
    graph: &Graph,
    windows: Windows<'_>,
    keep: usize,
    room: &mut Room,
    boundary: &mut Vec<u32>,
    trace: &mut Trace,
) -> Result<()> {
    room.places_before.clear();
    try_reserve(&mut room.places_before, boundary.len(), ROOM)?;
    room.places_before.extend_from_slice(boundary);
    if let Some(last) = keep.checked_sub(1) {
        let places = windows.time(last).states.len();
        try_reserve(boundary, places.saturating_sub(boundary.len()), ROOM)?;
    }
    let mark = trace.mark();
    for at in 0..keep {
        let moved = move_time(graph, windows, at, room, trace);
        if moved.is_err() {
            trace.cut_back(mark);
            return moved;
        }
    }
    // Copied, as `places_before` has been given room for more.
    boundary.clear();
    boundary.extend_from_slice(&room.places_before);
    Ok(())
}

/// Appends the survivors of time `at` to the trace.
fn move_time(graph: &Graph, windows: Windows<'_>, at: usize, room: &mut Room, trace: &mut Trace) -> Result<()> {
    let time = windows.time(at);
    if at + 1 < windows.num_times() {
        let next = windows.time(at + 1);
        for &link in room.kept_at(at + 1) {
            graph.prefetch(next.states[next.links[link as usize].dst as usize] & !HAS_EPSILONS);
        }
    }
    order_tokens(graph, &time, at, trace.num_times() == 0, room)?;
    let previous = at.checked_sub(1).map(|at| windows.time(at));
    sort_links(graph, &time, at, previous.as_ref(), trace, room)?;
    trace.push_time(&room.states, &room.bias, &room.sorted)?;
    std::mem::swap(&mut room.places, &mut room.places_before);
    Ok(())
}

/// Extra costs of the tokens of the time before the first of `windows`, of which there are `count`,
/// when all tokens of the last time count with extra 0; above `lattice_beam` they may be too low.
pub(super) fn extras_before<'a>(
    windows: Windows<'_>,
    count: usize,
    lattice_beam: f32,
    room: &'a mut Room,
) -> Result<&'a [f32]> {
    walk_back(windows, count, lattice_beam, room)?;
    Ok(&room.here)
}

/// Records what survives, and leaves in `room.here` the extra costs of the tokens before the first
/// time, of which there are `count`.
pub(super) fn walk_back(windows: Windows<'_>, count: usize, lattice_beam: f32, room: &mut Room) -> Result<()> {
    let times = windows.num_times();
    room.kept.clear();
    room.begins.clear();
    try_reserve(&mut room.begins, times + 1, ROOM)?;
    room.begins.push(0);
    refill(&mut room.here, if times > 0 { windows.time(times - 1).states.len() } else { 0 }, 0.0)?;
    for at in (0..times).rev() {
        let time = windows.time(at);
        let before = if at > 0 { windows.time(at - 1).states.len() } else { count };
        refill(&mut room.before, before, f32::INFINITY)?;
        try_reserve(&mut room.kept, time.links.len(), ROOM)?;
        hand_on(&time, lattice_beam, room);
        room.begins.push(room.kept.len());
        std::mem::swap(&mut room.here, &mut room.before);
    }
    Ok(())
}

/// Hands the extra costs of a time's tokens on to the sources of their incoming links, the last link first: when
/// one's turn comes, its destination's extra cost is final. Records those that survive, for which there is room.
#[inline(never)]
fn hand_on(time: &Time<'_>, lattice_beam: f32, room: &mut Room) {
    let Room { here, before, kept, .. } = room;
    let (alphas, here) = (time.alphas, &mut here[..time.alphas.len()]);
    let emitting = time.links.iter().rposition(|link| link.src & EPSILON == 0).map_or(0, |last| last + 1);
    for (at, link) in time.links.iter().enumerate().skip(emitting).rev() {
        let dst = link.dst as usize;
        let sum = (link.cost - alphas[dst]) + here[dst];
        if sum <= lattice_beam {
            let source = &mut here[(link.src & !EPSILON) as usize];
            *source = if sum < *source { sum } else { *source };
            kept.push(at as u32);
        }
    }
    // Where it is written always and counted if the link survives: a branch would be mispredicted.
    let mut count = kept.len();
    let room = kept.spare_capacity_mut();
    let begin = count;
    for (at, link) in time.links[..emitting].iter().enumerate().rev() {
        let dst = link.dst as usize;
        let sum = (link.cost - alphas[dst]) + here[dst];
        // Above the beam it does no harm: all that is above it is one.
        let source = &mut before[link.src as usize];
        *source = if sum < *source { sum } else { *source };
        room[count - begin].write(at as u32);
        count += usize::from(sum <= lattice_beam);
    }
    // SAFETY: `begin..count` has been written: each entry before the count passed it.
    unsafe { kept.set_len(count) };
}

/// What the memory of this file is for, in messages.
pub(super) const ROOM: &str = "backward pass";

/// `len` times `value`.
fn refill<T: Copy>(list: &mut Vec<T>, len: usize, value: T) -> Result<()> {
    list.clear();
    try_reserve(list, len, ROOM)?;
    list.resize(len, value);
    Ok(())
}

/// Puts the surviving tokens of a time in canonical order: `room.states`, `room.bias`, `room.places`. They are those
/// that a surviving link leads to, and the one at the start of all.
fn order_tokens(graph: &Graph, time: &Time<'_>, at: usize, start: bool, room: &mut Room) -> Result<()> {
    let words = graph.words();
    refill(&mut room.places, time.states.len(), GONE)?;
    room.order.clear();
    let survivors = room.kept_at(at).len() + usize::from(start);
    try_reserve(&mut room.order, survivors, ROOM)?;
    let mut order = std::mem::take(&mut room.order);
    let mut places = std::mem::take(&mut room.places);
    let first = start.then_some(0);
    for token in first.into_iter().chain(room.kept_at(at).iter().map(|&link| time.links[link as usize].dst)) {
        let place = &mut places[token as usize];
        if *place == GONE {
            *place = 0;
            let state = time.states[token as usize] & !HAS_EPSILONS;
            let level = Header::unpack(words, state).level;
            // As one number, so that a comparison is no branch.
            let key = [level, state, bias_state(time.bias, token as usize), token];
            order.push(key.into_iter().fold(0, |all, part| all << 32 | u128::from(part)));
        }
    }
    order.sort_unstable();
    (room.order, room.places) = (order, places);
    room.states.clear();
    try_reserve(&mut room.states, room.order.len(), ROOM)?;
    room.bias.clear();
    if !time.bias.is_empty() {
        try_reserve(&mut room.bias, room.order.len(), ROOM)?;
        room.bias.extend(room.order.iter().map(|&key| (key >> 32) as u32));
    }
    for (place, &key) in room.order.iter().enumerate() {
        room.states.push((key >> 64) as u32);
        room.places[key as u32 as usize] = place as u32;
    }
    Ok(())
}

/// Turns the surviving links of a time into trace links, sorted by (destination, file arc), then the source's
/// bias state: `room.sorted`.
fn sort_links(
    graph: &Graph,
    time: &Time<'_>,
    at: usize,
    previous: Option<&Time<'_>>,
    trace: &Trace,
    room: &mut Room,
) -> Result<()> {
    let count = room.kept_at(at).len();
    refill(&mut room.ends, room.order.len(), 0)?;
    room.grouped.clear();
    try_reserve(&mut room.grouped, count, ROOM)?;
    room.sorted.clear();
    try_reserve(&mut room.sorted, count, ROOM)?;
    let (mut ends, mut grouped) = (std::mem::take(&mut room.ends), std::mem::take(&mut room.grouped));
    let kept = || room.kept_at(at).iter().map(|&link| time.links[link as usize]);
    // Destination by destination, of which the order gives the number of links.
    for link in kept() {
        ends[room.places[link.dst as usize] as usize] += 1;
    }
    let mut begin = 0;
    for end in &mut ends {
        (*end, begin) = (begin, begin + *end);
    }
    let nothing = TraceLink { src: 0, dst: 0, arc: 0, extra: 0.0, acoustic: 0.0 };
    grouped.resize(count, (0, nothing));
    for link in kept() {
        let raw = (link.src & !EPSILON) as usize;
        let dst = room.places[link.dst as usize];
        let (src, state, acoustic) = if link.src & EPSILON != 0 {
            (room.places[raw] | EPSILON, time.states[raw] & !HAS_EPSILONS, 0.0)
        } else {
            let place = room.places_before[raw];
            let state = match previous {
                Some(previous) => previous.states[raw] & !HAS_EPSILONS,
                None => trace.states_at(trace.num_times() - 1)[place as usize],
            };
            (place, state, time.acoustic_cost(graph, state, link.arc))
        };
        let extra = link.cost - time.alphas[link.dst as usize];
        // Beside it the state that owns its arc for now: the place in the file decides between several only.
        let end = &mut ends[dst as usize];
        grouped[*end as usize] = (state, TraceLink { src, dst, arc: link.arc, extra, acoustic });
        *end += 1;
    }
    let mut begin = 0;
    for &end in &ends {
        let group = &mut grouped[begin..end as usize];
        if group.len() > 1 {
            for (order, link) in group.iter_mut() {
                *order = graph.file_arc(*order, link.arc);
            }
            // One arc may come from several bias states of its source, whose places follow them.
            group.sort_unstable_by_key(|(file_arc, link)| (*file_arc, link.src));
        }
        begin = end as usize;
    }
    room.sorted.extend(grouped.iter().map(|(_, link)| *link));
    (room.ends, room.grouped) = (ends, grouped);
    Ok(())
}
