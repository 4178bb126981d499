//! Pruning at a beam, and scaling of costs.

use crate::error::{Error, Result};

use super::best_path::{Scales, backward, best_route, check_scale, forward};
use super::raw::rebuild;
use super::topology::{Order, View, filled, sort_and_trim};
use super::{CompactLattice, LatticeArc, LatticeWeight, RawLattice};

/// Which arcs and final states lie on a path within the beam.
struct Within {
    arcs: Vec<bool>,
    finals: Vec<bool>,
    order: Order,
}

fn within(view: View, beam: f32, acoustic_scale: f32) -> Result<Within> {
    check_scale(acoustic_scale)?;
    if beam.is_nan() || beam < 0.0 {
        return Err(Error::Argument(format!("beam is {beam}; it must not be negative")));
    }
    let (alpha, beta) = (forward(view, acoustic_scale)?, backward(view, acoustic_scale)?);
    let limit = beta.first().copied().unwrap_or(f64::INFINITY) + f64::from(beam);
    let mut arcs = filled(view.arcs.len(), false)?;
    let mut finals = filled(view.num_states(), false)?;
    for state in 0..view.num_states() {
        for arc in view.arc_range(state) {
            let through =
                alpha[state] + view.arcs[arc].weight.total(acoustic_scale) + beta[view.arcs[arc].next as usize];
            arcs[arc] = through <= limit;
        }
        finals[state] =
            !view.finals[state].is_absent() && alpha[state] + view.finals[state].total(acoustic_scale) <= limit;
    }
    // Sums of the same path in another order may differ in the last bit: a beam of 0 must not lose it.
    let best = best_route(view, Scales::acoustic(acoustic_scale))?;
    best.arcs.iter().for_each(|&arc| arcs[arc as usize] = true);
    best.last.iter().for_each(|&state| finals[state as usize] = true);
    let order = sort_and_trim(view, Some(0), |arc| arcs[arc], |state| finals[state])?;
    Ok(Within { arcs, finals, order })
}

/// Multiplies a weight; what is absent stays absent. Fails where a cost leaves the range of binary32.
fn scaled(weight: LatticeWeight, graph: f32, acoustic: f32) -> Result<LatticeWeight> {
    if weight.is_absent() {
        return Ok(LatticeWeight::ZERO);
    }
    let product = LatticeWeight { graph: weight.graph * graph, acoustic: weight.acoustic * acoustic };
    if product.graph.is_finite() && product.acoustic.is_finite() {
        return Ok(product.canonical());
    }
    Err(Error::Argument(format!(
        "costs {},{} scaled by {graph},{acoustic} are not finite",
        weight.graph, weight.acoustic
    )))
}

impl RawLattice {
    /// The arcs and final states that lie on a path whose `graph + acoustic_scale *
    /// acoustic` is at most `beam` above the best one's, in binary64, graph costs with the bias costs. The best path always
    /// stays. States keep their order. `beam` may be 0 or `+inf`, not negative or NaN.
    pub fn prune(&self, beam: f32, acoustic_scale: f32) -> Result<RawLattice> {
        let keep = within(self.biased()?.view(), beam, acoustic_scale)?;
        let (mut lattice, kept_arcs) =
            rebuild(self.view(), &keep.order, |arc| keep.arcs[arc], |state| keep.finals[state])?;
        let states = keep.order.states.iter();
        lattice.bias = self.bias.select(kept_arcs.into_iter(), states.copied())?;
        lattice.times = if self.times.is_empty() { Vec::new() } else { kept_times(&self.times, &keep.order)? };
        lattice.acoustic_scale = self.acoustic_scale;
        lattice.num_frames = self.num_frames;
        lattice.reached_final = self.reached_final;
        Ok(lattice)
    }

    /// Multiplies graph costs, bias costs with them, and acoustic costs, rounding once to binary32. The field
    /// `acoustic_scale` stays. Fails with [`Error::Argument`], the lattice unchanged,
    /// when a product is not finite.
    pub fn scale(&mut self, graph: f32, acoustic: f32) -> Result<()> {
        check_scaled(&self.arcs, &self.finals, graph, acoustic)?;
        self.bias.scale(graph)?;
        scale_all(&mut self.arcs, &mut self.finals, graph, acoustic)
    }
}

impl CompactLattice {
    /// As [`RawLattice::prune`].
    pub fn prune(&self, beam: f32, acoustic_scale: f32) -> Result<CompactLattice> {
        let keep = within(self.view(), beam, acoustic_scale)?;
        let (arcs, finals) = (|arc| keep.arcs[arc], |state| keep.finals[state]);
        let (arc_strings, final_strings) = (&self.arc_strings, &self.final_strings);
        let mut lattice = CompactLattice::rebuilt(self.view(), arc_strings, final_strings, &keep.order, arcs, finals)?;
        lattice.times = if self.times.is_empty() { Vec::new() } else { kept_times(&self.times, &keep.order)? };
        lattice.acoustic_scale = self.acoustic_scale;
        lattice.num_frames = self.num_frames;
        lattice.reached_final = self.reached_final;
        Ok(lattice)
    }

    /// As [`RawLattice::scale`].
    pub fn scale(&mut self, graph: f32, acoustic: f32) -> Result<()> {
        scale_all(&mut self.arcs, &mut self.finals, graph, acoustic)
    }
}

fn kept_times(times: &[u32], order: &Order) -> Result<Vec<u32>> {
    let mut kept = filled(order.states.len(), 0u32)?;
    for (new, &old) in order.states.iter().enumerate() {
        kept[new] = times[old as usize];
    }
    Ok(kept)
}

/// Refuses factors that make a cost infinite.
fn check_scaled(arcs: &[LatticeArc], finals: &[LatticeWeight], graph: f32, acoustic: f32) -> Result<()> {
    let mut weights = arcs.iter().map(|arc| arc.weight).chain(finals.iter().copied());
    weights.try_for_each(|weight| scaled(weight, graph, acoustic).map(drop))
}

fn scale_all(arcs: &mut [LatticeArc], finals: &mut [LatticeWeight], graph: f32, acoustic: f32) -> Result<()> {
    check_scaled(arcs, finals, graph, acoustic)?;
    for weight in arcs.iter_mut().map(|arc| &mut arc.weight).chain(finals) {
        *weight = scaled(*weight, graph, acoustic)?;
    }
    Ok(())
}
