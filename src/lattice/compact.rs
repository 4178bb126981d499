//! The compact lattice: an acceptor of words whose arcs and final states carry strings of transition-ids.

use std::ops::Range;

use crate::error::{Error, Result};

use super::parts::check_strings;
use super::raw::{rebuild, validate};
use super::topology::{Order, View, sort_and_trim, times};
use super::{LatticeArc, LatticeWeight, Parts, Strings};

/// A compact lattice. State 0 is the start; states are sorted topologically; every
/// state lies on a path from the start to a final state. The empty lattice has no states.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactLattice {
    /// All arcs, those of a state together, by ascending state. Both labels are the word.
    pub arcs: Vec<LatticeArc>,
    /// Arcs of state `s` are `arcs[offsets[s]..offsets[s + 1]]`; length is states + 1 (or 1 when empty).
    pub offsets: Vec<u32>,
    /// Final costs by state, [`LatticeWeight::ZERO`] where a state is not final.
    pub finals: Vec<LatticeWeight>,
    /// For each arc its transition-ids, one a frame.
    pub arc_strings: Strings,
    /// For each state the transition-ids that follow when the path ends there; empty where it is not final.
    pub final_strings: Strings,
    /// Time of each state: the number of frames before it. Empty where not known.
    pub times: Vec<u32>,
    /// The scale that the search applied to acoustic costs.
    pub acoustic_scale: f32,
    /// Frames that the lattice spans.
    pub num_frames: u32,
    /// Whether finals of the graph were reached (else all last tokens counted as final).
    pub reached_final: bool,
}

impl Default for CompactLattice {
    fn default() -> CompactLattice {
        CompactLattice {
            arcs: Vec::new(),
            offsets: vec![0],
            finals: Vec::new(),
            arc_strings: Strings::default(),
            final_strings: Strings::default(),
            times: Vec::new(),
            acoustic_scale: 1.0,
            num_frames: 0,
            reached_final: false,
        }
    }
}

impl CompactLattice {
    /// The lattice of states and arcs in any order, sorted and trimmed by the rules of
    /// [`RawLattice::from_parts`](super::RawLattice::from_parts). An arc spans as many
    /// frames as its string has transition-ids. Refused in the same cases, and when the
    /// parts are those of a raw lattice.
    pub fn from_parts(parts: Parts) -> Result<CompactLattice> {
        CompactLattice::of_parts(&parts)
    }

    /// As [`CompactLattice::from_parts`], of parts that stay.
    pub(crate) fn of_parts(parts: &Parts) -> Result<CompactLattice> {
        parts.check()?;
        let Some(strings) = &parts.strings else {
            return Err(Error::Argument("parts of a raw lattice given for a compact one".to_string()));
        };
        let view = parts.view();
        let there = |arc: usize| !view.arcs[arc].weight.is_absent();
        let order = sort_and_trim(view, parts.start, there, |state| !view.finals[state].is_absent())?;
        let all = |_| true;
        let mut lattice = CompactLattice::rebuilt(view, &strings.arcs, &strings.finals, &order, there, all)?;
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

    /// Transition-ids of `arc`; none past the last arc.
    pub fn arc_string(&self, arc: usize) -> &[i32] {
        self.arc_strings.get(arc).unwrap_or_default()
    }

    /// Transition-ids that follow when a path ends in `state`; none past the last state.
    pub fn final_string(&self, state: u32) -> &[i32] {
        self.final_strings.get(state as usize).unwrap_or_default()
    }

    /// Refuses with [`Error::Argument`] a lattice that breaks what this struct promises:
    /// as [`RawLattice::validate`](super::RawLattice::validate), and strings that are not
    /// one an arc and one a state, or arcs with two different labels.
    pub fn validate(&self) -> Result<()> {
        self.view().check()?;
        check_strings(self.view(), &self.arc_strings, &self.final_strings)?;
        let final_frames = |state| self.final_strings.length(state);
        validate(self.view(), &self.times, self.num_frames, |arc| self.arc_strings.length(arc), final_frames)
    }

    /// Sets `times` and `num_frames` from the strings.
    pub fn set_times(&mut self) -> Result<()> {
        let (arcs, finals) = (&self.arc_strings, &self.final_strings);
        (self.times, self.num_frames) = times(self.view(), |arc| arcs.length(arc), |state| finals.length(state))?;
        Ok(())
    }

    pub(crate) fn view(&self) -> View<'_> {
        View { offsets: &self.offsets, arcs: &self.arcs, finals: &self.finals }
    }

    /// The states of `order` with the arcs between them that `keeps_arc`; final states
    /// that not `keeps_final` are no longer final. Times are left empty.
    pub(crate) fn rebuilt(
        view: View,
        arc_strings: &Strings,
        final_strings: &Strings,
        order: &Order,
        keeps_arc: impl Fn(usize) -> bool,
        keeps_final: impl Fn(usize) -> bool,
    ) -> Result<CompactLattice> {
        let (raw, kept_arcs) = rebuild(view, order, keeps_arc, keeps_final)?;
        // Past the last index there is an empty string: that of a state that is not final.
        let final_index = |(state, &weight): (&u32, &LatticeWeight)| match weight.is_absent() {
            true => usize::MAX,
            false => *state as usize,
        };
        Ok(CompactLattice {
            arc_strings: arc_strings.select(kept_arcs.iter().map(|&arc| arc as usize))?,
            final_strings: final_strings.select(order.states.iter().zip(&raw.finals).map(final_index))?,
            arcs: raw.arcs,
            offsets: raw.offsets,
            finals: raw.finals,
            ..CompactLattice::default()
        })
    }
}
