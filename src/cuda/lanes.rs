//! Lanes on a GPU: batches of channels, chunk after chunk, through one workspace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rayon::prelude::*;

use super::channel::CudaChannel;
use super::context::Context;
use super::handed::Launch;
use super::layout::{FrameReport, LaneReport, Plan, status};
use super::phrases::{DevicePhrases, Lists};
use super::staging::{Fetched, Progress, Staging};
use super::workspace::{DeviceRows, StageSeconds, Workspace};
use crate::error::{Error, Result, try_reserve};
use crate::float_env::FloatEnv;
use crate::graph::Graph;
use crate::quiet::Quiet;
use crate::search::{
    ChannelState, Holds, LaneWork, Lanes, Phrases, Room, Rows, SearchConfig, TimeSearch, first_unusable, scale_row,
};

/// What all channels of a decoder share.
pub(super) struct Shared {
    pub graph: Arc<Graph>,
    /// The options, with all capacities of utterances without phrases; and as they were asked for.
    pub config: SearchConfig,
    asked: SearchConfig,
    /// Time 0 without phrases, or how it failed.
    first: (LaneReport, Vec<FrameReport>, Vec<u32>),
    device: Device,
    /// Searches times that outgrow a lane, and how many it has searched.
    host: Box<dyn TimeSearch>,
    on_host: AtomicU64,
    rooms: Mutex<Vec<Rooms>>,
}

/// Working space of the host's part.
#[derive(Default)]
pub(super) struct Rooms {
    pub room: Room,
    /// For the checks of what is handed over.
    reached: Vec<bool>,
}

/// What lanes work with.
struct Device {
    context: Arc<Context>,
    num_lanes: u32,
    /// The device's part: who launches has it from the copy in to the last copy out. Locked after staging memory.
    workspace: Mutex<Workspace>,
    /// For batches, and for single channels, which so need not wait for a batch or for each other while the host
    /// does its part: scaling rows, taking in what came back. Who takes all of it takes it in this order.
    batches: Mutex<Staging>,
    singles: [Mutex<Staging>; 2],
    staging_bytes: AtomicU64,
    /// States that the memory for phrases is large enough for; 0 where there is none.
    bias_states: AtomicU32,
    lists: Lists,
}

impl Device {
    /// Staging memory for a batch of so many items.
    fn staging(&self, items: usize) -> MutexGuard<'_, Staging> {
        if items != 1 {
            return self.batches.lock();
        }
        let [one, other] = &self.singles;
        one.try_lock().unwrap_or_else(|| other.lock())
    }

    /// Takes the memory that lanes with lists of up to `states` states need, if it is not there. On an error nothing
    /// has changed.
    fn make_room(&self, graph: &Graph, asked: &SearchConfig, states: u32) -> Result<()> {
        if self.bias_states.load(Ordering::Acquire) >= states {
            return Ok(());
        }
        let [one, other] = &self.singles;
        let (mut batches, mut one, mut other) = (self.batches.lock(), one.lock(), other.lock());
        let mut workspace = self.workspace.lock();
        if self.bias_states.load(Ordering::Acquire) >= states {
            return Ok(());
        }
        let plan = Plan::biased(graph, asked, self.num_lanes, states)?;
        let enlarged = workspace.enlarged(&plan)?;
        let staging = |lanes| enlarged.staging(&workspace, lanes);
        let made = (staging(self.num_lanes)?, staging(1)?, staging(1)?);
        let bytes = made.0.memory() + made.1.memory() + made.2.memory();
        self.staging_bytes.store(bytes, Ordering::Relaxed);
        (*batches, *one, *other) = made;
        workspace.enlarge(enlarged);
        self.bias_states.store(plan.bias_states, Ordering::Release);
        Ok(())
    }

    fn memory(&self) -> u64 {
        let staging = self.staging_bytes.load(Ordering::Relaxed);
        staging + self.workspace.lock().memory() + self.lists.memory()
    }
}

/// What an utterance with phrases has on the device, and the options that hold for it.
pub(super) struct Biased {
    pub list: Arc<DevicePhrases>,
    pub config: SearchConfig,
}

impl std::fmt::Debug for Biased {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Biased")
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    /// Report and output of time 0; `None` where it outgrew a lane.
    pub fn time_0(&self) -> Result<Option<(&FrameReport, &[u32])>> {
        let (report, frames, words) = &self.first;
        match frames.first() {
            Some(frame) => Ok(Some((frame, words))),
            None if report.status == status::WORKSPACE => Ok(None),
            None => Err(self.failure(&self.config, report, 0, None)),
        }
    }

    /// Searches a time on the host that outgrows a lane.
    pub fn search_on_host(&self, config: &SearchConfig, channel: ChannelState<'_>, row: Option<&[f32]>) -> Result<()> {
        self.on_host.fetch_add(1, Ordering::Relaxed);
        log::debug!("frame {} outgrows a lane of the GPU: it is searched on the host", channel.stats.frames);
        self.host.search_time(config, channel, row)
    }

    /// Searches time 0 with phrases: on the host, so that nobody waits for a launch under way.
    pub fn search_biased_time_0(&self, config: &SearchConfig, channel: ChannelState<'_>) -> Result<()> {
        self.host.search_time(config, channel, None)
    }

    /// Brings `phrases` to the device, for an utterance whose lists so far have up to `states` states.
    pub fn biased(&self, phrases: &Arc<Phrases>, states: u32) -> Result<Biased> {
        let states = states.max(phrases.num_states());
        let _entered = self.device.context.enter()?;
        self.device.make_room(&self.graph, &self.asked, states)?;
        let list = self.device.lists.get(&self.device.context, phrases)?;
        let plan = Plan::biased(&self.graph, &self.asked, self.device.num_lanes, states)?;
        Ok(Biased { list, config: plan.capacities(self.asked) })
    }

    /// Lends working space.
    pub fn with_room<T>(&self, body: impl FnOnce(&mut Rooms) -> T) -> T {
        let mut room = self.rooms.lock().pop().unwrap_or_default();
        let made = body(&mut room);
        let mut rooms = self.rooms.lock();
        if try_reserve(&mut rooms, 1, "working space").is_ok() {
            rooms.push(room);
        }
        made
    }

    /// Why a lane stopped before `frame`, whose row this is.
    fn failure(&self, config: &SearchConfig, report: &LaneReport, frame: u64, row: Option<&[f32]>) -> Error {
        match (report.status, report.detail) {
            (status::NO_TOKENS, _) => Error::NoTokens { frame },
            (status::OVERFLOW, arc) => self.overflow(arc, row.unwrap_or(&[]), frame),
            (status::CAPACITY, 0) => Error::Capacity { frame, what: "candidates", capacity: config.candidate_capacity },
            (status::CAPACITY, 1) => Error::Capacity { frame, what: "tokens", capacity: config.token_capacity },
            (status::CAPACITY, _) => Error::Capacity { frame, what: "links", capacity: config.link_capacity },
            (status::RANGE, _) => Error::Limit(format!("frame {frame}: costs fall below the range of 32-bit floats")),
            (other, _) => Error::Device(format!("frame {frame}: a lane ended with status {other}")),
        }
    }

    /// Names the frame and column of a candidate that fell to `-inf`.
    fn overflow(&self, arc: u32, row: &[f32], frame: u64) -> Error {
        let scaled = |ll: f32| if ll == f32::NEG_INFINITY { f32::INFINITY } else { -(self.config.acoustic_scale * ll) };
        let least = row.iter().map(|&ll| scaled(ll)).fold(f32::INFINITY, f32::min);
        let column = row.iter().position(|&ll| scaled(ll) == least).unwrap_or(0);
        let ilabel = self.graph.source_of(arc).map_or(0, |state| self.graph.ilabel(state, arc));
        Error::Scores { frame, column, value: row.get(column).copied().unwrap_or(f32::NAN) }
            .context(format!("an arc with ilabel {ilabel} takes its token's cost below the range of 32-bit floats"))
    }
}

/// The GPU backend.
pub struct CudaLanes {
    shared: Arc<Shared>,
    /// None with one thread: the host's part of a batch then runs on the caller's.
    pool: Option<rayon::ThreadPool>,
}

impl std::fmt::Debug for CudaLanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CudaLanes on GPU {}", self.device().context.device)
    }
}

impl CudaLanes {
    /// `num_lanes` channels are advanced at once on GPU `device`, from 0. All device memory is
    /// taken here; [`Error::NoMemory`] says how much was asked for and how much is free. The host's
    /// part of a batch, scaling rows and taking in what survives, is spread over `num_threads` threads.
    /// `host` makes what searches times whose closure outgrows the memory of a lane: under the options that it is
    /// given, in which no capacity is left open, on up to `num_threads` threads at once.
    pub fn new(
        graph: Arc<Graph>,
        config: SearchConfig,
        device: u32,
        num_lanes: u32,
        num_threads: usize,
        host: impl FnOnce(SearchConfig) -> Result<Box<dyn TimeSearch>>,
    ) -> Result<CudaLanes> {
        config.check()?;
        let asked = config;
        let config = Plan::new(&graph, &config, num_lanes)?.capacities(config);
        let host = host(config)?;
        let pool = threads(num_threads)?;
        let context = Context::new(device)?;
        let entered = context.enter()?;
        let num_lanes = num_lanes.max(1);
        let mut workspace = Workspace::new(&context, &graph, &config, num_lanes)?;
        let (mut batches, singles) = (workspace.staging(num_lanes)?, [workspace.staging(1)?, workspace.staging(1)?]);
        let first = search_time_0(&graph, &config, &mut workspace, &mut batches)?;
        drop(entered);
        let staging_bytes = AtomicU64::new(batches.memory() + singles.iter().map(Staging::memory).sum::<u64>());
        let (workspace, batches, singles) = (Mutex::new(workspace), Mutex::new(batches), singles.map(Mutex::new));
        let (bias_states, lists) = (AtomicU32::new(0), Lists::new());
        let device = Device { context, num_lanes, workspace, batches, singles, staging_bytes, bias_states, lists };
        let (on_host, rooms) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        let shared = Arc::new(Shared { graph, config, asked, first, device, host, on_host, rooms });
        Ok(CudaLanes { shared, pool })
    }

    fn device(&self) -> &Device {
        &self.shared.device
    }

    /// Bytes of device memory that a decoder with `num_lanes` lanes takes, without the graph, which
    /// takes as much as its [`Graph::words`] once a device.
    pub fn device_bytes(graph: &Graph, config: &SearchConfig, num_lanes: u32) -> Result<u64> {
        Ok(Plan::new(graph, config, num_lanes)?.device_bytes())
    }

    /// The same once an utterance has had phrases whose automaton has `states` states, without the output labels of the
    /// graph and the phrases themselves.
    pub fn biased_device_bytes(graph: &Graph, config: &SearchConfig, num_lanes: u32, states: u32) -> Result<u64> {
        Ok(Plan::biased(graph, config, num_lanes, states)?.device_bytes())
    }

    /// Bytes of working space: device memory, phrases there too, and page-locked memory of the host.
    pub fn memory(&self) -> u64 {
        self.device().memory()
    }

    /// Seconds that the launches so far took, by the device's clock.
    pub fn stage_seconds(&self) -> StageSeconds {
        let on_host = self.shared.on_host.load(Ordering::Relaxed);
        StageSeconds { on_host, ..self.device().workspace.lock().seconds }
    }

    /// Advances one channel by rows in device memory, behind the work of their stream.
    ///
    /// # Safety
    /// The rows are there, in memory that the decoder's GPU can read, until the call returns, and
    /// the stream is a live one of the device's primary context or 0.
    pub unsafe fn push_device(
        &self,
        channel: &mut CudaChannel,
        rows: DeviceRows,
        cancelled: &AtomicBool,
    ) -> Result<()> {
        let _env = FloatEnv::enter();
        let _entered = self.device().context.enter()?;
        self.device().context.check_rows(rows.at, rows.frames, rows.dim, rows.stride)?;
        let mut staging = self.device().staging(1);
        let mut workspace = self.device().workspace.lock();
        if rows.frames > 0 {
            self.shared.graph.check_width(rows.dim)?;
        }
        let mut rows = rows;
        let mut stops = channel.history.look_for_endpoint(&self.shared.graph)?;
        while rows.frames > 0 && !stops {
            let frames = self.may_advance(channel, cancelled)?.min(rows.frames);
            let taken = workspace.take_rows(&DeviceRows { frames, ..rows })?;
            if let (0, Some((column, value))) = (taken.frames, taken.bad) {
                return Err(Error::Scores { frame: channel.stats.frames, column, value });
            }
            staging.start();
            staging.stage_taken(&channel.emitting_next(), taken.frames)?;
            channel.stats.seconds += workspace.launch(&mut staging)?;
            workspace.fetch(&mut staging, 0)?;
            let before = channel.stats.frames;
            stops = self.take_lane(&staging.fetched(0, workspace.taken()), 0, channel, None)?;
            rows = rows.behind((channel.stats.frames - before) as usize);
        }
        Ok(())
    }

    /// How many frames the channel may do now.
    fn may_advance(&self, channel: &mut CudaChannel, cancelled: &AtomicBool) -> Result<usize> {
        if cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let most = self.shared.config.max_frames;
        let left = most.saturating_sub(channel.stats.frames);
        if left == 0 {
            return Err(Error::Limit(format!("the utterance has reached max_frames, {most}")));
        }
        channel.check_memory()?;
        let most = self.shared.with_room(|Rooms { room, .. }| channel.prepare(room))?;
        // A launch hands over what its last time needs of the times before: where every frame is looked
        // at for an end point, it has one.
        let most = if channel.history.awaits_endpoint() { 1 } else { most };
        Ok(usize::try_from(left).map_or(most, |left| left.min(most)))
    }

    /// Makes an item part of the launch that is staged, if it has rows left and may go on.
    fn reserve<H: Holds<CudaChannel>>(
        &self,
        staging: &mut Staging,
        work: &mut LaneWork<'_, H>,
        progress: &mut Progress,
    ) -> Result<Option<(usize, usize)>> {
        let rest = work.rows.slice(progress.done, usize::MAX);
        if rest.frames() == 0 || progress.stopped {
            return Ok(None);
        }
        let Some(channel) = work.channel.held() else { return Ok(None) };
        // Is done already, unless memory ran out in the middle of it.
        progress.stopped = channel.history.look_for_endpoint(&self.shared.graph)?;
        if progress.stopped {
            return Ok(None);
        }
        self.shared.graph.check_width(rest.dim())?;
        let most = self.may_advance(channel, work.cancelled)?.min(rest.frames());
        staging.reserve(&channel.emitting_next(), most).map(Some)
    }

    /// Scales rows into their places, up to the first bad one; that one is an error only when it is
    /// the first, so that what comes before it is searched. Gives how many are good.
    fn scale(&self, rows: Rows<'_>, first: u64, columns: usize, places: &mut [f32]) -> Result<usize> {
        let scale = self.shared.config.acoustic_scale;
        for (at, costs) in places.chunks_exact_mut(columns).enumerate() {
            let (row, frame) = (rows.row(at), first + at as u64);
            let (read, others) = row.split_at(columns.min(row.len()));
            let scaled = scale_row(read, scale, frame, costs).and_then(|()| {
                first_unusable(others, scale).map_or(Ok(()), |column| {
                    let value = others.get(column).copied().unwrap_or(f32::NAN);
                    Err(Error::Scores { frame, column: columns + column, value })
                })
            });
            if let Err(error) = scaled {
                return if at == 0 { Err(error) } else { Ok(at) };
            }
        }
        Ok(places.len() / columns)
    }

    /// Takes what a lane has done into its channel, and gives whether an end point stops it there. The
    /// rows are those of the host, or else those taken from the device.
    fn take_lane(
        &self,
        fetched: &Fetched<'_>,
        lane: usize,
        channel: &mut CudaChannel,
        rows: Option<Rows<'_>>,
    ) -> Result<bool> {
        let (report, frames, words) = fetched.lane(lane)?;
        let columns = fetched.columns;
        let row = |at: usize| match rows {
            Some(rows) if at < rows.frames() => rows.row(at),
            Some(_) => &[],
            None => fetched.taken.get(at * columns..(at + 1) * columns).unwrap_or(&[]),
        };
        // Those columns that the graph reads.
        let read = |at: usize| row(at).get(..columns).unwrap_or(row(at));
        self.shared.with_room(|Rooms { room, reached }| {
            channel.check(frames, words, read, reached)?;
            channel.take(frames, words, |at| Some(read(at)))?;
            channel.prune(room);
            Ok(())
        })?;
        let stops = channel.history.look_for_endpoint(&self.shared.graph)?;
        let next = row(frames.len());
        match report.status {
            status::DONE => Ok(stops),
            status::OUTPUT_FULL if !frames.is_empty() => Ok(stops),
            status::WORKSPACE if stops => Ok(stops),
            status::WORKSPACE => {
                channel.search_on_host(Some(read(frames.len())))?;
                channel.history.look_for_endpoint(&self.shared.graph)
            }
            _ => Err(self.shared.failure(channel.config(), &report, channel.stats.frames, Some(next))),
        }
    }

    /// Runs `body` on each item that has a lane, on the decoder's threads.
    fn each<H: Holds<CudaChannel>>(
        &self,
        batch: &mut [LaneWork<'_, H>],
        progress: &mut [Progress],
        body: impl Fn(&mut CudaChannel, Rows<'_>, usize, &mut Progress) -> Result<()> + Sync,
    ) {
        let one = |work: &mut LaneWork<'_, H>, progress: &mut Progress| {
            let _env = FloatEnv::enter();
            let rest = work.rows.slice(progress.done, usize::MAX);
            if let (Some(lane), Ok(()), Some(channel)) = (progress.lane, &work.result, work.channel.held()) {
                work.result = body(channel, rest, lane, progress);
            }
        };
        match &self.pool {
            Some(pool) if batch.len() > 1 => pool.install(|| {
                let items = batch.par_iter_mut().zip(progress.par_iter_mut());
                items.for_each(|(work, progress)| one(work, progress));
            }),
            _ => batch.iter_mut().zip(progress).for_each(|(work, progress)| one(work, progress)),
        }
    }

    fn advance_all<H: Holds<CudaChannel>>(
        &self,
        staging: &mut Staging,
        batch: &mut [LaneWork<'_, H>],
        progress: &mut [Progress],
    ) -> Result<()> {
        loop {
            staging.start();
            for (work, progress) in batch.iter_mut().zip(&mut *progress) {
                progress.lane = None;
                if work.result.is_err() || !staging.has_lane() {
                    continue;
                }
                match self.reserve(staging, work, progress) {
                    Ok(reserved) => progress.lane = reserved.map(|(lane, _)| lane),
                    Err(error) => work.result = Err(error),
                }
            }
            if staging.num_staged() == 0 {
                return Ok(());
            }
            let columns = staging.plan.columns;
            let places = staging.places();
            self.each(batch, progress, |channel, rest, lane, progress| {
                // SAFETY: each item has a lane of its own.
                let (emitters, rows) = unsafe { (places.emitters(lane), places.rows(lane)) };
                channel.emitting_next().write(emitters);
                progress.rows = 0;
                progress.rows = self.scale(rest, channel.stats.frames, columns, rows)?;
                Ok(())
            });
            for progress in &*progress {
                if let Some(lane) = progress.lane {
                    staging.set_frames(lane, progress.rows);
                }
            }
            self.launch_and_take(staging, batch, progress)?;
        }
    }

    /// Launches what is staged, and takes in what it brings. When all of it is on the host, others may launch.
    fn launch_and_take<H: Holds<CudaChannel>>(
        &self,
        staging: &mut Staging,
        batch: &mut [LaneWork<'_, H>],
        progress: &mut [Progress],
    ) -> Result<()> {
        let mut workspace = Some(self.device().workspace.lock());
        let (mut first, mut seconds) = (0, 0.0);
        while let Some(device) = &mut workspace {
            if first == 0 {
                seconds = device.launch(staging)?;
            }
            let end = device.fetch(staging, first)?;
            if end == staging.num_staged() {
                workspace = None;
            }
            let fetched = staging.fetched(first, &[]);
            self.each(batch, progress, |channel, rest, lane, progress| {
                if !(first..end).contains(&lane) {
                    return Ok(());
                }
                channel.stats.seconds += seconds;
                let before = channel.stats.frames;
                let outcome = self.take_lane(&fetched, lane, channel, Some(rest));
                progress.done += (channel.stats.frames - before) as usize;
                progress.stopped = outcome?;
                Ok(())
            });
            first = end;
        }
        Ok(())
    }
}

/// A pool of threads, where there is to be more than one.
fn threads(count: usize) -> Result<Option<rayon::ThreadPool>> {
    if count < 2 {
        return Ok(None);
    }
    let built = rayon::ThreadPoolBuilder::new()
        .num_threads(count)
        .thread_name(|at| format!("koshi-cuda-{at}"))
        .start_handler(|_| Quiet::whole_thread())
        .build();
    built.map(Some).map_err(|error| Error::Io {
        what: format!("starting {count} threads"),
        source: std::io::Error::other(error.to_string()),
    })
}

/// Time 0 depends on the graph and the options alone.
fn search_time_0(
    graph: &Graph,
    config: &SearchConfig,
    workspace: &mut Workspace,
    staging: &mut Staging,
) -> Result<(LaneReport, Vec<FrameReport>, Vec<u32>)> {
    staging.start();
    staging.stage_begin()?;
    workspace.launch(staging)?;
    workspace.fetch(staging, 0)?;
    let (report, frames, words) = staging.fetched(0, &[]).lane(0)?;
    Launch { graph, config, reports: frames, words, frames: 0 }.check(None, |_| &[], &mut Vec::new())?;
    let (mut kept_frames, mut kept_words) = (Vec::new(), Vec::new());
    try_reserve(&mut kept_frames, frames.len(), "time 0")?;
    try_reserve(&mut kept_words, words.len(), "time 0")?;
    kept_frames.extend_from_slice(frames);
    kept_words.extend_from_slice(words);
    Ok((report, kept_frames, kept_words))
}

impl Lanes for CudaLanes {
    type Channel = CudaChannel;

    fn new_channel(&self) -> Result<CudaChannel> {
        Ok(CudaChannel::new(Arc::clone(&self.shared)))
    }

    /// A failure of the device, or of an allocation for all, fails all items that are not done; their channels hold what
    /// was searched before.
    fn advance<H: Holds<CudaChannel>>(&self, batch: &mut [LaneWork<'_, H>]) {
        let mut staging = self.device().staging(batch.len());
        let mut progress = std::mem::take(&mut staging.progress);
        progress.clear();
        let outcome = try_reserve(&mut progress, batch.len(), "batch").and_then(|()| {
            progress.resize(batch.len(), Progress::default());
            let _entered = self.device().context.enter()?;
            self.advance_all(&mut staging, batch, &mut progress)
        });
        for (work, progress) in batch.iter_mut().zip(&progress) {
            work.done = progress.done;
        }
        if let Err(error) = outcome {
            for (at, work) in batch.iter_mut().enumerate() {
                let stopped = progress.get(at).is_some_and(|progress| progress.stopped);
                let left = work.done < work.rows.frames() && !stopped && work.channel.held().is_some();
                if work.result.is_ok() && left {
                    work.result = Err(error.repeat());
                }
            }
        }
        staging.progress = progress;
    }
}
