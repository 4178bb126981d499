//! The thread of a decoder that searches queued rows: it takes the channels that have waited longest, as many
//! as there are lanes, a chunk of rows from each, searches them as one batch, and tells their listeners.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLockWriteGuard};

use crate::error::{Error, Result, try_reserve};
use crate::exclusive::Use;
use crate::float_env::FloatEnv;
use crate::quiet::Quiet;
use crate::search::LaneWork;

use super::backend::BackendChannel;
use super::channel::Channel;
use super::config::DecoderConfig;
use super::listener::Noticed;
use super::metrics::Metrics;
use super::queue::{Claim, Pending};
use super::ready::Ready;
use super::row_queue::RowQueue;
use super::shared::SharedChannel;

type ReadyChannels = Ready<Arc<SharedChannel>>;

thread_local! {
    /// The list that this thread serves, if it is a scheduler's.
    static SERVED: Cell<*const ReadyChannels> = const { Cell::new(std::ptr::null()) };
}

/// The scheduler of a decoder. Its thread begins with the first channel that needs it.
pub(super) struct Scheduler {
    ready: Arc<ReadyChannels>,
    pub metrics: Arc<Metrics>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}

impl Scheduler {
    pub fn new() -> Result<Scheduler> {
        Ok(Scheduler { ready: Arc::default(), metrics: Arc::new(Metrics::new()?), thread: Mutex::new(None) })
    }

    /// A seat for one channel more, and the thread, if there is none yet.
    pub fn seat(&self, config: &DecoderConfig) -> Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            *thread = Some(start(Arc::clone(&self.ready), Arc::clone(&self.metrics), *config)?);
        }
        if self.ready.add_seat() {
            return Ok(());
        }
        Err(Error::NoMemory { what: "the list of ready channels".into(), asked: size_of::<usize>() as u64 })
    }

    pub fn unseat(&self) {
        self.ready.remove_seat();
    }

    pub fn put(&self, channel: Arc<SharedChannel>, in_front: bool) {
        self.ready.put(channel, in_front);
    }

    pub fn remove(&self, channel: *const SharedChannel) {
        self.ready.remove(|ready| Arc::as_ptr(ready) == channel);
    }

    /// Whether this is the scheduler's own thread, which must not wait for itself.
    pub fn is_this_thread(&self) -> bool {
        SERVED.get() == Arc::as_ptr(&self.ready)
    }
}

impl Drop for Scheduler {
    /// No channel is left. Where the last one has gone by the thread's own hand, it ends by itself.
    fn drop(&mut self) {
        self.ready.stop();
        if let Some(thread) = self.thread.get_mut().take()
            && !self.is_this_thread()
        {
            let _ = thread.join();
        }
    }
}

/// Starts the thread, and waits until it has the memory that its batches need.
fn start(ready: Arc<ReadyChannels>, metrics: Arc<Metrics>, config: DecoderConfig) -> Result<JoinHandle<()>> {
    let (report, started) = mpsc::sync_channel(1);
    let body = move || {
        let (round, outcome) =
            Round::new(&config).map_or_else(|error| (None, Err(error)), |round| (Some(round), Ok(())));
        let _ = report.send(outcome);
        if let Some(round) = round {
            serve(&ready, &metrics, round);
        }
    };
    let thread = Builder::new().name("koshi-scheduler".into()).spawn(body);
    let thread = thread.map_err(|error| Error::io("starting the scheduler's thread", error))?;
    started.recv().unwrap_or_else(|_| Err(Error::Internal("the scheduler's thread has ended".into())))?;
    Ok(thread)
}

fn serve(ready: &Arc<ReadyChannels>, metrics: &Arc<Metrics>, mut round: Round) {
    SERVED.set(Arc::as_ptr(ready));
    Quiet::whole_thread();
    let _env = FloatEnv::enter();
    while ready.take(round.lanes, round.patience, &mut round.channels) {
        round.run(metrics);
    }
}

/// What a channel does in a round.
struct Work {
    claim: Claim<RowQueue>,
    /// Whether it is in the batch.
    batched: bool,
    /// Rows of it in the batch.
    frames: usize,
    /// End points that were found before.
    endpoints: u64,
    /// Whether its source may have more.
    more: bool,
    /// Whether it was finished, or why the utterance stops here.
    outcome: Result<bool>,
    noticed: Noticed,
}

type Guard<'a> = Use<'a, RwLockWriteGuard<'a, Box<Channel>>>;

/// A batch, and the memory that batches use one after the other.
struct Round {
    lanes: usize,
    chunk: usize,
    patience: Duration,
    channels: Vec<Arc<SharedChannel>>,
    works: Vec<Work>,
    guards: Vec<Option<Guard<'static>>>,
    batch: Vec<LaneWork<'static, BackendChannel>>,
    /// Rows that were searched of each item, and what became of it.
    results: Vec<(usize, Result<()>)>,
}

/// An empty vector in the memory of `used`, for elements that borrow something else.
fn emptied<T, U>(mut used: Vec<T>) -> Vec<U> {
    used.clear();
    used.into_iter().map(|_| unreachable!("it is empty")).collect()
}

impl Round {
    fn new(config: &DecoderConfig) -> Result<Round> {
        let lanes = config.num_lanes as usize;
        let mut round = Round {
            lanes,
            chunk: config.chunk_frames as usize,
            patience: Duration::from_secs_f64(config.max_batch_wait),
            channels: Vec::new(),
            works: Vec::new(),
            guards: Vec::new(),
            batch: Vec::new(),
            results: Vec::new(),
        };
        try_reserve(&mut round.channels, lanes, "batches")?;
        try_reserve(&mut round.works, lanes, "batches")?;
        try_reserve(&mut round.guards, lanes, "batches")?;
        try_reserve(&mut round.batch, lanes, "batches")?;
        try_reserve(&mut round.results, lanes, "batches")?;
        Ok(round)
    }

    fn run(&mut self, metrics: &Arc<Metrics>) {
        let Round { channels, works, .. } = self;
        channels.retain(|channel| {
            let claim = channel.queue.claim();
            let claimed = claim.is_some();
            works.extend(claim.map(Work::new));
            claimed
        });
        self.search_all(metrics);
        for (channel, work) in self.channels.iter().zip(&mut self.works) {
            let outcome = std::mem::replace(&mut work.outcome, Ok(false)).map_err(Arc::new);
            let rows = std::mem::take(&mut work.claim.rows);
            if !matches!(outcome, Ok(false)) {
                channel.detach();
            }
            channel.queue.searched(rows, work.more, outcome, channel.has_listener());
        }
        for (channel, work) in self.channels.iter().zip(self.works.drain(..)) {
            channel.tell(work.claim.utterance, work.noticed);
            channel.wake(channel.queue.release());
        }
        self.channels.clear();
    }

    /// Searches what was claimed. A panic fails all of it, and leaves the channels unusable.
    fn search_all(&mut self, metrics: &Arc<Metrics>) {
        let quiet = Quiet::enter();
        if catch_unwind(AssertUnwindSafe(|| self.search(metrics))).is_err() {
            let place = quiet.take_place().unwrap_or_else(|| "a worker thread".into());
            for work in &mut self.works {
                work.outcome = Err(Error::Internal(format!("a search panicked, at {place}")));
            }
        }
    }

    fn search(&mut self, metrics: &Arc<Metrics>) {
        let Some(first) = self.channels.first() else { return };
        let since = Instant::now();
        let mut guards: Vec<Option<Guard<'_>>> = emptied(std::mem::take(&mut self.guards));
        for (channel, work) in self.channels.iter().zip(&mut self.works) {
            guards.push(work.prepare(channel, self.chunk, metrics));
        }
        let mut batch = emptied(std::mem::take(&mut self.batch));
        for (guard, work) in guards.iter_mut().zip(&self.works) {
            if let Some(channel) = guard.as_mut().filter(|_| work.batched) {
                batch.push(channel.work(work.claim.rows.chunk(work.frames)));
            }
        }
        let items = batch.len();
        first.decoder().backend.advance(&mut batch);
        self.results.extend(batch.drain(..).map(|work| (work.done, work.result)));
        self.batch = emptied(batch);
        let (now, mut frames) = (Instant::now(), 0);
        let mut results = self.results.drain(..);
        for ((channel, work), guard) in self.channels.iter().zip(&mut self.works).zip(&mut guards) {
            let result = if work.batched { results.next() } else { None };
            if let Some(guard) = guard {
                let (done, result) = result.unwrap_or((0, Ok(())));
                work.settle(channel, guard, (done, result), now, metrics);
                frames += done as u64;
            }
        }
        drop(results);
        self.guards = emptied(guards);
        if items > 0 {
            metrics.batch(items as u64, frames, since.elapsed());
        }
    }
}

impl Work {
    fn new(claim: Claim<RowQueue>) -> Work {
        Work {
            claim,
            batched: false,
            frames: 0,
            endpoints: 0,
            more: false,
            outcome: Ok(false),
            noticed: Noticed::default(),
        }
    }

    /// Takes the channel, pulls rows if it has a source and no rows, and says whether it goes into the batch.
    fn prepare<'a>(&mut self, shared: &'a SharedChannel, chunk: usize, metrics: &Arc<Metrics>) -> Option<Guard<'a>> {
        let mut channel = match shared.channel.write() {
            Ok(channel) => channel,
            Err(error) => {
                self.outcome = Err(error);
                return None;
            }
        };
        self.endpoints = channel.num_endpoints();
        if let Err(error) = channel.prepare() {
            self.outcome = Err(error);
            return Some(channel);
        }
        if self.claim.pull
            && let Some(source) = shared.source()
        {
            let rows = &mut self.claim.rows;
            let pulled = source.with(&mut |decodable| {
                self.more = channel.pull_queued(decodable, chunk, rows, metrics)?;
                Ok(())
            });
            // Rows in front of a failure are searched all the same.
            self.outcome = pulled.map(|()| false);
        }
        self.frames = self.claim.rows.chunk(chunk).frames();
        self.batched = self.frames > 0;
        Some(channel)
    }

    /// What the search of its rows means for the channel. Rows behind an end point that has stopped it
    /// are left for its next turn, when the listener knows of that.
    fn settle(
        &mut self,
        shared: &SharedChannel,
        channel: &mut Channel,
        (done, result): (usize, Result<()>),
        now: Instant,
        metrics: &Metrics,
    ) {
        let concluded = channel.conclude(result);
        self.claim.rows.consume(done, now, |latency| metrics.latency(latency));
        if done > 0 {
            // Also of what came before a failure, so that it does not depend on where the chunks are cut.
            let endpoint = channel.num_endpoints() > self.endpoints;
            self.noticed = Noticed { partial: shared.has_new_words(channel), endpoint };
        }
        if let Err(error) = concluded {
            self.outcome = Err(error);
            return;
        }
        if self.outcome.is_err() && self.batched && self.claim.rows.frames() > 0 {
            // An end point has left rows that were pulled in front of a failure: they come first, then the
            // source is asked again.
            (self.outcome, self.more) = (Ok(false), true);
        }
        let last = self.claim.rows.frames() == 0 && shared.queue.ends(self.more);
        if self.outcome.is_ok() && last {
            self.outcome = channel.finish().map(|()| true);
        }
    }
}
