//! A channel: one utterance after another, from rows to words and lattices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::cuda::DeviceRows;
use crate::error::{Error, Result, try_reserve};
use crate::lattice::{DeterminizeConfig, Determinized, Lattice, Path, RawLattice};
use crate::search::{
    CommitConfig, CommittedLattice, EndpointAction, EndpointRules, LaneChannel, LaneWork, Phrase, Phrases, Rows,
    SearchStats,
};
use crate::table::Transitions;

use super::Decoder;
use super::backend::BackendChannel;
use super::decodable::Decodable;
use super::growing::Growing;
use super::metrics::Metrics;
use super::row_queue::RowQueue;
use super::segments::{Segment, SegmentEnd, Segments};

/// Columns of a decodable, at most, unless the graph reads more of them; and scores that are pulled of it in one go.
const MOST_COLUMNS: usize = 1 << 24;

/// Where a channel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelState {
    /// Made, not begun.
    New,
    /// Takes rows.
    Open,
    /// Finished; results can be asked for.
    Finished,
}

/// A failure that every further push of the utterance is answered with.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Scores { frame: u64, column: usize, value: f32 },
    NoTokens { frame: u64 },
    Capacity { frame: u64, what: &'static str, capacity: u64 },
    Cancelled,
}

impl Failure {
    /// The lasting failure behind an error, if it is one.
    fn of(error: &Error) -> Option<Failure> {
        match *error.root() {
            Error::Scores { frame, column, value } => Some(Failure::Scores { frame, column, value }),
            Error::NoTokens { frame } => Some(Failure::NoTokens { frame }),
            Error::Capacity { frame, what, capacity } => Some(Failure::Capacity { frame, what, capacity }),
            Error::Cancelled => Some(Failure::Cancelled),
            _ => None,
        }
    }

    fn error(self) -> Error {
        match self {
            Failure::Scores { frame, column, value } => Error::Scores { frame, column, value },
            Failure::NoTokens { frame } => Error::NoTokens { frame },
            Failure::Capacity { frame, what, capacity } => Error::Capacity { frame, what, capacity },
            Failure::Cancelled => Error::Cancelled,
        }
    }
}

/// What is asked of a channel without exclusive use of it.
#[derive(Debug, Default)]
struct Flags {
    cancelled: AtomicBool,
    /// The decoder no longer counts it.
    left: AtomicBool,
}

impl Flags {
    fn leave(&self, decoder: &Decoder) {
        if !self.left.swap(true, Ordering::Relaxed) {
            decoder.channel_closed();
        }
    }
}

/// Sets a channel's cancel flag from any thread, without exclusive use of the channel.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<Flags>);

impl Canceller {
    /// The channel stops before its next frame; pushes answer [`Error::Cancelled`] until `begin`.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the utterance was cancelled.
    pub(super) fn has_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Relaxed)
    }

    /// Makes room for another channel, although this one still exists: nobody can use it any more.
    pub(super) fn leave(&self, decoder: &Decoder) {
        self.0.leave(decoder);
    }
}

/// One utterance at a time. Needs exclusive use; may move between threads.
#[derive(Debug)]
pub struct Channel {
    decoder: Arc<Decoder>,
    lane: BackendChannel,
    state: ChannelState,
    failure: Option<Failure>,
    flags: Arc<Flags>,
    /// What biases utterances that begin.
    phrases: Option<Arc<Phrases>>,
    /// Rules of end points that hold since begin.
    rules: Option<Arc<EndpointRules>>,
    segments: Box<Segments>,
    /// A row on its way from a decodable.
    row: Vec<f32>,
    /// Apart, since it is large and most channels have none.
    growing: Option<Box<Growing>>,
}

impl Channel {
    pub(super) fn new(decoder: Arc<Decoder>, lane: BackendChannel) -> Channel {
        Channel {
            decoder,
            lane,
            state: ChannelState::New,
            failure: None,
            flags: Arc::default(),
            phrases: None,
            rules: None,
            segments: Box::default(),
            row: Vec::new(),
            growing: None,
        }
    }

    /// The decoder that made the channel.
    pub fn decoder(&self) -> &Arc<Decoder> {
        &self.decoder
    }

    /// Where the channel stands.
    pub fn state(&self) -> ChannelState {
        self.state
    }

    /// Something to cancel the channel with while it is at work.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.flags))
    }

    /// A new utterance, from any state; results of the last one are gone. The decoder's rules of end
    /// points as they are now hold for it.
    pub fn begin(&mut self) -> Result<()> {
        self.state = ChannelState::New;
        self.failure = None;
        self.flags.cancelled.store(false, Ordering::Relaxed);
        if let Some(growing) = &mut self.growing {
            growing.clear();
        }
        *self.segments = Segments::default();
        self.rules = self.decoder.endpoint_rules();
        self.lane.lane_mut().begin(self.phrases.clone(), self.rules.as_ref())?;
        self.state = ChannelState::Open;
        Ok(())
    }

    /// Makes phrases of output labels more likely, or less by a bonus below 0, in place of those that were set
    /// before; none switches it off. In an utterance that is open they hold from the next frame on: what
    /// its tokens hold of the earlier bonuses is given back on the arcs of that frame.
    ///
    /// Search and pruning go by the biased costs. Paths and lattices have the bias costs apart from graph and
    /// acoustic costs. On a GPU the phrases of an open utterance, and those of the next ones at their begin, take device
    /// memory, the first ones more: [`Error::NoMemory`] where there is too little.
    ///
    /// [`Error::Config`] names a phrase without labels, with a label below 1, or with a bonus that is not finite;
    /// [`Error::Limit`] where there are too many. On an error nothing has changed.
    pub fn set_bias(&mut self, phrases: &[Phrase<'_>]) -> Result<()> {
        let made = match phrases {
            [] => None,
            _ => Some(Arc::new(Phrases::new(phrases, |label| label > 0)?)),
        };
        if self.state == ChannelState::Open && (made.is_some() || self.phrases.is_some()) {
            let now = made.clone().unwrap_or_else(|| Arc::new(Phrases::none()));
            self.lane.lane_mut().change_phrases(now)?;
        }
        self.phrases = made;
        Ok(())
    }

    /// Whether rows may come: [`Error::State`] when not open, else the lasting failure if there is one.
    pub(super) fn check_open(&self) -> Result<()> {
        match self.state {
            ChannelState::New => return Err(Error::State("the channel has not begun".into())),
            ChannelState::Finished => return Err(Error::State("the channel is finished".into())),
            ChannelState::Open => {}
        }
        if self.flags.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        self.decoder.graph().check_so_far()?;
        self.failure.map_or(Ok(()), |failure| Err(failure.error()))
    }

    fn check_begun(&self) -> Result<()> {
        match self.state {
            ChannelState::New => Err(Error::State("the channel has not begun".into())),
            _ => Ok(()),
        }
    }

    pub(super) fn work<'a>(&'a mut self, rows: Rows<'a>) -> LaneWork<'a, BackendChannel> {
        LaneWork::new(&mut self.lane, rows, &self.flags.cancelled)
    }

    /// Before a search: whether rows may come.
    pub(super) fn prepare(&mut self) -> Result<()> {
        self.check_open()?;
        // Is done already, unless memory ran out in the middle of it.
        self.close_segment().map(drop)
    }

    /// After a search: remembers a failure that lasts, and closes the segment where an end point says
    /// so. Gives whether it did: rows that were not searched belong to the next one.
    pub(super) fn conclude(&mut self, result: Result<()>) -> Result<bool> {
        match result.map_err(|error| error.frames_later(self.segments.frames)) {
            Ok(()) => self.close_segment(),
            Err(error) => {
                self.failure = self.failure.or(Failure::of(&error));
                Err(error)
            }
        }
    }

    fn close_segment(&mut self) -> Result<bool> {
        let Some(keep) = self.segments_kept() else { return Ok(false) };
        let Some(endpoint) = self.lane.lane().endpoint() else { return Ok(false) };
        let stats = self.lane.lane().stats();
        let best_path = Arc::new(self.path_in_time(self.lane.lane().best_path(true)?));
        let lattice = Arc::new(Lattice::from(self.lane.lane_mut().lattice(true)?));
        let end = self.segments.end_at(endpoint);
        self.segments.close(Segment { end, best_path, lattice }, &stats, keep)?;
        if let Some(growing) = &mut self.growing {
            growing.clear();
        }
        if let Err(error) = self.lane.lane_mut().begin(self.phrases.clone(), self.rules.as_ref()) {
            self.state = ChannelState::New;
            return Err(error);
        }
        Ok(true)
    }

    /// How many segments are kept, where end points close them.
    fn segments_kept(&self) -> Option<usize> {
        self.rules.as_ref().filter(|rules| rules.action == EndpointAction::Segment).map(|rules| rules.segments_kept)
    }

    /// A path of the open segment, with times from the channel's begin.
    fn path_in_time(&self, mut path: Path) -> Path {
        if self.segments.frames > 0 {
            let before = self.segments.frames as u32;
            path.frames.iter_mut().for_each(|frame| *frame = frame.saturating_add(before));
        }
        path
    }

    /// Searches all `rows` before it returns; only where the rules say that it stops at an end point it
    /// may leave some, as [`Channel::push_rows`]. On an error everything before the failing frame is
    /// kept: [`Error::Shape`], [`Error::Scores`], [`Error::NoTokens`], [`Error::Capacity`],
    /// [`Error::Limit`], [`Error::Cancelled`], [`Error::State`].
    pub fn push(&mut self, rows: Rows<'_>) -> Result<()> {
        self.push_rows(rows).map(drop)
    }

    /// The same, and gives how many rows were searched: fewer than there are where an end point has
    /// stopped it ([`EndpointAction::Stop`]). The next push goes on behind it, or [`Channel::begin`]
    /// begins anew with the rows that are left.
    pub fn push_rows(&mut self, rows: Rows<'_>) -> Result<usize> {
        self.prepare()?;
        let decoder = Arc::clone(&self.decoder);
        let mut done = 0;
        loop {
            let mut batch = [self.work(rows.slice(done, usize::MAX))];
            decoder.backend.advance(&mut batch);
            let [LaneWork { done: more, result, .. }] = batch;
            done += more;
            if !self.conclude(result)? || done == rows.frames() {
                return Ok(done);
            }
        }
    }

    /// The same as [`Channel::push_rows`] for rows in the memory of the decoder's GPU; they are not
    /// needed afterwards. [`Error::Unsupported`] on the CPU.
    ///
    /// # Safety
    /// The rows are there, in memory that the decoder's GPU can read, until the call returns, and
    /// the stream is a live one of the device's primary context or 0.
    pub unsafe fn push_device(&mut self, rows: DeviceRows) -> Result<usize> {
        self.prepare()?;
        if rows.stride < rows.dim {
            return Err(Error::Shape(format!("stride {} is below the width {}", rows.stride, rows.dim)));
        }
        let span = Rows::elements(rows.frames, rows.dim, rows.stride).and_then(|count| count.checked_mul(4));
        let end = span.and_then(|span| rows.at.checked_add(span as u64));
        if !rows.at.is_multiple_of(4) || end.is_none() || (rows.at == 0 && rows.frames > 0 && rows.dim > 0) {
            return Err(Error::Argument(format!("{:#x} is not the address of such rows", rows.at)));
        }
        let decoder = Arc::clone(&self.decoder);
        let mut rest = rows;
        loop {
            let before = self.lane.lane().num_frames();
            // SAFETY: the caller's promise.
            let result = unsafe { decoder.backend.push_device(&mut self.lane, rest, &self.flags.cancelled) };
            rest = rest.behind((self.lane.lane().num_frames() - before) as usize);
            if !self.conclude(result)? || rest.frames == 0 {
                return Ok(rows.frames - rest.frames);
            }
        }
    }

    /// Pulls frames from `decodable` while they are ready, at most `max_frames` of them, and
    /// returns how many were searched (Kaldi's `AdvanceDecoding`). An end point that stops a push stops
    /// it too.
    pub fn advance(&mut self, decodable: &mut dyn Decodable, max_frames: Option<u64>) -> Result<u64> {
        self.check_open()?;
        let dim = self.columns_of(decodable)?;
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        let outcome = try_reserve(&mut row, dim, "row").and_then(|()| {
            row.resize(dim, 0.0);
            self.pull(decodable, max_frames.unwrap_or(u64::MAX), &mut row)
        });
        self.row = row;
        outcome
    }

    /// Columns of the rows that `decodable` is asked for. [`Error::Limit`] above [`MOST_COLUMNS`].
    fn columns_of(&self, decodable: &mut dyn Decodable) -> Result<usize> {
        let (dim, most) = (decodable.num_columns()?, MOST_COLUMNS.max(self.decoder.graph().num_columns() as usize));
        if dim > most {
            return Err(Error::Limit(format!("a decodable has {dim} columns; it may have {most}")));
        }
        Ok(dim)
    }

    fn pull(&mut self, decodable: &mut dyn Decodable, max_frames: u64, row: &mut [f32]) -> Result<u64> {
        let mut done = 0;
        while done < max_frames {
            let frame = self.num_frames();
            if frame >= decodable.num_frames_ready()? {
                break;
            }
            self.decoder.graph().check_width(row.len())?;
            // Columns that nothing reads hold what is always allowed.
            row.fill(f32::NEG_INFINITY);
            let lane = self.lane.lane();
            decodable.fill_row(frame, &|needed| lane.mark_columns(needed), row)?;
            let awaited = self.lane.lane().endpoint().is_none();
            self.push(Rows::new(row, 1, row.len(), row.len())?)?;
            done += 1;
            if awaited && self.stops() {
                break;
            }
        }
        Ok(done)
    }

    /// Adds rows that `decodable` has ready to `rows`, at most `most`, and answers whether there were any.
    /// They follow those that were searched.
    pub(super) fn pull_queued(
        &self,
        decodable: &mut dyn Decodable,
        most: usize,
        rows: &mut RowQueue,
        metrics: &Arc<Metrics>,
    ) -> Result<bool> {
        let first = self.num_frames();
        // What the columns of a row depend on has to be searched before.
        let most = if decodable.fills_whole_rows() { most as u64 } else { 1 };
        let count = decodable.num_frames_ready()?.saturating_sub(first).min(most);
        if count == 0 {
            return Ok(false);
        }
        let dim = self.columns_of(decodable)?;
        self.decoder.graph().check_width(dim)?;
        let count = count.min((MOST_COLUMNS / dim.max(1)).max(1) as u64);
        let (since, lane) = (Instant::now(), self.lane.lane());
        for frame in first..first + count {
            rows.append_row(dim, since, metrics, |row| {
                decodable.fill_row(frame, &|needed| lane.mark_columns(needed), row)
            })?;
        }
        Ok(true)
    }

    /// Whether the channel stands at an end point, or has passed one, that stops a push.
    fn stops(&self) -> bool {
        let stops = self.rules.as_ref().is_some_and(|rules| rules.action == EndpointAction::Stop);
        stops && self.lane.lane().endpoint().is_some()
    }

    /// The end point of the utterance, if one was found; with segments, that of the segment that was
    /// closed last.
    pub fn endpoint(&self) -> Result<Option<SegmentEnd>> {
        self.check_begun()?;
        let open = || self.lane.lane().endpoint().map(|endpoint| self.segments.end_at(endpoint));
        Ok(self.segments.last().map(|segment| segment.end).or_else(open))
    }

    /// How many end points were found since begin.
    pub(super) fn num_endpoints(&self) -> u64 {
        self.segments.closed + u64::from(self.lane.lane().endpoint().is_some())
    }

    /// How many segments end points have closed since begin ([`EndpointAction::Segment`]). The open one
    /// has this number; all other questions are about it.
    pub fn num_segments(&self) -> u64 {
        self.segments.closed
    }

    /// Closed segment `number`: [`Error::Argument`] if it is not closed, [`Error::State`] if it is not
    /// kept any more.
    pub fn segment(&self, number: u64) -> Result<&Segment> {
        self.segments.get(number)
    }

    /// No more rows will come. The lattice and best path then stand until the next `begin`.
    pub fn finish(&mut self) -> Result<()> {
        self.check_begun()?;
        self.state = ChannelState::Finished;
        self.decoder.graph().check_whole()
    }

    /// Makes pushes answer [`Error::Cancelled`] until the next `begin`.
    pub fn cancel(&self) {
        self.flags.cancelled.store(true, Ordering::Relaxed);
    }

    /// Frames searched since `begin`, those of closed segments too.
    pub fn num_frames(&self) -> u64 {
        match self.state {
            ChannelState::New => 0,
            _ => self.segments.frames + self.lane.lane().num_frames(),
        }
    }

    /// Whether a token of the last time is final.
    pub fn reached_final(&self) -> Result<bool> {
        self.check_begun()?;
        Ok(self.lane.lane().reached_final())
    }

    /// Cost of the best final token above the best token; `+inf` where none is final.
    pub fn final_relative_cost(&self) -> Result<f32> {
        self.check_begun()?;
        Ok(self.lane.lane().final_relative_cost())
    }

    /// The best path now: to the best final token if `use_final` and one is reached, else to the best token.
    pub fn best_path(&self, use_final: bool) -> Result<Path> {
        self.check_begun()?;
        self.decoder.graph().check_so_far()?;
        self.lane.lane().best_path(use_final).map(|path| self.path_in_time(path))
    }

    /// The best path of [`Channel::best_path`] as a raw lattice, which tells the costs of each arc. It begins
    /// where [`Channel::lattice`] begins.
    pub fn best_lattice(&self, use_final: bool) -> Result<RawLattice> {
        self.check_begun()?;
        self.decoder.graph().check_so_far()?;
        self.lane.lane().best_lattice(use_final)
    }

    /// The best path to the best token, and how many of its words can no longer change. That number
    /// never falls, and those words stay. The work follows the frames since the last call.
    pub fn partial(&self) -> Result<(Path, usize)> {
        self.partial_from(0)
    }

    /// The same without copying what the caller has: the path without its first `from` words and
    /// without the frames before the next one. Its costs are those of the whole path.
    pub fn partial_from(&self, from: usize) -> Result<(Path, usize)> {
        Ok((self.partial_path(from)?, self.stable_words()?))
    }

    /// How many words of the best path to the best token can no longer change. Follows back the best paths to all
    /// tokens.
    pub fn stable_words(&self) -> Result<usize> {
        self.check_begun()?;
        self.decoder.graph().check_so_far()?;
        self.lane.lane().stable_words()
    }

    /// The path alone: cheaper, since it follows back the best path only.
    pub fn partial_path(&self, from: usize) -> Result<Path> {
        self.check_begun()?;
        self.decoder.graph().check_so_far()?;
        self.lane.lane().partial(from).map(|path| self.path_in_time(path))
    }

    /// Makes `known`, which holds what the last such call of the segment has put there or nothing, the words of
    /// [`Channel::partial_path`].
    pub(super) fn tell_words(&self, known: &mut Vec<i32>) -> Result<()> {
        self.check_begun()?;
        self.decoder.graph().check_so_far()?;
        self.lane.lane().tell_words(known)
    }

    /// Whether those words are others than `known`, which the last [`Channel::tell_words`] has left, or none.
    pub(super) fn has_other_words(&self, known: &[i32]) -> Result<bool> {
        self.check_begun()?;
        self.decoder.graph().check_so_far()?;
        self.lane.lane().has_other_words(known)
    }

    /// The raw lattice now; before `finish` it is what `finish` would give if no more rows came.
    pub fn lattice(&mut self, use_final: bool) -> Result<RawLattice> {
        self.check_begun()?;
        self.decoder.graph().check_whole()?;
        self.lane.lane_mut().lattice(use_final)
    }

    /// Bounds memory on endless streams, for this utterance and those that follow: from time to time
    /// what all tokens agree on is committed, and only words, times and costs of it are kept. Lattices,
    /// and the ilabels of paths, then begin behind it ([`Channel::committed_frames`]). Where for
    /// `config.frames` frames there is nothing that all agree on, the best path is committed all the
    /// same, tokens that do not go on from there are dropped, and the stats count it. `None`: nothing
    /// is committed any more. A segment that an end point closes takes with it what was committed of
    /// it and not handed out. Any state. [`Error::Config`] for too few frames.
    pub fn set_commit(&mut self, config: Option<CommitConfig>) -> Result<()> {
        self.lane.lane_mut().set_commit(config)
    }

    /// Frames that have been committed since `begin`: where lattices begin.
    pub fn committed_frames(&self) -> u64 {
        match self.state {
            ChannelState::New => 0,
            _ => self.segments.frames + self.lane.lane().committed_frames() as u64,
        }
    }

    /// The lattice of the oldest committed frames that has not been handed out or dropped; it is
    /// forgotten then. One begins in the token where the one before ends.
    pub fn take_committed(&mut self) -> Result<Option<CommittedLattice>> {
        self.check_begun()?;
        let before = self.segments.frames;
        let oldest = self.lane.lane_mut().take_committed();
        Ok(oldest.map(|oldest| CommittedLattice { first_frame: oldest.first_frame + before, ..oldest }))
    }

    /// Lets the lattice be determinized while the utterance grows, for this one and those that
    /// follow: [`Channel::settle`] and [`Channel::compact_lattice`] then work. Options are those of
    /// [`RawLattice::determinize`]; [`Error::Config`] where `word_determinize` is not set, or
    /// `acoustic_scale` is not the decoder's. Any state.
    pub fn set_determinize(&mut self, transitions: Option<Arc<Transitions>>, config: &DeterminizeConfig) -> Result<()> {
        self.growing = Some(Box::new(Growing::new(transitions, config, &self.decoder.config().search)?));
        Ok(())
    }

    /// What [`Channel::set_determinize`] was last given.
    pub fn determinize_config(&self) -> Option<&DeterminizeConfig> {
        self.growing.as_ref().map(|growing| &growing.config)
    }

    fn growing(&mut self) -> Result<(&mut Growing, &mut dyn LaneChannel)> {
        self.check_begun()?;
        match &mut self.growing {
            Some(growing) => Ok((&mut **growing, self.lane.lane_mut())),
            None => Err(Error::State("no determinization has been set".into())),
        }
    }

    /// Determinizes what has become certain since the last call. To be called from time to time,
    /// so that little is left for [`Channel::compact_lattice`]: every second of speech, say. Where rows are queued
    /// ([`super::SharedChannel`]) that is done as they are searched.
    pub fn settle(&mut self) -> Result<()> {
        let (growing, lane) = self.growing()?;
        growing.settle(lane, usize::MAX)
    }

    /// The same behind a search of `frames`, if a determinization has been set: what that has made certain, and a
    /// little of what had been left. An error is not one of the search: what it has lost is done again later.
    pub(super) fn settle_behind(&mut self, frames: usize) {
        if let Some(growing) = &mut self.growing
            && let Err(error) = growing.settle(self.lane.lane(), 1 + frames / Growing::CATCHES_UP)
        {
            log::warn!("the lattice of a turn is not determinized: {}", error.chain());
        }
    }

    /// The compact lattice now: the lattice of [`Channel::lattice`], determinized. What was
    /// settled is not determinized again, so the time does not grow with the utterance (but
    /// for the time to copy the result). Before `finish` too.
    pub fn compact_lattice(&mut self, use_final: bool) -> Result<Determinized> {
        let (growing, lane) = self.growing()?;
        let mut found = growing.lattice(lane, use_final)?;
        let lane = self.lane.lane();
        let frames = lane.num_frames().saturating_sub(lane.committed_frames() as u64);
        found.lattice.num_frames = frames.min(u64::from(u32::MAX)) as u32;
        Ok(found)
    }

    /// Frames of the utterance (or of its open segment) whose lattice has been determinized, those committed
    /// included.
    pub fn settled_frames(&self) -> u64 {
        self.growing.as_ref().map_or(0, |growing| growing.settled_frames())
    }

    /// Links of the lattice that the last call of [`Channel::compact_lattice`] determinized.
    pub fn links_of_last_call(&self) -> usize {
        self.growing.as_ref().map_or(0, |growing| growing.links_of_last_call())
    }

    /// Counts since `begin`, those of closed segments too.
    pub fn stats(&self) -> Result<SearchStats> {
        self.check_begun()?;
        Ok(self.segments.stats_with(&self.lane.lane().stats()))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.flags.leave(&self.decoder);
    }
}
