//! A way through a lattice by its arcs, and what lies along it.

use crate::error::{Error, Result, try_reserve};

use super::topology::{View, filled};
use super::{CompactLattice, Lattice, LatticeArc, LatticeWeight, Path, RawLattice, Strings};

/// A way through a lattice: from its start over the arcs to the final state where it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Numbers of the arcs in order.
    pub arcs: Vec<u32>,
    /// The final state; `None` only where the lattice has no path at all.
    pub last: Option<u32>,
}

impl Route {
    /// Refuses arcs that do not follow each other from the start, and an end that is not final.
    fn check(&self, view: View) -> Result<()> {
        let Some(last) = self.last else {
            return match self.arcs.is_empty() {
                true => Ok(()),
                false => Err(Error::Argument("a route of arcs without an end".to_string())),
            };
        };
        let mut state = 0;
        for &arc in &self.arcs {
            if state >= view.num_states() || !view.arc_range(state).contains(&(arc as usize)) {
                return Err(Error::Argument(format!("arc {arc} does not leave state {state} of the lattice")));
            }
            state = view.arcs[arc as usize].next as usize;
        }
        if state != last as usize || view.finals.get(state).is_none_or(|weight| weight.is_absent()) {
            return Err(Error::Argument(format!("a route to state {state} that ends in {last}")));
        }
        Ok(())
    }
}

impl Path {
    fn add_cost(&mut self, weight: LatticeWeight) {
        self.graph_cost += f64::from(weight.graph);
        self.acoustic_cost += f64::from(weight.acoustic);
    }

    fn add_word(&mut self, word: i32) -> Result<()> {
        if word != 0 {
            try_reserve(&mut self.olabels, 1, "path of a lattice")?;
            try_reserve(&mut self.frames, 1, "path of a lattice")?;
            self.olabels.push(word);
            self.frames.push(self.ilabels.len() as u32);
        }
        Ok(())
    }

    fn add_ilabels(&mut self, ilabels: &[i32]) -> Result<()> {
        try_reserve(&mut self.ilabels, ilabels.len(), "path of a lattice")?;
        self.ilabels.extend_from_slice(ilabels);
        Ok(())
    }
}

impl RawLattice {
    /// The words, transition-ids, times and costs along `route`, which is refused with
    /// [`Error::Argument`] where it is none of this lattice.
    pub fn path_along(&self, route: &Route, acoustic_scale: f32) -> Result<Path> {
        route.check(self.view())?;
        let mut path = Path { acoustic_scale, ..Path::default() };
        for &arc in &route.arcs {
            let arc = &self.arcs[arc as usize];
            path.add_word(arc.olabel)?;
            if arc.ilabel != 0 {
                path.add_ilabels(&[arc.ilabel])?;
            }
            path.add_cost(arc.weight);
        }
        if let Some(state) = route.last {
            path.add_cost(self.finals[state as usize]);
            let arcs = route.arcs.iter().map(|&arc| self.bias.arc(arc as usize));
            path.bias_cost = arcs.chain([self.bias.end(state as usize)]).map(f64::from).sum();
            path.reached_final = self.reached_final;
        }
        Ok(path)
    }

    /// The lattice of `route` alone: its arcs as they are, in a row.
    pub fn linear_along(&self, route: &Route) -> Result<RawLattice> {
        let (arcs, offsets, finals) = in_a_row(self.view(), route)?;
        let states = route.last.iter().copied();
        let mut bias = self.bias.select(route.arcs.iter().copied(), states)?;
        if !bias.is_empty() {
            // Only the last state ends the path.
            let mut ends = filled(finals.len(), 0.0)?;
            ends.iter_mut().rev().zip(&bias.finals).for_each(|(end, cost)| *end = *cost);
            bias.finals = ends;
        }
        let mut lattice = RawLattice {
            arcs,
            offsets,
            finals,
            bias,
            acoustic_scale: self.acoustic_scale,
            reached_final: self.reached_final,
            ..RawLattice::default()
        };
        lattice.set_times()?;
        Ok(lattice)
    }
}

impl CompactLattice {
    /// As [`RawLattice::path_along`]; a word's frame is where its arc starts.
    pub fn path_along(&self, route: &Route, acoustic_scale: f32) -> Result<Path> {
        route.check(self.view())?;
        let mut path = Path { acoustic_scale, ..Path::default() };
        for &arc in &route.arcs {
            path.add_word(self.arcs[arc as usize].olabel)?;
            path.add_ilabels(self.arc_string(arc as usize))?;
            path.add_cost(self.arcs[arc as usize].weight);
        }
        if let Some(state) = route.last {
            path.add_ilabels(self.final_string(state))?;
            path.add_cost(self.finals[state as usize]);
            path.reached_final = self.reached_final;
        }
        Ok(path)
    }

    /// As [`RawLattice::linear_along`], with the strings.
    pub fn linear_along(&self, route: &Route) -> Result<CompactLattice> {
        let (arcs, offsets, finals) = in_a_row(self.view(), route)?;
        let mut final_strings = Strings::with_capacity(finals.len())?;
        for _ in 1..finals.len() {
            final_strings.push(&[])?;
        }
        if let Some(last) = route.last {
            final_strings.push(self.final_string(last))?;
        }
        let mut lattice = CompactLattice {
            arc_strings: self.arc_strings.select(route.arcs.iter().map(|&arc| arc as usize))?,
            final_strings,
            arcs,
            offsets,
            finals,
            acoustic_scale: self.acoustic_scale,
            reached_final: self.reached_final,
            ..CompactLattice::default()
        };
        lattice.set_times()?;
        Ok(lattice)
    }
}

impl Lattice {
    /// As [`RawLattice::path_along`].
    pub fn path_along(&self, route: &Route, acoustic_scale: f32) -> Result<Path> {
        match self {
            Lattice::Raw(lattice) => lattice.path_along(route, acoustic_scale),
            Lattice::Compact(lattice) => lattice.path_along(route, acoustic_scale),
        }
    }

    /// The compact lattice of `route` alone, in the shape that Kaldi's tools write for a path:
    /// they take the state-level form of the path and join each word with what follows it up to
    /// the next one, final string included (see [`RawLattice::to_compact`]).
    pub fn linear_along(&self, route: &Route) -> Result<CompactLattice> {
        match self {
            Lattice::Raw(lattice) => lattice.linear_along(route)?.to_compact(),
            Lattice::Compact(lattice) => lattice.linear_along(route)?.to_raw()?.to_compact(),
        }
    }
}

/// Arcs, offsets and final costs of the lattice that has the states of `route` in order.
fn in_a_row(view: View, route: &Route) -> Result<(Vec<LatticeArc>, Vec<u32>, Vec<LatticeWeight>)> {
    const WHAT: &str = "path of a lattice";
    route.check(view)?;
    let (mut arcs, mut offsets, mut finals) = (Vec::new(), vec![0], Vec::new());
    let Some(last) = route.last else { return Ok((arcs, offsets, finals)) };
    try_reserve(&mut arcs, route.arcs.len(), WHAT)?;
    try_reserve(&mut offsets, route.arcs.len() + 1, WHAT)?;
    try_reserve(&mut finals, route.arcs.len() + 1, WHAT)?;
    for &arc in &route.arcs {
        finals.push(LatticeWeight::ZERO);
        arcs.push(LatticeArc { next: finals.len() as u32, ..view.arcs[arc as usize] });
        offsets.push(arcs.len() as u32);
    }
    finals.push(view.finals[last as usize]);
    offsets.push(arcs.len() as u32);
    Ok((arcs, offsets, finals))
}
