//! The options of a decoder, as C sets them.

use super::config::{self, Grows};
use super::error::{koshi_error, koshi_status};
use super::guard;
use crate::decoder::{BackendChoice, DecoderConfig};
use crate::error::{Error, Result};
use crate::search::SearchConfig;

/// Where a decoder computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum koshi_backend {
    /// The GPU if one is usable, else the CPU.
    KOSHI_BACKEND_AUTO = 0,
    /// The CPU.
    KOSHI_BACKEND_CPU = 1,
    /// The GPU, or KOSHI_E_NO_DEVICE.
    KOSHI_BACKEND_CUDA = 2,
}

use koshi_backend::*;

/// The options of a decoder. Where 0 stands for no bound it says so.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_decoder_config {
    /// sizeof this struct.
    pub struct_size: u32,
    /// Where to compute: a koshi_backend. Default KOSHI_BACKEND_AUTO.
    pub backend: i32,
    /// Index of the GPU. Default 0.
    pub device: u32,
    /// Tokens within this cost of the best may emit. Finite, above 0. Default 15.
    pub beam: f32,
    /// Links within this cost of the best path are in the lattice. Finite, above 0. Default 10.
    pub lattice_beam: f32,
    /// At most about this many tokens emit (ties stay in). At least 2. Default 10000.
    pub max_active: u32,
    /// While there are no more tokens than this, all emit. At most max_active. Default 200.
    pub min_active: u32,
    /// Added to the cutoff for the beam of the next frame where max_active or min_active set it.
    /// Finite, above 0. Default 0.5.
    pub beam_delta: f32,
    /// Multiplies log-likelihoods. Finite. Default 1.
    pub acoustic_scale: f32,
    /// Links held before they are pruned where lattice_beam is at most 6; for wider ones (lattice_beam / 6)^2
    /// times as many, at most three times. Results do not depend on it. At least 1. Default 80000.
    pub link_budget: u32,
    /// Channels that are advanced at the same time: 1 to 65536. Default by the machine.
    pub num_lanes: u32,
    /// Threads over which a batch is spread, or on a GPU the host's part of it: 1 to 1024. Default by the
    /// machine.
    pub num_threads: u32,
    /// Channels that may exist at the same time; 0 for no bound. Default 0.
    pub max_channels: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Seconds from one row to the next, subsampling included. Finite, above 0. Default 0.01.
    pub frame_shift: f64,
    /// Most frames of an utterance; 0 for no bound. Default 0.
    pub max_frames: u64,
    /// Most candidates of a frame; 0 for no bound on the CPU. Default 0.
    pub candidate_capacity: u64,
    /// Most tokens of a frame; 0 for no bound on the CPU. Default 0.
    pub token_capacity: u64,
    /// Most links of a frame; 0 for no bound on the CPU. Default 0.
    pub link_capacity: u64,
    /// Most bytes that tokens, links, trace and phrases of a channel may take; 0 for no bound. Default 0.
    pub memory_limit: u64,
    /// Frames that the queue of a channel holds (koshi_channel_submit). At least 1. Default 4096.
    pub queue_frames: u32,
    /// Most frames of one channel in a batch of queued rows: how long a channel with many may hold up the
    /// others. Results do not depend on it. At least 1. Default 32.
    pub chunk_frames: u32,
    /// Seconds that a batch of queued rows waits for more channels once there is one, while there are fewer
    /// than num_lanes. Without effect on the CPU, where each thread searches one channel at a time. 0 to 10.
    /// Default 0.
    pub max_batch_wait: f64,
}

// SAFETY: Pod says that there is no padding and that any bytes will do.
unsafe impl Grows for koshi_decoder_config {
    const NAME: &'static str = "koshi_decoder_config";
    const FIRST_SIZE: usize = 104;

    fn defaults() -> koshi_decoder_config {
        let config = DecoderConfig::default();
        let search = config.search;
        let bound = |value: u64| if value == u64::MAX { 0 } else { value };
        koshi_decoder_config {
            struct_size: size_of::<koshi_decoder_config>() as u32,
            backend: match config.backend {
                BackendChoice::Auto => KOSHI_BACKEND_AUTO,
                BackendChoice::Cpu => KOSHI_BACKEND_CPU,
                BackendChoice::Cuda => KOSHI_BACKEND_CUDA,
            } as i32,
            device: config.device,
            beam: search.beam,
            lattice_beam: search.lattice_beam,
            max_active: search.max_active,
            min_active: search.min_active,
            beam_delta: search.beam_delta,
            acoustic_scale: search.acoustic_scale,
            link_budget: search.link_budget,
            num_lanes: config.num_lanes,
            num_threads: config.num_threads,
            max_channels: if config.max_channels == u32::MAX { 0 } else { config.max_channels },
            reserved: 0,
            frame_shift: config.frame_shift,
            max_frames: bound(search.max_frames),
            candidate_capacity: bound(search.candidate_capacity),
            token_capacity: bound(search.token_capacity),
            link_capacity: bound(search.link_capacity),
            memory_limit: bound(search.memory_limit),
            queue_frames: config.queue_frames,
            chunk_frames: config.chunk_frames,
            max_batch_wait: config.max_batch_wait,
        }
    }
}

impl koshi_decoder_config {
    /// The options as the decoder takes them; it checks the ranges.
    pub(super) fn decoder_config(&self) -> Result<DecoderConfig> {
        config::reserved(self.reserved, "config")?;
        let backend = match self.backend {
            value if value == KOSHI_BACKEND_AUTO as i32 => BackendChoice::Auto,
            value if value == KOSHI_BACKEND_CPU as i32 => BackendChoice::Cpu,
            value if value == KOSHI_BACKEND_CUDA as i32 => BackendChoice::Cuda,
            value => return Err(Error::Config(format!("backend is {value}; it must be a koshi_backend"))),
        };
        let bound = |value: u64| if value == 0 { u64::MAX } else { value };
        Ok(DecoderConfig {
            search: SearchConfig {
                beam: self.beam,
                lattice_beam: self.lattice_beam,
                max_active: self.max_active,
                min_active: self.min_active,
                beam_delta: self.beam_delta,
                acoustic_scale: self.acoustic_scale,
                link_budget: self.link_budget,
                candidate_capacity: bound(self.candidate_capacity),
                token_capacity: bound(self.token_capacity),
                link_capacity: bound(self.link_capacity),
                max_frames: bound(self.max_frames),
                memory_limit: bound(self.memory_limit),
            },
            backend,
            device: self.device,
            num_lanes: self.num_lanes,
            num_threads: self.num_threads,
            max_channels: if self.max_channels == 0 { u32::MAX } else { self.max_channels },
            frame_shift: self.frame_shift,
            queue_frames: self.queue_frames,
            chunk_frames: self.chunk_frames,
            max_batch_wait: self.max_batch_wait,
        })
    }
}

/// Fills *config, of `size` bytes, with the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_decoder_config_init(
    config: *mut koshi_decoder_config,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    // SAFETY: the header's promise on structs.
    guard::call(err, || unsafe { config::init(config, size, "config") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_decoder() {
        let config = koshi_decoder_config::defaults();
        assert_eq!(config.decoder_config().unwrap(), DecoderConfig::default());
        assert!((config.beam, config.lattice_beam, config.max_active) == (15.0, 10.0, 10_000));
        assert!((config.min_active, config.beam_delta, config.acoustic_scale) == (200, 0.5, 1.0));
        assert!((config.frame_shift, config.max_frames) == (0.01, 0));
    }

    #[test]
    fn unknown_backends_and_reserved_fields_are_refused() {
        let config = koshi_decoder_config { backend: 3, ..koshi_decoder_config::defaults() };
        assert!(matches!(config.decoder_config(), Err(Error::Config(_))));
        let config = koshi_decoder_config { reserved: 1, ..koshi_decoder_config::defaults() };
        assert!(matches!(config.decoder_config(), Err(Error::Unsupported(_))));
    }
}
