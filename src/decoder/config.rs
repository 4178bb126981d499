//! The options of a decoder: those of the search, and what it may use of the machine.

use crate::error::{Error, Result};
use crate::search::SearchConfig;

/// Where a decoder computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendChoice {
    /// The GPU if one is usable, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU, or an error.
    Cuda,
}

/// Options of a decoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecoderConfig {
    /// Options of the search.
    pub search: SearchConfig,
    /// Where to compute.
    pub backend: BackendChoice,
    /// Index of the GPU, from 0.
    pub device: u32,
    /// Channels that may be advanced at the same time: 1 to 65,536.
    pub num_lanes: u32,
    /// Threads over which a batch is spread, or on a GPU the host's part of it, and as many that search queued
    /// rows: 1 to 1,024.
    pub num_threads: u32,
    /// Channels that may exist at the same time. At least 1.
    pub max_channels: u32,
    /// Seconds from one row to the next, subsampling included. Finite, above 0.
    pub frame_shift: f64,
    /// Frames that the queue of a channel holds. At least 1.
    pub queue_frames: u32,
    /// Most frames of one channel in a batch of queued rows: how long a channel with many may hold up the
    /// others. At least 1. Results do not depend on it.
    pub chunk_frames: u32,
    /// Seconds that a batch of queued rows waits for more channels once there is one, while there are fewer
    /// than lanes. Without effect on the CPU, where each thread searches one channel at a time. 0 to 10.
    pub max_batch_wait: f64,
}

impl Default for DecoderConfig {
    fn default() -> DecoderConfig {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        DecoderConfig {
            search: SearchConfig::default(),
            backend: BackendChoice::Auto,
            device: 0,
            num_lanes: threads.clamp(16, DecoderConfig::MOST_LANES),
            num_threads: threads.min(DecoderConfig::MOST_THREADS),
            max_channels: u32::MAX,
            frame_shift: 0.01,
            queue_frames: 4096,
            chunk_frames: 32,
            max_batch_wait: 0.0,
        }
    }
}

impl DecoderConfig {
    /// More lanes than this are refused rather than tried.
    pub const MOST_LANES: u32 = 1 << 16;
    /// More threads than this are refused: they would bring the machine down before they helped.
    pub const MOST_THREADS: u32 = 1 << 10;

    /// Refuses values outside their ranges, naming the option.
    pub fn check(&self) -> Result<()> {
        self.search.check()?;
        let counts =
            [("num_lanes", self.num_lanes, Self::MOST_LANES), ("num_threads", self.num_threads, Self::MOST_THREADS)];
        for (name, value, most) in counts {
            if value == 0 || value > most {
                return Err(Error::Config(format!("{name} is {value}; it must be 1 to {most}")));
            }
        }
        let at_least_1 = [
            ("max_channels", self.max_channels),
            ("queue_frames", self.queue_frames),
            ("chunk_frames", self.chunk_frames),
        ];
        for (name, value) in at_least_1 {
            if value == 0 {
                return Err(Error::Config(format!("{name} is 0; it must be at least 1")));
            }
        }
        if !(0.0..=10.0).contains(&self.max_batch_wait) {
            return Err(Error::Config(format!(
                "max_batch_wait is {}; it must be 0 to 10 seconds",
                self.max_batch_wait
            )));
        }
        if !(self.frame_shift.is_finite() && self.frame_shift > 0.0) {
            return Err(Error::Config(format!("frame_shift is {}; it must be finite and above 0", self.frame_shift)));
        }
        Ok(())
    }
}
