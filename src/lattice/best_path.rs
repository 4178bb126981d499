//! Least costs through a lattice, and the path that has them.

use crate::error::{Error, Result, try_reserve};

use super::topology::{View, filled};
use super::{CompactLattice, Lattice, LatticeWeight, Path, RawLattice, Route};

/// Refuses an acoustic scale that is not finite.
pub(crate) fn check_scale(acoustic_scale: f32) -> Result<()> {
    if acoustic_scale.is_finite() {
        return Ok(());
    }
    Err(Error::Argument(format!("acoustic scale is {acoustic_scale}; it must be finite")))
}

/// Factors of graph and acoustic costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scales {
    pub graph: f32,
    pub acoustic: f32,
}

impl Scales {
    /// Graph costs as they are.
    pub fn acoustic(acoustic: f32) -> Scales {
        Scales { graph: 1.0, acoustic }
    }

    /// Refuses scales that are not finite.
    pub fn check(self) -> Result<()> {
        check_scale(self.acoustic)?;
        match self.graph.is_finite() {
            true => Ok(()),
            false => Err(Error::Argument(format!("graph scale is {}; it must be finite", self.graph))),
        }
    }

    /// The scaled sum of both costs in binary64; `+inf` when absent, whatever the scales.
    pub fn total(self, weight: LatticeWeight) -> f64 {
        if weight.is_absent() {
            return f64::INFINITY;
        }
        f64::from(self.graph) * f64::from(weight.graph) + f64::from(self.acoustic) * f64::from(weight.acoustic)
    }
}

/// Least cost from the start to each state.
pub(crate) fn forward(view: View, acoustic_scale: f32) -> Result<Vec<f64>> {
    let mut cost = filled(view.num_states(), f64::INFINITY)?;
    if let Some(start) = cost.first_mut() {
        *start = 0.0;
    }
    for state in 0..view.num_states() {
        for arc in view.arcs_of(state) {
            let candidate = cost[state] + arc.weight.total(acoustic_scale);
            let next = &mut cost[arc.next as usize];
            *next = next.min(candidate);
        }
    }
    Ok(cost)
}

/// Least cost from each state to the end, final cost included.
pub(crate) fn backward(view: View, acoustic_scale: f32) -> Result<Vec<f64>> {
    let mut cost = filled(view.num_states(), f64::INFINITY)?;
    for state in (0..view.num_states()).rev() {
        let ends = view.finals[state].total(acoustic_scale);
        let leaves = view.arcs_of(state).iter().map(|arc| arc.weight.total(acoustic_scale) + cost[arc.next as usize]);
        cost[state] = leaves.fold(ends, f64::min);
    }
    Ok(cost)
}

/// Finds the path of least total. Of equal final states the lowest number is taken; from
/// there back, of equal arcs into a state the lowest number. So the answer depends on
/// nothing but the lattice.
pub(crate) fn best_route(view: View, scales: Scales) -> Result<Route> {
    let states = view.num_states();
    let mut cost = filled(states, f64::INFINITY)?;
    let mut best_into = filled(states, (0u32, 0u32))?;
    let mut best: Option<(f64, u32)> = None;
    if let Some(start) = cost.first_mut() {
        *start = 0.0;
    }
    for state in 0..states {
        let total = cost[state] + scales.total(view.finals[state]);
        if total < best.map_or(f64::INFINITY, |(least, _)| least) {
            best = Some((total, state as u32));
        }
        for arc in view.arc_range(state) {
            let next = view.arcs[arc].next as usize;
            let candidate = cost[state] + scales.total(view.arcs[arc].weight);
            if candidate < cost[next] {
                cost[next] = candidate;
                best_into[next] = (state as u32, arc as u32);
            }
        }
    }
    let last = best.map(|(_, state)| state);
    let mut arcs = Vec::new();
    let mut state = last.unwrap_or(0);
    while state != 0 {
        let (source, arc) = best_into[state as usize];
        try_reserve(&mut arcs, 1, "best path")?;
        arcs.push(arc);
        state = source;
    }
    arcs.reverse();
    Ok(Route { arcs, last })
}

impl RawLattice {
    /// The path with the least `graph + acoustic_scale * acoustic`, summed in binary64.
    /// Graph costs count with the bias costs; the path has them apart. Ties: the lowest final state, and from there back the lowest arc number. Without
    /// any path it is empty and `reached_final` false.
    pub fn best_path(&self, acoustic_scale: f32) -> Result<Path> {
        check_scale(acoustic_scale)?;
        let route = best_route(self.biased()?.view(), Scales::acoustic(acoustic_scale))?;
        self.path_along(&route, acoustic_scale)
    }
}

impl CompactLattice {
    /// As [`RawLattice::best_path`]; a word's frame is where its arc starts.
    pub fn best_path(&self, acoustic_scale: f32) -> Result<Path> {
        check_scale(acoustic_scale)?;
        self.path_along(&best_route(self.view(), Scales::acoustic(acoustic_scale))?, acoustic_scale)
    }
}

impl Lattice {
    /// The arcs of [`RawLattice::best_path`], with graph costs scaled too.
    pub fn best_route(&self, graph_scale: f32, acoustic_scale: f32) -> Result<Route> {
        let scales = Scales { graph: graph_scale, acoustic: acoustic_scale };
        scales.check()?;
        best_route(self.biased()?.view(), scales)
    }
}
