//! The backward pass over raw windows: what survives moves to the trace.

use crate::error::{Result, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS, Header};

use super::trace::{EPSILON, Trace, TraceLink};
use super::window::{Link, Time, Window};

/// A link that survived, with raw places.
#[derive(Clone, Copy, Debug)]
struct Survivor {
    link: Link,
    dst: u32,
    extra: f32,
}

/// Working space of the pass.
#[derive(Debug, Default)]
pub struct Room {
    /// Extra costs of the tokens of the time at hand, and of the time before.
    here: Vec<f32>,
    before: Vec<f32>,
    /// Survivors, latest time first, and where each time's begin.
    survivors: Vec<Survivor>,
    begins: Vec<usize>,
    /// (level, state) and raw place of surviving tokens of a time.
    order: Vec<(u64, u32)>,
    states: Vec<u32>,
    bias: Vec<u32>,
    links: Vec<(u32, TraceLink)>,
    sorted: Vec<TraceLink>,
    /// Raw place → place in the trace, at the time at hand and at the time before.
    places: Vec<u32>,
    places_before: Vec<u32>,
}

impl Room {
    /// Bytes held.
    pub fn memory(&self) -> usize {
        (self.here.capacity() + self.before.capacity() + self.states.capacity() + self.bias.capacity()) * 4
            + (self.places.capacity() + self.places_before.capacity()) * 4
            + self.survivors.capacity() * size_of::<Survivor>()
            + self.begins.capacity() * 8
            + self.order.capacity() * 16
            + self.links.capacity() * size_of::<(u32, TraceLink)>()
            + self.sorted.capacity() * size_of::<TraceLink>()
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

    /// Links into the tokens of a time.
    fn num_links(&self, at: usize) -> usize {
        match at.checked_sub(self.older.num_times()) {
            None => self.older.num_links(at),
            Some(at) => self.younger.num_links(at),
        }
    }
}

/// Walks back from the last time of `windows`, whose tokens all count with extra 0 (so nothing
/// is dropped that a later end could need), and appends what survives of the first `keep` times
/// to `trace`. `boundary` gives, for the tokens of the time before the first, their places in
/// the trace; afterwards the same for the last time that was moved. On an error both are as before.
pub(super) fn move_to_trace(
    graph: &Graph,
    windows: Windows<'_>,
    keep: usize,
    lattice_beam: f32,
    room: &mut Room,
    boundary: &mut Vec<u32>,
    trace: &mut Trace,
) -> Result<()> {
    walk_back(windows, keep, boundary.len(), lattice_beam, room)?;
    room.places_before.clear();
    try_reserve(&mut room.places_before, boundary.len(), ROOM)?;
    room.places_before.extend_from_slice(boundary);
    let mark = trace.mark();
    for at in 0..keep {
        let moved = move_time(graph, windows, keep, at, room, trace);
        if moved.is_err() {
            trace.cut_back(mark);
            return moved;
        }
    }
    std::mem::swap(&mut room.places_before, boundary);
    Ok(())
}

/// Appends the survivors of time `at` of the first `keep` to the trace.
fn move_time(
    graph: &Graph,
    windows: Windows<'_>,
    keep: usize,
    at: usize,
    room: &mut Room,
    trace: &mut Trace,
) -> Result<()> {
    let survivors = room.begins[keep - 1 - at]..room.begins[keep - at];
    let time = windows.time(at);
    order_tokens(graph, &time, survivors.clone(), trace.num_times() == 0, room)?;
    let previous = at.checked_sub(1).map(|at| windows.time(at));
    sort_links(graph, &time, previous.as_ref(), survivors, trace, room)?;
    trace.push_time(&room.states, &room.bias, &room.sorted)?;
    std::mem::swap(&mut room.places, &mut room.places_before);
    Ok(())
}

/// Extra costs of the tokens of the time before the first of `windows`, of which there are `count`,
/// when all tokens of the last time count with extra 0.
pub(super) fn extras_before<'a>(
    windows: Windows<'_>,
    count: usize,
    lattice_beam: f32,
    room: &'a mut Room,
) -> Result<&'a [f32]> {
    walk_back(windows, 0, count, lattice_beam, room)?;
    Ok(&room.here)
}

/// Fills `room.survivors` with the surviving links of the first `keep` times, latest first, and
/// `room.here` with the extra costs of the tokens before the first time, of which there are `count`.
fn walk_back(windows: Windows<'_>, keep: usize, count: usize, lattice_beam: f32, room: &mut Room) -> Result<()> {
    let times = windows.num_times();
    room.survivors.clear();
    room.begins.clear();
    try_reserve(&mut room.begins, keep + 1, ROOM)?;
    room.begins.push(0);
    refill(&mut room.here, if times > 0 { windows.time(times - 1).states.len() } else { 0 }, 0.0)?;
    for at in (0..times).rev() {
        let time = windows.time(at);
        let before = if at > 0 { windows.time(at - 1).states.len() } else { count };
        refill(&mut room.before, before, f32::INFINITY)?;
        let recording = at < keep;
        if recording {
            try_reserve(&mut room.survivors, windows.num_links(at), ROOM)?;
        }
        // Tokens without epsilon arcs: all links that leave them have been seen. Then those
        // with epsilon arcs, highest level first.
        for token in 0..time.states.len() as u32 {
            if time.states[token as usize] & HAS_EPSILONS == 0 {
                visit(&time, token, recording, lattice_beam, room);
            }
        }
        for &token in time.closed.iter().rev() {
            visit(&time, token, recording, lattice_beam, room);
        }
        if recording {
            room.begins.push(room.survivors.len());
        }
        std::mem::swap(&mut room.here, &mut room.before);
    }
    Ok(())
}

/// What the memory of this file is for, in messages.
const ROOM: &str = "backward pass";

/// `len` times `value`.
fn refill<T: Copy>(list: &mut Vec<T>, len: usize, value: T) -> Result<()> {
    list.clear();
    try_reserve(list, len, ROOM)?;
    list.resize(len, value);
    Ok(())
}

/// Hands the extra cost of `token` on to the sources of its incoming links.
#[inline(always)]
fn visit(time: &Time<'_>, token: u32, recording: bool, lattice_beam: f32, room: &mut Room) {
    let extra = room.here[token as usize];
    if extra > lattice_beam {
        return;
    }
    let alpha = time.tokens[token as usize].alpha;
    for link in time.incoming(token) {
        let link_extra = link.cost - alpha;
        let sum = link_extra + extra;
        if sum > lattice_beam {
            continue;
        }
        let source = if link.src & EPSILON != 0 {
            room.here.get_mut((link.src & !EPSILON) as usize)
        } else {
            room.before.get_mut(link.src as usize)
        };
        if let Some(source) = source {
            *source = source.min(sum);
        }
        if recording {
            room.survivors.push(Survivor { link, dst: token, extra: link_extra });
        }
    }
}

/// Puts the surviving tokens of a time in canonical order: `room.states`, `room.bias`, `room.places`.
fn order_tokens(
    graph: &Graph,
    time: &Time<'_>,
    survivors: std::ops::Range<usize>,
    start: bool,
    room: &mut Room,
) -> Result<()> {
    let words = graph.words();
    room.order.clear();
    try_reserve(&mut room.order, survivors.len() + 1, ROOM)?;
    let key = |token: u32| {
        let state = time.states[token as usize] & !HAS_EPSILONS;
        (u64::from(Header::unpack(words, state).level) << 32 | u64::from(state), token)
    };
    if start {
        room.order.push(key(0)); // the start state's token has no incoming link
    }
    let mut last = None;
    for survivor in &room.survivors[survivors] {
        // Links into one token stand together.
        if last != Some(survivor.dst) {
            last = Some(survivor.dst);
            room.order.push(key(survivor.dst));
        }
    }
    if time.bias.is_empty() {
        room.order.sort_unstable();
    } else {
        room.order.sort_unstable_by_key(|&(key, token)| (key, time.bias[token as usize]));
    }
    room.order.dedup();
    room.states.clear();
    try_reserve(&mut room.states, room.order.len(), ROOM)?;
    refill(&mut room.places, time.states.len(), u32::MAX)?;
    for (place, &(key, token)) in room.order.iter().enumerate() {
        room.states.push(key as u32);
        room.places[token as usize] = place as u32;
    }
    room.bias.clear();
    if !time.bias.is_empty() {
        try_reserve(&mut room.bias, room.order.len(), ROOM)?;
        room.bias.extend(room.order.iter().map(|&(_, token)| time.bias[token as usize]));
    }
    Ok(())
}

/// Turns the survivors of a time into trace links, sorted by (destination, file arc), then the source's bias state: `room.sorted`.
fn sort_links(
    graph: &Graph,
    time: &Time<'_>,
    previous: Option<&Time<'_>>,
    survivors: std::ops::Range<usize>,
    trace: &Trace,
    room: &mut Room,
) -> Result<()> {
    room.links.clear();
    try_reserve(&mut room.links, survivors.len(), ROOM)?;
    for &Survivor { link, dst, extra } in &room.survivors[survivors] {
        let dst = room.places[dst as usize];
        let raw = link.src & !EPSILON;
        let (src, state, acoustic) = if link.src & EPSILON != 0 {
            (room.places[raw as usize] | EPSILON, time.states[raw as usize], 0.0)
        } else {
            let place = room.places_before[raw as usize];
            let state = match previous {
                Some(previous) => previous.states[raw as usize],
                None => trace.states_at(trace.num_times() - 1)[place as usize],
            };
            (place, state, time.acoustic_cost(graph, state & !HAS_EPSILONS, link.arc))
        };
        let file_arc = graph.file_arc(state & !HAS_EPSILONS, link.arc);
        room.links.push((file_arc, TraceLink { src, dst, arc: link.arc, extra, acoustic }));
    }
    if time.bias.is_empty() {
        room.links.sort_unstable_by_key(|(file_arc, link)| (link.dst, *file_arc));
    } else {
        // One arc may come from several bias states of its source, whose places follow them.
        room.links.sort_unstable_by_key(|(file_arc, link)| (link.dst, *file_arc, link.src));
    }
    room.sorted.clear();
    try_reserve(&mut room.sorted, room.links.len(), ROOM)?;
    room.sorted.extend(room.links.iter().map(|(_, link)| *link));
    Ok(())
}
