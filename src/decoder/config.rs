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
    /// Threads over which a batch is spread, or on a GPU the host's part of it: 1 to 1,024.
    pub num_threads: u32,
    /// Channels that may exist at the same time. At least 1.
    pub max_channels: u32,
    /// Seconds from one row to the next, subsampling included. Finite, above 0.
    pub frame_shift: f64,
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
        if self.max_channels == 0 {
            return Err(Error::Config("max_channels is 0; it must be at least 1".into()));
        }
        if !(self.frame_shift.is_finite() && self.frame_shift > 0.0) {
            return Err(Error::Config(format!("frame_shift is {}; it must be finite and above 0", self.frame_shift)));
        }
        Ok(())
    }
}
