//! A channel on the CPU: the tokens of one utterance, and how a frame advances them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::error::{Error, Result, try_push, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS};
use crate::lattice::{LatticePiece, Path, RawLattice};
use crate::search::{
    CommitConfig, CommittedLattice, Emission, Endpoint, EndpointRules, History, LaneChannel, Link, Phrases, Rows,
    SearchConfig, SearchStats, TimeStart, Window, grow, scale_row,
};

use super::biasing::{Biased, Plain};
use super::expand::{Emitter, Emitters, Expanded, expand};
use super::frame::{Scratch, settle};

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
    pub(super) emitters: Emitters,
    pub(super) next_beam: f32,
    pub(super) history: History,
    pub(super) stats: SearchStats,
}

impl CpuChannel {
    pub(super) fn new(shared: Arc<Shared>) -> CpuChannel {
        CpuChannel {
            shared,
            emitters: Emitters::default(),
            next_beam: f32::INFINITY,
            history: History::default(),
            stats: SearchStats::default(),
        }
    }

    /// One token at the start state at cost 0, and its closure.
    fn begin_with(
        &mut self,
        phrases: Option<Arc<Phrases>>,
        rules: Option<&Arc<EndpointRules>>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        if self.memory() as u64 > shared.config.memory_limit {
            let history = self.history.fresh();
            *self = CpuChannel { history, ..CpuChannel::new(Arc::clone(&shared)) };
        }
        self.history.begin(rules);
        if let Some(phrases) = phrases {
            self.history.change_phrases(phrases)?;
        }
        self.search_time_0(scratch)
    }

    /// The same where the history has begun.
    pub(super) fn search_time_0(&mut self, scratch: &mut Scratch) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        self.emitters.clear();
        self.stats = SearchStats::default();
        let start = self.history.younger.end();
        let links = &mut self.history.younger.links;
        // The start state as a candidate.
        grow(links, 1, "links")?;
        scratch.bias.clear();
        if self.history.bias.is_on() {
            try_push(&mut scratch.bias, self.history.bias.start(), "candidates")?;
        }
        links.push(Link { src: 0, arc: 0, cost: 0.0, dst: shared.graph.start() });
        self.take_time(&shared, None, (0.0, shared.config.beam), &[], scratch, start)
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
        if self.history.commit(graph, config, &mut scratch.backward)? {
            self.emitters.keep(&self.history);
        }
        let costs = &mut scratch.row_costs;
        let width = row.len().max(graph.row_width());
        if costs.len() < width {
            try_reserve(costs, width - costs.len(), "row")?;
            costs.resize(width, 0.0);
        }
        scale_row(row, config.acoustic_scale, frame, costs)?;
        self.history.make_room(graph, config, &mut scratch.backward)?;
        let start = self.history.younger.end();
        let found = self.expand_frame(&shared, &costs[..width], row, &mut scratch.bias);
        let found = found.inspect_err(|_| self.history.younger.cut(start))?;
        let theta = (found.best + self.next_beam).min(f32::MAX);
        self.take_time(&shared, Some(frame), (found.best, theta), row, scratch, start)?;
        self.stats.frames += 1;
        self.stats.arcs += found.arcs;
        self.stats.effective_beam = self.stats.effective_beam.min(theta - found.best);
        Ok(())
    }

    /// Puts the candidates of a frame behind the links of the younger window. `costs` are scaled from `row`.
    fn expand_frame(&mut self, shared: &Shared, costs: &[f32], row: &[f32], to: &mut Vec<u32>) -> Result<Expanded> {
        let (graph, emitters, frame) = (&*shared.graph, &self.emitters, self.stats.frames);
        let History { bias, younger, .. } = &mut self.history;
        let before = younger.links.len();
        let found = match bias.now() {
            None => expand(graph, Plain, emitters, costs, self.next_beam, &mut younger.links, to)?,
            Some(steps) => {
                expand(graph, Biased { graph, steps }, emitters, costs, self.next_beam, &mut younger.links, to)?
            }
        };
        if found.best == f32::INFINITY {
            return Err(Error::NoTokens { frame });
        }
        if found.best == f32::NEG_INFINITY {
            return Err(overflow(graph, emitters, &younger.links[before..], &costs[..row.len()], row, frame));
        }
        Ok(found)
    }

    /// Lets `phrases` bias the search from the next frame on.
    fn change_phrases(&mut self, phrases: Arc<Phrases>) -> Result<()> {
        let more = self.emitters.list.len().saturating_sub(self.emitters.bias.len());
        try_reserve(&mut self.emitters.bias, more, "emitting tokens")?;
        self.history.change_phrases(phrases)?;
        // Tokens so far that had none are in the first state of all.
        self.emitters.bias.resize(self.emitters.list.len(), 0);
        Ok(())
    }

    /// Closes the time that begins at `start` and that the candidates behind it lead to, and settles who emits
    /// next. `bounds` are the least candidate and theta.
    fn take_time(
        &mut self,
        shared: &Shared,
        frame: Option<u64>,
        bounds: (f32, f32),
        row: &[f32],
        scratch: &mut Scratch,
        start: TimeStart,
    ) -> Result<()> {
        let outcome = self.try_take_time(shared, frame, bounds, row, scratch, start);
        if outcome.is_err() {
            self.history.younger.cut(start);
            scratch.levels.clear();
        }
        outcome
    }

    fn try_take_time(
        &mut self,
        shared: &Shared,
        frame: Option<u64>,
        bounds: (f32, f32),
        row: &[f32],
        scratch: &mut Scratch,
        start: TimeStart,
    ) -> Result<()> {
        let (graph, config) = (&*shared.graph, &shared.config);
        try_reserve(&mut self.history.younger.starts, 1, "times")?;
        try_reserve(&mut self.history.younger.rows, row.len(), "rows")?;
        let History { bias, younger, .. } = &mut self.history;
        let settled = match bias.now() {
            None => settle(graph, Plain, config, frame, bounds, scratch, (younger, start))?,
            Some(steps) => settle(graph, Biased { graph, steps }, config, frame, bounds, scratch, (younger, start))?,
        };
        let alphas = &self.history.younger.alphas[start.tokens..];
        let least = settled.least;
        if least == f32::NEG_INFINITY {
            return Err(Error::Limit(format!(
                "frame {}: costs fall below the range of 32-bit floats",
                frame.unwrap_or(0)
            )));
        }
        let above = alphas.iter().map(|alpha| alpha - least);
        let more = alphas.len().saturating_sub(scratch.room.len());
        try_reserve(&mut scratch.room, more, "selection")?;
        let emission = Emission::of(above, config, &mut scratch.room);
        let Window { states, bias, .. } = &self.history.younger;
        let bias = bias.get(start.tokens..).unwrap_or(&[]);
        self.emitters.take(&states[start.tokens..], bias, alphas, least, emission.cutoff)?;

        self.history.younger.rows.extend_from_slice(row);
        self.history.younger.starts.push(start);
        self.next_beam = emission.next_beam;
        self.history.least = least;
        let tokens = (self.history.younger.states.len() - start.tokens) as u64;
        let stats = &mut self.stats;
        stats.tokens += tokens;
        stats.max_tokens = stats.max_tokens.max(tokens);
        stats.links += (self.history.younger.links.len() - start.links) as u64;
        stats.arcs += settled.arcs;
        stats.max_active_held += u64::from(emission.max_active_held);
        stats.capacity_held += u64::from(settled.capacity_held);
        if settled.capacity_held {
            stats.effective_beam = stats.effective_beam.min(settled.theta - bounds.0);
        }
        Ok(())
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
        self.emitters.memory() + self.history.memory()
    }

    /// Advances by all rows, or up to the first that fails, or to an end point that stops it. Gives how
    /// many were searched too.
    pub(super) fn advance(
        &mut self,
        rows: Rows<'_>,
        cancelled: &AtomicBool,
        scratch: &mut Scratch,
    ) -> (usize, Result<()>) {
        let (since, before) = (Instant::now(), self.stats.frames);
        let outcome = self.advance_rows(rows, cancelled, scratch);
        self.stats.seconds += since.elapsed().as_secs_f64();
        ((self.stats.frames - before) as usize, outcome)
    }

    fn advance_rows(&mut self, rows: Rows<'_>, cancelled: &AtomicBool, scratch: &mut Scratch) -> Result<()> {
        // No rows have no width either: an empty matrix may say 0 columns.
        if rows.frames() > 0 {
            self.shared.graph.check_width(rows.dim())?;
        }
        // Is done already, unless memory ran out in the middle of it.
        let mut stops = self.history.look_for_endpoint(&self.shared.graph)?;
        for frame in 0..rows.frames() {
            if stops {
                break;
            }
            if cancelled.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            self.advance_frame(rows.row(frame), scratch)?;
            stops = self.history.look_for_endpoint(&self.shared.graph)?;
        }
        Ok(())
    }
}

/// The least of some costs.
fn least_of(costs: impl Iterator<Item = f32>) -> f32 {
    costs.fold(f32::INFINITY, |least, cost| if cost < least { cost } else { least })
}

/// Names the frame and column of a candidate that fell to `-inf`.
fn overflow(graph: &Graph, emitters: &Emitters, candidates: &[Link], costs: &[f32], row: &[f32], frame: u64) -> Error {
    let fallen = candidates.iter().find(|link| link.cost == f32::NEG_INFINITY);
    let source = |link: &Link| emitters.list.iter().find(|emitter| emitter.token == link.src);
    let ilabel = fallen.and_then(|link| Some(graph.ilabel(source(link)?.state, link.arc))).unwrap_or(0);
    let least = least_of(costs.iter().copied());
    let column = costs.iter().position(|&cost| cost == least).unwrap_or(0);
    Error::Scores { frame, column, value: row.get(column).copied().unwrap_or(f32::NAN) }
        .context(format!("an arc with ilabel {ilabel} takes its token's cost below the range of 32-bit floats"))
}

impl Emitters {
    /// Takes the tokens with `alpha - least <= cutoff`, the best one first: its candidates make
    /// the running bound tight from the start.
    fn take(&mut self, states: &[u32], bias: &[u32], alphas: &[f32], least: f32, cutoff: f32) -> Result<()> {
        let n = states.len().min(alphas.len());
        // All memory first, so that on an error the tokens of the time before stay.
        let more = n.saturating_sub(self.list.len());
        try_reserve(&mut self.list, more, "emitting tokens")?;
        let more = bias.len().saturating_sub(self.bias.len());
        try_reserve(&mut self.bias, more, "emitting tokens")?;
        self.list.resize(n, Emitter::default());
        self.bias.clear();
        // Written always, counted if it emits: no branch to mispredict.
        let (mut count, mut best) = (0, 0);
        for (token, (&state, &alpha)) in (0..).zip(states.iter().zip(alphas)) {
            let cost = alpha - least;
            // SAFETY: `count <= token < n`, the length of the list.
            unsafe {
                *self.list.get_unchecked_mut(count) = Emitter { state: state & !HAS_EPSILONS, cost, token };
            }
            best = if cost == 0.0 { count } else { best };
            count += usize::from(cost <= cutoff);
        }
        self.list.truncate(count);
        if best > 0 {
            self.list.swap(0, best);
        }
        if !bias.is_empty() {
            self.bias.extend(self.list.iter().map(|emitter| bias[emitter.token as usize]));
        }
        Ok(())
    }
}

impl Emitters {
    /// Keeps those that have not been dropped from the last time.
    fn keep(&mut self, history: &History) {
        let mut count = 0;
        for at in 0..self.list.len() {
            if history.is_alive(self.list[at].token) {
                self.list[count] = self.list[at];
                if let Some(&bias) = self.bias.get(at) {
                    self.bias[count] = bias;
                }
                count += 1;
            }
        }
        self.list.truncate(count);
        self.bias.truncate(count);
    }
}

impl CpuChannel {
    fn mark_columns_needed(&self, needed: &mut [bool]) {
        for emitter in &self.emitters.list {
            let view = self.shared.graph.state(emitter.state);
            for place in 0..view.header.n_emit {
                if let Some(slot) = needed.get_mut(view.column(place) as usize) {
                    *slot = true;
                }
            }
        }
    }

    fn stats_now(&self) -> SearchStats {
        self.history.stats_now(&self.stats, self.memory())
    }
}

/// A channel of [`super::CpuLanes`], with the lanes that lend it working space.
#[derive(Debug)]
pub struct LentChannel {
    pub(super) channel: CpuChannel,
    pub(super) scratches: Arc<super::lanes::Scratches>,
}

impl LaneChannel for LentChannel {
    fn begin(&mut self, phrases: Option<Arc<Phrases>>, rules: Option<&Arc<EndpointRules>>) -> Result<()> {
        let mut scratch = self.scratches.take()?;
        self.channel.begin_with(phrases, rules, &mut scratch)
    }

    fn change_phrases(&mut self, phrases: Arc<Phrases>) -> Result<()> {
        self.channel.change_phrases(phrases)
    }

    fn endpoint(&self) -> Option<Endpoint> {
        self.channel.history.endpoint()
    }

    fn num_frames(&self) -> u64 {
        self.channel.stats.frames
    }

    fn mark_columns(&self, needed: &mut [bool]) {
        self.channel.mark_columns_needed(needed);
    }

    fn final_relative_cost(&self) -> f32 {
        self.channel.history.final_relative_cost(&self.channel.shared.graph)
    }

    fn best_path(&self, use_final: bool) -> Result<Path> {
        let Shared { graph, config } = &*self.channel.shared;
        self.channel.history.best_path(graph, config, use_final)
    }

    fn best_lattice(&self, use_final: bool) -> Result<RawLattice> {
        let Shared { graph, config } = &*self.channel.shared;
        self.channel.history.best_lattice(graph, config, use_final)
    }

    fn partial(&self, from: usize) -> Result<Path> {
        let CpuChannel { shared, emitters, history, .. } = &self.channel;
        history.partial(&shared.graph, &shared.config, from, emitters.tokens())
    }

    fn stable_words(&self) -> Result<usize> {
        let CpuChannel { shared, emitters, history, .. } = &self.channel;
        history.stable_words(&shared.graph, emitters.tokens())
    }

    fn tell_words(&self, known: &mut Vec<i32>) -> Result<()> {
        let CpuChannel { shared, emitters, history, .. } = &self.channel;
        history.tell_words(&shared.graph, emitters.tokens(), known)
    }

    fn has_other_words(&self, known: &[i32]) -> Result<bool> {
        let CpuChannel { shared, emitters, history, .. } = &self.channel;
        history.has_other_words(&shared.graph, emitters.tokens(), known)
    }

    fn lattice(&mut self, use_final: bool) -> Result<RawLattice> {
        let mut scratch = self.scratches.take()?;
        let CpuChannel { shared, history, .. } = &mut self.channel;
        history.lattice(&shared.graph, &shared.config, use_final, &mut scratch.backward)
    }

    fn piece(&self, from: Option<usize>) -> Result<Option<(usize, LatticePiece)>> {
        let Shared { graph, config } = &*self.channel.shared;
        self.channel.history.piece(graph, config, from)
    }

    fn last_piece(&mut self, from: Option<usize>, use_final: bool) -> Result<(LatticePiece, bool)> {
        let mut scratch = self.scratches.take()?;
        let CpuChannel { shared, history, .. } = &mut self.channel;
        history.last_piece(&shared.graph, &shared.config, from, use_final, &mut scratch.backward)
    }

    fn commit_config(&self) -> Option<CommitConfig> {
        self.channel.history.commit_config()
    }

    fn set_commit(&mut self, config: Option<CommitConfig>) -> Result<()> {
        self.channel.history.set_commit(config)
    }

    fn committed_frames(&self) -> usize {
        self.channel.history.committed_frames()
    }

    fn take_committed(&mut self) -> Option<CommittedLattice> {
        self.channel.history.take_committed()
    }

    fn stats(&self) -> SearchStats {
        self.channel.stats_now()
    }
}
