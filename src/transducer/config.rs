//! The options of a search.

use super::model::Shape;
use crate::error::{Error, Result};

/// The searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchKind {
    /// The best symbol of each frame.
    Greedy,
    /// The beam search of Graves (2012), arXiv:1211.3711, without merging of prefixes.
    Default,
    /// Time-synchronous decoding: Saon, Tüske, Audhkhasi (ICASSP 2020).
    Tsd,
    /// Alignment-length synchronous decoding, from the same paper.
    Alsd,
    /// N-step constrained beam search: Kim et al. (Interspeech 2020), arXiv:2002.03577.
    Nsc,
}

/// The options of a search; each says which searches read it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransducerConfig {
    /// Which search.
    pub search: SearchKind,
    /// Hypotheses that are kept, at most the size of the vocabulary; at least 1. All but greedy.
    pub beam: u32,
    /// Labels a frame at most; 1 to [`TransducerConfig::MOST_A_FRAME`]. Greedy.
    pub max_symbols_per_frame: u32,
    /// This many expansions for each hypothesis of the beam end a frame; 1 to
    /// [`TransducerConfig::MOST_A_FRAME`]. Default search.
    pub max_expansions_per_frame: u32,
    /// Rounds a frame, one more than its most labels; 1 to [`TransducerConfig::MOST_A_FRAME`]. Time-synchronous.
    pub max_sym_exp: u32,
    /// Most labels of a finished hypothesis; at most [`TransducerConfig::MOST_LABELS`]. In a stream with more
    /// labels each further one makes a row wait, until the end. Alignment-length synchronous.
    pub u_max: u32,
    /// Label expansions a frame; 1 to [`TransducerConfig::MOST_A_FRAME`]. N-step constrained.
    pub nstep: u32,
    /// How much longer than its prefix a hypothesis may be to take over its score; at most
    /// [`TransducerConfig::MOST_A_FRAME`]. N-step constrained.
    pub prefix_alpha: u32,
    /// Weight of the language model; 0 leaves it alone. Finite. All but greedy.
    pub lm_weight: f32,
    /// Whether n-best lists are in the order of the score divided by the length with start symbol.
    pub score_norm: bool,
    /// Hypotheses returned at most; at least 1.
    pub nbest: u32,
    /// Predictions that are kept although no hypothesis stands there now; one might come back.
    pub max_cached: u32,
    /// Labels older than this many frames are decided for the best hypothesis: others are dropped each so many
    /// frames unless they have the same labels at the same frames until there. Without it two hypotheses that
    /// differ early may both live for ever. 0: never. All but greedy.
    pub commit_frames: u32,
}

impl Default for TransducerConfig {
    fn default() -> TransducerConfig {
        TransducerConfig {
            search: SearchKind::Default,
            beam: 5,
            max_symbols_per_frame: 1,
            max_expansions_per_frame: 50,
            max_sym_exp: 2,
            u_max: 50,
            nstep: 1,
            prefix_alpha: 1,
            lm_weight: 0.0,
            score_norm: true,
            nbest: 1,
            max_cached: 1024,
            commit_frames: 0,
        }
    }
}

impl TransducerConfig {
    /// Largest number of labels, rounds or steps of a frame, whatever the search: far more than a frame has use for, and so few that
    /// a model which never takes the blank comes to the end of a frame.
    pub const MOST_A_FRAME: u32 = 1024;

    /// Largest `u_max`: months of speech.
    pub const MOST_LABELS: u32 = 1 << 24;

    /// [`Error::Config`] names an option that is outside its range.
    pub fn check(&self) -> Result<()> {
        let (frame, any) = (Self::MOST_A_FRAME, u32::MAX);
        for (name, value, least, most) in [
            ("beam", self.beam, 1, any),
            ("max_symbols_per_frame", self.max_symbols_per_frame, 1, frame),
            ("max_expansions_per_frame", self.max_expansions_per_frame, 1, frame),
            ("max_sym_exp", self.max_sym_exp, 1, frame),
            ("u_max", self.u_max, 0, Self::MOST_LABELS),
            ("nstep", self.nstep, 1, frame),
            ("prefix_alpha", self.prefix_alpha, 0, frame),
            ("nbest", self.nbest, 1, any),
        ] {
            if !(least..=most).contains(&value) {
                return Err(Error::Config(format!("{name} is {value}; it must be {least} to {most}")));
            }
        }
        if !self.lm_weight.is_finite() {
            return Err(Error::Config(format!("lm_weight is {}; it must be finite", self.lm_weight)));
        }
        Ok(())
    }

    /// Hypotheses that are kept: the vocabulary bounds them, as in ESPnet.
    pub(super) fn effective_beam(&self, shape: &Shape) -> usize {
        (self.beam as usize).min(shape.vocab_size)
    }

    /// Whether the language model is asked.
    pub(super) fn uses_lm(&self, shape: &Shape) -> bool {
        shape.has_lm && self.lm_weight != 0.0 && self.search != SearchKind::Greedy
    }
}
