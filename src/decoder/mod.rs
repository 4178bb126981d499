//! What a caller holds: a decoder over one graph, its channels, and where scores come from.
//!
//! A [`Channel`] searches what is pushed on the caller's thread. A [`SharedChannel`] has a queue besides
//! (`queue`, `row_queue`), which the decoder's own thread (`scheduler`) searches in batches of those that are
//! `ready`; a `listener` is told, and `metrics` count. `sync` names the locks under which this is tested.

mod backend;
mod channel;
mod config;
mod decodable;
mod growing;
mod listener;
mod metrics;
mod queue;
mod ready;
mod row_queue;
mod scheduler;
mod shared;
mod sync;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result, try_reserve};
use crate::graph::Graph;
use crate::search::Rows;

use backend::Backend;
use scheduler::Scheduler;

pub use channel::{Canceller, Channel, ChannelState};
pub use config::{BackendChoice, DecoderConfig};
pub use decodable::{Decodable, MatrixDecodable, Source};
pub use listener::Listener;
pub use metrics::DecoderMetrics;
pub use shared::{Reading, SharedChannel, Turn, Writing};

/// A graph, options, and the lanes that search it. Shared by its channels and threads.
#[derive(Debug)]
pub struct Decoder {
    graph: Arc<Graph>,
    config: DecoderConfig,
    backend: Backend,
    why_not_gpu: String,
    open_channels: AtomicU32,
    scheduler: Scheduler,
}

/// Rows for one channel of a batch.
#[derive(Debug)]
pub struct BatchItem<'a> {
    /// The channel; distinct from those of the other items.
    pub channel: &'a mut Channel,
    /// Its next rows.
    pub rows: Rows<'a>,
    /// What became of it.
    pub result: Result<()>,
}

impl<'a> BatchItem<'a> {
    /// An item that is still to be done.
    pub fn new(channel: &'a mut Channel, rows: Rows<'a>) -> BatchItem<'a> {
        BatchItem { channel, rows, result: Ok(()) }
    }
}

impl Decoder {
    /// A decoder over `graph`. [`Error::Config`] names an option out of range;
    /// [`Error::NoDevice`] if the GPU was asked for and there is none.
    pub fn new(graph: Arc<Graph>, config: DecoderConfig) -> Result<Arc<Decoder>> {
        config.check()?;
        let (backend, why_not_gpu) = Backend::new(&graph, &config)?;
        let (open_channels, scheduler) = (AtomicU32::new(0), Scheduler::new()?);
        Ok(Arc::new(Decoder { graph, config, backend, why_not_gpu, open_channels, scheduler }))
    }

    /// The graph.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// The options that the decoder was made with.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    /// "cpu" or "cuda".
    pub fn backend_name(&self) -> &'static str {
        self.backend.name()
    }

    /// Why the search does not run on a GPU; empty if it does.
    pub fn why_not_gpu(&self) -> &str {
        &self.why_not_gpu
    }

    /// Channels that exist now.
    pub fn num_channels(&self) -> u32 {
        self.open_channels.load(Ordering::Relaxed)
    }

    /// Bytes of working space that no channel uses now; on a GPU, all that its lanes take.
    pub fn memory(&self) -> usize {
        self.backend.memory()
    }

    /// Seconds that the launches so far took, stage by stage; `None` on the CPU.
    pub fn stage_seconds(&self) -> Option<crate::cuda::StageSeconds> {
        self.backend.stage_seconds()
    }

    /// A new channel; [`Error::Limit`] when `max_channels` exist.
    pub fn new_channel(self: &Arc<Self>) -> Result<Channel> {
        let most = self.config.max_channels;
        let one_more = |open: u32| (open < most).then_some(open + 1);
        if self.open_channels.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            return Err(Error::Limit(format!("all {most} channels of the decoder exist already")));
        }
        match self.backend.new_channel() {
            Ok(lane) => Ok(Channel::new(Arc::clone(self), lane)),
            Err(error) => {
                self.channel_closed();
                Err(error)
            }
        }
    }

    /// What its queues have done since it was made.
    pub fn metrics(&self) -> DecoderMetrics {
        self.scheduler.metrics.snapshot(u64::from(self.num_channels()))
    }

    fn channel_closed(&self) {
        self.open_channels.fetch_sub(1, Ordering::Relaxed);
    }

    /// Refuses a channel of another decoder: the lanes here are made for this one's graph.
    fn check_own(&self, channel: &Channel) -> Result<()> {
        if std::ptr::eq(Arc::as_ptr(channel.decoder()), self) {
            return Ok(());
        }
        Err(Error::Argument("the channel belongs to another decoder".into()))
    }

    /// Advances distinct channels of this decoder, one batch over the lanes. Each item gets its
    /// own result; a failing one does not touch the others. An error of the call itself
    /// ([`Error::NoMemory`]) means that nothing was searched.
    pub fn advance(&self, items: &mut [BatchItem<'_>]) -> Result<()> {
        let (mut batch, mut origins, mut results) = (Vec::new(), Vec::new(), Vec::new());
        try_reserve(&mut batch, items.len(), "batch")?;
        try_reserve(&mut origins, items.len(), "batch")?;
        try_reserve(&mut results, items.len(), "batch")?;
        for (at, item) in items.iter_mut().enumerate() {
            item.result = self.check_own(item.channel).and_then(|()| item.channel.check_open());
            if item.result.is_ok() {
                origins.push(at);
                batch.push(item.channel.work(item.rows));
            }
        }
        self.backend.advance(&mut batch);
        results.extend(batch.into_iter().map(|work| work.result));
        for (at, result) in origins.into_iter().zip(results) {
            items[at].channel.note(&result);
            items[at].result = result;
        }
        Ok(())
    }
}
