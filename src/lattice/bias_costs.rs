//! What phrases cost in a raw lattice, apart from graph and acoustic costs.

use std::borrow::Cow;

use crate::error::{Error, Result, try_copy, try_reserve};

use super::{Lattice, LatticeArc, LatticeWeight, RawLattice};

/// Bias costs of a raw lattice: of its arcs, and of ending in its states. Both empty where there were no phrases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BiasCosts {
    /// By arc.
    pub arcs: Vec<f32>,
    /// By state; where it is not final, 0.
    pub finals: Vec<f32>,
}

impl BiasCosts {
    /// Whether there were no phrases.
    pub fn is_empty(&self) -> bool {
        self.arcs.is_empty() && self.finals.is_empty()
    }

    /// Refuses arrays that do not fit `lattice`, and costs that are not finite.
    pub(super) fn check(&self, lattice: &RawLattice) -> Result<()> {
        let given = (self.arcs.len(), self.finals.len());
        if !self.is_empty() && given != (lattice.num_arcs(), lattice.num_states()) {
            return Err(Error::Argument(format!("lattice: {} and {} bias costs", given.0, given.1)));
        }
        match self.arcs.iter().chain(&self.finals).find(|cost| !cost.is_finite()) {
            None => Ok(()),
            Some(cost) => Err(Error::Argument(format!("lattice: a bias cost of {cost}"))),
        }
    }

    /// Those of some arcs and states, in order.
    pub(super) fn select(
        &self,
        arcs: impl ExactSizeIterator<Item = u32>,
        states: impl ExactSizeIterator<Item = u32>,
    ) -> Result<BiasCosts> {
        let mut kept = BiasCosts::default();
        if !self.is_empty() {
            try_reserve(&mut kept.arcs, arcs.len(), "arcs of a lattice")?;
            try_reserve(&mut kept.finals, states.len(), "states of a lattice")?;
            kept.arcs.extend(arcs.map(|arc| self.arc(arc as usize)));
            kept.finals.extend(states.map(|state| self.end(state as usize)));
        }
        Ok(kept)
    }

    /// Multiplies all costs by `factor`, or leaves them as they are where a product is not finite.
    pub(super) fn scale(&mut self, factor: f32) -> Result<()> {
        let costs = || self.arcs.iter().chain(&self.finals);
        if let Some(cost) = costs().find(|cost| !(*cost * factor).is_finite()) {
            return Err(Error::Argument(format!("a bias cost of {cost} scaled by {factor} is not finite")));
        }
        self.arcs.iter_mut().chain(&mut self.finals).for_each(|cost| *cost = *cost * factor + 0.0);
        Ok(())
    }

    /// Bias cost of an arc.
    pub fn arc(&self, arc: usize) -> f32 {
        self.arcs.get(arc).copied().unwrap_or(0.0)
    }

    /// Bias cost of ending in a state.
    pub fn end(&self, state: usize) -> f32 {
        self.finals.get(state).copied().unwrap_or(0.0)
    }
}

impl RawLattice {
    /// The lattice with `scale` times the bias costs added to the graph costs, each product and sum rounded
    /// once, and none left apart. With 1 these are the costs that the search went by, with 0 those of a
    /// lattice that knows of no phrases.
    ///
    /// Fails with [`Error::Argument`] for a scale or a cost that is not finite.
    pub fn with_bias(&self, scale: f32) -> Result<RawLattice> {
        if !scale.is_finite() {
            return Err(Error::Argument(format!("bias scale is {scale}; it must be finite")));
        }
        let mut lattice = RawLattice {
            offsets: try_copy(&self.offsets, "states of a lattice")?,
            times: try_copy(&self.times, "states of a lattice")?,
            acoustic_scale: self.acoustic_scale,
            num_frames: self.num_frames,
            reached_final: self.reached_final,
            ..RawLattice::default()
        };
        try_reserve(&mut lattice.arcs, self.arcs.len(), "arcs of a lattice")?;
        try_reserve(&mut lattice.finals, self.finals.len(), "states of a lattice")?;
        for (arc, &LatticeArc { weight, .. }) in self.arcs.iter().enumerate() {
            let weight = weight.with_bias(scale * self.bias.arc(arc))?;
            lattice.arcs.push(LatticeArc { weight, ..self.arcs[arc] });
        }
        for (state, &weight) in self.finals.iter().enumerate() {
            lattice.finals.push(weight.with_bias(scale * self.bias.end(state))?);
        }
        Ok(lattice)
    }

    /// What all that chooses between paths works on: [`RawLattice::with_bias`] 1 where there are bias costs
    /// apart, else the lattice itself.
    pub(crate) fn biased(&self) -> Result<Cow<'_, RawLattice>> {
        if self.bias.is_empty() { Ok(Cow::Borrowed(self)) } else { self.with_bias(1.0).map(Cow::Owned) }
    }
}

impl Lattice {
    /// As [`RawLattice::with_bias`]; a compact lattice has no bias costs apart and stays as it is.
    pub fn with_bias(&self, scale: f32) -> Result<Lattice> {
        match self {
            Lattice::Raw(lattice) => lattice.with_bias(scale).map(Lattice::Raw),
            Lattice::Compact(lattice) => lattice.prune(f32::INFINITY, lattice.acoustic_scale).map(Lattice::Compact),
        }
    }

    /// Bias costs of the arcs and of the states; both empty without phrases and in a compact lattice.
    pub fn bias_costs(&self) -> (&[f32], &[f32]) {
        match self {
            Lattice::Raw(RawLattice { bias, .. }) => (&bias.arcs, &bias.finals),
            Lattice::Compact(_) => (&[], &[]),
        }
    }

    /// As [`RawLattice::biased`].
    pub(crate) fn biased(&self) -> Result<Cow<'_, Lattice>> {
        match self {
            Lattice::Raw(lattice) if !lattice.bias.is_empty() => {
                lattice.with_bias(1.0).map(|lattice| Cow::Owned(Lattice::Raw(lattice)))
            }
            _ => Ok(Cow::Borrowed(self)),
        }
    }
}

impl LatticeWeight {
    /// The weight with a bias cost added to its graph cost, rounded once; what is absent stays absent.
    /// [`Error::Argument`] where the sum is not finite.
    pub fn with_bias(self, bias: f32) -> Result<LatticeWeight> {
        if self.is_absent() || bias == 0.0 {
            return Ok(self);
        }
        let graph = self.graph + bias;
        match graph.is_finite() {
            true => Ok(LatticeWeight { graph, ..self }.canonical()),
            false => Err(Error::Argument(format!("lattice: a graph cost of {} and a bias cost of {bias}", self.graph))),
        }
    }
}
