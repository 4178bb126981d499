//! What determinization may be asked for.

use crate::error::{Error, Result};

/// Settings of a determinization. Defaults are Kaldi's
/// (`DeterminizeLatticePhonePrunedOptions`, and 10 for the beam).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeterminizeConfig {
    /// Word sequences whose best `graph + acoustic_scale * acoustic` lies within this of the
    /// lattice's best are kept. 0 or more; `+inf` keeps all.
    pub beam: f32,
    /// Scale of the acoustic costs wherever two costs are compared; finite. The costs in the
    /// result are without it.
    pub acoustic_scale: f32,
    /// Whether a first pass determinizes on words and phones, where a transition model is given.
    pub phone_determinize: bool,
    /// Whether a pass determinizes on words. Without it the result is not deterministic.
    pub word_determinize: bool,
    /// Whether strings and weights are pushed and equal states merged at the end.
    pub minimize: bool,
    /// Two costs within this count as equal where states are merged; 0 or more, finite.
    pub delta: f32,
    /// Bytes that a pass may hold; 0 for no cap. Past it the pass stops, best paths first.
    pub max_mem: u64,
}

impl Default for DeterminizeConfig {
    fn default() -> DeterminizeConfig {
        DeterminizeConfig {
            beam: 10.0,
            acoustic_scale: 1.0,
            phone_determinize: true,
            word_determinize: true,
            minimize: false,
            delta: 1.0 / 1024.0,
            max_mem: 50_000_000,
        }
    }
}

impl DeterminizeConfig {
    /// Refuses with [`Error::Config`] a value outside its range, naming it.
    pub fn check(&self) -> Result<()> {
        let bad = |name: &str, value: f32, range: &str| Err(Error::Config(format!("{name} is {value}; {range}")));
        if self.beam.is_nan() || self.beam < 0.0 {
            return bad("beam", self.beam, "it must be 0 or more");
        }
        if !self.acoustic_scale.is_finite() {
            return bad("acoustic_scale", self.acoustic_scale, "it must be finite");
        }
        if !(self.delta.is_finite() && self.delta >= 0.0) {
            return bad("delta", self.delta, "it must be 0 or more, and finite");
        }
        Ok(())
    }
}
