//! Merging states of a compact lattice from which the same goes on.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::error::{Error, Result, try_filled};

use super::determinize::index::Index;
use super::topology::sort_and_trim;
use super::{CompactLattice, LatticeWeight};

impl CompactLattice {
    /// Pushes strings, pushes costs at `acoustic_scale`, and merges states that then have the
    /// same words, strings and next states, and totals (`graph + acoustic_scale * acoustic`)
    /// within `delta` (Kaldi's `lattice-minimize`). A deterministic lattice becomes the least
    /// one with its paths. Costs of a path change by at most `delta` an arc.
    ///
    /// Fails with [`Error::Argument`] as [`CompactLattice::push_strings`] and
    /// [`CompactLattice::push_weights`] do, and with [`Error::Config`] for a `delta` that is
    /// negative or not finite.
    pub fn minimize(&mut self, acoustic_scale: f32, delta: f32) -> Result<()> {
        if !(delta.is_finite() && delta >= 0.0) {
            return Err(Error::Config(format!("delta is {delta}; it must be 0 or more, and finite")));
        }
        self.push_strings()?;
        self.push_weights(acoustic_scale)?;
        let twin = self.twins(acoustic_scale, f64::from(delta))?;
        for arc in &mut self.arcs {
            arc.next = twin[arc.next as usize];
        }
        let order = sort_and_trim(self.view(), Some(0), |_| true, |state| !self.finals[state].is_absent())?;
        let (arcs, finals) = (&self.arc_strings, &self.final_strings);
        let merged = CompactLattice::rebuilt(self.view(), arcs, finals, &order, |_| true, |_| true)?;
        let (acoustic_scale, num_frames, reached_final) = (self.acoustic_scale, self.num_frames, self.reached_final);
        *self = CompactLattice { acoustic_scale, reached_final, ..merged };
        self.set_times()?;
        self.num_frames = self.num_frames.max(num_frames);
        Ok(())
    }

    /// For each state the last one that is equal to it: itself, or a later one.
    fn twins(&self, scale: f32, delta: f64) -> Result<Vec<u32>> {
        let mut twin = try_filled(0u32, self.num_states(), "minimizing a lattice")?;
        let mut hashes = try_filled(0u64, self.num_states(), "minimizing a lattice")?;
        let mut index = Index::default();
        for state in (0..self.num_states() as u32).rev() {
            let hash = self.hash_of_ways(state, &twin);
            hashes[state as usize] = hash;
            let found = index.find(hash, |other| {
                hashes[other as usize] == hash && self.same_ways(state, other, &twin, scale, delta)
            });
            twin[state as usize] = found.unwrap_or(state);
            if found.is_none() {
                index.insert(hash, state, |other| hashes[other as usize])?;
            }
        }
        Ok(twin)
    }

    /// A hash of all that must be equal exactly: not of the costs.
    fn hash_of_ways(&self, state: u32, twin: &[u32]) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.finals[state as usize].is_absent().hash(&mut hasher);
        self.final_string(state).hash(&mut hasher);
        // Arcs may stand in any order.
        let arc_hash = |arc: usize| {
            let mut hasher = DefaultHasher::new();
            (self.arcs[arc].olabel, twin[self.arcs[arc].next as usize], self.arc_string(arc)).hash(&mut hasher);
            hasher.finish()
        };
        self.arc_range(state).map(arc_hash).fold(0u64, u64::wrapping_add).hash(&mut hasher);
        hasher.finish()
    }

    fn same_ways(&self, a: u32, b: u32, twin: &[u32], scale: f32, delta: f64) -> bool {
        let near = |a: LatticeWeight, b: LatticeWeight| {
            a.is_absent() && b.is_absent() || (a.total(scale) - b.total(scale)).abs() <= delta
        };
        let same_end = near(self.finals[a as usize], self.finals[b as usize]);
        if !same_end || self.final_string(a) != self.final_string(b) {
            return false;
        }
        let sorted = |state: u32| {
            let mut arcs: Vec<usize> = self.arc_range(state).collect();
            arcs.sort_unstable_by_key(|&arc| (self.arcs[arc].olabel, twin[self.arcs[arc].next as usize], arc));
            arcs
        };
        let (a, b) = (sorted(a), sorted(b));
        a.len() == b.len()
            && a.into_iter().zip(b).all(|(x, y)| {
                let (p, q) = (&self.arcs[x], &self.arcs[y]);
                (p.olabel, twin[p.next as usize]) == (q.olabel, twin[q.next as usize])
                    && near(p.weight, q.weight)
                    && self.arc_string(x) == self.arc_string(y)
            })
    }
}
