//! What a caller holds: a decoder over one graph, its channels, and where scores come from.
//!
//! A [`Channel`] searches what is pushed on the caller's thread. A [`SharedChannel`] has a queue besides
//! (`queue`, `row_queue`), which the decoder's own threads (`scheduler`) search in `round`s over those that are
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
mod round;
mod row_queue;
mod scheduler;
mod segments;
mod shared;
mod sync;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::RwLock;

use crate::error::{Error, Result, try_reserve};
use crate::graph::Graph;
use crate::search::{EndpointConfig, EndpointRules, Rows};

use backend::Backend;
use scheduler::Scheduler;

pub use channel::{Canceller, Channel, ChannelState};
pub use config::{BackendChoice, DecoderConfig};
pub use decodable::{Decodable, MatrixDecodable, Source};
pub use listener::Listener;
pub use metrics::DecoderMetrics;
pub use segments::{Segment, SegmentEnd};
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
    endpoint_rules: RwLock<Option<Arc<EndpointRules>>>,
}

/// Rows for one channel of a batch.
#[derive(Debug)]
pub struct BatchItem<'a> {
    /// The channel; distinct from those of the other items.
    pub channel: &'a mut Channel,
    /// Its next rows.
    pub rows: Rows<'a>,
    /// Rows that were searched: all of them, unless it failed or an end point has stopped it, as
    /// [`Channel::push_rows`] says.
    pub done: usize,
    /// What became of it.
    pub result: Result<()>,
}

impl<'a> BatchItem<'a> {
    /// An item that is still to be done.
    pub fn new(channel: &'a mut Channel, rows: Rows<'a>) -> BatchItem<'a> {
        BatchItem { channel, rows, done: 0, result: Ok(()) }
    }
}

impl Decoder {
    /// A decoder over `graph`. [`Error::Config`] names an option out of range;
    /// [`Error::NoDevice`] if the GPU was asked for and there is none.
    pub fn new(graph: Arc<Graph>, config: DecoderConfig) -> Result<Arc<Decoder>> {
        config.check()?;
        let (backend, why_not_gpu) = Backend::new(&graph, &config)?;
        let (threads, batch) = backend.rounds(&config);
        Ok(Arc::new(Decoder {
            graph,
            config,
            backend,
            why_not_gpu,
            open_channels: AtomicU32::new(0),
            scheduler: Scheduler::new(threads, batch)?,
            endpoint_rules: RwLock::default(),
        }))
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

    /// Sets the rules of end points for utterances that begin from now on; `None`: there are none.
    /// Errors as for [`EndpointRules::new`].
    pub fn set_endpoint_rules(&self, config: Option<&EndpointConfig>) -> Result<()> {
        let rules = config.map(|config| EndpointRules::new(config, self.config.frame_shift, &self.graph));
        *self.endpoint_rules.write() = rules.transpose()?.map(Arc::new);
        Ok(())
    }

    fn endpoint_rules(&self) -> Option<Arc<EndpointRules>> {
        self.endpoint_rules.read().clone()
    }

    /// Advances distinct channels of this decoder, one batch over the lanes. Each item gets its
    /// own result; a failing one does not touch the others. An error of the call itself
    /// ([`Error::NoMemory`]) means that nothing was searched.
    pub fn advance(&self, items: &mut [BatchItem<'_>]) -> Result<()> {
        let mut places = Vec::new();
        try_reserve(&mut places, items.len(), "batch")?;
        for (at, item) in items.iter_mut().enumerate() {
            item.done = 0;
            item.result = self.check_own(item.channel).and_then(|()| item.channel.prepare());
            if item.result.is_ok() {
                places.push(at);
            }
        }
        // A second round only for those that an end point has closed a segment of before their last row.
        self.advance_once(items, &mut places)?;
        while !places.is_empty() {
            if let Err(error) = self.advance_once(items, &mut places) {
                let asked = if let Error::NoMemory { asked, .. } = error { asked } else { 0 };
                for at in places {
                    items[at].result = Err(Error::NoMemory { what: "batch".into(), asked });
                }
                break;
            }
        }
        Ok(())
    }

    /// Advances the items at `places`, and leaves there those that are to go on.
    fn advance_once(&self, items: &mut [BatchItem<'_>], places: &mut Vec<usize>) -> Result<()> {
        let (mut batch, mut outcomes) = (Vec::new(), Vec::new());
        try_reserve(&mut batch, places.len(), "batch")?;
        try_reserve(&mut outcomes, places.len(), "batch")?;
        let mut wanted = places.iter().copied().peekable();
        for (at, item) in items.iter_mut().enumerate() {
            if wanted.next_if_eq(&at).is_some() {
                batch.push(item.channel.work(item.rows.slice(item.done, usize::MAX)));
            }
        }
        self.backend.advance(&mut batch);
        outcomes.extend(batch.into_iter().map(|work| (work.done, work.result)));
        let mut outcomes = outcomes.into_iter();
        places.retain(|&at| {
            let (item, Some((done, result))) = (&mut items[at], outcomes.next()) else { return false };
            item.done += done;
            match item.channel.conclude(result) {
                Ok(closed) => closed && item.done < item.rows.frames(),
                Err(error) => {
                    item.result = Err(error);
                    false
                }
            }
        });
        Ok(())
    }
}
