//! The raw lattice as a source, with phone labels where phones begin.
//!
//! Kaldi puts a phone label on every arc whose transition-id leaves HMM state 0 of its phone
//! (that is not a self-loop), unless the arc leaves the start state; an arc that has a word
//! already is cut in two, the word first (`DeterminizeLatticeInsertPhones`). Here the labels
//! are one number an arc, and the cut arcs' middle states exist only as numbers.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::{Error, Result, try_filled, try_reserve};
use crate::table::Transitions;

use super::super::{LatticeArc, LatticeWeight, RawLattice};
use super::costs::Costs;
use super::source::{Link, Source, phone_label, word_label};

/// A raw lattice, with or without phone labels.
pub(super) struct RawSource<'a> {
    lattice: Cow<'a, RawLattice>,
    /// By arc the phone that begins on it, 0 for none; empty without phones.
    phones: Vec<i32>,
}

impl<'a> RawSource<'a> {
    /// Fails with [`Error::Argument`] where the lattice breaks what this code relies on.
    pub fn new(lattice: &'a RawLattice, transitions: Option<&Transitions>) -> Result<RawSource<'a>> {
        check(lattice)?;
        let phones = match transitions {
            Some(transitions) => phones_of(lattice, transitions)?,
            None => Vec::new(),
        };
        Ok(RawSource { lattice: Cow::Borrowed(lattice), phones })
    }

    fn phone(&self, arc: u32) -> i32 {
        self.phones.get(arc as usize).copied().unwrap_or(0)
    }

    /// The arc whose middle this state is.
    fn cut_arc(&self, state: u32) -> u32 {
        state - self.lattice.num_states() as u32
    }
}

fn check(lattice: &RawLattice) -> Result<()> {
    lattice.view().check()?;
    let bad = |what: String| Err(Error::Argument(format!("lattice: {what}")));
    for (state, arc) in lattice.arcs_with_source() {
        if arc.next <= state {
            return bad(format!("an arc leads back from state {state} to {}", arc.next));
        }
        if arc.weight.is_absent() {
            return bad(format!("an arc from state {state} costs +inf"));
        }
    }
    let mut leads_on = try_filled(false, lattice.num_states(), "determinization: states")?;
    for state in (0..lattice.num_states()).rev() {
        leads_on[state] = !lattice.finals[state].is_absent()
            || lattice.arcs_of(state as u32).iter().any(|arc| leads_on[arc.next as usize]);
        if !leads_on[state] {
            return bad(format!("state {state} leads to no final state"));
        }
    }
    // Numbers of states in the middle of arcs, and of the links that leave them, follow the others.
    if lattice.num_states() + lattice.num_arcs() >= u32::MAX as usize || lattice.num_arcs() * 2 >= u32::MAX as usize {
        return Err(Error::Limit("determinization: more than 2^31 arcs".to_string()));
    }
    Ok(())
}

fn phones_of(lattice: &RawLattice, transitions: &Transitions) -> Result<Vec<i32>> {
    let mut phones = try_filled(0, lattice.num_arcs(), "determinization: phones")?;
    // Arcs of the start have none.
    let first = lattice.arc_range(0).end;
    for (arc, (LatticeArc { ilabel: id, .. }, begins)) in lattice.arcs.iter().zip(&mut phones).enumerate().skip(first) {
        *begins = phone_that_begins(transitions, *id, arc)?;
    }
    Ok(phones)
}

/// The phone that begins on arc number `arc` with transition-id `id`, 0 for none.
pub(super) fn phone_that_begins(transitions: &Transitions, id: i32, arc: usize) -> Result<i32> {
    if id == 0 {
        return Ok(0);
    }
    let (Some(phone), Some(state)) = (transitions.phone(id), transitions.hmm_state(id)) else {
        let most = transitions.num_ids();
        return Err(Error::Argument(format!("lattice: arc {arc} has transition-id {id}; the model has {most}")));
    };
    Ok(if state == 0 && !transitions.is_self_loop(id) { phone } else { 0 })
}

impl Source for RawSource<'_> {
    fn num_states(&self) -> usize {
        self.lattice.num_states()
    }

    fn num_links(&self) -> usize {
        self.lattice.num_arcs()
    }

    fn links(&self, state: u32) -> Range<u32> {
        if (state as usize) < self.lattice.num_states() {
            let offsets = &self.lattice.offsets;
            return offsets[state as usize]..offsets[state as usize + 1];
        }
        let link = self.num_links() as u32 + self.cut_arc(state);
        link..link + 1
    }

    fn link(&self, link: u32) -> Link {
        let Some(arc) = self.lattice.arcs.get(link as usize) else {
            let arc = link - self.num_links() as u32;
            let next = self.lattice.arcs[arc as usize].next;
            return Link { next, label: phone_label(self.phone(arc)), costs: Costs::ONE };
        };
        let (mut next, costs, phone) = (arc.next, Costs::from(arc.weight), self.phone(link));
        let label = match (arc.olabel, phone) {
            (0, 0) => 0,
            (0, phone) => phone_label(phone),
            (word, 0) => word_label(word),
            (word, _) => {
                next = self.num_states() as u32 + link;
                word_label(word)
            }
        };
        Link { next, label, costs }
    }

    fn string(&self, link: u32) -> &[i32] {
        match self.lattice.arcs.get(link as usize) {
            Some(arc) if arc.ilabel != 0 => std::slice::from_ref(&arc.ilabel),
            _ => &[],
        }
    }

    fn last(&self, state: u32) -> Option<Costs> {
        let weight = self.lattice.finals[state as usize];
        (!weight.is_absent()).then(|| Costs::from(weight))
    }

    fn rank(&self, state: u32) -> u64 {
        if (state as usize) < self.num_states() {
            return 2 * u64::from(state);
        }
        2 * u64::from(self.lattice.arcs[self.cut_arc(state) as usize].next) - 1
    }

    fn filtered(&self, links: &[bool], ends: &[bool]) -> Result<Self> {
        let mut lattice = RawLattice::default();
        let mut phones = Vec::new();
        let (states, kept) = (self.num_states(), links.iter().filter(|&&kept| kept).count());
        try_reserve(&mut lattice.arcs, kept, "determinization: pruning")?;
        if !self.phones.is_empty() {
            try_reserve(&mut phones, kept, "determinization: pruning")?;
        }
        try_reserve(&mut lattice.offsets, states, "determinization: pruning")?;
        lattice.finals = try_filled(LatticeWeight::ZERO, states, "determinization: pruning")?;
        for (state, &ends_here) in ends.iter().enumerate() {
            for arc in self.lattice.arc_range(state as u32).filter(|&arc| links[arc]) {
                lattice.arcs.push(self.lattice.arcs[arc]);
                if !self.phones.is_empty() {
                    phones.push(self.phones[arc]);
                }
            }
            lattice.offsets.push(lattice.arcs.len() as u32);
            if ends_here {
                lattice.finals[state] = self.lattice.finals[state];
            }
        }
        Ok(RawSource { lattice: Cow::Owned(lattice), phones })
    }
}
