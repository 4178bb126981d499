//! What a decoder's queues have done since it was made.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::error::{Result, try_reserve};

/// Counts over all channels of a decoder. Frames are those that were queued; what is pushed is not counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecoderMetrics {
    /// Channels that exist now.
    pub channels: u64,
    /// Frames that are queued now.
    pub queued_frames: u64,
    /// Batches that were searched; on the CPU a batch is a chunk of one channel.
    pub batches: u64,
    /// Mean number of channels in a batch: 1 on the CPU; 0 before the first.
    pub mean_batch: f64,
    /// Frames that were searched.
    pub frames: u64,
    /// Seconds in which batches were searched, summed over the threads that do so.
    pub seconds: f64,
    /// Submits that were refused because a queue was full.
    pub rejected: u64,
    /// Utterances that were cancelled.
    pub cancelled: u64,
    /// Seconds from a submit to the end of the batch that searched its last row, for half of all submits
    /// no more than this; 0 before the first. These four are exact to 5 %.
    pub latency_p50: f64,
    /// The same for 90 of 100 submits.
    pub latency_p90: f64,
    /// The same for 99 of 100.
    pub latency_p99: f64,
    /// The longest.
    pub latency_max: f64,
}

impl DecoderMetrics {
    /// Frames searched in a second of search, by the wall; 0 before the first.
    pub fn frames_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.frames as f64 / self.seconds } else { 0.0 }
    }
}

/// The counters behind [`DecoderMetrics`]. Any thread may add to them, and none waits.
#[derive(Debug)]
pub(super) struct Metrics {
    pub queued_frames: AtomicU64,
    pub rejected: AtomicU64,
    pub cancelled: AtomicU64,
    batches: AtomicU64,
    items: AtomicU64,
    frames: AtomicU64,
    nanoseconds: AtomicU64,
    latencies: Latencies,
}

impl Metrics {
    pub fn new() -> Result<Metrics> {
        Ok(Metrics {
            queued_frames: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            items: AtomicU64::new(0),
            frames: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            latencies: Latencies::new()?,
        })
    }

    /// A batch of `items` channels and `frames` frames was searched.
    pub fn batch(&self, items: u64, frames: u64, took: Duration) {
        self.batches.fetch_add(1, Relaxed);
        self.items.fetch_add(items, Relaxed);
        self.frames.fetch_add(frames, Relaxed);
        self.nanoseconds.fetch_add(took.as_nanos() as u64, Relaxed);
    }

    /// The last row of a submit was searched.
    pub fn latency(&self, latency: Duration) {
        self.latencies.add(latency);
    }

    pub fn snapshot(&self, channels: u64) -> DecoderMetrics {
        let batches = self.batches.load(Relaxed);
        let [latency_p50, latency_p90, latency_p99, latency_max] = self.latencies.at([0.5, 0.9, 0.99, 1.0]);
        DecoderMetrics {
            channels,
            queued_frames: self.queued_frames.load(Relaxed),
            batches,
            mean_batch: if batches > 0 { self.items.load(Relaxed) as f64 / batches as f64 } else { 0.0 },
            frames: self.frames.load(Relaxed),
            seconds: self.nanoseconds.load(Relaxed) as f64 * 1e-9,
            rejected: self.rejected.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            latency_p50,
            latency_p90,
            latency_p99,
            latency_max,
        }
    }
}

/// Buckets a doubling of the latency.
const STEPS: f64 = 8.0;
/// The first bucket ends at a microsecond, the last one but one at about 50 minutes.
const BUCKETS: usize = 256;

/// A histogram of latencies whose buckets grow by an eighth of a doubling.
#[derive(Debug)]
struct Latencies(Vec<AtomicU64>);

impl Latencies {
    fn new() -> Result<Latencies> {
        let mut buckets = Vec::new();
        try_reserve(&mut buckets, BUCKETS, "the histogram of latencies")?;
        buckets.resize_with(BUCKETS, AtomicU64::default);
        Ok(Latencies(buckets))
    }

    fn add(&self, latency: Duration) {
        let bucket = (latency.as_secs_f64() * 1e6).max(1.0).log2() * STEPS;
        // A float becomes the nearest number that fits.
        self.0[(bucket.ceil() as usize).min(BUCKETS - 1)].fetch_add(1, Relaxed);
    }

    /// The middles of the buckets below which these parts of all latencies lie.
    fn at<const N: usize>(&self, parts: [f64; N]) -> [f64; N] {
        let count = |bucket: &AtomicU64| bucket.load(Relaxed);
        let total: u64 = self.0.iter().map(count).sum();
        parts.map(|part| {
            let wanted = ((total as f64 * part).ceil() as u64).max(1);
            let mut sum = 0;
            let bucket = self.0.iter().map(count).position(|count| {
                sum += count;
                sum >= wanted
            });
            bucket.map_or(0.0, |bucket| 1e-6 * ((bucket as f64 - 0.5) / STEPS).exp2())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_latencies_to_five_percent() {
        let latencies = Latencies::new().unwrap();
        assert_eq!(latencies.at([0.5, 1.0]), [0.0, 0.0]);
        for at in 1..=1000 {
            latencies.add(Duration::from_micros(at * 20));
        }
        for (part, found) in [0.01, 0.5, 0.9, 0.99, 1.0].into_iter().zip(latencies.at([0.01, 0.5, 0.9, 0.99, 1.0])) {
            let wanted = 0.02 * part;
            assert!((found / wanted - 1.0).abs() < 0.05, "{part}: {found} for {wanted}");
        }
        latencies.add(Duration::ZERO);
        latencies.add(Duration::from_secs(1 << 40));
        assert!(latencies.at([1e-9])[0] < 1e-6 && latencies.at([1.0])[0] > 1_000.0);
    }
}
