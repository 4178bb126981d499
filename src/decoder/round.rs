//! Searches queued rows: a thread takes the channels that have waited longest, as many as its batches hold, a chunk of
//! rows from each, searches them, and notices what their listeners are to be told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLockWriteGuard;

use crate::error::{Error, Result, try_reserve};
use crate::exclusive::Use;
use crate::quiet::Quiet;
use crate::search::LaneWork;

use super::backend::BackendChannel;
use super::channel::Channel;
use super::config::DecoderConfig;
use super::metrics::Metrics;
use super::queue::{Claim, Noticed, Pending};
use super::ready::Ready;
use super::row_queue::RowQueue;
use super::shared::SharedChannel;

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
    /// If anything was searched.
    noticed: Option<Noticed>,
}

type Guard<'a> = Use<'a, RwLockWriteGuard<'a, Box<Channel>>>;

/// A batch, and the memory that batches use one after the other.
pub(super) struct Round {
    /// Channels of a batch, at most.
    most: usize,
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
    /// Rounds over at most `most` channels.
    pub fn new(most: usize, config: &DecoderConfig) -> Result<Round> {
        let mut round = Round {
            most,
            chunk: config.chunk_frames as usize,
            patience: Duration::from_secs_f64(config.max_batch_wait),
            channels: Vec::new(),
            works: Vec::new(),
            guards: Vec::new(),
            batch: Vec::new(),
            results: Vec::new(),
        };
        try_reserve(&mut round.channels, most, "batches")?;
        try_reserve(&mut round.works, most, "batches")?;
        try_reserve(&mut round.guards, most, "batches")?;
        try_reserve(&mut round.batch, most, "batches")?;
        try_reserve(&mut round.results, most, "batches")?;
        Ok(round)
    }

    /// Takes what has waited longest off the list; `false` at the end of all.
    pub fn take(&mut self, ready: &Ready<Arc<SharedChannel>>) -> bool {
        ready.take(self.most, self.patience, &mut self.channels)
    }

    /// Searches what was taken, as one batch.
    pub fn run(&mut self, metrics: &Arc<Metrics>) {
        let Round { channels, works, .. } = self;
        channels.retain(|channel| {
            let claim = channel.queue.claim();
            let claimed = claim.is_some();
            works.extend(claim.map(Work::new));
            claimed
        });
        self.search_all(metrics);
        for (channel, work) in self.channels.drain(..).zip(self.works.drain(..)) {
            let Work { claim, more, outcome, noticed, .. } = work;
            if !matches!(outcome, Ok(false)) {
                channel.detach();
            }
            let tell = channel.has_listener();
            channel.follow(channel.queue.searched(claim.rows, more, outcome.map_err(Arc::new), noticed, tell));
        }
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
        Work { claim, batched: false, frames: 0, endpoints: 0, more: false, outcome: Ok(false), noticed: None }
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
        shared.words_are_told(&channel, self.claim.untold);
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
            self.noticed = Some(Noticed { partial: shared.has_new_words(channel), endpoint });
        }
        if let Err(error) = concluded {
            self.outcome = Err(error);
            return;
        }
        channel.settle_behind(done);
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
