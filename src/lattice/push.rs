//! Moving strings and costs of a compact lattice towards its start, as Kaldi's push-lattice does.

use crate::error::{Error, Result, try_filled, try_reserve};

use super::best_path::check_scale;
use super::determinize::costs::Costs;
use super::{CompactLattice, LatticeWeight, Strings};

impl CompactLattice {
    /// Moves transition-ids as near to the start as they go: what all ways on from a state
    /// (but the start) have in common at their beginning is put on the arcs that lead there.
    /// Paths keep their words, costs and transition-ids. Times change with the strings.
    ///
    /// Fails with [`Error::Argument`] where the lattice breaks what its struct promises, and
    /// with [`Error::Limit`] where it would hold more than 2^32 - 1 transition-ids.
    pub fn push_strings(&mut self) -> Result<()> {
        self.validate()?;
        let shifts = self.shifts()?;
        let mut arc_strings = Strings::with_capacity(self.num_arcs())?;
        let mut final_strings = Strings::with_capacity(self.num_states())?;
        for state in 0..self.num_states() {
            let shift = shifts[state] as usize;
            for arc in self.arc_range(state as u32) {
                let len = self.arc_string(arc).len() + shifts[self.arcs[arc].next as usize] as usize;
                // Nothing is common to a state's ways on that one of them has not.
                for label in Labels::of_arc(self, arc).skip(shift).take(len.saturating_sub(shift)) {
                    arc_strings.push_label(label)?;
                }
                arc_strings.end_string()?;
            }
            final_strings.push(self.final_string(state as u32).get(shift..).unwrap_or_default())?;
        }
        (self.arc_strings, self.final_strings) = (arc_strings, final_strings);
        let num_frames = self.num_frames;
        self.set_times()?;
        self.num_frames = self.num_frames.max(num_frames);
        Ok(())
    }

    /// For each state how many labels all ways on from it have in common at their beginning; 0 for the start.
    fn shifts(&self) -> Result<Vec<u32>> {
        let mut shifts = try_filled(0u32, self.num_states(), "pushing a lattice")?;
        for state in (1..self.num_states()).rev() {
            let is_final = !self.finals[state].is_absent();
            let arcs = self.arc_range(state as u32);
            let len_of =
                |arc: usize| u64::from(self.arc_strings.length(arc)) + u64::from(shifts[self.arcs[arc].next as usize]);
            let end = is_final.then_some(self.final_string(state as u32).len() as u64);
            let least = arcs.clone().map(len_of).chain(end).min().unwrap_or(0);
            let mut shift = u32::try_from(least).unwrap_or(u32::MAX) as usize;
            let mut ways = arcs.map(|arc| Labels::of_arc(self, arc));
            let first = if is_final { Labels::of_end(self, state as u32) } else { ways.next().unwrap_or_default() };
            for way in ways {
                shift = first.clone().zip(way).take(shift).take_while(|(a, b)| a == b).count();
            }
            shifts[state] = shift as u32;
        }
        Ok(shifts)
    }

    /// Moves costs as near to the start as they go: after it the best way on from each state
    /// but the start costs nothing, at `graph + acoustic_scale * acoustic`. Paths keep their
    /// costs but for rounding (sums in binary64, rounded once).
    ///
    /// Fails with [`Error::Argument`] where the scale is not finite, the lattice breaks what
    /// its struct promises, or a cost leaves binary32.
    pub fn push_weights(&mut self, acoustic_scale: f32) -> Result<()> {
        check_scale(acoustic_scale)?;
        self.validate()?;
        let scale = f64::from(acoustic_scale);
        let mut to_end = try_filled(Costs::ONE, self.num_states(), "pushing a lattice")?;
        for state in (1..self.num_states()).rev() {
            let end = (!self.finals[state].is_absent()).then(|| Costs::from(self.finals[state]));
            let ways = self.arcs_of(state as u32).iter();
            let ways = ways.map(|arc| Costs::from(arc.weight).plus(to_end[arc.next as usize]));
            to_end[state] = ways.chain(end).min_by(|a, b| a.order(*b, scale)).unwrap_or(Costs::ONE);
        }
        let mut arcs = Vec::new();
        try_reserve(&mut arcs, self.arcs.len(), "pushing a lattice")?;
        let mut finals = try_filled(LatticeWeight::ZERO, self.num_states(), "pushing a lattice")?;
        for state in 0..self.num_states() {
            for &arc in self.arcs_of(state as u32) {
                let costs = Costs::from(arc.weight).plus(to_end[arc.next as usize]).minus(to_end[state]);
                arcs.push(super::LatticeArc { weight: costs.rounded()?, ..arc });
            }
            if !self.finals[state].is_absent() {
                finals[state] = Costs::from(self.finals[state]).minus(to_end[state]).rounded()?;
            }
        }
        (self.arcs, self.finals) = (arcs, finals);
        Ok(())
    }
}

/// The labels on one way through a lattice: the first arc of each state, or its end.
#[derive(Clone, Default)]
struct Labels<'a> {
    lattice: Option<&'a CompactLattice>,
    string: std::slice::Iter<'a, i32>,
    /// The state that follows; none past an end.
    next: Option<u32>,
}

impl<'a> Labels<'a> {
    fn of_arc(lattice: &'a CompactLattice, arc: usize) -> Labels<'a> {
        let next = lattice.arcs.get(arc).map(|arc| arc.next);
        Labels { lattice: Some(lattice), string: lattice.arc_string(arc).iter(), next }
    }

    fn of_end(lattice: &'a CompactLattice, state: u32) -> Labels<'a> {
        Labels { lattice: Some(lattice), string: lattice.final_string(state).iter(), next: None }
    }
}

impl Iterator for Labels<'_> {
    type Item = i32;

    fn next(&mut self) -> Option<i32> {
        loop {
            if let Some(&label) = self.string.next() {
                return Some(label);
            }
            let (lattice, state) = (self.lattice?, self.next?);
            *self = match lattice.finals[state as usize].is_absent() {
                false => Labels::of_end(lattice, state),
                true => Labels::of_arc(lattice, lattice.arc_range(state).start),
            };
        }
    }
}

impl Costs {
    /// In binary32. Fails with [`Error::Argument`] where that is not finite.
    pub(in crate::lattice) fn rounded(self) -> Result<LatticeWeight> {
        let weight = LatticeWeight { graph: self.graph as f32, acoustic: self.acoustic as f32 };
        if weight.graph.is_finite() && weight.acoustic.is_finite() {
            return Ok(weight.canonical());
        }
        Err(Error::Argument(format!("lattice: an arc would cost {},{}: too much", self.graph, self.acoustic)))
    }
}
