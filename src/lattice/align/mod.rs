//! Word alignment: a lattice whose arcs each carry one word with exactly its transition-ids.
//!
//! A determinized lattice puts words and transition-ids wherever determinization left them. Here they are
//! brought together again, by the kinds of phones ([`WordBoundary`]) or by the pronunciations of words
//! ([`AlignLexicon`]), to the rules of Kaldi's `lattice-align-words` and `lattice-align-words-lexicon`.
//!
//! - `boundary`, `lexicon`: the two tables;
//! - `by_boundary`; `phones` and `by_lexicon`: the two ways;
//! - `draft`: what both build, and how its silent arcs are removed.

mod boundary;
mod by_boundary;
mod by_lexicon;
mod draft;
mod lexicon;
mod lines;
mod phones;

pub use boundary::{PhoneKind, WordBoundary};
pub use by_boundary::BoundaryOptions;
pub use by_lexicon::LexiconOptions;
pub use lexicon::AlignLexicon;

use super::CompactLattice;
use crate::error::{Error, Result};

/// A lattice after the attempt to align it.
#[derive(Clone, Debug)]
pub struct Aligned {
    /// The aligned lattice; the lattice as it was where it could not be aligned.
    pub lattice: CompactLattice,
    /// How far it came.
    pub outcome: AlignOutcome,
}

/// How far an alignment came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlignOutcome {
    /// Every arc is a word, or silence between words.
    Complete,
    /// Aligned, but paths end within a word or within silence, as those of an utterance do that was cut off. Holds
    /// what was found.
    PartialWords(String),
    /// Not aligned. Holds the reason.
    NotAligned(String),
}

impl AlignOutcome {
    /// What was found, unless the alignment is complete.
    pub fn reason(&self) -> Option<&str> {
        match self {
            AlignOutcome::Complete => None,
            AlignOutcome::PartialWords(why) | AlignOutcome::NotAligned(why) => Some(why),
        }
    }
}

/// Why an alignment stops.
enum Stop {
    /// Lattice, model and table do not fit.
    Mismatch(String),
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

/// What the two ways give: the aligned lattice, and what was found at ends of paths.
type Attempt = Result<(CompactLattice, Option<String>), Stop>;

/// Fills in what a new lattice takes over from the one that was aligned, or falls back on that one.
fn settle(original: &CompactLattice, attempt: Attempt) -> Result<Aligned> {
    match attempt {
        Ok((mut lattice, partial)) => {
            lattice.acoustic_scale = original.acoustic_scale;
            lattice.num_frames = original.num_frames;
            lattice.reached_final = original.reached_final;
            Ok(Aligned { lattice, outcome: partial.map_or(AlignOutcome::Complete, AlignOutcome::PartialWords) })
        }
        Err(Stop::Mismatch(why)) => {
            // Nothing is further from the best than infinity: a copy that may fail for lack of memory.
            let lattice = original.prune(f32::INFINITY, original.acoustic_scale)?;
            Ok(Aligned { lattice, outcome: AlignOutcome::NotAligned(why) })
        }
        Err(Stop::Error(error)) => Err(error),
    }
}

/// The most states of a draft: a fixed room and `max_expand` for each of `states`; `None` for no bound.
fn most_states(max_expand: f32, states: usize) -> Option<usize> {
    const ROOM: f64 = 1000.0;
    // A float to integer cast saturates.
    (max_expand > 0.0).then(|| (ROOM + f64::from(max_expand) * states as f64) as usize)
}
