//! The raw (state-level) lattice: every surviving token is a state, every surviving link an arc.

use std::ops::Range;

use crate::error::{Error, Result, try_reserve};

use super::topology::{Order, View, sort_and_trim, times};
use super::{BiasCosts, LatticeWeight, Parts};

/// An arc of a lattice. In a compact lattice both labels are the word.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct LatticeArc {
    /// The state that the arc leads to.
    pub next: u32,
    /// Input label of the graph arc (transition-id or column + 1); 0 for epsilon.
    pub ilabel: i32,
    /// Output label (word); 0 for epsilon.
    pub olabel: i32,
    /// Costs.
    pub weight: LatticeWeight,
}

/// A raw lattice. State 0 is the start; states are sorted topologically, so that
/// every arc leads to a higher state; every state lies on a path from the start to
/// a final state. The empty lattice has no states.
#[derive(Clone, Debug, PartialEq)]
pub struct RawLattice {
    /// All arcs, those of a state together, by ascending state.
    pub arcs: Vec<LatticeArc>,
    /// Arcs of state `s` are `arcs[offsets[s]..offsets[s + 1]]`; length is states + 1 (or 1 when empty).
    pub offsets: Vec<u32>,
    /// Final costs by state, [`LatticeWeight::ZERO`] where a state is not final.
    pub finals: Vec<LatticeWeight>,
    /// What phrases cost, which the graph costs do not hold: they are those of the graph alone, also where
    /// the lattice is written. What chooses between paths, or makes a compact lattice, adds them to the
    /// graph costs first ([`RawLattice::with_bias`]); pruning keeps them apart.
    pub bias: BiasCosts,
    /// Time of each state: the number of frames before it. Empty where not known.
    pub times: Vec<u32>,
    /// The scale that the search applied to acoustic costs; the scaled cost of an
    /// arc is exactly `acoustic_scale * weight.acoustic`.
    pub acoustic_scale: f32,
    /// Frames that the lattice spans.
    pub num_frames: u32,
    /// Whether finals of the graph were reached (else all last tokens counted as final).
    pub reached_final: bool,
}

impl Default for RawLattice {
    fn default() -> RawLattice {
        RawLattice {
            arcs: Vec::new(),
            offsets: vec![0],
            finals: Vec::new(),
            bias: BiasCosts::default(),
            times: Vec::new(),
            acoustic_scale: 1.0,
            num_frames: 0,
            reached_final: false,
        }
    }
}

impl RawLattice {
    /// A lattice without states, made at `acoustic_scale`.
    pub fn empty(acoustic_scale: f32) -> RawLattice {
        RawLattice { acoustic_scale, ..RawLattice::default() }
    }

    /// The lattice of states and arcs in any order: sorted (a sorted input keeps its
    /// order; else of the states that may come next the lowest number comes first),
    /// trimmed, the start renumbered 0. Arcs of a state keep their order. Arcs and final
    /// states with a cost of `+inf` are not there. Times follow from the arcs: one with an
    /// input label spans a frame, an epsilon arc none; where two paths to a state differ
    /// in frames, `times` is empty. `num_frames` is the most frames of any path,
    /// `acoustic_scale` 1, `reached_final` whether there is any path.
    ///
    /// Refused with [`Error::Argument`]: parts of a compact lattice, arrays that do not
    /// fit together, NaN or `-inf`, negative labels, and a cycle, whose states are named
    /// (cycles off every path from the start to a final state are trimmed, not refused).
    pub fn from_parts(parts: Parts) -> Result<RawLattice> {
        parts.check()?;
        if parts.strings.is_some() {
            return Err(Error::Argument("parts of a compact lattice given for a raw one".to_string()));
        }
        let view = parts.view();
        let there = |arc: usize| !view.arcs[arc].weight.is_absent();
        let order = sort_and_trim(view, parts.start, there, |state| !view.finals[state].is_absent())?;
        let mut lattice = RawLattice::rebuilt(view, &order, there, |_| true)?;
        lattice.set_times()?;
        lattice.reached_final = !lattice.is_empty();
        Ok(lattice)
    }

    /// States.
    pub fn num_states(&self) -> usize {
        self.finals.len()
    }

    /// Arcs.
    pub fn num_arcs(&self) -> usize {
        self.arcs.len()
    }

    /// Whether there is no state, so no path.
    pub fn is_empty(&self) -> bool {
        self.finals.is_empty()
    }

    /// Numbers of the arcs that leave `state`; empty past the last state.
    pub fn arc_range(&self, state: u32) -> Range<usize> {
        let state = state as usize;
        if state < self.num_states() { self.view().arc_range(state) } else { 0..0 }
    }

    /// The arcs that leave `state`; none past the last state.
    pub fn arcs_of(&self, state: u32) -> &[LatticeArc] {
        &self.arcs[self.arc_range(state)]
    }

    /// Every arc with the state that it leaves, in order.
    pub fn arcs_with_source(&self) -> impl Iterator<Item = (u32, &LatticeArc)> {
        (0..self.num_states() as u32).flat_map(|state| self.arcs_of(state).iter().map(move |arc| (state, arc)))
    }

    /// Refuses with [`Error::Argument`] a lattice that breaks what this struct promises:
    /// arrays that do not fit together, an arc that does not lead to a higher state, a
    /// state on no path from the start to a final state, times that the arcs contradict,
    /// costs of NaN or `-inf`, an arc with a cost of `+inf`.
    pub fn validate(&self) -> Result<()> {
        self.bias.check(self)?;
        validate(self.view(), &self.times, self.num_frames, |arc| u32::from(self.arcs[arc].ilabel != 0), |_| 0)
    }

    /// Sets `times` and `num_frames` from the arcs, as [`RawLattice::from_parts`] does.
    pub fn set_times(&mut self) -> Result<()> {
        let arcs = &self.arcs;
        (self.times, self.num_frames) = times(self.view(), |arc| u32::from(arcs[arc].ilabel != 0), |_| 0)?;
        Ok(())
    }

    pub(crate) fn view(&self) -> View<'_> {
        View { offsets: &self.offsets, arcs: &self.arcs, finals: &self.finals }
    }

    /// The states of `order` with the arcs between them that `keeps_arc`; final states
    /// that not `keeps_final` are no longer final. Times are left empty.
    pub(crate) fn rebuilt(
        view: View,
        order: &Order,
        keeps_arc: impl Fn(usize) -> bool,
        keeps_final: impl Fn(usize) -> bool,
    ) -> Result<RawLattice> {
        let (lattice, _) = rebuild(view, order, keeps_arc, keeps_final)?;
        Ok(lattice)
    }
}

/// What [`RawLattice::rebuilt`] says, with the old numbers of the arcs kept.
pub(super) fn rebuild(
    view: View,
    order: &Order,
    keeps_arc: impl Fn(usize) -> bool,
    keeps_final: impl Fn(usize) -> bool,
) -> Result<(RawLattice, Vec<u32>)> {
    let mut lattice = RawLattice::default();
    let mut kept_arcs: Vec<u32> = Vec::new();
    try_reserve(&mut lattice.offsets, order.states.len(), "states of a lattice")?;
    try_reserve(&mut lattice.finals, order.states.len(), "states of a lattice")?;
    for &state in &order.states {
        let state = state as usize;
        for arc in view.arc_range(state) {
            let next = order.number[view.arcs[arc].next as usize];
            if next == super::topology::LEFT_OUT || !keeps_arc(arc) {
                continue;
            }
            try_reserve(&mut lattice.arcs, 1, "arcs of a lattice")?;
            try_reserve(&mut kept_arcs, 1, "arcs of a lattice")?;
            let weight = view.arcs[arc].weight.canonical();
            lattice.arcs.push(LatticeArc { next, weight, ..view.arcs[arc] });
            kept_arcs.push(arc as u32);
        }
        let weight = if keeps_final(state) { view.finals[state].canonical() } else { LatticeWeight::ZERO };
        lattice.finals.push(weight);
        lattice.offsets.push(lattice.arcs.len() as u32);
    }
    Ok((lattice, kept_arcs))
}

/// The checks that raw and compact lattices share.
pub(super) fn validate(
    view: View,
    given_times: &[u32],
    num_frames: u32,
    arc_frames: impl Fn(usize) -> u32,
    final_frames: impl Fn(usize) -> u32,
) -> Result<()> {
    let bad = |what: String| Err(Error::Argument(format!("lattice: {what}")));
    view.check()?;
    for state in 0..view.num_states() {
        for arc in view.arc_range(state) {
            let next = view.arcs[arc].next;
            if next as usize <= state {
                return bad(format!("arc {arc} leads back from state {state} to {next}"));
            }
            if view.arcs[arc].weight.is_absent() {
                return bad(format!("arc {arc} costs +inf"));
            }
        }
    }
    let order = sort_and_trim(view, Some(0), |_| true, |state| !view.finals[state].is_absent())?;
    if let Some(state) = order.number.iter().position(|&number| number == super::topology::LEFT_OUT) {
        return bad(format!("state {state} lies on no path from the start to a final state"));
    }
    let (true_times, true_frames) = times(view, arc_frames, final_frames)?;
    if !given_times.is_empty() {
        if given_times.len() != view.num_states() {
            return bad(format!("{} times for {} states", given_times.len(), view.num_states()));
        }
        let wrong = given_times.iter().zip(&true_times).position(|(given, found)| given != found);
        if wrong.is_some() || true_times.is_empty() {
            return bad(format!("the time of state {} does not follow from the arcs", wrong.unwrap_or(0)));
        }
    }
    if true_frames > num_frames {
        return bad(format!("a path spans {true_frames} frames, the lattice {num_frames}"));
    }
    Ok(())
}
