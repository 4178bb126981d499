//! The pair of costs on an arc or a final state.

/// A pair of costs (negative natural logs), kept apart as Kaldi's lattice weight does.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct LatticeWeight {
    /// Cost of the graph: language model, lexicon, transitions.
    pub graph: f32,
    /// Acoustic cost *without* the acoustic scale: `-ll`.
    pub acoustic: f32,
}

impl LatticeWeight {
    /// Costs nothing.
    pub const ONE: LatticeWeight = LatticeWeight { graph: 0.0, acoustic: 0.0 };
    /// Not there at all.
    pub const ZERO: LatticeWeight = LatticeWeight { graph: f32::INFINITY, acoustic: f32::INFINITY };

    /// Whether what carries this weight is not there: one of the costs is `+inf`.
    pub fn is_absent(self) -> bool {
        self.graph == f32::INFINITY || self.acoustic == f32::INFINITY
    }

    /// Whether both costs may stand in a lattice: neither is NaN or `-inf`.
    pub fn is_usable(self) -> bool {
        self.graph > f32::NEG_INFINITY && self.acoustic > f32::NEG_INFINITY
    }

    /// `graph + acoustic_scale * acoustic` in binary64; `+inf` when absent, whatever the scale.
    pub fn total(self, acoustic_scale: f32) -> f64 {
        if self.is_absent() {
            return f64::INFINITY;
        }
        f64::from(self.graph) + f64::from(acoustic_scale) * f64::from(self.acoustic)
    }

    /// The one form of equal weights: no `-0.0`, and [`LatticeWeight::ZERO`] for all that is absent.
    pub fn canonical(self) -> LatticeWeight {
        if self.is_absent() {
            return LatticeWeight::ZERO;
        }
        // Adding +0 turns -0 into +0 and changes nothing else.
        LatticeWeight { graph: self.graph + 0.0, acoustic: self.acoustic + 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::LatticeWeight;

    #[test]
    fn totals_keep_infinity_at_scale_zero() {
        let absent = LatticeWeight { graph: 1.0, acoustic: f32::INFINITY };
        assert_eq!(absent.total(0.0), f64::INFINITY);
        assert_eq!(absent.total(-1.0), f64::INFINITY);
        assert_eq!(LatticeWeight { graph: 1.0, acoustic: 3.0 }.total(0.5), 2.5);
    }

    #[test]
    fn canonical_has_no_negative_zero_and_one_zero() {
        let weight = LatticeWeight { graph: -0.0, acoustic: -0.0 }.canonical();
        assert!(weight.graph.is_sign_positive() && weight.acoustic.is_sign_positive());
        assert_eq!(LatticeWeight { graph: 1.0, acoustic: f32::INFINITY }.canonical(), LatticeWeight::ZERO);
    }

    #[test]
    fn nan_and_negative_infinity_are_not_usable() {
        for bad in [f32::NAN, f32::NEG_INFINITY] {
            assert!(!LatticeWeight { graph: bad, acoustic: 0.0 }.is_usable());
            assert!(!LatticeWeight { graph: 0.0, acoustic: bad }.is_usable());
        }
        assert!(LatticeWeight::ZERO.is_usable());
    }
}
