//! From raw to compact and back, as Kaldi's readers convert (fstext/factor and lattice-utils).

use crate::error::{Error, Result, try_reserve};

use super::topology::{LEFT_OUT, Order, View, filled};
use super::{CompactLattice, LatticeArc, LatticeWeight, RawLattice, Strings};

impl RawLattice {
    /// The compact form: words on the arcs, transition-ids in the strings. As in Kaldi's
    /// conversion, a state in the middle of a chain (one arc in, one arc out without a
    /// word, neither start nor final) is merged away: costs of the chain are added in
    /// binary64 and rounded once, its transition-ids are joined, its word is that of its
    /// first arc. Bias costs become part of the graph costs. Nothing else is merged: this is not determinization.
    ///
    /// Fails with [`Error::Argument`] when a sum of costs is not finite in binary32.
    pub fn to_compact(&self) -> Result<CompactLattice> {
        let biased = self.biased()?;
        let view = biased.view();
        let inner = chain_states(view)?;
        let order = outer_states(&inner)?;
        let mut compact = CompactLattice { offsets: Vec::new(), ..CompactLattice::default() };
        compact.offsets.push(0);
        for &state in &order.states {
            for arc in view.arcs_of(state as usize) {
                let mut chain = Chain::default();
                let mut link = arc;
                chain.add(link, &mut compact.arc_strings)?;
                while inner[link.next as usize] {
                    link = &view.arcs_of(link.next as usize)[0];
                    chain.add(link, &mut compact.arc_strings)?;
                }
                compact.arc_strings.end_string()?;
                let next = order.number[link.next as usize];
                try_reserve(&mut compact.arcs, 1, "arcs of a lattice")?;
                compact.arcs.push(LatticeArc { next, ilabel: arc.olabel, olabel: arc.olabel, weight: chain.weight()? });
            }
            try_reserve(&mut compact.offsets, 1, "states of a lattice")?;
            try_reserve(&mut compact.finals, 1, "states of a lattice")?;
            compact.offsets.push(compact.arcs.len() as u32);
            compact.finals.push(view.finals[state as usize]);
            compact.final_strings.end_string()?;
            if !self.times.is_empty() {
                try_reserve(&mut compact.times, 1, "states of a lattice")?;
                compact.times.push(self.times[state as usize]);
            }
        }
        compact.acoustic_scale = self.acoustic_scale;
        compact.num_frames = self.num_frames;
        compact.reached_final = self.reached_final;
        Ok(compact)
    }
}

/// Costs of a chain of arcs, summed in binary64.
#[derive(Default)]
struct Chain {
    graph: f64,
    acoustic: f64,
}

impl Chain {
    fn add(&mut self, arc: &LatticeArc, strings: &mut Strings) -> Result<()> {
        self.graph += f64::from(arc.weight.graph);
        self.acoustic += f64::from(arc.weight.acoustic);
        if arc.ilabel != 0 { strings.push_label(arc.ilabel) } else { Ok(()) }
    }

    fn weight(&self) -> Result<LatticeWeight> {
        let weight = LatticeWeight { graph: self.graph as f32, acoustic: self.acoustic as f32 };
        if weight.graph.is_finite() && weight.acoustic.is_finite() {
            return Ok(weight.canonical());
        }
        Err(Error::Argument(format!("lattice: a chain of arcs costs {},{}: too much", self.graph, self.acoustic)))
    }
}

/// Marks the states in the middle of a chain.
fn chain_states(view: View) -> Result<Vec<bool>> {
    let mut arcs_in = filled(view.num_states(), 0u32)?;
    for arc in view.arcs {
        arcs_in[arc.next as usize] += 1;
    }
    let mut inner = filled(view.num_states(), false)?;
    for state in 1..view.num_states() {
        let out = view.arcs_of(state);
        inner[state] = arcs_in[state] == 1 && out.len() == 1 && out[0].olabel == 0 && view.finals[state].is_absent();
    }
    Ok(inner)
}

fn outer_states(inner: &[bool]) -> Result<Order> {
    let mut order = Order { states: Vec::new(), number: filled(inner.len(), LEFT_OUT)? };
    for state in (0..inner.len()).filter(|&state| !inner[state]) {
        order.number[state] = order.states.len() as u32;
        try_reserve(&mut order.states, 1, "states of a lattice")?;
        order.states.push(state as u32);
    }
    Ok(order)
}

impl CompactLattice {
    /// The raw form: an arc whose string has n transition-ids becomes a chain of n arcs,
    /// the word and all the cost on the first (one epsilon arc when the string is empty);
    /// a final string becomes a chain to a new final state of cost 0. New states are
    /// numbered straight after the state that they leave.
    ///
    /// Fails with [`Error::Limit`] when states or arcs pass 2^32 - 2.
    pub fn to_raw(&self) -> Result<RawLattice> {
        let number = self.expanded_numbers()?;
        let mut out = Expansion::new();
        for state in 0..self.num_states() as u32 {
            let (weight, string) = (self.finals[state as usize], self.final_string(state));
            let first = number[state as usize];
            let mut fresh = first + 1;
            if !string.is_empty() {
                out.chain(LatticeArc { next: 0, ilabel: 0, olabel: 0, weight }, string, &mut fresh, None)?;
            }
            for index in self.arc_range(state) {
                let arc = self.arcs[index];
                let next = number[arc.next as usize];
                out.chain(LatticeArc { ilabel: 0, ..arc }, self.arc_string(index), &mut fresh, Some(next))?;
            }
            out.end_state(if string.is_empty() { weight } else { LatticeWeight::ZERO })?;
        }
        let mut raw = RawLattice { arcs: out.arcs, offsets: out.offsets, finals: out.finals, ..RawLattice::default() };
        raw.set_times()?;
        raw.acoustic_scale = self.acoustic_scale;
        raw.num_frames = self.num_frames;
        raw.reached_final = self.reached_final;
        Ok(raw)
    }

    /// New number of each state, when the states of its chains come straight after it.
    fn expanded_numbers(&self) -> Result<Vec<u32>> {
        let mut number = filled(self.num_states(), 0u32)?;
        let (mut states, mut arcs) = (0u64, 0u64);
        for (state, number) in number.iter_mut().enumerate() {
            *number = states.min(u64::from(u32::MAX)) as u32;
            let ends = u64::from(self.final_strings.length(state));
            let lengths = self.arc_range(state as u32).map(|arc| u64::from(self.arc_strings.length(arc)));
            let inner: u64 = lengths.map(|length| length.saturating_sub(1)).sum();
            states += 1 + ends + inner;
            arcs += ends + inner + self.arc_range(state as u32).len() as u64;
        }
        if states.max(arcs) >= u64::from(u32::MAX) {
            return Err(Error::Limit(format!("raw form of a compact lattice would have {states} states, {arcs} arcs")));
        }
        Ok(number)
    }
}

/// The raw lattice while it grows. Arcs of the present state come first, those of its
/// chains wait in `inner`: one a chain state.
struct Expansion {
    offsets: Vec<u32>,
    arcs: Vec<LatticeArc>,
    finals: Vec<LatticeWeight>,
    inner: Vec<Option<LatticeArc>>,
}

impl Expansion {
    fn new() -> Expansion {
        Expansion { offsets: vec![0], arcs: Vec::new(), finals: Vec::new(), inner: Vec::new() }
    }

    /// Adds `first` with the transition-ids of `string`, through the new states from
    /// `*fresh` on, to `end`, or to one more new state that is final at no cost.
    fn chain(&mut self, first: LatticeArc, string: &[i32], fresh: &mut u32, end: Option<u32>) -> Result<()> {
        let links = string.len().max(1);
        for at in 0..links {
            let ilabel = string.get(at).copied().unwrap_or(0);
            let next = match end {
                Some(end) if at + 1 == links => end,
                _ => {
                    *fresh += 1;
                    *fresh - 1
                }
            };
            if at == 0 {
                try_reserve(&mut self.arcs, 1, "arcs of a lattice")?;
                self.arcs.push(LatticeArc { next, ilabel, ..first });
            } else {
                try_reserve(&mut self.inner, 1, "arcs of a lattice")?;
                self.inner.push(Some(LatticeArc { next, ilabel, olabel: 0, weight: LatticeWeight::ONE }));
            }
        }
        if end.is_none() {
            try_reserve(&mut self.inner, 1, "states of a lattice")?;
            self.inner.push(None);
        }
        Ok(())
    }

    /// Ends a state of the compact lattice with its final cost; its chain states follow.
    fn end_state(&mut self, weight: LatticeWeight) -> Result<()> {
        let more = self.inner.len() + 1;
        try_reserve(&mut self.offsets, more, "states of a lattice")?;
        try_reserve(&mut self.finals, more, "states of a lattice")?;
        try_reserve(&mut self.arcs, more, "arcs of a lattice")?;
        self.finals.push(weight);
        self.offsets.push(self.arcs.len() as u32);
        for arc in self.inner.drain(..) {
            self.finals.push(if arc.is_none() { LatticeWeight::ONE } else { LatticeWeight::ZERO });
            self.arcs.extend(arc);
            self.offsets.push(self.arcs.len() as u32);
        }
        Ok(())
    }
}
