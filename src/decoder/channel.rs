//! A channel: one utterance after another, from rows to words and lattices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cuda::DeviceRows;
use crate::error::{Error, Result};
use crate::lattice::Lattice;
use crate::search::{CommitConfig, EndpointAction, EndpointRules, LaneWork, Phrase, Phrases, Rows, SearchStats};

use super::Decoder;
use super::backend::BackendChannel;
use super::growing::Growing;
use super::segments::{Segment, SegmentEnd, Segments};

mod pull;
mod results;

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
