//! A channel on the CPU: the tokens of one utterance, and how a frame advances them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::error::{Error, Result, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS};
use crate::lattice::{Path, RawLattice};
use crate::search::{
    Backpointers, EPSILON, Emission, Ends, LaneChannel, Place, Rows, SearchConfig, SearchStats, Step, Trace, best_path,
    scale_row, stable_words,
};

use super::backward::{Room, Windows, move_to_trace};
use super::expand::{Emitters, expand};
use super::frame::{Scratch, settle};
use super::window::{TimeStart, Token, Window};

/// Times after which a window counts as full, whatever its links: their rows take memory too.
const MOST_TIMES: usize = 50;
/// Scores after which a window counts as full: with a million columns fifty rows would be 200 MB.
const MOST_SCORES: usize = 1 << 20;
/// Times before which a window is not full: with fewer, the backward pass would see too little
/// of the future to drop much.
const LEAST_TIMES: usize = 8;

/// What all channels of a decoder share.
#[derive(Debug)]
pub(super) struct Shared {
    pub graph: Arc<Graph>,
    pub config: SearchConfig,
}

/// The search state of one utterance.
#[derive(Debug)]
pub struct CpuChannel {
    shared: Arc<Shared>,
    /// Tokens of the last time that emit.
    emitters: Emitters,
    next_beam: f32,
    /// Least cost of the last time, before it was subtracted.
    least: f32,
    older: Window,
    younger: Window,
    /// Places in the trace of the tokens of its last time.
    boundary: Vec<u32>,
    trace: Trace,
    stats: SearchStats,
}

impl CpuChannel {
    pub(super) fn new(shared: Arc<Shared>) -> CpuChannel {
        CpuChannel {
            shared,
            emitters: Emitters::default(),
            next_beam: f32::INFINITY,
            least: 0.0,
            older: Window::default(),
            younger: Window::default(),
            boundary: Vec::new(),
            trace: Trace::default(),
            stats: SearchStats::default(),
        }
    }

    /// One token at the start state at cost 0, and its closure.
    pub(super) fn begin_with(&mut self, scratch: &mut Scratch) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        if self.memory() as u64 > shared.config.memory_limit {
            *self = CpuChannel::new(Arc::clone(&shared));
        }
        self.older.clear();
        self.younger.clear();
        self.boundary.clear();
        self.trace.clear();
        self.emitters.clear();
        self.stats = SearchStats::default();
        scratch.candidates.clear();
        scratch.candidates.costs.push(0.0);
        scratch.candidates.dsts.push(shared.graph.start());
        scratch.candidates.srcs.push(0);
        scratch.candidates.arcs.push(0);
        self.take_time(&shared, None, shared.config.beam, &[], scratch)
    }

    /// Advances by one row. On an error the channel stays as it was.
    pub(super) fn advance_frame(&mut self, row: &[f32], scratch: &mut Scratch) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let (graph, config) = (&*shared.graph, &shared.config);
        let frame = self.stats.frames;
        if frame >= config.max_frames {
            return Err(Error::Limit(format!("the utterance has reached max_frames, {}", config.max_frames)));
        }
        self.check_memory(&shared)?;
        let costs = &mut scratch.row_costs;
        if costs.len() < row.len() {
            try_reserve(costs, row.len() - costs.len(), "row")?;
            costs.resize(row.len(), 0.0);
        }
        scale_row(row, config.acoustic_scale, frame, costs)?;
        let found = expand(graph, &self.emitters, &costs[..row.len()], self.next_beam, &mut scratch.candidates)?;
        if found.best == f32::INFINITY {
            return Err(Error::NoTokens { frame });
        }
        if found.best == f32::NEG_INFINITY {
            return Err(overflow(graph, scratch, row, frame));
        }
        let theta = (found.best + self.next_beam).min(f32::MAX);
        self.make_room(&shared, scratch)?;
        self.take_time(&shared, Some(frame), theta, row, scratch)?;
        self.stats.frames += 1;
        self.stats.arcs += found.arcs;
        self.stats.effective_beam = self.stats.effective_beam.min(theta - found.best);
        Ok(())
    }

    /// Closes the time that the candidates lead to, and settles who emits next.
    fn take_time(
        &mut self,
        shared: &Shared,
        frame: Option<u64>,
        theta: f32,
        row: &[f32],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let start = self.younger.end();
        let outcome = self.try_take_time(shared, frame, theta, row, scratch, start);
        if outcome.is_err() {
            self.younger.cut(start);
            scratch.levels.clear();
        }
        outcome
    }

    fn try_take_time(
        &mut self,
        shared: &Shared,
        frame: Option<u64>,
        theta: f32,
        row: &[f32],
        scratch: &mut Scratch,
        start: TimeStart,
    ) -> Result<()> {
        let (graph, config) = (&*shared.graph, &shared.config);
        try_reserve(&mut self.younger.starts, 1, "times")?;
        try_reserve(&mut self.younger.rows, row.len(), "rows")?;
        let settled = settle(graph, config, frame, theta, scratch, &mut self.younger)?;
        let tokens = &self.younger.tokens[start.tokens..];
        let least = least_of(tokens.iter().map(|token| token.alpha));
        if least == f32::NEG_INFINITY {
            return Err(Error::Limit(format!(
                "frame {}: costs fall below the range of 32-bit floats",
                frame.unwrap_or(0)
            )));
        }
        let above = tokens.iter().map(|token| token.alpha - least);
        scratch.room.clear();
        try_reserve(&mut scratch.room, tokens.len(), "selection")?;
        let emission = Emission::of(above, config, &mut scratch.room);
        self.emitters.take(&self.younger.states[start.tokens..], tokens, least, emission.cutoff)?;

        self.younger.rows.extend_from_slice(row);
        self.younger.starts.push(start);
        self.next_beam = emission.next_beam;
        self.least = least;
        let tokens = (self.younger.states.len() - start.tokens) as u64;
        let stats = &mut self.stats;
        stats.tokens += tokens;
        stats.max_tokens = stats.max_tokens.max(tokens);
        stats.links += (self.younger.links.len() - start.links) as u64;
        stats.arcs += settled.arcs;
        stats.max_active_held += u64::from(emission.max_active_held);
        stats.capacity_held += u64::from(settled.capacity_held);
        if settled.capacity_held {
            stats.effective_beam =
                stats.effective_beam.min(settled.theta - least_of(scratch.candidates.costs.iter().copied()));
        }
        Ok(())
    }

    /// Prunes when the younger window is full: survivors of the older one move to the trace.
    fn make_room(&mut self, shared: &Shared, scratch: &mut Scratch) -> Result<()> {
        let times = self.younger.num_times();
        let links = self.younger.links.len() as u64 * 2;
        let young = times < MOST_TIMES && self.younger.rows.len() < MOST_SCORES;
        if times < LEAST_TIMES || (young && links < u64::from(shared.config.link_budget)) {
            return Ok(());
        }
        if !self.older.is_empty() {
            let windows = Windows { older: &self.older, younger: &self.younger };
            move_to_trace(
                &shared.graph,
                windows,
                self.older.num_times(),
                shared.config.lattice_beam,
                &mut scratch.backward,
                &mut self.boundary,
                &mut self.trace,
            )?;
            self.older.clear();
        }
        std::mem::swap(&mut self.older, &mut self.younger);
        self.trace.prune_when_grown(shared.config.lattice_beam)
    }

    /// Refuses to go on above the memory limit. Links are pruned as they come, so what is held
    /// is needed; only `begin` gives it back.
    fn check_memory(&self, shared: &Shared) -> Result<()> {
        let (held, limit) = (self.memory() as u64, shared.config.memory_limit);
        if held > limit {
            return Err(Error::Limit(format!("the channel holds {held} bytes; its memory_limit is {limit}")));
        }
        Ok(())
    }

    /// Bytes held, not counting working space.
    pub fn memory(&self) -> usize {
        self.emitters.memory()
            + self.older.memory()
            + self.younger.memory()
            + self.boundary.capacity() * 4
            + self.trace.memory()
    }

    fn windows(&self) -> Windows<'_> {
        Windows { older: &self.older, younger: &self.younger }
    }

    /// State ids and costs above the best of the tokens of the last time.
    fn last_tokens(&self) -> impl ExactSizeIterator<Item = (u32, f32)> + Clone {
        let windows = self.windows();
        let (states, tokens) = match windows.num_times().checked_sub(1) {
            Some(last) => (windows.time(last).states, windows.time(last).tokens),
            None => (&[][..], &[][..]),
        };
        let least = self.least;
        states.iter().zip(tokens).map(move |(state, token)| (state & !HAS_EPSILONS, token.alpha - least))
    }

    /// The lattice, by moving everything to the trace and cutting it back afterwards.
    pub(super) fn lattice_with(&mut self, use_final: bool, room: &mut Room) -> Result<RawLattice> {
        let config = self.shared.config;
        let ends = Ends::new(self.last_tokens(), &self.shared.graph, use_final)?;
        let mark = self.trace.mark();
        let mut boundary = Vec::new();
        try_reserve(&mut boundary, self.boundary.len(), "boundary")?;
        boundary.extend_from_slice(&self.boundary);
        let windows = Windows { older: &self.older, younger: &self.younger };
        let moved = move_to_trace(
            &self.shared.graph,
            windows,
            windows.num_times(),
            config.lattice_beam,
            room,
            &mut boundary,
            &mut self.trace,
        );
        let lattice = moved.and_then(|()| {
            // From places in the window to places in the trace.
            let sorted = ends.reordered(&boundary)?;
            self.trace.lattice(&self.shared.graph, &sorted, config.lattice_beam, config.acoustic_scale)
        });
        self.trace.cut_back(mark);
        let lattice = lattice?;
        if use_final && self.stats.frames == 0 && !lattice.reached_final {
            return Ok(RawLattice::empty(config.acoustic_scale));
        }
        Ok(lattice)
    }

    /// Advances by all rows, or up to the first that fails.
    pub(super) fn advance(&mut self, rows: Rows<'_>, cancelled: &AtomicBool, scratch: &mut Scratch) -> Result<()> {
        let since = Instant::now();
        let outcome = self.advance_rows(rows, cancelled, scratch);
        self.stats.seconds += since.elapsed().as_secs_f64();
        outcome
    }

    fn advance_rows(&mut self, rows: Rows<'_>, cancelled: &AtomicBool, scratch: &mut Scratch) -> Result<()> {
        // No rows have no width either: an empty matrix may say 0 columns.
        if rows.frames() > 0 {
            self.shared.graph.check_width(rows.dim())?;
        }
        for frame in 0..rows.frames() {
            if cancelled.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            self.advance_frame(rows.row(frame), scratch)?;
        }
        Ok(())
    }
}

/// The least of some costs.
fn least_of(costs: impl Iterator<Item = f32>) -> f32 {
    costs.fold(f32::INFINITY, |least, cost| if cost < least { cost } else { least })
}

/// Names the frame and column of a candidate that fell to `-inf`.
fn overflow(graph: &Graph, scratch: &Scratch, row: &[f32], frame: u64) -> Error {
    let at = scratch.candidates.costs.iter().position(|&cost| cost == f32::NEG_INFINITY);
    let ilabel = at.map_or(0, |at| graph.ilabel(scratch.candidates.arcs[at]));
    let least = least_of(scratch.row_costs[..row.len()].iter().copied());
    let column = scratch.row_costs.iter().position(|&cost| cost == least).unwrap_or(0);
    Error::Scores { frame, column, value: row.get(column).copied().unwrap_or(f32::NAN) }
        .context(format!("an arc with ilabel {ilabel} takes its token's cost below the range of 32-bit floats"))
}

impl Emitters {
    /// Takes the tokens with `alpha - least <= cutoff`, the best one first: its candidates make
    /// the running bound tight from the start.
    fn take(&mut self, states: &[u32], tokens: &[Token], least: f32, cutoff: f32) -> Result<()> {
        let n = states.len();
        // All memory first, so that on an error the tokens of the time before stay.
        let more = n.saturating_sub(self.len());
        try_reserve(&mut self.states, more, "emitting tokens")?;
        try_reserve(&mut self.tokens, more, "emitting tokens")?;
        try_reserve(&mut self.costs, more, "emitting tokens")?;
        self.clear();
        self.states.resize(n, 0);
        self.tokens.resize(n, 0);
        self.costs.resize(n, 0.0);
        // Written always, counted if it emits: no branch to mispredict.
        let (mut count, mut best) = (0, 0);
        for (at, (&state, token)) in states.iter().zip(tokens).enumerate() {
            let cost = token.alpha - least;
            self.states[count] = state & !HAS_EPSILONS;
            self.costs[count] = cost;
            self.tokens[count] = at as u32;
            best = if cost == 0.0 { count } else { best };
            count += usize::from(cost <= cutoff);
        }
        self.states.truncate(count);
        self.costs.truncate(count);
        self.tokens.truncate(count);
        if best > 0 {
            self.swap(0, best);
        }
        Ok(())
    }
}

impl Backpointers for CpuChannel {
    /// Places are raw in the windows, places of the trace before them.
    fn best_link(&self, at: Place) -> Option<Step> {
        let graph = &self.shared.graph;
        let closed = self.trace.num_times();
        let Some(in_windows) = at.time.checked_sub(closed) else {
            let link = self.trace.best_link(at.time, at.token)?;
            let time = if link.src & EPSILON != 0 { at.time } else { at.time - 1 };
            let token = link.src & !EPSILON;
            let state = self.trace.states_at(time)[token as usize];
            return Some(Step { from: Place { time, token }, state, arc: link.arc, acoustic: link.acoustic });
        };
        let time = self.windows().time(in_windows);
        let alpha = time.tokens[at.token as usize].alpha;
        let mut best: Option<(u32, Step)> = None;
        for link in time.incoming(at.token).filter(|link| link.cost == alpha) {
            let raw = link.src & !EPSILON;
            let (from, state) = if link.src & EPSILON != 0 {
                (Place { time: at.time, token: raw }, time.states[raw as usize])
            } else if in_windows > 0 {
                let state = self.windows().time(in_windows - 1).states[raw as usize];
                (Place { time: at.time - 1, token: raw }, state)
            } else {
                let place = self.boundary[raw as usize];
                (Place { time: at.time - 1, token: place }, self.trace.states_at(closed - 1)[place as usize])
            };
            let state = state & !HAS_EPSILONS;
            let file_arc = graph.file_arc(state, link.arc);
            if best.is_none_or(|(least, _)| file_arc < least) {
                let epsilon = link.src & EPSILON != 0;
                let acoustic = if epsilon { 0.0 } else { time.acoustic_cost(graph, state, link.arc) };
                best = Some((file_arc, Step { from, state, arc: link.arc, acoustic }));
            }
        }
        best.map(|(_, step)| step)
    }
}

impl CpuChannel {
    fn last_time(&self) -> Option<usize> {
        (self.trace.num_times() + self.windows().num_times()).checked_sub(1)
    }

    pub(super) fn best_path_now(&self, use_final: bool) -> Result<Path> {
        let graph = &self.shared.graph;
        let config = &self.shared.config;
        let ends = Ends::new(self.last_tokens(), graph, use_final)?;
        let end = ends.best(self.last_tokens().map(|(state, _)| state));
        let empty = use_final && self.stats.frames == 0 && !ends.reached_final;
        match (self.last_time(), end) {
            (Some(time), Some(token)) if !empty => {
                let place = Place { time, token: token as u32 };
                let mut path = best_path(self, graph, place, ends.final_costs[token], config.acoustic_scale)?;
                path.reached_final = ends.reached_final;
                Ok(path)
            }
            _ => Ok(Path { acoustic_scale: config.acoustic_scale, ..Path::default() }),
        }
    }

    pub(super) fn stable_words_now(&self) -> Result<usize> {
        let Some(time) = self.last_time() else { return Ok(0) };
        let alive = self.emitters.tokens.iter().map(|&token| Place { time, token });
        stable_words(self, &self.shared.graph, alive)
    }

    pub(super) fn final_cost_above_best(&self) -> f32 {
        let graph = &self.shared.graph;
        let totals = self.last_tokens().map(|(state, cost)| cost + graph.final_cost(state));
        totals.fold(f32::INFINITY, f32::min)
    }

    pub(super) fn mark_columns_needed(&self, needed: &mut [bool]) {
        for &state in &self.emitters.states {
            let view = self.shared.graph.state(state);
            for place in 0..view.header.n_emit {
                if let Some(slot) = needed.get_mut(view.column(place) as usize) {
                    *slot = true;
                }
            }
        }
    }

    pub(super) fn stats_now(&self) -> SearchStats {
        SearchStats { trace_links: self.trace.num_links() as u64, memory: self.memory() as u64, ..self.stats }
    }
}

/// A channel of [`super::CpuLanes`], with the lanes that lend it working space.
#[derive(Debug)]
pub struct LentChannel {
    pub(super) channel: CpuChannel,
    pub(super) scratches: Arc<super::lanes::Scratches>,
}

impl LaneChannel for LentChannel {
    fn begin(&mut self) -> Result<()> {
        let mut scratch = self.scratches.take()?;
        self.channel.begin_with(&mut scratch)
    }

    fn num_frames(&self) -> u64 {
        self.channel.stats.frames
    }

    fn mark_columns(&self, needed: &mut [bool]) {
        self.channel.mark_columns_needed(needed);
    }

    fn final_relative_cost(&self) -> f32 {
        self.channel.final_cost_above_best()
    }

    fn best_path(&self, use_final: bool) -> Result<Path> {
        self.channel.best_path_now(use_final)
    }

    fn stable_words(&self) -> Result<usize> {
        self.channel.stable_words_now()
    }

    fn lattice(&mut self, use_final: bool) -> Result<RawLattice> {
        let mut scratch = self.scratches.take()?;
        self.channel.lattice_with(use_final, &mut scratch.backward)
    }

    fn stats(&self) -> SearchStats {
        self.channel.stats_now()
    }
}
