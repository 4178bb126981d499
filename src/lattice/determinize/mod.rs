//! Determinization: one path for each word sequence within a beam of the best, as Kaldi's
//! `DeterminizeLatticePhonePrunedWrapper` makes it.
//!
//! ```text
//! raw lattice ─ phones ─ pass on words and phones ─ segments ─ pass on words ─ compact lattice
//! ```
//!
//! The first pass, on words and phones, joins what differs only in when the frames of a phone
//! fall; what is left is a small lattice for the second pass, on words alone. Without a
//! transition model there is only the second pass, on the raw lattice.

mod arena;
mod closure;
mod collect;
mod compose;
mod config;
pub(super) mod costs;
mod frontier;
mod incremental;
pub(super) mod index;
mod pass;
mod phones;
mod piece;
mod retry;
mod segments;
mod settled;
mod source;
mod subset;

pub use config::DeterminizeConfig;
pub use incremental::IncrementalDeterminizer;
pub use piece::{Exit, Exits, LatticePiece};

use crate::error::Result;
use crate::table::Transitions;

use super::{CompactLattice, Lattice, RawLattice};
use pass::{Limits, Work};
use phones::RawSource;
use retry::{Keep, determinize};
use segments::{SegmentSource, Segments};

/// What a determinization gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Determinized {
    /// The lattice.
    pub lattice: CompactLattice,
    /// The beam within which `lattice` has every word sequence: that of the config, unless
    /// the memory cap struck.
    pub effective_beam: f32,
}

/// Determinizes one lattice after another in the same memory. A thread that does many should
/// keep one.
#[derive(Debug, Default)]
pub struct Determinizer {
    work: Work,
}

impl Determinizer {
    /// As [`RawLattice::determinize`].
    pub fn determinize(
        &mut self,
        lattice: &RawLattice,
        transitions: Option<&Transitions>,
        config: &DeterminizeConfig,
    ) -> Result<Determinized> {
        config.check()?;
        let lattice = &*lattice.biased()?;
        let phones = transitions.filter(|_| config.phone_determinize);
        let source = RawSource::new(lattice, phones)?;
        let limits = Limits::of(config);
        let (mut compact, effective) = match (phones.is_some(), config.word_determinize) {
            (false, false) => (lattice.to_compact()?, limits.beam),
            (false, true) => {
                let (segments, effective) = determinize(&source, &limits, Keep::BestPath, &mut self.work)?;
                (segments.into_compact(limits.scale)?, effective)
            }
            (true, false) => {
                let (segments, effective) = determinize(&source, &limits, Keep::BestPath, &mut self.work)?;
                (joined(segments, limits.scale)?, effective)
            }
            (true, true) => {
                let (segments, first) = determinize(&source, &limits, Keep::BestPath, &mut self.work)?;
                drop(source);
                let source = SegmentSource::of_words(segments.with_plain_ends()?);
                let (segments, second) = determinize(&source, &limits, Keep::BestPath, &mut self.work)?;
                (segments.into_compact(limits.scale)?, first.min(second))
            }
        };
        compact.set_times()?;
        compact.num_frames = compact.num_frames.max(lattice.num_frames);
        compact.acoustic_scale = lattice.acoustic_scale;
        compact.reached_final = lattice.reached_final;
        if config.minimize && config.word_determinize {
            compact.minimize(config.acoustic_scale, config.delta)?;
        }
        Ok(Determinized { lattice: compact, effective_beam: narrowed(effective, config.beam) })
    }
}

/// The compact lattice of segments that are not deterministic on words: chains without words
/// are joined, as Kaldi's conversion does.
fn joined(segments: Segments, scale: f64) -> Result<CompactLattice> {
    let mut compact = segments.into_compact(scale)?;
    compact.set_times()?;
    compact.to_raw()?.to_compact()
}

/// In binary32, never above what it was.
fn narrowed(effective: f64, beam: f32) -> f32 {
    let narrow = effective as f32;
    let narrow = if f64::from(narrow) > effective { narrow.next_down().max(0.0) } else { narrow };
    narrow.min(beam)
}

impl RawLattice {
    /// One path for each word sequence whose best alignment lies within `config.beam` of the
    /// best path, with the costs and transition-ids of that alignment; deterministic on words
    /// and free of epsilons; common beginnings of strings stand as early as they can. Paths
    /// farther away may be in it too. Of alignments with equal totals the one with the lower
    /// graph cost holds, then the shorter string, then the one with the greater transition-id
    /// where they first differ (Kaldi's order).
    ///
    /// `transitions` names the phones of the first pass; without it, or without
    /// `phone_determinize`, there is only the pass on words. Without `word_determinize` the
    /// result has arcs without words and is deterministic on words and phones only; without
    /// both it is [`RawLattice::to_compact`], not pruned.
    ///
    /// Graph costs count with the bias costs, which become part of them.
    ///
    /// Where a pass needs more than `config.max_mem` bytes, it is repeated at a narrower beam
    /// as in Kaldi; the beam that the result is good for is returned, and the best path is
    /// always in it.
    ///
    /// Fails with [`Error::Config`](crate::Error::Config) for values out of range, [`Error::Argument`](crate::Error::Argument) where the
    /// lattice breaks what its struct promises, has a transition-id that `transitions` has
    /// not, or a sum of costs leaves binary32.
    pub fn determinize(&self, transitions: Option<&Transitions>, config: &DeterminizeConfig) -> Result<Determinized> {
        Determinizer::default().determinize(self, transitions, config)
    }
}

impl Lattice {
    /// As [`RawLattice::determinize`]; a compact lattice goes through its raw form.
    pub fn determinize(&self, transitions: Option<&Transitions>, config: &DeterminizeConfig) -> Result<Determinized> {
        match self {
            Lattice::Raw(lattice) => lattice.determinize(transitions, config),
            Lattice::Compact(lattice) => {
                lattice.validate()?;
                lattice.to_raw()?.determinize(transitions, config)
            }
        }
    }
}
