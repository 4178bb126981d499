//! Picks the backend, and hands work to it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use crate::cpu::{CpuLanes, LentChannel};
use crate::cuda::{self, CudaChannel, CudaLanes, DeviceRows, StageSeconds};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::search::{EndpointRules, Holds, LaneChannel, LaneWork, Lanes, Phrases, TimeSearch};

use super::config::{BackendChoice, DecoderConfig};

/// The backend of a decoder.
#[derive(Debug)]
pub(super) enum Backend {
    Cpu(CpuLanes),
    Cuda(Box<Gpu>),
}

/// A GPU, and beside it the CPU lanes for what its kernels do not do: utterances with phrases.
#[derive(Debug)]
pub(super) struct Gpu {
    lanes: CudaLanes,
    /// Made when first needed.
    beside: Mutex<Option<Arc<CpuLanes>>>,
    graph: Arc<Graph>,
    config: DecoderConfig,
}

impl Gpu {
    fn beside(&self) -> Result<Arc<CpuLanes>> {
        let mut beside = self.beside.lock();
        if let Some(lanes) = &*beside {
            return Ok(Arc::clone(lanes));
        }
        let lanes = Arc::new(cpu_lanes(&self.graph, &self.config)?);
        *beside = Some(Arc::clone(&lanes));
        Ok(lanes)
    }

    fn advance(&self, batch: &mut [LaneWork<'_, BackendChannel>]) {
        self.lanes.advance(batch);
        let beside = self.beside.lock().clone();
        if let Some(lanes) = beside {
            lanes.advance(batch);
        }
    }
}

fn cpu_lanes(graph: &Arc<Graph>, config: &DecoderConfig) -> Result<CpuLanes> {
    CpuLanes::new(Arc::clone(graph), config.search, config.num_lanes as usize, config.num_threads as usize)
}

/// A backend's channel.
#[derive(Debug)]
pub(super) enum BackendChannel {
    Cpu(LentChannel),
    Cuda(CudaChannel),
}

impl BackendChannel {
    pub fn lane(&self) -> &dyn LaneChannel {
        match self {
            BackendChannel::Cpu(channel) => channel,
            BackendChannel::Cuda(channel) => channel,
        }
    }

    pub fn lane_mut(&mut self) -> &mut dyn LaneChannel {
        match self {
            BackendChannel::Cpu(channel) => channel,
            BackendChannel::Cuda(channel) => channel,
        }
    }
}

impl Holds<LentChannel> for BackendChannel {
    fn held(&mut self) -> Option<&mut LentChannel> {
        match self {
            BackendChannel::Cpu(channel) => Some(channel),
            BackendChannel::Cuda(_) => None,
        }
    }
}

impl Holds<CudaChannel> for BackendChannel {
    fn held(&mut self) -> Option<&mut CudaChannel> {
        match self {
            BackendChannel::Cuda(channel) => Some(channel),
            BackendChannel::Cpu(_) => None,
        }
    }
}

impl Backend {
    /// The backend that `config` asks for, and why it is not the GPU if that could have been.
    pub fn new(graph: &Arc<Graph>, config: &DecoderConfig) -> Result<(Backend, String)> {
        let why_not = match config.backend {
            BackendChoice::Cpu => "the CPU was asked for".to_string(),
            BackendChoice::Auto => match cuda::devices() {
                Err(reason) => reason.to_string(),
                Ok(_) => match Backend::on_gpu(graph, config) {
                    Ok(backend) => return Ok((backend, String::new())),
                    // What the caller must change is told; what the machine lacks is gone without.
                    Err(error @ Error::Config(_)) => return Err(error),
                    Err(error) => error.chain(),
                },
            },
            BackendChoice::Cuda => return Ok((Backend::on_gpu(graph, config)?, String::new())),
        };
        if config.backend == BackendChoice::Auto {
            log::info!("the search runs on the CPU: {why_not}");
        }
        Ok((Backend::Cpu(cpu_lanes(graph, config)?), why_not))
    }

    fn on_gpu(graph: &Arc<Graph>, config: &DecoderConfig) -> Result<Backend> {
        let threads = config.num_threads as usize;
        let host = |search| {
            let lanes = CpuLanes::new(Arc::clone(graph), search, threads.max(1), 1)?;
            Ok(Box::new(lanes) as Box<dyn TimeSearch>)
        };
        let lanes = CudaLanes::new(Arc::clone(graph), config.search, config.device, config.num_lanes, threads, host)?;
        let (graph, config) = (Arc::clone(graph), *config);
        Ok(Backend::Cuda(Box::new(Gpu { lanes, beside: Mutex::new(None), graph, config })))
    }

    pub fn new_channel(&self) -> Result<BackendChannel> {
        match self {
            Backend::Cpu(lanes) => lanes.new_channel().map(BackendChannel::Cpu),
            Backend::Cuda(gpu) => gpu.lanes.new_channel().map(BackendChannel::Cuda),
        }
    }

    /// Begins an utterance, biased by `phrases` and ended by `rules`, on lanes that can search it.
    pub fn begin(
        &self,
        channel: &mut BackendChannel,
        phrases: Option<Arc<Phrases>>,
        rules: Option<&Arc<EndpointRules>>,
    ) -> Result<()> {
        let commit = channel.lane().commit_config();
        match (self, &*channel) {
            (Backend::Cuda(gpu), BackendChannel::Cuda(_)) if phrases.is_some() => {
                *channel = gpu.beside()?.new_channel().map(BackendChannel::Cpu)?;
            }
            (Backend::Cuda(gpu), BackendChannel::Cpu(_)) if phrases.is_none() => {
                *channel = gpu.lanes.new_channel().map(BackendChannel::Cuda)?;
            }
            _ => {}
        }
        channel.lane_mut().set_commit(commit)?;
        channel.lane_mut().begin(phrases, rules)
    }

    /// Lets `phrases` bias the rest of an utterance.
    pub fn change_phrases(&self, channel: &mut BackendChannel, phrases: Arc<Phrases>) -> Result<()> {
        if let (Backend::Cuda(gpu), BackendChannel::Cuda(on_gpu)) = (self, &mut *channel) {
            let mut on_cpu = gpu.beside()?.new_channel()?;
            on_cpu.take_over(on_gpu.pass_on()?)?;
            *channel = BackendChannel::Cpu(on_cpu);
        }
        channel.lane_mut().change_phrases(phrases)
    }

    pub fn advance(&self, batch: &mut [LaneWork<'_, BackendChannel>]) {
        match self {
            Backend::Cpu(lanes) => lanes.advance(batch),
            Backend::Cuda(gpu) => gpu.advance(batch),
        }
    }

    /// # Safety
    /// As for [`CudaLanes::push_device`].
    pub unsafe fn push_device(
        &self,
        channel: &mut BackendChannel,
        rows: DeviceRows,
        cancelled: &AtomicBool,
    ) -> Result<()> {
        match (self, channel) {
            // SAFETY: the caller's promise.
            (Backend::Cuda(gpu), BackendChannel::Cuda(channel)) => unsafe {
                gpu.lanes.push_device(channel, rows, cancelled)
            },
            (Backend::Cuda(_), BackendChannel::Cpu(_)) => Err(Error::Unsupported(
                "an utterance with phrases is searched on the CPU: its rows have to be there".into(),
            )),
            _ => Err(Error::Unsupported(
                "rows in device memory need a decoder on the GPU; this one is on the CPU".into(),
            )),
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Backend::Cpu(_) => "cpu",
            Backend::Cuda(_) => "cuda",
        }
    }

    pub fn memory(&self) -> usize {
        match self {
            Backend::Cpu(lanes) => lanes.memory(),
            Backend::Cuda(gpu) => {
                let beside = gpu.beside.lock().as_ref().map_or(0, |lanes| lanes.memory());
                gpu.lanes.memory() as usize + beside
            }
        }
    }

    pub fn stage_seconds(&self) -> Option<StageSeconds> {
        match self {
            Backend::Cpu(_) => None,
            Backend::Cuda(gpu) => Some(gpu.lanes.stage_seconds()),
        }
    }
}
