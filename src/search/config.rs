//! The options of a search, the same for every backend.

use crate::error::{Error, Result};

/// Options of a search. Defaults are those of the C face (`koshi_decoder_config`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchConfig {
    /// Tokens within this cost of the best may emit. Finite, positive.
    pub beam: f32,
    /// Links within this cost of the best path are in the lattice. Finite, positive.
    pub lattice_beam: f32,
    /// At most about this many tokens emit (ties stay in). At least 2.
    pub max_active: u32,
    /// While there are no more tokens than this, all emit. At most `max_active`.
    pub min_active: u32,
    /// Added to the cutoff for the next frame's beam where the beam was tightened or widened.
    pub beam_delta: f32,
    /// Multiplies log-likelihoods. Finite.
    pub acoustic_scale: f32,
    /// Raw links held before they are pruned where `lattice_beam` is at most 6; for wider ones `(lattice_beam / 6)^2` times as
    /// many, at most three times. Results do not depend on it.
    pub link_budget: u32,
    /// Most candidates of a frame; `u64::MAX` for no bound.
    pub candidate_capacity: u64,
    /// Most tokens of a frame; `u64::MAX` for no bound.
    pub token_capacity: u64,
    /// Most links of a frame; `u64::MAX` for no bound.
    pub link_capacity: u64,
    /// Most frames of an utterance; `u64::MAX` for no bound.
    pub max_frames: u64,
    /// Most bytes that the tokens, links, trace and phrases of one channel may take; `u64::MAX` for no bound.
    pub memory_limit: u64,
}

impl Default for SearchConfig {
    fn default() -> SearchConfig {
        SearchConfig {
            beam: 15.0,
            lattice_beam: 10.0,
            max_active: 10_000,
            min_active: 200,
            beam_delta: 0.5,
            acoustic_scale: 1.0,
            link_budget: 80_000,
            candidate_capacity: u64::MAX,
            token_capacity: u64::MAX,
            link_capacity: u64::MAX,
            max_frames: u64::MAX,
            memory_limit: u64::MAX,
        }
    }
}

impl SearchConfig {
    /// Refuses values outside their ranges, naming the option.
    pub fn check(&self) -> Result<()> {
        let positive = [("beam", self.beam), ("lattice_beam", self.lattice_beam), ("beam_delta", self.beam_delta)];
        for (name, value) in positive {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::Config(format!("{name} is {value}; it must be finite and above 0")));
            }
        }
        if !self.acoustic_scale.is_finite() {
            return Err(Error::Config(format!("acoustic_scale is {}; it must be finite", self.acoustic_scale)));
        }
        if self.max_active < 2 {
            return Err(Error::Config(format!("max_active is {}; it must be at least 2", self.max_active)));
        }
        if self.min_active > self.max_active {
            return Err(Error::Config(format!(
                "min_active {} is above max_active {}",
                self.min_active, self.max_active
            )));
        }
        let capacities = [
            ("candidate_capacity", self.candidate_capacity),
            ("token_capacity", self.token_capacity),
            ("link_capacity", self.link_capacity),
            ("link_budget", u64::from(self.link_budget)),
        ];
        for (name, value) in capacities {
            if value == 0 {
                return Err(Error::Config(format!("{name} is 0; it must be at least 1")));
            }
        }
        Ok(())
    }
}
