//! The two costs of a partial path, in binary64, and which of two paths is the better one.

use std::cmp::Ordering;

use super::super::LatticeWeight;

/// Graph cost and unscaled acoustic cost. Sums of some thousand binary32 costs are exact in
/// binary64 but for extreme inputs, so they do not depend on the order of adding.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::lattice) struct Costs {
    pub graph: f64,
    pub acoustic: f64,
}

impl Costs {
    pub const ONE: Costs = Costs { graph: 0.0, acoustic: 0.0 };

    pub fn plus(self, other: Costs) -> Costs {
        Costs { graph: self.graph + other.graph, acoustic: self.acoustic + other.acoustic }
    }

    pub fn minus(self, other: Costs) -> Costs {
        Costs { graph: self.graph - other.graph, acoustic: self.acoustic - other.acoustic }
    }

    pub fn total(self, scale: f64) -> f64 {
        self.graph + scale * self.acoustic
    }

    /// `Less` where `self` is the better one: the lower total; of equal ones the lower graph
    /// cost, which is the lower difference of graph and acoustic cost (Kaldi's `Compare` of
    /// lattice weights).
    pub fn order(self, other: Costs, scale: f64) -> Ordering {
        let by = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or(Ordering::Equal);
        by(self.total(scale), other.total(scale)).then_with(|| by(self.graph, other.graph))
    }
}

impl From<LatticeWeight> for Costs {
    fn from(weight: LatticeWeight) -> Costs {
        Costs { graph: f64::from(weight.graph), acoustic: f64::from(weight.acoustic) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_total_then_lower_graph_cost_is_better() {
        let costs = |graph, acoustic| Costs { graph, acoustic };
        assert_eq!(costs(1.0, 2.0).order(costs(1.0, 4.0), 0.5), Ordering::Less);
        assert_eq!(costs(1.0, 4.0).order(costs(2.0, 2.0), 0.5), Ordering::Less);
        assert_eq!(costs(2.0, 2.0).order(costs(1.0, 4.0), 0.5), Ordering::Greater);
        assert_eq!(costs(0.0, 1.0).order(costs(-0.0, 1.0), 0.5), Ordering::Equal);
    }
}
