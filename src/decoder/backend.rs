//! Picks the backend, and hands work to it.

use std::sync::Arc;

use crate::cpu::{CpuLanes, LentChannel};
use crate::cuda;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::search::{LaneWork, Lanes};

use super::config::{BackendChoice, DecoderConfig};

/// Why a GPU that is there is not used.
const NO_GPU_LANES: &str = "this build has no GPU lanes";

/// The backend of a decoder.
#[derive(Debug)]
pub(super) enum Backend {
    Cpu(CpuLanes),
}

/// A backend's channel.
pub(super) type BackendChannel = LentChannel;

impl Backend {
    /// The backend that `config` asks for, and why it is not the GPU if that could have been.
    pub fn new(graph: &Arc<Graph>, config: &DecoderConfig) -> Result<(Backend, String)> {
        let why_not = match config.backend {
            BackendChoice::Cpu => "the CPU was asked for".to_string(),
            BackendChoice::Auto => cuda::devices().err().unwrap_or(NO_GPU_LANES).to_string(),
            BackendChoice::Cuda => {
                return Err(match cuda::devices() {
                    Ok(_) => Error::Unsupported(NO_GPU_LANES.to_string()),
                    Err(reason) => Error::NoDevice(reason.to_string()),
                });
            }
        };
        let (lanes, threads) = (config.num_lanes as usize, config.num_threads as usize);
        let lanes = CpuLanes::new(Arc::clone(graph), config.search, lanes, threads)?;
        Ok((Backend::Cpu(lanes), why_not))
    }

    pub fn new_channel(&self) -> Result<BackendChannel> {
        match self {
            Backend::Cpu(lanes) => lanes.new_channel(),
        }
    }

    pub fn advance(&self, batch: &mut [LaneWork<'_, BackendChannel>]) {
        match self {
            Backend::Cpu(lanes) => lanes.advance(batch),
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Backend::Cpu(_) => "cpu",
        }
    }

    pub fn memory(&self) -> usize {
        match self {
            Backend::Cpu(lanes) => lanes.memory(),
        }
    }
}
