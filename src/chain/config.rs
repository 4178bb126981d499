//! Options of the objective.

use crate::error::{Error, Result};
use crate::random::SplitMix;

/// Where the objective is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChainBackend {
    /// The GPU if one is usable and has the memory for it, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU, or an error.
    Cuda,
}

/// The options of the chain objective, as in Kaldi's `ChainTrainingOptions`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChainConfig {
    /// Where to compute.
    pub backend: ChainBackend,
    /// Index of the GPU, from 0.
    pub device: u32,
    /// Threads over which sequences are spread: 1 to 1024. Results do not depend on it.
    pub num_threads: u32,
    /// Scale of the l2 penalty on the network's output. 0 or more.
    pub l2_regularize: f32,
    /// Scale of the penalty on outputs beyond +-30, which is in the derivative only. 0 or more.
    pub out_of_range_regularize: f32,
    /// How likely it is to leap to any state between frames: 0 or more, below 1.
    pub leaky_hmm_coefficient: f32,
    /// Scale of the cross-entropy objective. Kept for the caller: no result here is multiplied by it. 0 or more.
    pub xent_regularize: f32,
    /// Whether the out-of-range penalty is drawn, as in Kaldi: nothing in half of the calls, twice its scale in the
    /// others. Else it is applied at its scale in each.
    pub randomised_penalty: bool,
    /// Whether occupancies below 2^-14, of which a pdf's is the sum, are drawn on a GPU, as in Kaldi: each becomes 2^-14
    /// or nothing, with the same mean. The CPU adds them up as they are.
    pub randomised_thresholds: bool,
    /// What these are drawn from: the same number draws the same. A number that counts the calls will do.
    pub seed: u64,
}

impl Default for ChainConfig {
    fn default() -> ChainConfig {
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(1024) as u32);
        ChainConfig {
            backend: ChainBackend::Auto,
            device: 0,
            num_threads: threads,
            l2_regularize: 0.0,
            out_of_range_regularize: 0.01,
            leaky_hmm_coefficient: 1e-5,
            xent_regularize: 0.0,
            randomised_penalty: false,
            randomised_thresholds: false,
            seed: 0,
        }
    }
}

impl ChainConfig {
    /// [`Error::Config`] for an option out of its range.
    pub fn check(&self) -> Result<()> {
        for (name, value) in [
            ("l2_regularize", self.l2_regularize),
            ("out_of_range_regularize", self.out_of_range_regularize),
            ("xent_regularize", self.xent_regularize),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::Config(format!("{name} is {value}; it must be 0 or more and finite")));
            }
        }
        let leak = self.leaky_hmm_coefficient;
        if !(0.0..1.0).contains(&leak) {
            return Err(Error::Config(format!("leaky_hmm_coefficient is {leak}; it must be 0 or more and below 1")));
        }
        if !(1..=1024).contains(&self.num_threads) {
            return Err(Error::Config(format!("num_threads is {}; it must be 1 to 1024", self.num_threads)));
        }
        Ok(())
    }

    /// Below which occupancies are drawn; 0 for none.
    pub(super) fn threshold(&self) -> f32 {
        if self.randomised_thresholds { 1.0 / f32::from(1u16 << 14) } else { 0.0 }
    }

    /// The scale at which the out-of-range penalty is applied in this call.
    pub(super) fn penalty_scale(&self) -> f32 {
        match self.randomised_penalty {
            false => self.out_of_range_regularize,
            true if SplitMix::new(self.seed).next_bits() & 1 == 1 => 2.0 * self.out_of_range_regularize,
            true => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked() {
        let good = ChainConfig::default();
        good.check().unwrap();
        ChainConfig { leaky_hmm_coefficient: 0.0, ..good }.check().unwrap();
        for bad in [
            ChainConfig { leaky_hmm_coefficient: 1.0, ..good },
            ChainConfig { leaky_hmm_coefficient: f32::NAN, ..good },
            ChainConfig { l2_regularize: -1.0, ..good },
            ChainConfig { out_of_range_regularize: f32::INFINITY, ..good },
            ChainConfig { xent_regularize: f32::NAN, ..good },
            ChainConfig { num_threads: 0, ..good },
        ] {
            assert!(matches!(bad.check(), Err(Error::Config(_))), "{bad:?}");
        }
    }

    #[test]
    fn the_drawn_penalty_has_the_mean_of_the_other() {
        let config = ChainConfig { randomised_penalty: true, ..ChainConfig::default() };
        let scales = (0..2000).map(|seed| ChainConfig { seed, ..config }.penalty_scale());
        let drawn = scales.filter(|scale| *scale > 0.0).inspect(|scale| assert_eq!(*scale, 0.02)).count();
        assert!((900..1100).contains(&drawn), "{drawn}");
        assert_eq!(ChainConfig::default().penalty_scale(), 0.01);
    }
}
