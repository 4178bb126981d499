//! What a channel has found: paths, lattices, and lattices that are determinized as they grow.

use std::sync::Arc;

use super::Channel;
use crate::decoder::growing::Growing;
use crate::error::{Error, Result};
use crate::lattice::{DeterminizeConfig, Determinized, Path, RawLattice};
use crate::search::{CommittedLattice, LaneChannel};
use crate::table::Transitions;

impl Channel {
    /// Whether a token of the last time is final.
    pub fn reached_final(&self) -> Result<bool> {
        self.check_begun()?;
        Ok(self.lane.lane().reached_final())
    }

    /// Cost of the best final token above the best token; `+inf` where none is final.
    pub fn final_relative_cost(&self) -> Result<f32> {
        self.check_begun()?;
        Ok(self.lane.lane().final_relative_cost())
    }

    /// The best path now: to the best final token if `use_final` and one is reached, else to the best token.
    pub fn best_path(&self, use_final: bool) -> Result<Path> {
        self.check_begun()?;
        self.decoder.graph().check_so_far()?;
        self.lane.lane().best_path(use_final).map(|path| self.path_in_time(path))
    }

    /// The best path of [`Channel::best_path`] as a raw lattice, which tells the costs of each arc. It begins
    /// where [`Channel::lattice`] begins.
    pub fn best_lattice(&self, use_final: bool) -> Result<RawLattice> {
        self.check_begun()?;
        self.decoder.graph().check_so_far()?;
        self.lane.lane().best_lattice(use_final)
    }

    /// The best path to the best token, and how many of its words can no longer change. That number
    /// never falls, and those words stay. The work follows the frames since the last call.
    pub fn partial(&self) -> Result<(Path, usize)> {
        self.partial_from(0)
    }

    /// The same without copying what the caller has: the path without its first `from` words and
    /// without the frames before the next one. Its costs are those of the whole path.
    pub fn partial_from(&self, from: usize) -> Result<(Path, usize)> {
        Ok((self.partial_path(from)?, self.stable_words()?))
    }

    /// How many words of the best path to the best token can no longer change. Follows back the best paths to all
    /// tokens.
    pub fn stable_words(&self) -> Result<usize> {
        self.check_begun()?;
        self.decoder.graph().check_so_far()?;
        self.lane.lane().stable_words()
    }

    /// The path alone: cheaper, since it follows back the best path only.
    pub fn partial_path(&self, from: usize) -> Result<Path> {
        self.check_begun()?;
        self.decoder.graph().check_so_far()?;
        self.lane.lane().partial(from).map(|path| self.path_in_time(path))
    }

    /// Makes `known`, which holds what the last such call of the segment has put there or nothing, the words of
    /// [`Channel::partial_path`].
    pub(in crate::decoder) fn tell_words(&self, known: &mut Vec<i32>) -> Result<()> {
        self.check_begun()?;
        self.decoder.graph().check_so_far()?;
        self.lane.lane().tell_words(known)
    }

    /// Whether those words are others than `known`, which the last [`Channel::tell_words`] has left, or none.
    pub(in crate::decoder) fn has_other_words(&self, known: &[i32]) -> Result<bool> {
        self.check_begun()?;
        self.decoder.graph().check_so_far()?;
        self.lane.lane().has_other_words(known)
    }

    /// The raw lattice now; before `finish` it is what `finish` would give if no more rows came.
    pub fn lattice(&mut self, use_final: bool) -> Result<RawLattice> {
        self.check_begun()?;
        self.decoder.graph().check_whole()?;
        self.lane.lane_mut().lattice(use_final)
    }

    /// A path of the open segment, with times from the channel's begin.
    pub(super) fn path_in_time(&self, mut path: Path) -> Path {
        if self.segments.frames > 0 {
            let before = self.segments.frames as u32;
            path.frames.iter_mut().for_each(|frame| *frame = frame.saturating_add(before));
        }
        path
    }

    /// The lattice of the oldest committed frames that has not been handed out or dropped; it is
    /// forgotten then. One begins in the token where the one before ends.
    pub fn take_committed(&mut self) -> Result<Option<CommittedLattice>> {
        self.check_begun()?;
        let before = self.segments.frames;
        let oldest = self.lane.lane_mut().take_committed();
        Ok(oldest.map(|oldest| CommittedLattice { first_frame: oldest.first_frame + before, ..oldest }))
    }

    /// Lets the lattice be determinized while the utterance grows, for this one and those that
    /// follow: [`Channel::settle`] and [`Channel::compact_lattice`] then work. Options are those of
    /// [`RawLattice::determinize`]; [`Error::Config`] where `word_determinize` is not set, or
    /// `acoustic_scale` is not the decoder's. Any state.
    pub fn set_determinize(&mut self, transitions: Option<Arc<Transitions>>, config: &DeterminizeConfig) -> Result<()> {
        self.growing = Some(Box::new(Growing::new(transitions, config, &self.decoder.config().search)?));
        Ok(())
    }

    /// What [`Channel::set_determinize`] was last given.
    pub fn determinize_config(&self) -> Option<&DeterminizeConfig> {
        self.growing.as_ref().map(|growing| &growing.config)
    }

    fn growing(&mut self) -> Result<(&mut Growing, &mut dyn LaneChannel)> {
        self.check_begun()?;
        match &mut self.growing {
            Some(growing) => Ok((&mut **growing, self.lane.lane_mut())),
            None => Err(Error::State("no determinization has been set".into())),
        }
    }

    /// Determinizes what has become certain since the last call. To be called from time to time,
    /// so that little is left for [`Channel::compact_lattice`]: every second of speech, say. Where rows are queued
    /// ([`super::super::SharedChannel`]) that is done as they are searched.
    pub fn settle(&mut self) -> Result<()> {
        let (growing, lane) = self.growing()?;
        growing.settle(lane, usize::MAX)
    }

    /// The same behind a search of `frames`, if a determinization has been set: what that has made certain, and a
    /// little of what had been left. An error is not one of the search: what it has lost is done again later.
    pub(in crate::decoder) fn settle_behind(&mut self, frames: usize) {
        if let Some(growing) = &mut self.growing
            && let Err(error) = growing.settle(self.lane.lane(), 1 + frames / Growing::CATCHES_UP)
        {
            log::warn!("the lattice of a turn is not determinized: {}", error.chain());
        }
    }

    /// The compact lattice now: the lattice of [`Channel::lattice`], determinized. What was
    /// settled is not determinized again, so the time does not grow with the utterance (but
    /// for the time to copy the result). Before `finish` too.
    pub fn compact_lattice(&mut self, use_final: bool) -> Result<Determinized> {
        let (growing, lane) = self.growing()?;
        let mut found = growing.lattice(lane, use_final)?;
        let lane = self.lane.lane();
        let frames = lane.num_frames().saturating_sub(lane.committed_frames() as u64);
        found.lattice.num_frames = frames.min(u64::from(u32::MAX)) as u32;
        Ok(found)
    }

    /// Frames of the utterance (or of its open segment) whose lattice has been determinized, those committed
    /// included.
    pub fn settled_frames(&self) -> u64 {
        self.growing.as_ref().map_or(0, |growing| growing.settled_frames())
    }

    /// Links of the lattice that the last call of [`Channel::compact_lattice`] determinized.
    pub fn links_of_last_call(&self) -> usize {
        self.growing.as_ref().map_or(0, |growing| growing.links_of_last_call())
    }
}
