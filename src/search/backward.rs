//! The backward pass over raw windows: what survives moves to the trace, or stays in less room.

use crate::error::{Result, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS, Header};

use super::bias::bias_state;
use super::trace::{EPSILON, Trace, TraceLink};
use super::window::{Time, Window};

/// A token that survived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Survivor {
    /// Its place in the window.
    pub place: u32,
    /// Its destination word.
    pub state: u32,
    /// Its bias state; 0 without phrases.
    pub bias: u32,
    pub alpha: f32,
    /// Where its links end among those that survived. They begin where those of the survivor before end.
    pub links_end: u32,
}

/// A link that survived, with its source's place in the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct SurvivingLink {
    pub src: u32,
    pub arc: u32,
    pub cost: f32,
}

/// Working space of the pass.
#[derive(Debug, Default)]
pub struct Room {
    /// Extra costs of the tokens of the time at hand, and of the time before.
    here: Vec<f32>,
    before: Vec<f32>,
    /// Places of the survivors of the time at hand that have no epsilon arcs.
    plain: Vec<u32>,
    /// Survivors, latest time first, and where each time's begin.
    pub(super) tokens: Vec<Survivor>,
    links: Vec<SurvivingLink>,
    begins: Vec<usize>,
    /// Survivors of a time by what their canonical order follows.
    order: Vec<u128>,
    states: Vec<u32>,
    bias: Vec<u32>,
    /// Links into one token, with their places in the file.
    group: Vec<(u32, TraceLink)>,
    sorted: Vec<TraceLink>,
    /// Place in the window → new place, at the time at hand and at the time before. What is said
    /// of a token that did not survive means nothing.
    pub(super) places: Vec<u32>,
    pub(super) places_before: Vec<u32>,
}

impl Room {
    /// Bytes held.
    pub fn memory(&self) -> usize {
        (self.here.capacity() + self.before.capacity() + self.plain.capacity()) * 4
            + (self.states.capacity() + self.bias.capacity()) * 4
            + (self.places.capacity() + self.places_before.capacity()) * 4
            + self.tokens.capacity() * size_of::<Survivor>()
            + self.links.capacity() * size_of::<SurvivingLink>()
            + self.begins.capacity() * 8
            + self.order.capacity() * size_of::<u128>()
            + self.group.capacity() * size_of::<(u32, TraceLink)>()
            + self.sorted.capacity() * size_of::<TraceLink>()
    }

    /// Which survivors are those of time `at`.
    pub(super) fn tokens_at(&self, at: usize) -> std::ops::Range<usize> {
        let times = self.begins.len() - 1;
        self.begins[times - 1 - at]..self.begins[times - at]
    }

    /// The survivors of the last `times` times, latest first.
    pub(super) fn tokens_of_last(&self, times: usize) -> &[Survivor] {
        &self.tokens[..self.begins[times]]
    }

    /// The surviving links into a survivor.
    pub(super) fn links_of(&self, token: usize) -> &[SurvivingLink] {
        let begin = token.checked_sub(1).map_or(0, |before| self.tokens[before].links_end);
        &self.links[begin as usize..self.tokens[token].links_end as usize]
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
    order_tokens(graph, &time, at, trace.num_times() == 0, room)?;
    let previous = at.checked_sub(1).map(|at| windows.time(at));
    sort_links(graph, &time, previous.as_ref(), trace, room)?;
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
    room.tokens.clear();
    room.links.clear();
    room.begins.clear();
    try_reserve(&mut room.begins, times + 1, ROOM)?;
    room.begins.push(0);
    refill(&mut room.here, if times > 0 { windows.time(times - 1).states.len() } else { 0 }, 0.0)?;
    for at in (0..times).rev() {
        let time = windows.time(at);
        let before = if at > 0 { windows.time(at - 1).states.len() } else { count };
        refill(&mut room.before, before, f32::INFINITY)?;
        // Tokens without epsilon arcs: all links that leave them have been seen. Which of them
        // survive is written always and counted if so: a branch would be mispredicted.
        let states = time.states;
        if room.plain.len() < states.len() {
            let more = states.len() - room.plain.len();
            try_reserve(&mut room.plain, more, ROOM)?;
            room.plain.resize(states.len(), 0);
        }
        let mut survive = 0;
        for (place, (&state, &extra)) in states.iter().zip(&room.here).enumerate() {
            room.plain[survive] = place as u32;
            survive += usize::from(state & HAS_EPSILONS == 0) & usize::from(extra <= lattice_beam);
        }
        for at in 0..survive {
            if at + AHEAD < survive {
                time.prefetch_links(room.plain[at + AHEAD]);
            }
            visit(&time, room.plain[at], lattice_beam, room)?;
        }
        // Then those with epsilon arcs, highest level first.
        for &token in time.closed.iter().rev() {
            if room.here[token as usize] <= lattice_beam {
                visit(&time, token, lattice_beam, room)?;
            }
        }
        room.begins.push(room.tokens.len());
        std::mem::swap(&mut room.here, &mut room.before);
    }
    Ok(())
}

/// How many tokens ahead their links are asked for.
const AHEAD: usize = 8;

/// What the memory of this file is for, in messages.
pub(super) const ROOM: &str = "backward pass";

/// `len` times `value`.
fn refill<T: Copy>(list: &mut Vec<T>, len: usize, value: T) -> Result<()> {
    list.clear();
    try_reserve(list, len, ROOM)?;
    list.resize(len, value);
    Ok(())
}

/// Records a token that survives, and hands its extra cost on to the sources of its incoming links.
#[inline(always)]
fn visit(time: &Time<'_>, token: u32, lattice_beam: f32, room: &mut Room) -> Result<()> {
    let extra = room.here[token as usize];
    let alpha = time.tokens[token as usize].alpha;
    for link in time.incoming(token) {
        let sum = (link.cost - alpha) + extra;
        if sum > lattice_beam {
            continue;
        }
        let source = if link.src & EPSILON != 0 {
            room.here.get_mut((link.src & !EPSILON) as usize)
        } else {
            room.before.get_mut(link.src as usize)
        };
        if let Some(source) = source {
            *source = if sum < *source { sum } else { *source };
        }
        try_reserve(&mut room.links, 1, ROOM)?;
        room.links.push(SurvivingLink { src: link.src, arc: link.arc, cost: link.cost });
    }
    try_reserve(&mut room.tokens, 1, ROOM)?;
    room.tokens.push(Survivor {
        place: token,
        state: time.states[token as usize],
        bias: bias_state(time.bias, token as usize),
        alpha,
        links_end: room.links.len() as u32,
    });
    Ok(())
}

/// Puts the surviving tokens of a time in canonical order: `room.states`, `room.bias`, `room.places`.
/// Those without links have been dropped, but for the one at the start of all.
fn order_tokens(graph: &Graph, time: &Time<'_>, at: usize, start: bool, room: &mut Room) -> Result<()> {
    let words = graph.words();
    let survivors = room.tokens_at(at);
    room.order.clear();
    try_reserve(&mut room.order, survivors.len(), ROOM)?;
    for index in survivors {
        let Survivor { place, state, bias, .. } = room.tokens[index];
        if room.links_of(index).is_empty() && !(start && place == 0) {
            continue;
        }
        let state = state & !HAS_EPSILONS;
        let level = Header::unpack(words, state).level;
        // As one number, so that a comparison is no branch.
        let key = [level, state, bias, index as u32];
        room.order.push(key.into_iter().fold(0, |all, part| all << 32 | u128::from(part)));
    }
    room.order.sort_unstable();
    room.states.clear();
    try_reserve(&mut room.states, room.order.len(), ROOM)?;
    room.bias.clear();
    if !time.bias.is_empty() {
        try_reserve(&mut room.bias, room.order.len(), ROOM)?;
        room.bias.extend(room.order.iter().map(|&key| (key >> 32) as u32));
    }
    refill(&mut room.places, time.states.len(), u32::MAX)?;
    for (place, &key) in room.order.iter().enumerate() {
        room.states.push((key >> 64) as u32);
        room.places[room.tokens[key as u32 as usize].place as usize] = place as u32;
    }
    Ok(())
}

/// Turns the surviving links of a time into trace links, sorted by (destination, file arc), then the source's
/// bias state: `room.sorted`.
fn sort_links(
    graph: &Graph,
    time: &Time<'_>,
    previous: Option<&Time<'_>>,
    trace: &Trace,
    room: &mut Room,
) -> Result<()> {
    let mut sorted = std::mem::take(&mut room.sorted);
    let mut group = std::mem::take(&mut room.group);
    let outcome = (|| {
        sorted.clear();
        for (dst, &key) in room.order.iter().enumerate() {
            let token = key as u32 as usize;
            let (alpha, links) = (room.tokens[token].alpha, room.links_of(token));
            group.clear();
            try_reserve(&mut group, links.len(), ROOM)?;
            for link in links {
                let raw = (link.src & !EPSILON) as usize;
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
                let file_arc = if links.len() > 1 { graph.file_arc(state, link.arc) } else { 0 };
                let extra = link.cost - alpha;
                group.push((file_arc, TraceLink { src, dst: dst as u32, arc: link.arc, extra, acoustic }));
            }
            if group.len() > 1 {
                // One arc may come from several bias states of its source, whose places follow them.
                group.sort_unstable_by_key(|(file_arc, link)| (*file_arc, link.src));
            }
            try_reserve(&mut sorted, group.len(), ROOM)?;
            sorted.extend(group.iter().map(|(_, link)| *link));
        }
        Ok(())
    })();
    (room.sorted, room.group) = (sorted, group);
    outcome
}
