//! Who is told what becomes of the rows that were queued.

use crate::error::{Error, Result};

use super::channel::Channel;

/// Told about a channel whose rows the decoder's threads search: on one thread of the decoder's, which does nothing
/// else, one call at a time for all its channels, with no lock held. Calls on channels work from inside, but
/// waiting. Meanwhile the channel is not searched; others are. Between two calls it may be, several times: what is
/// noticed then is told once.
///
/// In this order: partial, endpoint, then finished or failed, which comes exactly once an
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

/// What a channel's listener knows of the words of its utterance.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The segment that they are of.
    segment: u64,
    words: Vec<i32>,
    /// There are others, which it is to be told.
    others: bool,
}

impl Known {
    /// Before a search: unless they are still `untold`, the listener knows the words as they are now.
    pub fn told(&mut self, channel: &Channel, untold: bool) -> Result<()> {
        if !self.others || untold || channel.num_segments() != self.segment {
            return Ok(());
        }
        self.others = false;
        channel.tell_words(&mut self.words)
    }

    /// After a search: whether there are other words than the listener knows. Costs what is new.
    pub fn others(&mut self, channel: &Channel) -> Result<bool> {
        let segment = channel.num_segments();
        if segment != self.segment {
            // What became of the words of the one before is with its end point; those that the new one
            // begins with are told behind it, at the next turn.
            *self = Known { segment, ..Known::default() };
            return Ok(false);
        }
        self.others = channel.has_other_words(&self.words)?;
        Ok(self.others)
    }
}
