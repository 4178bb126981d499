//! The options of a transducer search, as C sets them.

use super::config::{self, Grows};
use super::error::{koshi_error, koshi_status};
use super::guard;
use crate::error::{Error, Result};
use crate::transducer::{SearchKind, TransducerConfig};

/// The searches of a transducer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum koshi_transducer_method {
    /// The best symbol of each frame. Its score counts labels alone. Without language model and phrases.
    KOSHI_TRANSDUCER_GREEDY = 0,
    /// The beam search of Graves (2012) without merging of prefixes: equal labels may stand twice.
    KOSHI_TRANSDUCER_DEFAULT = 1,
    /// Time-synchronous decoding.
    KOSHI_TRANSDUCER_TSD = 2,
    /// Alignment-length synchronous decoding.
    KOSHI_TRANSDUCER_ALSD = 3,
    /// N-step constrained beam search.
    KOSHI_TRANSDUCER_NSC = 4,
}

use koshi_transducer_method::*;

const METHODS: [(koshi_transducer_method, SearchKind); 5] = [
    (KOSHI_TRANSDUCER_GREEDY, SearchKind::Greedy),
    (KOSHI_TRANSDUCER_DEFAULT, SearchKind::Default),
    (KOSHI_TRANSDUCER_TSD, SearchKind::Tsd),
    (KOSHI_TRANSDUCER_ALSD, SearchKind::Alsd),
    (KOSHI_TRANSDUCER_NSC, SearchKind::Nsc),
];

/// The options of a transducer search.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_transducer_config {
    /// sizeof this struct.
    pub struct_size: u32,
    /// A koshi_transducer_method. Default KOSHI_TRANSDUCER_DEFAULT.
    pub search: i32,
    /// Hypotheses that are kept, and labels that each is extended by; the vocabulary bounds both. At
    /// least 1. All but greedy. Default 5.
    pub beam: u32,
    /// Most labels of a frame. 1 to 1024. Greedy. Default 1.
    pub max_symbols_per_frame: u32,
    /// A frame ends after this many expansions for each place of the beam; the best so far go on, and
    /// the result is KOSHI_OK_PARTIAL. 1 to 1024. Default search. Default 50.
    pub max_expansions_per_frame: u32,
    /// Rounds of a frame: one more than its most labels. 1 to 1024. TSD. Default 2.
    pub max_sym_exp: u32,
    /// Most labels of a finished hypothesis. Where none finishes the best unfinished ones are the result, and
    /// it is KOSHI_OK_PARTIAL. As many steps follow the last row, unless 1024 labels were taken there. A long
    /// stream needs as much as it will have labels: each further one keeps one more row waiting until the end.
    /// 0 to 16777216. ALSD. Default 50.
    pub u_max: u32,
    /// Label extensions of a frame. 1 to 1024; with 1 the closing blank of the last extension is not
    /// counted. NSC. Default 1.
    pub nstep: u32,
    /// By how many labels a hypothesis may be longer than one that it takes over score from. 0 to 1024. NSC.
    /// Default 1.
    pub prefix_alpha: u32,
    /// Weight of lm_predict, on labels only. Finite; 0: it is not asked. Default 0.
    pub lm_weight: f32,
    /// 1: n-best lists are in the order of the score divided by the length with start symbol; 0: of the
    /// score. Default 1.
    pub score_norm: u32,
    /// Most hypotheses of a result. At least 1. Default 1.
    pub nbest: u32,
    /// Predictions that a stream keeps although no hypothesis stands there now, since one may come back; the
    /// others are released at once. Default 1024.
    pub max_cached: u32,
    /// Each so many frames, what the best hypothesis took longer ago than that is decided: hypotheses with
    /// other labels there, or the same at other frames, are dropped. Without it two hypotheses that differ
    /// early may both live for ever, and nothing behind that can be committed. 0: never. All but greedy.
    /// Default 0.
    pub commit_frames: u32,
}

// SAFETY: Pod says that there is no padding and that any bytes will do.
unsafe impl Grows for koshi_transducer_config {
    const NAME: &'static str = "koshi_transducer_config";
    const FIRST_SIZE: usize = 56;

    fn defaults() -> koshi_transducer_config {
        let config = TransducerConfig::default();
        let method = METHODS.iter().find(|(_, kind)| *kind == config.search);
        koshi_transducer_config {
            struct_size: size_of::<koshi_transducer_config>() as u32,
            search: method.map_or(KOSHI_TRANSDUCER_DEFAULT, |(method, _)| *method) as i32,
            beam: config.beam,
            max_symbols_per_frame: config.max_symbols_per_frame,
            max_expansions_per_frame: config.max_expansions_per_frame,
            max_sym_exp: config.max_sym_exp,
            u_max: config.u_max,
            nstep: config.nstep,
            prefix_alpha: config.prefix_alpha,
            lm_weight: config.lm_weight,
            score_norm: config.score_norm.into(),
            nbest: config.nbest,
            max_cached: config.max_cached,
            commit_frames: config.commit_frames,
        }
    }
}

impl koshi_transducer_config {
    /// The options as the search takes them; it checks the ranges.
    pub(super) fn transducer_config(&self) -> Result<TransducerConfig> {
        let search = METHODS.iter().find(|(method, _)| *method as i32 == self.search);
        let search = search
            .ok_or_else(|| Error::Config(format!("search is {}; it must be a koshi_transducer_method", self.search)))?;
        if self.score_norm > 1 {
            return Err(Error::Config(format!("score_norm is {}; it must be 0 or 1", self.score_norm)));
        }
        Ok(TransducerConfig {
            search: search.1,
            beam: self.beam,
            max_symbols_per_frame: self.max_symbols_per_frame,
            max_expansions_per_frame: self.max_expansions_per_frame,
            max_sym_exp: self.max_sym_exp,
            u_max: self.u_max,
            nstep: self.nstep,
            prefix_alpha: self.prefix_alpha,
            lm_weight: self.lm_weight,
            score_norm: self.score_norm == 1,
            nbest: self.nbest,
            max_cached: self.max_cached,
            commit_frames: self.commit_frames,
        })
    }
}

/// Fills *config, of `size` bytes, with the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transducer_config_init(
    config: *mut koshi_transducer_config,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    // SAFETY: the header's promise on structs.
    guard::call(err, || unsafe { config::init(config, size, "config") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_search() {
        let config = koshi_transducer_config::defaults();
        assert_eq!(config.transducer_config().unwrap(), TransducerConfig::default());
        assert!((config.beam, config.u_max, config.max_sym_exp, config.nbest) == (5, 50, 2, 1));
        for (method, kind) in METHODS {
            let config = koshi_transducer_config { search: method as i32, ..config };
            assert_eq!(config.transducer_config().unwrap().search, kind);
        }
    }

    #[test]
    fn what_is_no_choice_is_refused() {
        let config = koshi_transducer_config::defaults();
        for bad in [
            koshi_transducer_config { search: 5, ..config },
            koshi_transducer_config { search: -1, ..config },
            koshi_transducer_config { score_norm: 2, ..config },
        ] {
            assert!(matches!(bad.transducer_config(), Err(Error::Config(_))), "{bad:?}");
        }
    }
}
