//! What every backend offers: channels, and lanes that advance them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::error::Result;
use crate::lattice::{LatticePiece, Path, RawLattice};

use super::{
    CommitConfig, CommittedLattice, Endpoint, EndpointRules, History, Phrases, Rows, SearchConfig, SearchStats,
};

/// The search state of one utterance, held by a backend.
pub trait LaneChannel: Send {
    /// Starts a new utterance, biased by `phrases`: one token at the start state, and its closure. `rules`
    /// say where it ends; they are tested after every frame.
    fn begin(&mut self, phrases: Option<Arc<Phrases>>, rules: Option<&Arc<EndpointRules>>) -> Result<()>;
    /// Lets `phrases` bias the utterance from the next frame on, in place of those before: what tokens hold
    /// is given back on the arcs of that frame. On an error nothing has changed.
    fn change_phrases(&mut self, phrases: Arc<Phrases>) -> Result<()>;
    /// The end point, if one was found since `begin`.
    fn endpoint(&self) -> Option<Endpoint>;
    /// Frames searched since `begin`.
    fn num_frames(&self) -> u64;
    /// Sets the entry of each column that an emitting token would read in the next frame.
    fn mark_columns(&self, needed: &mut [bool]);
    /// Whether a token of the last time is final.
    fn reached_final(&self) -> bool {
        self.final_relative_cost() < f32::INFINITY
    }
    /// Cost of the best final token above the best token; `+inf` where none is final.
    fn final_relative_cost(&self) -> f32;
    /// The best path now, to a final state if asked for and reached.
    fn best_path(&self, use_final: bool) -> Result<Path>;
    /// The same as a lattice, which begins behind what has been committed.
    fn best_lattice(&self, use_final: bool) -> Result<RawLattice>;
    /// The best path to the best token without its first `from` words, its costs being those of all
    /// of it.
    fn partial(&self, from: usize) -> Result<Path>;
    /// How many of all its words can no longer change.
    fn stable_words(&self) -> Result<usize>;
    /// Makes `known`, which holds what the last such call since `begin` has put there or nothing, all its words.
    fn tell_words(&self, known: &mut Vec<i32>) -> Result<()>;
    /// Whether its words are others than `known`, which the last [`LaneChannel::tell_words`] has left, or none.
    fn has_other_words(&self, known: &[i32]) -> Result<bool>;
    /// The raw lattice now.
    fn lattice(&mut self, use_final: bool) -> Result<RawLattice>;
    /// The next piece of the lattice behind time `from`, or from the start, for incremental
    /// determinization, and the time where it ends; `None` before it can be told.
    fn piece(&self, from: Option<usize>) -> Result<Option<(usize, LatticePiece)>>;
    /// The piece behind time `from`, or from the start, up to now, and whether it ends in finals.
    fn last_piece(&mut self, from: Option<usize>, use_final: bool) -> Result<(LatticePiece, bool)>;
    /// What [`LaneChannel::set_commit`] was last given.
    fn commit_config(&self) -> Option<CommitConfig>;
    /// Commits from now on as `config` says, or not at all.
    fn set_commit(&mut self, config: Option<CommitConfig>) -> Result<()>;
    /// Frames that have been committed: where lattices and pieces begin.
    fn committed_frames(&self) -> usize;
    /// Hands out the oldest lattice of committed frames that has not been.
    fn take_committed(&mut self) -> Option<CommittedLattice>;
    /// Counts since `begin`.
    fn stats(&self) -> SearchStats;
}

/// What a channel is between two times, lent to whoever searches the next one.
pub struct ChannelState<'a> {
    /// State, cost above the best (its bits), and place among the tokens of the last time, of each token that emits
    /// next.
    pub emitting: &'a mut Vec<u32>,
    /// Rule 4's beam for the next time.
    pub next_beam: &'a mut f32,
    /// The times so far.
    pub history: &'a mut History,
    /// The counts so far.
    pub stats: &'a mut SearchStats,
}

/// Searches single times for a backend whose own memory does not do for them.
pub trait TimeSearch: Send + Sync {
    /// Searches the time behind `row`, which has the columns that the graph reads; without a row time 0, which forgets
    /// what was before, but not the phrases. Options are those of `config`. Where the next time fails, the channel
    /// stays as it was.
    fn search_time(&self, config: &SearchConfig, channel: ChannelState<'_>, row: Option<&[f32]>) -> Result<()>;
}

/// Rows for one channel of a batch, and what became of them.
pub struct LaneWork<'a, C> {
    /// The channel, begun.
    pub channel: &'a mut C,
    /// Its next rows.
    pub rows: Rows<'a>,
    /// Looked at before every frame.
    pub cancelled: &'a AtomicBool,
    /// Rows that were searched: all of them, unless it failed or stopped at an end point.
    pub done: usize,
    /// Why it failed before the last row, if it did; the channel holds everything up to there.
    pub result: Result<()>,
}

impl<'a, C> LaneWork<'a, C> {
    /// Work that is still to be done.
    pub fn new(channel: &'a mut C, rows: Rows<'a>, cancelled: &'a AtomicBool) -> Self {
        LaneWork { channel, rows, cancelled, done: 0, result: Ok(()) }
    }
}

/// What a channel of one backend is kept in: a caller with several backends keeps them all in one
/// type, and hands the same batch to any of them.
pub trait Holds<C>: Send {
    /// The channel, if it is one of that backend.
    fn held(&mut self) -> Option<&mut C>;
}

/// A backend: makes channels and advances them in batches. Channels of a batch are distinct,
/// and what becomes of one does not depend on the others.
pub trait Lanes: Send + Sync {
    /// The backend's channel.
    type Channel: LaneChannel;
    /// A channel that has not begun.
    fn new_channel(&self) -> Result<Self::Channel>;
    /// Advances all items by all of their rows, or as far as they go: to a failure, or to an end point
    /// whose rules say that the search stops there. Items whose channel is of another backend are left as
    /// they are.
    fn advance<H: Holds<Self::Channel>>(&self, batch: &mut [LaneWork<'_, H>]);
}
