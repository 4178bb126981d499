//! Picks the backend, and hands work to it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::cpu::{CpuLanes, LentChannel};
use crate::cuda::{self, CudaChannel, CudaLanes, DeviceRows, StageSeconds};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::search::{Holds, LaneChannel, LaneWork, Lanes, TimeSearch};

use super::config::{BackendChoice, DecoderConfig};

/// The backend of a decoder.
#[derive(Debug)]
pub(super) enum Backend {
    Cpu(CpuLanes),
    Cuda(Box<CudaLanes>),
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
        Ok(Backend::Cuda(Box::new(lanes)))
    }

    pub fn new_channel(&self) -> Result<BackendChannel> {
        match self {
            Backend::Cpu(lanes) => lanes.new_channel().map(BackendChannel::Cpu),
            Backend::Cuda(lanes) => lanes.new_channel().map(BackendChannel::Cuda),
        }
    }

    pub fn advance(&self, batch: &mut [LaneWork<'_, BackendChannel>]) {
        match self {
            Backend::Cpu(lanes) => lanes.advance(batch),
            Backend::Cuda(lanes) => lanes.advance(batch),
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
            (Backend::Cuda(lanes), BackendChannel::Cuda(channel)) => unsafe {
                lanes.push_device(channel, rows, cancelled)
            },
            _ => Err(Error::Unsupported(
                "rows in device memory need a decoder on the GPU; this one is on the CPU".into(),
            )),
        }
    }

    /// How many threads search queued rows, and how many channels they take at a time: on the CPU, where a batch
    /// saves nothing, one each, so that no channel waits for others.
    pub fn rounds(&self, config: &DecoderConfig) -> (usize, usize) {
        match self {
            Backend::Cpu(_) => (config.num_threads.min(config.num_lanes) as usize, 1),
            Backend::Cuda(_) => (1, config.num_lanes as usize),
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
            Backend::Cuda(lanes) => lanes.memory() as usize,
        }
    }

    pub fn stage_seconds(&self) -> Option<StageSeconds> {
        match self {
            Backend::Cpu(_) => None,
            Backend::Cuda(lanes) => Some(lanes.stage_seconds()),
        }
    }
}
