//! The compact lattice of a channel, determinized while the utterance grows.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::lattice::{DeterminizeConfig, Determinized, IncrementalDeterminizer};
use crate::search::{LaneChannel, SearchConfig};
use crate::table::Transitions;

/// How far the determinization of a channel's lattice has come.
#[derive(Debug)]
pub(super) struct Growing {
    determinizer: IncrementalDeterminizer,
    pub config: DeterminizeConfig,
    /// Last time that it has taken in.
    up_to: Option<usize>,
    /// Frames that had been committed when it began.
    committed: usize,
}

impl Growing {
    pub fn new(
        transitions: Option<Arc<Transitions>>,
        config: &DeterminizeConfig,
        search: &SearchConfig,
    ) -> Result<Growing> {
        if config.acoustic_scale != search.acoustic_scale {
            // What lies outside the beam is told by the search's own costs.
            return Err(Error::Config(format!(
                "acoustic_scale is {}; it must be the decoder's, {}",
                config.acoustic_scale, search.acoustic_scale
            )));
        }
        let determinizer = IncrementalDeterminizer::new(transitions, config)?;
        Ok(Growing { determinizer, config: *config, up_to: None, committed: 0 })
    }

    /// Forgets the utterance.
    pub fn clear(&mut self) {
        self.determinizer.clear();
        self.up_to = None;
        self.committed = 0;
    }

    /// A piece for each so many frames catches up with them: pieces have more.
    pub const CATCHES_UP: usize = 25;

    /// Takes in what has become certain since the last call, `most` pieces at most. After an error it begins anew.
    pub fn settle(&mut self, lane: &dyn LaneChannel, most: usize) -> Result<()> {
        let outcome = self.take_pieces(lane, most);
        if outcome.is_err() {
            self.clear();
        }
        outcome
    }

    fn take_pieces(&mut self, lane: &dyn LaneChannel, most: usize) -> Result<()> {
        if lane.committed_frames() != self.committed {
            // The lattice begins at another token now.
            self.clear();
            self.committed = lane.committed_frames();
        }
        for _ in 0..most {
            let Some((to, piece)) = lane.piece(self.up_to)? else { break };
            self.determinizer.extend(&piece)?;
            self.up_to = Some(to);
        }
        Ok(())
    }

    /// The compact lattice now.
    pub fn lattice(&mut self, lane: &mut dyn LaneChannel, use_final: bool) -> Result<Determinized> {
        self.settle(lane, usize::MAX)?;
        let (piece, reached_final) = lane.last_piece(self.up_to, use_final)?;
        let mut found = self.determinizer.compact(&piece)?;
        found.lattice.acoustic_scale = self.config.acoustic_scale;
        found.lattice.reached_final = reached_final;
        Ok(found)
    }

    /// Frames that have been taken in, or were committed before.
    pub fn settled_frames(&self) -> u64 {
        self.up_to.unwrap_or(self.committed) as u64
    }

    /// Links of the lattice that the last call went over: does not grow with the utterance.
    pub fn links_of_last_call(&self) -> usize {
        self.determinizer.links_of_last_call()
    }
}
