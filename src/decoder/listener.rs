//! Who is told what becomes of the rows that were queued.

use crate::error::{Error, Result};

use super::channel::Channel;

/// Told about a channel whose rows the decoder's scheduler searches: on that thread, one call at a time
/// for all channels of the decoder, with no lock held. Calls on the channel work from inside, but waiting.
///
/// In this order within a turn: partial, endpoint, then finished or failed, which comes exactly once an
/// utterance (never for one that `begin` has cut short).
pub trait Listener: Send + Sync {
    /// Whether [`Listener::partial`] is wanted: finding out costs a little at each turn.
    fn wants_partial(&self) -> bool {
        true
    }
    /// The words of the best path are others than they were; a new segment begins with none.
    fn partial(&self);
    /// An end point was found. Rows behind one that stops a push or closes a segment are not searched yet.
    fn endpoint(&self);
    /// All rows are searched, and the channel is finished.
    fn finished(&self);
    /// The utterance stopped before its end, for this reason.
    fn failed(&self, error: &Error);
}

/// What is to be told of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noticed {
    pub partial: bool,
    pub endpoint: bool,
}

/// What a channel's listener knows of the words of its utterance.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The segment that they are of.
    segment: u64,
    /// How many of the best path's words cannot change any more.
    stable: usize,
    /// Those behind.
    others: Vec<i32>,
}

impl Known {
    /// Takes the words as they are now, and answers whether that changes them. Costs what is new.
    pub fn words(&mut self, channel: &Channel) -> Result<bool> {
        let segment = channel.num_segments();
        if segment != self.segment {
            // What became of the words of the one before is with its end point; those that the new one
            // begins with are told behind it, at the next turn.
            *self = Known { segment, ..Known::default() };
            return Ok(false);
        }
        let (path, stable) = channel.partial_from(self.stable)?;
        let changed = path.olabels != self.others;
        self.others = path.olabels;
        self.others.drain(..stable.saturating_sub(self.stable).min(self.others.len()));
        self.stable = self.stable.max(stable);
        Ok(changed)
    }
}
