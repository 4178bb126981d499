//! What a channel remembers of its utterance, the same for every backend: the raw tokens and
//! links of the last times, the trace of what survived before them, and the questions that can
//! be asked of both.

use crate::error::{Result, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS};
use crate::lattice::{Path, RawLattice};

use super::backtrace::{Backpointers, Place, Step, best_path, stable_words};
use super::backward::{Room, Windows, move_to_trace};
use super::config::SearchConfig;
use super::ends::Ends;
use super::trace::{EPSILON, Trace};
use super::window::Window;

/// Times after which a window counts as full, whatever its links: their rows take memory too.
const MOST_TIMES: usize = 50;
/// Scores after which a window counts as full: with a million columns fifty rows would be 200 MB.
const MOST_SCORES: usize = 1 << 20;
/// Times before which a window is not full: with fewer, the backward pass would see too little
/// of the future to drop much.
const LEAST_TIMES: usize = 8;

/// Tokens and links of an utterance so far. Places of tokens are raw in the windows, and places
/// of the trace before them.
#[derive(Debug, Default)]
pub struct History {
    older: Window,
    /// Where the backend puts the tokens and links of a new time.
    pub younger: Window,
    /// Places in the trace of the tokens of its last time.
    boundary: Vec<u32>,
    trace: Trace,
    /// Least cost of the last time, before it was subtracted.
    pub least: f32,
}

impl History {
    /// Forgets everything; memory is kept.
    pub fn clear(&mut self) {
        self.older.clear();
        self.younger.clear();
        self.boundary.clear();
        self.trace.clear();
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.older.memory() + self.younger.memory() + self.boundary.capacity() * 4 + self.trace.memory()
    }

    /// Links of the trace.
    pub fn trace_links(&self) -> usize {
        self.trace.num_links()
    }

    /// Prunes when the younger window is full: survivors of the older one move to the trace.
    /// To be called before a time is added.
    pub fn make_room(&mut self, graph: &Graph, config: &SearchConfig, room: &mut Room) -> Result<()> {
        let times = self.younger.num_times();
        let links = self.younger.links.len() as u64 * 2;
        let young = times < MOST_TIMES && self.younger.rows.len() < MOST_SCORES;
        if times < LEAST_TIMES || (young && links < u64::from(config.link_budget)) {
            return Ok(());
        }
        if !self.older.is_empty() {
            let windows = Windows { older: &self.older, younger: &self.younger };
            let keep = self.older.num_times();
            move_to_trace(graph, windows, keep, config.lattice_beam, room, &mut self.boundary, &mut self.trace)?;
            self.older.clear();
        }
        std::mem::swap(&mut self.older, &mut self.younger);
        self.trace.prune_when_grown(config.lattice_beam)
    }

    fn windows(&self) -> Windows<'_> {
        Windows { older: &self.older, younger: &self.younger }
    }

    /// The last time, if there is one: frames searched.
    pub fn last_time(&self) -> Option<usize> {
        (self.trace.num_times() + self.windows().num_times()).checked_sub(1)
    }

    /// State ids and costs above the best of the tokens of the last time.
    pub fn last_tokens(&self) -> impl ExactSizeIterator<Item = (u32, f32)> + Clone {
        let windows = self.windows();
        let (states, tokens) = match windows.num_times().checked_sub(1) {
            Some(last) => (windows.time(last).states, windows.time(last).tokens),
            None => (&[][..], &[][..]),
        };
        let least = self.least;
        states.iter().zip(tokens).map(move |(state, token)| (state & !HAS_EPSILONS, token.alpha - least))
    }

    /// Whether no frame has been searched.
    fn no_frames(&self) -> bool {
        self.last_time().is_none_or(|last| last == 0)
    }

    /// The lattice, by moving everything to the trace and cutting it back afterwards.
    pub fn lattice(
        &mut self,
        graph: &Graph,
        config: &SearchConfig,
        use_final: bool,
        room: &mut Room,
    ) -> Result<RawLattice> {
        let ends = Ends::new(self.last_tokens(), graph, use_final)?;
        let no_frames = self.no_frames();
        let mark = self.trace.mark();
        let mut boundary = Vec::new();
        try_reserve(&mut boundary, self.boundary.len(), "boundary")?;
        boundary.extend_from_slice(&self.boundary);
        let windows = Windows { older: &self.older, younger: &self.younger };
        let keep = windows.num_times();
        let moved = move_to_trace(graph, windows, keep, config.lattice_beam, room, &mut boundary, &mut self.trace);
        let lattice = moved.and_then(|()| {
            // From places in the window to places in the trace.
            let sorted = ends.reordered(&boundary)?;
            self.trace.lattice(graph, &sorted, config.lattice_beam, config.acoustic_scale)
        });
        self.trace.cut_back(mark);
        let lattice = lattice?;
        if use_final && no_frames && !lattice.reached_final {
            return Ok(RawLattice::empty(config.acoustic_scale));
        }
        Ok(lattice)
    }

    /// The best path now, to a final state if asked for and reached.
    pub fn best_path(&self, graph: &Graph, config: &SearchConfig, use_final: bool) -> Result<Path> {
        let ends = Ends::new(self.last_tokens(), graph, use_final)?;
        let end = ends.best(self.last_tokens().map(|(state, _)| state));
        let empty = use_final && self.no_frames() && !ends.reached_final;
        match (self.last_time(), end) {
            (Some(time), Some(token)) if !empty => {
                let place = Place { time, token: token as u32 };
                let links = Links { history: self, graph };
                let mut path = best_path(&links, graph, place, ends.final_costs[token], config.acoustic_scale)?;
                path.reached_final = ends.reached_final;
                Ok(path)
            }
            _ => Ok(Path { acoustic_scale: config.acoustic_scale, ..Path::default() }),
        }
    }

    /// How many words of the best path can no longer change, from the places of the tokens that
    /// emit in the next frame.
    pub fn stable_words(&self, graph: &Graph, emitting: impl ExactSizeIterator<Item = u32>) -> Result<usize> {
        let Some(time) = self.last_time() else { return Ok(0) };
        stable_words(&Links { history: self, graph }, graph, emitting.map(|token| Place { time, token }))
    }

    /// Cost of the best final token above the best token; `+inf` where none is final.
    pub fn final_relative_cost(&self, graph: &Graph) -> f32 {
        let totals = self.last_tokens().map(|(state, cost)| cost + graph.final_cost(state));
        totals.fold(f32::INFINITY, f32::min)
    }
}

/// The links of a history over its graph.
struct Links<'a> {
    history: &'a History,
    graph: &'a Graph,
}

impl Backpointers for Links<'_> {
    fn best_link(&self, at: Place) -> Option<Step> {
        let Links { history: History { trace, boundary, .. }, graph } = *self;
        let windows = self.history.windows();
        let closed = trace.num_times();
        let Some(in_windows) = at.time.checked_sub(closed) else {
            let link = trace.best_link(at.time, at.token)?;
            let time = if link.src & EPSILON != 0 { at.time } else { at.time - 1 };
            let token = link.src & !EPSILON;
            let state = trace.states_at(time)[token as usize];
            return Some(Step { from: Place { time, token }, state, arc: link.arc, acoustic: link.acoustic });
        };
        let time = windows.time(in_windows);
        let alpha = time.tokens[at.token as usize].alpha;
        let mut best: Option<(u32, Step)> = None;
        for link in time.incoming(at.token).filter(|link| link.cost == alpha) {
            let raw = link.src & !EPSILON;
            let (from, state) = if link.src & EPSILON != 0 {
                (Place { time: at.time, token: raw }, time.states[raw as usize])
            } else if in_windows > 0 {
                let state = windows.time(in_windows - 1).states[raw as usize];
                (Place { time: at.time - 1, token: raw }, state)
            } else {
                let place = boundary[raw as usize];
                (Place { time: at.time - 1, token: place }, trace.states_at(closed - 1)[place as usize])
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
