//! What a decoder's queues have done.

use super::config::{self, Grows};
use super::decoder::koshi_decoder;
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::registry;

/// Counts over all channels of a decoder since it was made. Frames are those that were submitted; what is
/// pushed is not counted.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_metrics {
    /// Bytes that were filled.
    pub struct_size: u32,
    /// Channels that exist now.
    pub num_channels: u32,
    /// Frames that are queued now.
    pub queued_frames: u64,
    /// Batches that were searched; on the CPU a batch is a chunk of one channel.
    pub batches: u64,
    /// Frames that were searched.
    pub frames: u64,
    /// Submits that were answered KOSHI_E_FULL.
    pub rejected: u64,
    /// Utterances that were cancelled.
    pub cancelled: u64,
    /// Mean number of channels in a batch: 1 on the CPU; 0 before the first.
    pub mean_batch: f64,
    /// Seconds in which batches were searched, summed over the threads that do so.
    pub seconds: f64,
    /// Frames searched in a second of these; 0 before the first.
    pub frames_per_second: f64,
    /// Seconds from a submit to the end of the batch that searched its last row: for half of all submits no
    /// more than this; 0 before the first. Exact to 5 %, as the next three.
    pub latency_p50: f64,
    /// The same for 90 of 100 submits.
    pub latency_p90: f64,
    /// The same for 99 of 100.
    pub latency_p99: f64,
    /// The longest.
    pub latency_max: f64,
}

// SAFETY: Pod says that there is no padding and that any bytes will do.
unsafe impl Grows for koshi_metrics {
    const NAME: &'static str = "koshi_metrics";
    const FIRST_SIZE: usize = 104;

    fn defaults() -> koshi_metrics {
        bytemuck::Zeroable::zeroed()
    }
}

/// Counts of the queues of `decoder`, in *metrics of `size` bytes. Costs other calls nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_decoder_metrics(
    decoder: *const koshi_decoder,
    metrics: *mut koshi_metrics,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = registry::get(decoder, "decoder")?;
        // SAFETY: the header's promise on output structs.
        let out = unsafe { config::out(metrics, size, "metrics") }?;
        let found = object.decoder.metrics();
        out.set(&koshi_metrics {
            struct_size: 0,
            num_channels: u32::try_from(found.channels).unwrap_or(u32::MAX),
            queued_frames: found.queued_frames,
            batches: found.batches,
            frames: found.frames,
            rejected: found.rejected,
            cancelled: found.cancelled,
            mean_batch: found.mean_batch,
            seconds: found.seconds,
            frames_per_second: found.frames_per_second(),
            latency_p50: found.latency_p50,
            latency_p90: found.latency_p90,
            latency_p99: found.latency_p99,
            latency_max: found.latency_max,
        });
        Ok(())
    })
}
