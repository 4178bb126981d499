//! The best path as a lattice of its own, which tells the costs of each of its arcs.

use crate::error::{Result, try_reserve};
use crate::lattice::{BiasCosts, LatticeArc, LatticeWeight, RawLattice};

use super::backtrace::{Links, Place, WayBack};

impl Links<'_> {
    /// The lattice of the best path to `end`, where it pays `final_cost` and the bias cost `held`. It begins
    /// behind what has been committed.
    pub fn best_lattice(&self, end: Place, final_cost: f32, held: f32, acoustic_scale: f32) -> Result<RawLattice> {
        let base = self.trace.base();
        let (mut steps, mut way) = (Vec::new(), WayBack::default());
        let mut at = end;
        while let Some(step) = way.best_link(self, at)? {
            try_reserve(&mut steps, 1, WHAT)?;
            steps.push((at, step));
            at = step.from;
        }
        let mut lattice = RawLattice::empty(acoustic_scale);
        let num_states = steps.len() + 1;
        let mut bias = BiasCosts::default();
        try_reserve(&mut lattice.arcs, steps.len(), WHAT)?;
        try_reserve(&mut lattice.offsets, num_states, WHAT)?;
        try_reserve(&mut lattice.finals, num_states, WHAT)?;
        try_reserve(&mut lattice.times, num_states, WHAT)?;
        try_reserve(&mut bias.arcs, steps.len(), WHAT)?;
        try_reserve(&mut bias.finals, num_states, WHAT)?;
        for (to, step) in steps.iter().rev() {
            lattice.arcs.push(LatticeArc {
                next: lattice.arcs.len() as u32 + 1,
                ilabel: self.graph.ilabel(step.source.state, step.arc),
                olabel: self.graph.olabel(step.arc),
                weight: LatticeWeight {
                    graph: self.graph.state(step.source.state).weight(step.arc),
                    acoustic: self.acoustic_cost(to.time, step),
                },
            });
            lattice.offsets.push(lattice.arcs.len() as u32);
            lattice.finals.push(LatticeWeight::ZERO);
            lattice.times.push((step.from.time - base) as u32);
            bias.arcs.push(self.bias_cost(*to, step));
            bias.finals.push(0.0);
        }
        lattice.offsets.push(lattice.arcs.len() as u32);
        lattice.finals.push(LatticeWeight { graph: final_cost, acoustic: 0.0 });
        lattice.num_frames = (end.time - base) as u32;
        lattice.times.push(lattice.num_frames);
        bias.finals.push(held);
        if self.bias.is_on() {
            lattice.bias = bias;
        }
        Ok(lattice)
    }
}

/// What the memory of this file is for, in messages.
const WHAT: &str = "best path";
