//! Rows that a channel asks a decodable for.

use std::sync::Arc;
use std::time::Instant;

use super::Channel;
use crate::decoder::decodable::Decodable;
use crate::decoder::metrics::Metrics;
use crate::decoder::row_queue::RowQueue;
use crate::error::{Error, Result, try_reserve};
use crate::search::Rows;

/// Columns of a decodable, at most, unless the graph reads more of them; and scores that are pulled of it in one go.
const MOST_COLUMNS: usize = 1 << 24;

impl Channel {
    /// Pulls frames from `decodable` while they are ready, at most `max_frames` of them, and
    /// returns how many were searched (Kaldi's `AdvanceDecoding`). An end point that stops a push stops
    /// it too.
    pub fn advance(&mut self, decodable: &mut dyn Decodable, max_frames: Option<u64>) -> Result<u64> {
        self.check_open()?;
        let dim = self.columns_of(decodable)?;
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        let outcome = try_reserve(&mut row, dim, "row").and_then(|()| {
            row.resize(dim, 0.0);
            self.pull(decodable, max_frames.unwrap_or(u64::MAX), &mut row)
        });
        self.row = row;
        outcome
    }

    /// Columns of the rows that `decodable` is asked for. [`Error::Limit`] above [`MOST_COLUMNS`].
    fn columns_of(&self, decodable: &mut dyn Decodable) -> Result<usize> {
        let (dim, most) = (decodable.num_columns()?, MOST_COLUMNS.max(self.decoder.graph().num_columns() as usize));
        if dim > most {
            return Err(Error::Limit(format!("a decodable has {dim} columns; it may have {most}")));
        }
        Ok(dim)
    }

    fn pull(&mut self, decodable: &mut dyn Decodable, max_frames: u64, row: &mut [f32]) -> Result<u64> {
        let mut done = 0;
        while done < max_frames {
            let frame = self.num_frames();
            if frame >= decodable.num_frames_ready()? {
                break;
            }
            self.decoder.graph().check_width(row.len())?;
            // Columns that nothing reads hold what is always allowed.
            row.fill(f32::NEG_INFINITY);
            let lane = self.lane.lane();
            decodable.fill_row(frame, &|needed| lane.mark_columns(needed), row)?;
            let awaited = self.lane.lane().endpoint().is_none();
            self.push(Rows::new(row, 1, row.len(), row.len())?)?;
            done += 1;
            if awaited && self.stops() {
                break;
            }
        }
        Ok(done)
    }

    /// Adds rows that `decodable` has ready to `rows`, at most `most`, and answers whether there were any.
    /// They follow those that were searched.
    pub(in crate::decoder) fn pull_queued(
        &self,
        decodable: &mut dyn Decodable,
        most: usize,
        rows: &mut RowQueue,
        metrics: &Arc<Metrics>,
    ) -> Result<bool> {
        let first = self.num_frames();
        // What the columns of a row depend on has to be searched before.
        let most = if decodable.fills_whole_rows() { most as u64 } else { 1 };
        let count = decodable.num_frames_ready()?.saturating_sub(first).min(most);
        if count == 0 {
            return Ok(false);
        }
        let dim = self.columns_of(decodable)?;
        self.decoder.graph().check_width(dim)?;
        let count = count.min((MOST_COLUMNS / dim.max(1)).max(1) as u64);
        let (since, lane) = (Instant::now(), self.lane.lane());
        for frame in first..first + count {
            rows.append_row(dim, since, metrics, |row| {
                decodable.fill_row(frame, &|needed| lane.mark_columns(needed), row)
            })?;
        }
        Ok(true)
    }
}
