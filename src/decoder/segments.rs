//! What an open-ended stream leaves behind: the segments that end points have closed.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::lattice::{Lattice, Path};
use crate::search::{Endpoint, SearchStats};

/// A segment that an end point has closed, with its results.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Where it ends.
    pub end: SegmentEnd,
    /// Its best path, to a final state if one was reached. Times count from the channel's begin.
    pub best_path: Arc<Path>,
    /// Its raw lattice, likewise. Times count from the segment's first frame.
    pub lattice: Arc<Lattice>,
}

/// An end point in a channel's frames, which count from its begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SegmentEnd {
    /// Number of the segment, from 0. Without segments it is 0.
    pub segment: u64,
    /// Frames before the segment.
    pub first_frame: u64,
    /// The end point; its frames are those of the segment.
    pub endpoint: Endpoint,
}

impl SegmentEnd {
    /// Frames from the channel's begin to the end point.
    pub fn frames(&self) -> u64 {
        self.first_frame + self.endpoint.frames
    }
}

/// The closed segments of a channel.
#[derive(Debug, Default)]
pub(super) struct Segments {
    /// The last ones, oldest first.
    kept: VecDeque<Segment>,
    /// How many were closed.
    pub closed: u64,
    /// Frames of all of them, and what was counted in them.
    pub frames: u64,
    pub stats: Option<SearchStats>,
}

impl Segments {
    /// The end of the segment that is open now, if that is `endpoint`.
    pub fn end_at(&self, endpoint: Endpoint) -> SegmentEnd {
        SegmentEnd { segment: self.closed, first_frame: self.frames, endpoint }
    }

    /// The segment that was closed last.
    pub fn last(&self) -> Option<&Segment> {
        self.kept.back()
    }

    /// Segment `number`, as long as it is kept.
    pub fn get(&self, number: u64) -> Result<&Segment> {
        let age = self.closed.checked_sub(number).filter(|age| *age > 0).ok_or_else(|| {
            Error::Argument(format!("segment {number} is not closed; the channel has closed {}", self.closed))
        })?;
        let place = (self.kept.len() as u64).checked_sub(age).and_then(|place| self.kept.get(place as usize));
        place.ok_or_else(|| {
            Error::State(format!("segment {number} is gone: of {} the last {} are kept", self.closed, self.kept.len()))
        })
    }

    /// Appends a segment and drops the oldest ones, so that `keep` are left, but always the last one.
    pub fn close(&mut self, segment: Segment, stats: &SearchStats, keep: usize) -> Result<()> {
        while self.kept.len() >= keep.max(1) {
            self.kept.pop_front();
        }
        let asked = (self.kept.len() as u64 + 1) * size_of::<Segment>() as u64;
        self.kept.try_reserve(1).map_err(|_| Error::NoMemory { what: "segments".into(), asked })?;
        self.closed += 1;
        self.frames += segment.end.endpoint.frames;
        self.stats = Some(self.stats_with(stats));
        self.kept.push_back(segment);
        Ok(())
    }

    /// Counts of all closed segments and those of the one that is open.
    pub fn stats_with(&self, open: &SearchStats) -> SearchStats {
        self.stats.as_ref().map_or(*open, |before| open.behind(before))
    }
}
