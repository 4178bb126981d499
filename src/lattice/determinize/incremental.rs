//! Determinization of a lattice while it grows, so that little is left to do at its end.
//!
//! ```text
//!             settled states ──▶ tail (determinized, may change) ──▶ next piece
//! each step:  settled states ──▶ newly settled ──▶ new tail         (tail + piece, determinized anew)
//! ```
//!
//! A state of the result can change as long as one of its paths may go on without a word past
//! the last piece: there a word may still be added to its arcs, and so to what they lead to.
//! All others are settled for good. So a step has to go over the last words only, however
//! long the lattice is (Chen et al. 2019, "Incremental lattice determinization for WFST decoders").

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::table::Transitions;

use super::compose::{Composed, Tail, compose};
use super::pass::{Limits, Work};
use super::piece::{Exits, LatticePiece};
use super::retry::{Keep, determinize};
use super::segments::{SegmentSource, Segments};
use super::settled::{Settled, Step};
use super::{DeterminizeConfig, Determinized, narrowed};

/// Added to the beam of each step: costs of entries and exits are rounded down, and the search's
/// extra costs are rounded sums of binary32.
const SLACK: f64 = 0.01;

/// Determinizes one growing lattice: takes in a piece after another, and gives the compact
/// lattice of all of them at any time.
///
/// The result is what [`RawLattice::determinize`](super::super::RawLattice::determinize) gives
/// for the whole lattice: each word sequence whose best alignment lies within the beam of the
/// best path, at the costs and with the transition-ids of that alignment, deterministic on
/// words. It differs in how far strings stand to the front, in which paths outside the beam are
/// left, and, by `delta`, in which states are merged.
#[derive(Debug)]
pub struct IncrementalDeterminizer {
    transitions: Option<Arc<Transitions>>,
    config: DeterminizeConfig,
    settled: Settled,
    tail: Tail,
    /// Least beam of the steps so far.
    effective: f64,
    work: Work,
    links: usize,
}

/// What a step gives.
struct Stepped {
    lattice: Segments,
    composed: Composed,
    entry_costs: Vec<f64>,
    effective: f64,
}

impl IncrementalDeterminizer {
    /// Ready for a first piece. `transitions` and `config` are as for
    /// [`RawLattice::determinize`](super::super::RawLattice::determinize), but that
    /// `word_determinize` is needed ([`Error::Config`]). `max_mem` bounds each pass of each step.
    pub fn new(transitions: Option<Arc<Transitions>>, config: &DeterminizeConfig) -> Result<IncrementalDeterminizer> {
        config.check()?;
        if !config.word_determinize {
            return Err(Error::Config("word_determinize is 0; pieces are determinized on words".to_string()));
        }
        let transitions = transitions.filter(|_| config.phone_determinize);
        let scale = f64::from(config.acoustic_scale);
        Ok(IncrementalDeterminizer {
            transitions,
            config: *config,
            settled: Settled::start(scale),
            tail: Tail::start(),
            effective: f64::INFINITY,
            work: Work::default(),
            links: 0,
        })
    }

    /// Forgets all pieces.
    pub fn clear(&mut self) {
        self.settled = Settled::start(f64::from(self.config.acoustic_scale));
        self.tail = Tail::start();
        self.effective = f64::INFINITY;
    }

    /// Takes in a piece that ends in [`Exits::On`]. Everything of which the result is made is
    /// kept; the piece is not needed any more.
    ///
    /// Fails with [`Error::Argument`] where a piece breaks its promises or has a transition-id
    /// that the model has not, [`Error::Limit`] and [`Error::NoMemory`]; it must be cleared then.
    pub fn extend(&mut self, piece: &LatticePiece) -> Result<()> {
        let Exits::On(exits) = &piece.exits else {
            return Err(Error::Argument("lattice piece: it ends, so that nothing can follow".to_string()));
        };
        let Stepped { lattice, composed, entry_costs, effective } = self.step(piece)?;
        let step = Step { lattice: &lattice, specials: composed.specials, entry_costs: &entry_costs };
        self.tail = self.settled.take(&step, exits, &composed.exit_costs)?;
        self.effective = self.effective.min(effective);
        Ok(())
    }

    /// The compact lattice of all pieces so far and of `last`, which ends in [`Exits::Ends`] and
    /// is not kept: more pieces may follow those so far. Frames are counted from the strings,
    /// `acoustic_scale` is 1, `reached_final` whether there is a path; the caller knows better.
    /// Time follows what is not settled, and (by some nanoseconds an arc) the size of the result.
    pub fn compact(&mut self, last: &LatticePiece) -> Result<Determinized> {
        if !matches!(last.exits, Exits::Ends(_)) {
            return Err(Error::Argument("lattice piece: it does not end".to_string()));
        }
        let Stepped { lattice, composed, entry_costs, effective } = self.step(last)?;
        let step = Step { lattice: &lattice, specials: composed.specials, entry_costs: &entry_costs };
        let limits = Limits::of(&self.config);
        let compact = self.settled.whole(&step)?.into_compact(limits.scale)?;
        // Leaves out what turned out to lead nowhere. Costs are rounded by now.
        let beam = (limits.beam + SLACK) as f32;
        let mut compact = compact.prune(beam, self.config.acoustic_scale)?;
        compact.set_times()?;
        compact.reached_final = !compact.is_empty();
        if self.config.minimize {
            compact.minimize(self.config.acoustic_scale, self.config.delta)?;
        }
        let effective_beam = narrowed(self.effective.min(effective), self.config.beam);
        Ok(Determinized { lattice: compact, effective_beam })
    }

    fn step(&mut self, piece: &LatticePiece) -> Result<Stepped> {
        piece.check()?;
        let limits = Limits::of(&self.config);
        let limits = Limits { beam: limits.beam + SLACK, ..limits };
        let entry_costs = self.settled.entry_costs(self.tail.entries.len())?;
        let phones = self.transitions.as_deref();
        let mut composed = compose(&self.tail, piece, &entry_costs, phones, limits.scale)?;
        let keep = match piece.exits {
            Exits::On(_) => Keep::BestPathTo(composed.specials.first_exit()),
            Exits::Ends(_) => Keep::BestPath,
        };
        let mut segments = std::mem::take(&mut composed.segments);
        self.links = segments.segments.len();
        let mut effective = f64::INFINITY;
        if phones.is_some() {
            let source = SegmentSource { segments, hidden: 0 };
            let (found, first) = determinize(&source, &limits, keep, &mut self.work)?;
            segments = found.with_plain_ends()?;
            effective = first;
        }
        let source = SegmentSource { segments, hidden: composed.specials.last_phone() };
        let (lattice, second) = determinize(&source, &limits, keep, &mut self.work)?;
        effective = effective.min(second);
        // What the slack is for may have been used up where the memory did not suffice.
        effective = if effective < limits.beam { (effective - SLACK).max(0.0) } else { effective };
        Ok(Stepped { lattice, composed, entry_costs, effective })
    }

    /// Links of the lattice that the last call determinized: those of its piece and of what was
    /// not settled. It does not grow with the number of pieces.
    pub fn links_of_last_call(&self) -> usize {
        self.links
    }

    /// States that will not change any more.
    pub fn num_settled(&self) -> usize {
        self.settled.num_states()
    }

    /// Bytes held for what is settled.
    pub fn memory(&self) -> usize {
        self.settled.memory()
    }
}
