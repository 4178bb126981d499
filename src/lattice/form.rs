//! A lattice in either form.

use crate::error::Result;

use super::topology::View;
use super::{CompactLattice, LatticeArc, LatticeWeight, Path, RawLattice};

/// A raw or a compact lattice.
#[derive(Clone, Debug, PartialEq)]
pub enum Lattice {
    /// State level: one arc a graph arc, one transition-id an emitting arc.
    Raw(RawLattice),
    /// Word level: strings of transition-ids on the arcs.
    Compact(CompactLattice),
}

impl From<RawLattice> for Lattice {
    fn from(lattice: RawLattice) -> Lattice {
        Lattice::Raw(lattice)
    }
}

impl From<CompactLattice> for Lattice {
    fn from(lattice: CompactLattice) -> Lattice {
        Lattice::Compact(lattice)
    }
}

macro_rules! either {
    ($self:expr, $lattice:ident => $answer:expr) => {
        match $self {
            Lattice::Raw($lattice) => $answer,
            Lattice::Compact($lattice) => $answer,
        }
    };
}

impl Lattice {
    /// Whether this is the compact form.
    pub fn is_compact(&self) -> bool {
        matches!(self, Lattice::Compact(_))
    }

    /// States.
    pub fn num_states(&self) -> usize {
        either!(self, lattice => lattice.num_states())
    }

    /// Whether there is no state, so no path.
    pub fn is_empty(&self) -> bool {
        self.num_states() == 0
    }

    /// All arcs by state; those of a compact lattice carry the word as both labels.
    pub fn arcs(&self) -> &[LatticeArc] {
        either!(self, lattice => &lattice.arcs)
    }

    /// Arcs of state `s` are those from `offsets[s]` to `offsets[s + 1]`.
    pub fn offsets(&self) -> &[u32] {
        either!(self, lattice => &lattice.offsets)
    }

    /// Final costs by state, [`LatticeWeight::ZERO`] where a state is not final.
    pub fn finals(&self) -> &[LatticeWeight] {
        either!(self, lattice => &lattice.finals)
    }

    /// Time of each state; empty where not known.
    pub fn times(&self) -> &[u32] {
        either!(self, lattice => &lattice.times)
    }

    /// Frames that the lattice spans.
    pub fn num_frames(&self) -> u32 {
        either!(self, lattice => lattice.num_frames)
    }

    /// Whether finals of the graph were reached.
    pub fn reached_final(&self) -> bool {
        either!(self, lattice => lattice.reached_final)
    }

    /// The scale that the search applied to acoustic costs; 1 for a lattice that was read.
    pub fn acoustic_scale(&self) -> f32 {
        either!(self, lattice => lattice.acoustic_scale)
    }

    /// Transition-ids of `arc`: its string in a compact lattice, its input label (if not 0) in a raw one.
    pub fn string(&self, arc: usize) -> &[i32] {
        match self {
            Lattice::Compact(lattice) => lattice.arc_string(arc),
            Lattice::Raw(lattice) => match lattice.arcs.get(arc) {
                Some(arc) if arc.ilabel != 0 => std::slice::from_ref(&arc.ilabel),
                _ => &[],
            },
        }
    }

    /// Transition-ids that follow when a path ends in `state`; none in a raw lattice.
    pub fn final_string(&self, state: u32) -> &[i32] {
        match self {
            Lattice::Compact(lattice) => lattice.final_string(state),
            Lattice::Raw(_) => &[],
        }
    }

    pub(crate) fn view(&self) -> View<'_> {
        either!(self, lattice => lattice.view())
    }

    /// As [`RawLattice::validate`].
    pub fn validate(&self) -> Result<()> {
        either!(self, lattice => lattice.validate())
    }

    /// As [`RawLattice::best_path`].
    pub fn best_path(&self, acoustic_scale: f32) -> Result<Path> {
        either!(self, lattice => lattice.best_path(acoustic_scale))
    }

    /// As [`RawLattice::prune`].
    pub fn prune(&self, beam: f32, acoustic_scale: f32) -> Result<Lattice> {
        either!(self, lattice => lattice.prune(beam, acoustic_scale).map(Lattice::from))
    }

    /// As [`RawLattice::scale`].
    pub fn scale(&mut self, graph: f32, acoustic: f32) -> Result<()> {
        either!(self, lattice => lattice.scale(graph, acoustic))
    }

    /// The raw form; see [`CompactLattice::to_raw`].
    pub fn into_raw(self) -> Result<RawLattice> {
        match self {
            Lattice::Raw(lattice) => Ok(lattice),
            Lattice::Compact(lattice) => lattice.to_raw(),
        }
    }

    /// A copy in raw form; see [`CompactLattice::to_raw`].
    pub fn to_raw(&self) -> Result<RawLattice> {
        match self {
            // Nothing is further from the best than infinity: a copy that may fail for lack of memory.
            Lattice::Raw(lattice) => lattice.prune(f32::INFINITY, lattice.acoustic_scale),
            Lattice::Compact(lattice) => lattice.to_raw(),
        }
    }

    /// A copy in compact form; see [`RawLattice::to_compact`].
    pub fn to_compact(&self) -> Result<CompactLattice> {
        match self {
            Lattice::Raw(lattice) => lattice.to_compact(),
            Lattice::Compact(lattice) => lattice.prune(f32::INFINITY, lattice.acoustic_scale),
        }
    }

    /// The compact form; see [`RawLattice::to_compact`].
    pub fn into_compact(self) -> Result<CompactLattice> {
        match self {
            Lattice::Raw(lattice) => lattice.to_compact(),
            Lattice::Compact(lattice) => Ok(lattice),
        }
    }
}
