//! A channel of the GPU lanes: between launches it lives on the host, as the tokens that emit next
//! and the history of its utterance. So there may be far more channels than lanes.

use std::sync::Arc;
use std::time::Instant;

use super::handed::{Handed, Launch, Tokens};
use super::lanes::{Biased, Rooms, Shared};
use super::layout::{CAPACITY_HELD, EMITTER_WORDS, FrameReport, MAX_ACTIVE_HELD};
use super::staging::{BiasedTokens, Emitting};
use crate::error::{Error, Result, try_reserve};
use crate::graph::HAS_EPSILONS;
use crate::lattice::{LatticePiece, Path, RawLattice};
use crate::search::{
    ChannelState, CommitConfig, CommittedLattice, Endpoint, EndpointRules, History, LaneChannel, Phrases, Room,
    SearchConfig, SearchStats, TimeStart,
};

/// The search state of one utterance.
#[derive(Debug)]
pub struct CudaChannel {
    shared: Arc<Shared>,
    /// State, cost above the best, and place of each token that emits next: as the kernel reads them.
    pub(super) emitters: Vec<u32>,
    pub(super) next_beam: f32,
    cutoff: f32,
    /// Where the utterance has phrases.
    biased: Option<Biased>,
    pub(super) history: History,
    pub(super) stats: SearchStats,
}

impl CudaChannel {
    pub(super) fn new(shared: Arc<Shared>) -> CudaChannel {
        CudaChannel {
            shared,
            emitters: Vec::new(),
            next_beam: f32::INFINITY,
            cutoff: f32::INFINITY,
            biased: None,
            history: History::default(),
            stats: SearchStats::default(),
        }
    }

    /// Refuses what a launch has handed over of the next frames where something of it cannot be right; `row` gives the
    /// unscaled row that led to each.
    pub(super) fn check<'r>(
        &self,
        reports: &[FrameReport],
        words: &[u32],
        row: impl Fn(usize) -> &'r [f32],
        reached: &mut Vec<bool>,
    ) -> Result<()> {
        let (states, alphas) = self.history.last_words();
        let (graph, config, frames) = (&*self.shared.graph, self.config(), self.stats.frames);
        Launch { graph, config, reports, words, frames }.check(Some(Tokens { states, alphas }), row, reached)
    }

    /// Takes in what a launch has handed over, which has been checked: of its times but the last one, only what that needs is
    /// there, so all or nothing. `row` gives the unscaled row that led to each time, none for time 0. On an error nothing
    /// has changed.
    pub(super) fn take<'r>(
        &mut self,
        reports: &[FrameReport],
        words: &[u32],
        row: impl Fn(usize) -> Option<&'r [f32]>,
    ) -> Result<()> {
        let Some(last) = reports.last() else { return Ok(()) };
        let more = (last.tokens as usize * EMITTER_WORDS).saturating_sub(self.emitters.len());
        try_reserve(&mut self.emitters, more, "emitting tokens")?;
        let total = |count: fn(&FrameReport) -> u32| reports.iter().map(|report| count(report) as usize).sum();
        let rows = (0..reports.len()).filter_map(|at| row(at).map(<[f32]>::len)).sum();
        let more = TimeStart { tokens: total(|report| report.tokens), links: total(|report| report.links), row: rows };
        self.history.reserve(reports.len(), more)?;
        for (at, report) in reports.iter().enumerate() {
            self.take_time(report, words, row(at))?;
        }
        self.choose_emitters();
        Ok(())
    }

    /// Takes the next time in, for which there is room.
    fn take_time(&mut self, report: &FrameReport, words: &[u32], row: Option<&[f32]>) -> Result<()> {
        let CudaChannel { shared, history, stats, .. } = self;
        let Handed { tokens: Tokens { states, alphas }, links } = Handed::new(report, words)?;
        history.push_time(&shared.graph, states, alphas, links, row.unwrap_or(&[]))?;
        history.least = report.least;
        (self.next_beam, self.cutoff) = (report.next_beam, report.cutoff);
        let tokens = u64::from(report.all_tokens);
        stats.tokens += tokens;
        stats.max_tokens = stats.max_tokens.max(tokens);
        stats.links += u64::from(report.all_links);
        stats.arcs = stats.arcs.saturating_add(report.arcs);
        stats.max_active_held += u64::from(report.flags & MAX_ACTIVE_HELD != 0);
        if row.is_some() {
            stats.frames += 1;
            stats.effective_beam = stats.effective_beam.min(report.wide - report.best);
        }
        if report.flags & CAPACITY_HELD != 0 {
            stats.capacity_held += 1;
            stats.effective_beam = stats.effective_beam.min(report.theta - report.best);
        }
        Ok(())
    }

    /// Makes the list of emitting tokens from those of the last time, for which there is room.
    fn choose_emitters(&mut self) {
        self.emitters.clear();
        for (place, (state, cost)) in self.history.last_tokens().enumerate() {
            if cost <= self.cutoff {
                self.emitters.extend_from_slice(&[state & !HAS_EPSILONS, cost.to_bits(), place as u32]);
            }
        }
    }

    /// Keeps those emitting tokens that have not been dropped from the last time.
    fn keep_alive(&mut self) {
        let CudaChannel { emitters, history, .. } = self;
        let mut kept = 0;
        for at in (0..emitters.len()).step_by(EMITTER_WORDS) {
            if history.is_alive(emitters[at + 2]) {
                emitters.copy_within(at..at + EMITTER_WORDS, kept);
                kept += EMITTER_WORDS;
            }
        }
        emitters.truncate(kept);
    }

    /// Commits what can be before the next frame, prunes, and gives how many frames may be searched then.
    pub(super) fn prepare(&mut self, room: &mut Room) -> Result<usize> {
        let shared = Arc::clone(&self.shared);
        let (graph, config) = (&*shared.graph, &shared.config);
        if self.history.commit(graph, config, room)? {
            self.keep_alive();
        }
        self.history.make_room(graph, config, room)?;
        Ok(self.history.frames_to_look().min(self.history.times_to_full()))
    }

    /// Prunes behind a launch, where lanes work side by side; [`CudaChannel::prepare`] is called for one after the other. What fails
    /// is tried again there. Commits come before it.
    pub(super) fn prune(&mut self, room: &mut Room) {
        if self.history.commit_config().is_none() {
            let _ = self.history.make_room(&self.shared.graph, &self.shared.config, room);
        }
    }

    /// Searches the next time on the host, where a lane's memory does not do; time 0 without a row. On an error the
    /// channel stays as it was.
    pub(super) fn search_on_host(&mut self, row: Option<&[f32]>) -> Result<()> {
        let since = Instant::now();
        let CudaChannel { shared, emitters: emitting, next_beam, biased, history, stats, .. } = self;
        let config = biased.as_ref().map_or(&shared.config, |biased| &biased.config);
        let outcome = shared.search_on_host(config, ChannelState { emitting, next_beam, history, stats }, row);
        self.stats.seconds += since.elapsed().as_secs_f64();
        outcome
    }

    /// The options that hold for the utterance.
    pub(super) fn config(&self) -> &SearchConfig {
        self.biased.as_ref().map_or(&self.shared.config, |biased| &biased.config)
    }

    /// The tokens that emit next, as they go to the device.
    pub(super) fn emitting_next(&self) -> Emitting<'_> {
        let CudaChannel { emitters: triples, next_beam, biased, history, .. } = self;
        let bias = biased.as_ref().zip(history.bias.now()).map(|(biased, steps)| BiasedTokens {
            list: biased.list.words.at,
            steps,
            states: history.last_bias(),
        });
        Emitting { triples, next_beam: *next_beam, bias }
    }

    /// Refuses to go on above the memory limit.
    pub(super) fn check_memory(&self) -> Result<()> {
        let (held, limit) = (self.memory() as u64, self.shared.config.memory_limit);
        if held > limit {
            return Err(Error::Limit(format!("the channel holds {held} bytes; its memory_limit is {limit}")));
        }
        Ok(())
    }

    fn memory(&self) -> usize {
        self.emitters.capacity() * 4 + self.history.memory()
    }

    fn emitting(&self) -> impl ExactSizeIterator<Item = &[u32]> + Clone {
        self.emitters.chunks_exact(EMITTER_WORDS)
    }
}

impl LaneChannel for CudaChannel {
    /// Without phrases time 0 is the same for all channels of a decoder: it was searched when that was made.
    fn begin(&mut self, phrases: Option<Arc<Phrases>>, rules: Option<&Arc<EndpointRules>>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let biased = phrases.as_ref().map(|phrases| shared.biased(phrases, 1)).transpose()?;
        if self.memory() as u64 > shared.config.memory_limit {
            let history = self.history.fresh();
            *self = CudaChannel { history, ..CudaChannel::new(Arc::clone(&shared)) };
        }
        self.history.begin(rules);
        self.emitters.clear();
        self.biased = None;
        self.stats = SearchStats::default();
        if let (Some(phrases), Some(biased)) = (phrases, biased) {
            let CudaChannel { emitters: emitting, next_beam, history, stats, .. } = self;
            history.change_phrases(phrases)?;
            let state = ChannelState { emitting, next_beam, history, stats };
            shared.search_biased_time_0(&biased.config, state)?;
            self.biased = Some(biased);
            return Ok(());
        }
        let Some((report, words)) = shared.time_0()? else { return self.search_on_host(None) };
        self.take(std::slice::from_ref(report), words, |_| None)
    }

    fn change_phrases(&mut self, phrases: Arc<Phrases>) -> Result<()> {
        let biased = self.shared.biased(&phrases, self.history.bias.most_states())?;
        self.history.change_phrases(phrases)?;
        self.biased = Some(biased);
        Ok(())
    }

    fn endpoint(&self) -> Option<Endpoint> {
        self.history.endpoint()
    }

    fn num_frames(&self) -> u64 {
        self.stats.frames
    }

    fn mark_columns(&self, needed: &mut [bool]) {
        for emitter in self.emitting() {
            let view = self.shared.graph.state(emitter[0]);
            for place in 0..view.header.n_emit {
                if let Some(slot) = needed.get_mut(view.column(place) as usize) {
                    *slot = true;
                }
            }
        }
    }

    fn final_relative_cost(&self) -> f32 {
        self.history.final_relative_cost(&self.shared.graph)
    }

    fn best_path(&self, use_final: bool) -> Result<Path> {
        self.history.best_path(&self.shared.graph, &self.shared.config, use_final)
    }

    fn best_lattice(&self, use_final: bool) -> Result<RawLattice> {
        self.history.best_lattice(&self.shared.graph, &self.shared.config, use_final)
    }

    fn partial(&self, from: usize) -> Result<Path> {
        let Shared { graph, config, .. } = &*self.shared;
        self.history.partial(graph, config, from, self.emitting().map(|emitter| emitter[2]))
    }

    fn stable_words(&self) -> Result<usize> {
        self.history.stable_words(&self.shared.graph, self.emitting().map(|emitter| emitter[2]))
    }

    fn tell_words(&self, known: &mut Vec<i32>) -> Result<()> {
        self.history.tell_words(&self.shared.graph, self.emitting().map(|emitter| emitter[2]), known)
    }

    fn has_other_words(&self, known: &[i32]) -> Result<bool> {
        self.history.has_other_words(&self.shared.graph, self.emitting().map(|emitter| emitter[2]), known)
    }

    fn lattice(&mut self, use_final: bool) -> Result<RawLattice> {
        let shared = Arc::clone(&self.shared);
        shared.with_room(|Rooms { room, .. }| self.history.lattice(&shared.graph, &shared.config, use_final, room))
    }

    fn piece(&self, from: Option<usize>) -> Result<Option<(usize, LatticePiece)>> {
        self.history.piece(&self.shared.graph, &self.shared.config, from)
    }

    fn last_piece(&mut self, from: Option<usize>, use_final: bool) -> Result<(LatticePiece, bool)> {
        let shared = Arc::clone(&self.shared);
        shared.with_room(|Rooms { room, .. }| {
            self.history.last_piece(&shared.graph, &shared.config, from, use_final, room)
        })
    }

    fn commit_config(&self) -> Option<CommitConfig> {
        self.history.commit_config()
    }

    fn set_commit(&mut self, config: Option<CommitConfig>) -> Result<()> {
        self.history.set_commit(config)
    }

    fn committed_frames(&self) -> usize {
        self.history.committed_frames()
    }

    fn take_committed(&mut self) -> Option<CommittedLattice> {
        self.history.take_committed()
    }

    fn stats(&self) -> SearchStats {
        self.history.stats_now(&self.stats, self.memory())
    }
}
