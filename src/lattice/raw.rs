//! The raw (state-level) lattice: every surviving token is a state, every surviving link an arc.

/// A pair of costs (negative natural logs), kept apart as Kaldi's lattice weight does.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct LatticeWeight {
    /// Cost of the graph: language model, lexicon, transitions.
    pub graph: f32,
    /// Acoustic cost *without* the acoustic scale: `-ll`.
    pub acoustic: f32,
}

impl LatticeWeight {
    /// Costs nothing.
    pub const ONE: LatticeWeight = LatticeWeight { graph: 0.0, acoustic: 0.0 };
    /// Not there at all.
    pub const ZERO: LatticeWeight = LatticeWeight { graph: f32::INFINITY, acoustic: f32::INFINITY };
}

/// An arc of a raw lattice.
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
