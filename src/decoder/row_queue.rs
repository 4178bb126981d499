//! Rows that were copied into a channel's queue, with the times at which they came.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::{Result, shrink_to, try_reserve};
use crate::search::Rows;

use super::metrics::Metrics;
use super::queue::Pending;

/// Rows behind each other. What is taken from the front stays in memory until all are taken.
#[derive(Debug, Default)]
pub(super) struct RowQueue {
    data: Vec<f32>,
    /// Elements that were taken.
    head: usize,
    blocks: Vec<Block>,
    /// Blocks that were taken.
    first: usize,
    frames: usize,
    /// Elements that it has held at most, of late.
    peak: usize,
    /// Where the frames are counted, with those of the decoder's other queues.
    counted: Option<Arc<Metrics>>,
}

/// Places of blocks that a queue keeps when it gives memory back.
const BLOCKS_KEPT: usize = 8;

/// Rows that came together.
#[derive(Debug)]
struct Block {
    frames: usize,
    dim: usize,
    since: Instant,
}

impl RowQueue {
    /// Copies `rows` to the end. On an error nothing has changed.
    pub fn append(&mut self, rows: Rows<'_>, since: Instant, metrics: &Arc<Metrics>) -> Result<()> {
        let (frames, dim) = (rows.frames(), rows.dim());
        // As many elements as `rows` spans in memory at most, so the product is one of a size that exists.
        try_reserve(&mut self.data, frames.saturating_mul(dim), "queued rows")?;
        try_reserve(&mut self.blocks, 1, "queued rows")?;
        for frame in 0..frames {
            self.data.extend_from_slice(rows.row(frame));
        }
        self.push_block(frames, dim, since, metrics);
        Ok(())
    }

    /// Adds a row of `dim` columns that `fill` writes. On an error nothing has changed.
    pub fn append_row(
        &mut self,
        dim: usize,
        since: Instant,
        metrics: &Arc<Metrics>,
        fill: impl FnOnce(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        try_reserve(&mut self.data, dim, "pulled rows")?;
        try_reserve(&mut self.blocks, 1, "pulled rows")?;
        let start = self.data.len();
        // Columns that nothing reads hold what is always allowed.
        self.data.resize(start + dim, f32::NEG_INFINITY);
        let filled = fill(&mut self.data[start..]);
        match filled {
            Ok(()) => self.push_block(1, dim, since, metrics),
            Err(_) => self.data.truncate(start),
        }
        filled
    }

    fn push_block(&mut self, frames: usize, dim: usize, since: Instant, metrics: &Arc<Metrics>) {
        if frames > 0 {
            self.blocks.push(Block { frames, dim, since });
            self.frames += frames;
            let counted = self.counted.get_or_insert_with(|| Arc::clone(metrics));
            counted.queued_frames.fetch_add(frames as u64, Ordering::Relaxed);
        }
    }

    fn uncount(&self, frames: usize) {
        if let Some(metrics) = &self.counted {
            metrics.queued_frames.fetch_sub(frames as u64, Ordering::Relaxed);
        }
    }

    /// The first rows, at most `most` of them, all of one width.
    pub fn chunk(&self, most: usize) -> Rows<'_> {
        let blocks = self.blocks.get(self.first..).unwrap_or(&[]);
        let dim = blocks.first().map_or(0, |block| block.dim);
        let frames: usize = blocks.iter().take_while(|block| block.dim == dim).map(|block| block.frames).sum();
        let data = self.data.get(self.head..).unwrap_or(&[]);
        match Rows::new(data, frames.min(most), dim, dim) {
            Ok(rows) => rows,
            Err(_) => unreachable!("the blocks say what is in the data"),
        }
    }

    /// Takes `frames` rows from the front, and tells for each block that ends with them how long ago it came.
    pub fn consume(&mut self, frames: usize, now: Instant, mut searched: impl FnMut(Duration)) {
        let mut left = frames.min(self.frames);
        self.frames -= left;
        self.uncount(left);
        while let Some(block) = self.blocks.get_mut(self.first).filter(|_| left > 0) {
            let taken = left.min(block.frames);
            block.frames -= taken;
            left -= taken;
            self.head += taken * block.dim;
            if block.frames == 0 {
                searched(now.saturating_duration_since(block.since));
                self.first += 1;
            }
        }
        if self.frames == 0 {
            self.empty();
        }
    }

    /// Empty, it gives back memory that it has not needed for a while: after about 22 fillings that are much smaller
    /// than its largest.
    fn empty(&mut self) {
        self.peak = self.data.len().max(self.peak - self.peak / 16);
        self.data.clear();
        self.blocks.clear();
        (self.head, self.first) = (0, 0);
        if self.data.capacity() > 4 * self.peak {
            shrink_to(&mut self.data, 2 * self.peak);
            shrink_to(&mut self.blocks, BLOCKS_KEPT);
        }
    }
}

impl Pending for RowQueue {
    fn frames(&self) -> usize {
        self.frames
    }

    fn clear(&mut self) {
        *self = RowQueue::default();
    }
}

impl Drop for RowQueue {
    fn drop(&mut self) {
        self.uncount(self.frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_burst_is_given_back_and_a_steady_load_keeps_its_own() {
        let (mut queue, now, metrics) = (RowQueue::default(), Instant::now(), Arc::new(Metrics::new().unwrap()));
        let data = vec![1.0; 10_000];
        let mut fill = |frames: usize| {
            for at in 0..frames {
                queue.append(Rows::new(&data[at..], 1, 2, 2).unwrap(), now, &metrics).unwrap();
            }
            queue.consume(frames, now, |_| {});
            (queue.data.capacity(), queue.blocks.capacity())
        };
        let (burst, blocks) = fill(4_000);
        assert!(burst >= 8_000 && blocks >= 4_000);
        assert_eq!(fill(30), (burst, blocks), "not at once");
        for _ in 0..100 {
            fill(30);
        }
        let (kept, blocks) = fill(30);
        assert!((60..=400).contains(&kept) && blocks < 100, "{kept}, {blocks}");
        for round in 0..100 {
            assert_eq!(fill(30 + round % 2 * 25).0.max(kept), kept.max(128), "{round}");
        }
    }

    #[test]
    fn rows_come_out_as_they_went_in_at_any_cut() {
        for cut in 1..7 {
            let mut queue = RowQueue::default();
            let (now, metrics) = (Instant::now(), Arc::new(Metrics::new().unwrap()));
            let counted = || metrics.queued_frames.load(Ordering::Relaxed);
            let data: Vec<f32> = (0..24).map(|value| value as f32).collect();
            // Two blocks of 2 columns (with padding), one of 3, one of none.
            queue.append(Rows::new(&data, 3, 2, 4).unwrap(), now, &metrics).unwrap();
            queue.append(Rows::new(&data[12..], 0, 2, 2).unwrap(), now, &metrics).unwrap();
            queue.append(Rows::new(&data[12..], 2, 2, 2).unwrap(), now, &metrics).unwrap();
            let fill = |row: &mut [f32]| {
                row[..2].copy_from_slice(&[7.0, 8.0]);
                Ok(())
            };
            queue.append_row(3, now, &metrics, fill).unwrap();
            assert!(queue.append_row(3, now, &metrics, |_| Err(crate::Error::Cancelled)).is_err());
            // A part of a row that fails leaves nothing behind.
            queue
                .append_row(2, now, &metrics, |row| {
                    row.copy_from_slice(&[5.0, 6.0]);
                    Ok(())
                })
                .unwrap();
            assert_eq!((queue.frames(), counted()), (7, 7));
            let (mut out, mut told) = (Vec::new(), 0);
            while queue.frames() > 0 {
                let chunk = queue.chunk(cut);
                assert!(chunk.frames() > 0 && chunk.frames() <= cut);
                out.extend((0..chunk.frames()).map(|frame| chunk.row(frame).to_vec()));
                let frames = chunk.frames();
                queue.consume(frames, now + Duration::from_secs(2), |latency| {
                    assert_eq!(latency, Duration::from_secs(2));
                    told += 1;
                });
            }
            let wanted: [&[f32]; 7] =
                [&[0., 1.], &[4., 5.], &[8., 9.], &[12., 13.], &[14., 15.], &[7., 8., f32::NEG_INFINITY], &[5., 6.]];
            assert_eq!(out, wanted);
            assert_eq!((told, queue.chunk(9).frames(), queue.data.len(), counted()), (4, 0, 0, 0));
            queue.append(Rows::new(&data, 3, 2, 4).unwrap(), now, &metrics).unwrap();
            queue.consume(1, now, |_| {});
            assert_eq!(counted(), 2);
            queue.clear();
            assert_eq!((counted(), queue.frames(), queue.data.capacity()), (0, 0, 0), "its memory is given back");
        }
    }
}
