//! What a channel remembers of its utterance, the same for every backend: the raw tokens and
//! links of the last times, the trace of what survived before them, and the questions that can
//! be asked of both.

use std::sync::Arc;

use crate::error::{Error, Result, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS};
use crate::lattice::{LatticePiece, RawLattice};

use parking_lot::Mutex;

use super::aging::age;
use super::backtrace::{Links, Place};
use super::backward::{Room, Windows, move_to_trace};
use super::best_path::BestPath;
use super::bias::{Bias, bias_state};
use super::commit::Commits;
use super::config::SearchConfig;
use super::endpoint::{Endpoint, EndpointAction, EndpointRules};
use super::ends::{Ends, LastToken};
use super::phrases::Phrases;
use super::stable::StableWords;
use super::stats::SearchStats;
use super::trace::{EPSILON, Trace};
use super::window::{Link, Time, TimeStart, Window};

mod commits;
mod paths;

/// Times after which a window counts as full, whatever its links: their rows take memory too. With commits
/// no more than these, so that both windows stay behind [`BEHIND`]; else [`stretch`] times as many.
const MOST_TIMES: usize = 60;
/// The lattice beam up to which windows are not stretched, and the most by which they are.
const UNSTRETCHED: f32 = 6.0;
const MOST_STRETCH: f32 = 3.0;
/// Scores after which a window counts as full: with a million columns fifty rows would be 200 MB.
const MOST_SCORES: usize = 1 << 20;
/// Times before which a window is not full: with fewer, the backward pass would see too little
/// of the future to drop much.
const LEAST_TIMES: usize = 8;

/// Frames of a piece for incremental determinization.
const PIECE: usize = 50;
/// Frames behind a piece by which it is pruned: with fewer, more of it would turn out to lie too
/// far above the best path later.
const AHEAD: usize = 25;

/// Where a path ends: a token of the last time, and the final and bias cost that it pays there.
type PathEnd = (usize, f32, f32);

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
    commits: Commits,
    watch: Watch,
    /// The phrases of the utterance.
    pub bias: Bias,
    /// What was traced back of it. Calls that only look may run together.
    traced: Box<Mutex<Traced>>,
}

/// What a history remembers of the questions that it was asked.
#[derive(Debug, Default)]
struct Traced {
    best: BestPath,
    stable: StableWords,
}

/// Who looks for an end point, and what was found.
#[derive(Debug, Default)]
struct Watch {
    rules: Option<Arc<EndpointRules>>,
    /// Frames that were looked at.
    looked: usize,
    found: Option<Endpoint>,
}

/// How much longer windows are than at a narrow lattice beam: the wider it is, the more of the future it takes to see that a
/// link leads nowhere, and what has not been seen moves to the trace.
fn stretch(lattice_beam: f32) -> f32 {
    let wider = lattice_beam / UNSTRETCHED;
    (wider * wider).clamp(1.0, MOST_STRETCH)
}

impl History {
    /// Forgets everything; memory is kept. `rules` say where the utterance that begins now ends.
    pub fn begin(&mut self, rules: Option<&Arc<EndpointRules>>) {
        self.watch = Watch { rules: rules.cloned(), ..Watch::default() };
        self.older.clear();
        self.younger.clear();
        self.boundary.clear();
        self.trace.clear();
        self.commits.clear();
        self.bias.clear();
        let Traced { best, stable } = self.traced.get_mut();
        best.clear(rules.cloned());
        stable.clear();
    }

    /// One that remembers nothing and holds no memory, with the same options.
    pub fn fresh(&self) -> History {
        History { commits: self.commits.fresh(), ..History::default() }
    }

    /// Lets `phrases` bias the search from the next time on.
    pub fn change_phrases(&mut self, phrases: Arc<Phrases>) -> Result<()> {
        let next = self.last_time().map_or(0, |last| last + 1);
        if next > 0 && !self.bias.is_on() {
            // Tokens so far were made without phrases, which is to have none.
            self.bias.change(Arc::new(Phrases::none()), 0)?;
            let given = self.older.start_bias().and_then(|()| self.younger.start_bias());
            if let Err(error) = given.and_then(|()| self.trace.start_bias()) {
                self.stop_bias();
                return Err(error);
            }
        }
        self.bias.change(phrases, next)
    }

    /// Takes the bias states off again.
    fn stop_bias(&mut self) {
        self.bias.clear();
        self.older.bias.clear();
        self.younger.bias.clear();
        self.trace.stop_bias();
    }

    /// Bytes that tokens, links and trace hold. What was traced back is not among them: who only
    /// looks does not use up the channel's memory limit.
    pub fn memory(&self) -> usize {
        self.older.memory()
            + self.younger.memory()
            + self.boundary.capacity() * 4
            + self.trace.memory()
            + self.commits.memory()
            + self.bias.memory()
    }

    /// `stats` with what is held now, of which `memory` bytes count against the limit.
    pub fn stats_now(&self, stats: &SearchStats, memory: usize) -> SearchStats {
        let Traced { best, stable } = &*self.traced.lock();
        SearchStats {
            trace_links: self.trace.num_links() as u64,
            trace_bytes: self.trace.memory() as u64,
            memory: (memory + best.memory() + stable.memory()) as u64,
            committed_frames: self.trace.base() as u64,
            forced_commits: self.commits.forced,
            links_followed: best.followed + stable.followed,
            ..*stats
        }
    }

    /// Times after which the younger window counts as full.
    fn most_times(&self, config: &SearchConfig) -> usize {
        match self.commits.config {
            Some(_) => MOST_TIMES,
            None => (MOST_TIMES as f32 * stretch(config.lattice_beam)) as usize,
        }
    }

    /// Times that may be added before [`History::make_room`] is to be called again, which has just been. Without commits a window
    /// may be fuller than full: that costs memory, nothing else.
    pub fn times_to_full(&self) -> usize {
        match self.commits.config {
            Some(_) => MOST_TIMES.saturating_sub(self.younger.num_times()).max(1),
            None => usize::MAX,
        }
    }

    /// Prunes when the younger window is full: survivors of the older one move to the trace, and its own take
    /// their place.
    /// To be called before a time is added.
    pub fn make_room(&mut self, graph: &Graph, config: &SearchConfig, room: &mut Room) -> Result<()> {
        let times = self.younger.num_times();
        let links = self.younger.links.len() as u64;
        let budget = f64::from(config.link_budget) * f64::from(stretch(config.lattice_beam));
        let young = times < self.most_times(config) && self.younger.rows.len() < MOST_SCORES;
        if times < LEAST_TIMES || (young && (links as f64) < budget) {
            return Ok(());
        }
        let Self { older, younger, boundary, trace, .. } = self;
        age(graph, older, younger, config.lattice_beam, room, boundary, trace)?;
        self.trace.prune_when_grown(config.lattice_beam)
    }

    /// Room for `times` times that are made elsewhere, with as many tokens, links and scores of rows together: pushing them
    /// then takes no memory. On an error nothing is changed.
    pub fn reserve(&mut self, times: usize, more: TimeStart) -> Result<()> {
        try_reserve(&mut self.younger.bias, if self.bias.is_on() { more.tokens } else { 0 }, "tokens")?;
        self.younger.reserve_times(times, more)
    }

    /// Appends a time that was made elsewhere, as [`Window::push_time`]; with phrases bias states of its tokens follow
    /// from its links. On an error nothing is changed.
    pub fn push_time(
        &mut self,
        graph: &Graph,
        states: &[u32],
        alphas: &[f32],
        links: &[Link],
        row: &[f32],
    ) -> Result<()> {
        let start = self.younger.end();
        let before = self.last().map_or(0, |time| time.states.len());
        try_reserve(&mut self.younger.bias, if self.bias.is_on() { states.len() } else { 0 }, "tokens")?;
        self.younger.push_time(graph, before, states, alphas, links, row)?;
        let named = self.name_bias(graph, start, states.len());
        if named.is_err() {
            self.younger.starts.pop();
            self.younger.cut(start);
        }
        named
    }

    /// Names the bias states of the tokens of the last time, which begins at `start`.
    fn name_bias(&mut self, graph: &Graph, start: TimeStart, count: usize) -> Result<()> {
        let History { older, younger, bias, .. } = self;
        let Some(steps) = bias.now() else { return Ok(()) };
        younger.bias.resize(start.tokens + count, u32::MAX);
        let (earlier, now) = younger.bias.split_at_mut(start.tokens);
        let before = match younger.starts.iter().nth_back(1) {
            Some(time) => &earlier[time.tokens..],
            None => older.starts.last().map_or(&[][..], |time| &older.bias[time.tokens..]),
        };
        for link in &younger.links[start.links..] {
            let from = match link.src & EPSILON {
                0 => before.get(link.src as usize),
                _ => now.get((link.src & !EPSILON) as usize),
            };
            if let (Some(&from), Some(&u32::MAX)) = (from, now.get(link.dst as usize)) {
                now[link.dst as usize] = steps.step(from, graph.olabel(link.arc)).0;
            }
        }
        match now.contains(&u32::MAX) {
            true => Err(Error::Device("a token comes from nowhere".into())),
            false => Ok(()),
        }
    }

    /// Bias states of the tokens of the last time; none without phrases.
    pub fn last_bias(&self) -> &[u32] {
        self.last().map_or(&[], |time| time.bias)
    }

    fn windows(&self) -> Windows<'_> {
        Windows { older: &self.older, younger: &self.younger }
    }

    /// The last time, if there is one: frames searched.
    pub fn last_time(&self) -> Option<usize> {
        (self.trace.num_times() + self.windows().num_times()).checked_sub(1)
    }

    /// Destination words of the tokens of the last time, and their costs before the subtraction of the least; `+inf`
    /// where a commit has dropped the token.
    pub fn last_words(&self) -> (&[u32], &[f32]) {
        self.last().map_or((&[], &[]), |time| (time.states, time.alphas))
    }

    /// State ids and costs above the best of the tokens of the last time.
    pub fn last_tokens(&self) -> impl ExactSizeIterator<Item = (u32, f32)> + Clone {
        self.ends().map(|token| (token.state, token.cost))
    }

    /// The last time, if there is one.
    fn last(&self) -> Option<Time<'_>> {
        let windows = self.windows();
        windows.num_times().checked_sub(1).map(|last| windows.time(last))
    }

    /// A token of the last time, as an end of the utterance.
    fn end(&self, state: u32, alpha: f32, bias: u32) -> LastToken {
        LastToken { state: state & !HAS_EPSILONS, bias, cost: alpha - self.least, held: self.bias.held(bias) }
    }

    /// All of them.
    fn ends(&self) -> impl ExactSizeIterator<Item = LastToken> + Clone {
        let (states, alphas, bias) = match self.last() {
            Some(time) => (time.states, time.alphas, time.bias),
            None => (&[][..], &[][..], &[][..]),
        };
        let all = states.iter().zip(alphas).enumerate();
        all.map(move |(at, (&state, &alpha))| self.end(state, alpha, bias_state(bias, at)))
    }

    /// Whether the token of the last time with that place has not been dropped by a commit.
    pub fn is_alive(&self, place: u32) -> bool {
        let windows = self.windows();
        let last = windows.num_times().checked_sub(1).map(|last| windows.time(last).alphas);
        last.and_then(|alphas| alphas.get(place as usize)).is_some_and(|&alpha| alpha < f32::INFINITY)
    }

    /// Whether no frame has been searched.
    fn no_frames(&self) -> bool {
        self.last_time().is_none_or(|last| last == 0)
    }

    /// What `read` makes of the trace with everything moved to it, and of the ends of its last
    /// time. The trace is cut back afterwards.
    fn with_whole_trace<T>(
        &mut self,
        graph: &Graph,
        config: &SearchConfig,
        use_final: bool,
        room: &mut Room,
        read: impl FnOnce(&Trace, &Bias, &Ends) -> Result<T>,
    ) -> Result<T> {
        let ends = Ends::new(self.ends(), graph, use_final)?;
        let mark = self.trace.mark();
        let mut boundary = Vec::new();
        try_reserve(&mut boundary, self.boundary.len(), "boundary")?;
        boundary.extend_from_slice(&self.boundary);
        let windows = Windows { older: &self.older, younger: &self.younger };
        let moved = move_to_trace(graph, windows, config.lattice_beam, room, &mut boundary, &mut self.trace);
        let answer = moved.and_then(|()| {
            // From places in the window to places in the trace.
            let sorted = ends.reordered(&boundary)?;
            read(&self.trace, &self.bias, &sorted)
        });
        self.trace.cut_back(mark);
        answer
    }

    /// The lattice now.
    pub fn lattice(
        &mut self,
        graph: &Graph,
        config: &SearchConfig,
        use_final: bool,
        room: &mut Room,
    ) -> Result<RawLattice> {
        let no_frames = self.no_frames();
        let lattice = self.with_whole_trace(graph, config, use_final, room, |trace, bias, ends| {
            trace.lattice(graph, bias, ends, config.lattice_beam, config.acoustic_scale)
        })?;
        if use_final && no_frames && !lattice.reached_final {
            return Ok(RawLattice::empty(config.acoustic_scale));
        }
        Ok(lattice)
    }

    fn links<'a>(&'a self, graph: &'a Graph) -> Links<'a> {
        Links { graph, bias: &self.bias, trace: &self.trace, boundary: &self.boundary, windows: self.windows() }
    }

    /// The next piece for incremental determinization behind time `from`, or from the start, and
    /// the time where it ends; `None` before enough of the trace is closed.
    pub fn piece(
        &self,
        graph: &Graph,
        config: &SearchConfig,
        from: Option<usize>,
    ) -> Result<Option<(usize, LatticePiece)>> {
        let to = from.unwrap_or(self.trace.base()) + PIECE;
        if to + AHEAD >= self.trace.num_times() {
            return Ok(None);
        }
        let piece = self.trace.piece(graph, &self.bias, from, to, AHEAD, config.lattice_beam)?;
        Ok(Some((to, piece)))
    }

    /// The piece behind time `from`, or from the start, up to now, and whether it ends in finals.
    pub fn last_piece(
        &mut self,
        graph: &Graph,
        config: &SearchConfig,
        from: Option<usize>,
        use_final: bool,
        room: &mut Room,
    ) -> Result<(LatticePiece, bool)> {
        let no_frames = self.no_frames();
        let (mut piece, reached_final) =
            self.with_whole_trace(graph, config, use_final, room, |trace, bias, ends| {
                Ok((trace.last_piece(graph, bias, from, ends, config.lattice_beam)?, ends.reached_final))
            })?;
        if use_final && no_frames && !reached_final {
            // Then there is no lattice.
            piece.exits = Default::default();
        }
        Ok((piece, reached_final))
    }

    /// Whether an end point is still looked for: then every frame must be looked at.
    pub fn awaits_endpoint(&self) -> bool {
        self.watch.rules.is_some() && self.watch.found.is_none()
    }

    /// The end point, if one was found.
    pub fn endpoint(&self) -> Option<Endpoint> {
        self.watch.found
    }

    /// Tests the rules after the last frame, if that was not done yet. Gives whether an end point was
    /// found at which the search is to stop. On an error it can be called again.
    pub fn look_for_endpoint(&mut self, graph: &Graph) -> Result<bool> {
        let frames = self.last_time().unwrap_or(0);
        let (Some(rules), None) = (&self.watch.rules, self.watch.found) else { return Ok(false) };
        if self.watch.looked == frames {
            return Ok(false);
        }
        let silence = match Self::best_of(self.ends().enumerate()) {
            Some((token, _)) => {
                let best = &mut self.traced.lock().best;
                best.trace(&self.links(graph), Place { time: frames, token: token as u32 })?;
                u64::from(best.trailing_silence())
            }
            None => 0,
        };
        let within = |most| match self.bias.is_on() {
            true => self.final_relative_cost(graph) <= most,
            false => rules.ends_within(graph, self.last_tokens(), most),
        };
        let holds = rules.first_that_holds(frames as u64, silence, within);
        let stops = holds.is_some() && rules.action != EndpointAction::Note;
        self.watch.found = holds.map(|rule| Endpoint {
            rule,
            frames: frames as u64,
            trailing_silence: silence,
            relative_cost: self.final_relative_cost(graph),
        });
        self.watch.looked = frames;
        Ok(stops)
    }

    /// Cost of the best final token above the best token; `+inf` where none is final.
    pub fn final_relative_cost(&self, graph: &Graph) -> f32 {
        Ends::final_relative_cost(self.ends(), graph)
    }
}
