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
    /// The words of the best path are others than they were.
    fn partial(&self);
    /// An end point was found.
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

impl Noticed {
    /// Looks at a channel after some of its rows were searched.
    pub fn look(channel: &Channel, listener: &dyn Listener, known: &mut Known) -> Result<Noticed> {
        let partial = listener.wants_partial() && known.words(channel)?;
        Ok(Noticed { partial, endpoint: known.endpoint(channel) })
    }
}

/// What a channel's listener knows of its utterance.
#[derive(Debug, Default)]
pub(super) struct Known {
    endpoints: u64,
    /// The segment that the words are of.
    segment: u64,
    /// How many of the best path's words cannot change any more.
    stable: usize,
    /// Those behind.
    others: Vec<i32>,
}

impl Known {
    /// Takes the words as they are now, and answers whether that changes them. Costs what is new.
    fn words(&mut self, channel: &Channel) -> Result<bool> {
        let segment = channel.num_segments();
        if segment != self.segment {
            // What became of the words of the one before is with its end point.
            (self.segment, self.stable) = (segment, 0);
            self.others.clear();
        }
        let (path, stable) = channel.partial_from(self.stable)?;
        let changed = path.olabels != self.others;
        self.others = path.olabels;
        self.others.drain(..stable.saturating_sub(self.stable).min(self.others.len()));
        self.stable = self.stable.max(stable);
        Ok(changed)
    }

    /// Whether there is an end point that it did not know.
    fn endpoint(&mut self, channel: &Channel) -> bool {
        let before = std::mem::replace(&mut self.endpoints, channel.num_endpoints());
        self.endpoints > before
    }
}
