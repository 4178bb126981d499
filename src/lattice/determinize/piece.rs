//! A stretch of a lattice that grows, as incremental determinization takes it in.

use crate::error::{Error, Result};

use super::super::{LatticeArc, LatticeWeight};

/// Consecutive times of a growing lattice. The states of the first time are where it joins the
/// piece before; those of the last are where the next piece joins, or where the lattice ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatticePiece {
    /// All arcs, those of a state together, by ascending state; each leads to a higher state.
    pub arcs: Vec<LatticeArc>,
    /// Arcs of state `s` are `arcs[offsets[s]..offsets[s + 1]]`; length is states + 1.
    pub offsets: Vec<u32>,
    /// The keys of states `0..entries.len()`, ascending: those of exits of the piece before.
    /// The first piece has one state here, of key [`LatticePiece::START`].
    pub entries: Vec<u128>,
    /// Where the lattice goes on or ends.
    pub exits: Exits,
}

/// What follows a piece.
#[derive(Clone, Debug, PartialEq)]
pub enum Exits {
    /// The lattice goes on from these states; no arc leaves them within the piece but to others of them.
    On(Vec<Exit>),
    /// The lattice ends in these states, at these costs.
    Ends(Vec<(u32, LatticeWeight)>),
}

impl Default for Exits {
    fn default() -> Exits {
        Exits::Ends(Vec::new())
    }
}

/// A state from which the lattice goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exit {
    /// The state.
    pub state: u32,
    /// By what the next piece will name it; below [`LatticePiece::START`].
    pub key: u128,
    /// How much any path of the whole lattice through this state costs at least above the best
    /// one because of what comes behind it: a lower bound, 0 or more, and 0 for one exit at
    /// least. At the acoustic scale of the determinization.
    pub extra: f32,
}

impl LatticePiece {
    /// The key of the state where the first piece begins.
    pub const START: u128 = u128::MAX;

    /// States.
    pub fn num_states(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Refuses with [`Error::Argument`] what breaks the promises of the struct.
    pub(super) fn check(&self) -> Result<()> {
        let bad = |what: String| Err(Error::Argument(format!("lattice piece: {what}")));
        let states = self.num_states();
        let ends = (self.offsets.first(), self.offsets.last().map(|&end| end as usize));
        if ends != (Some(&0), Some(self.arcs.len())) || !self.offsets.is_sorted() {
            return bad("offsets do not fit the arcs".to_string());
        }
        for state in 0..states {
            let arcs = &self.arcs[self.offsets[state] as usize..self.offsets[state + 1] as usize];
            let wrong = |arc: &&LatticeArc| {
                let finite = arc.weight.graph.is_finite() && arc.weight.acoustic.is_finite();
                arc.next as usize <= state || arc.next as usize >= states || arc.olabel < 0 || arc.ilabel < 0 || !finite
            };
            if let Some(arc) = arcs.iter().find(wrong) {
                return bad(format!("state {state} has an arc {arc:?}"));
            }
        }
        if self.entries.len() > states || !self.entries.is_sorted_by(|a, b| a < b) {
            return bad(format!("{} entries into {states} states, or not ascending", self.entries.len()));
        }
        let out = |state: u32| state as usize >= states;
        match &self.exits {
            Exits::On(exits) => {
                let wrong = |exit: &&Exit| {
                    out(exit.state) || exit.key == Self::START || !(0.0..f32::INFINITY).contains(&exit.extra)
                };
                exits.iter().find(wrong).map_or(Ok(()), |exit| bad(format!("{exit:?} of {states} states")))
            }
            Exits::Ends(ends) => {
                let wrong = |(state, weight): &&(u32, LatticeWeight)| {
                    out(*state) || !(weight.graph.is_finite() && weight.acoustic.is_finite())
                };
                ends.iter().find(wrong).map_or(Ok(()), |end| bad(format!("end {end:?} of {states} states")))
            }
        }
    }
}
