//! Two lattices as one that has the paths of both.

use crate::error::{Error, Result, try_reserve};

use super::{CompactLattice, Lattice, LatticeArc, LatticeWeight, PartStrings, Parts, RawLattice};

impl Lattice {
    /// The lattice of all paths of both lattices, as Kaldi's `lattice-union` makes it before it
    /// determinizes: the states of `self`, those of `other` behind them, and an arc without
    /// labels and costs from the one start to the other. Word sequences that both have come
    /// twice until the union is determinized; n-best lists and best paths do not mind.
    ///
    /// To join many, join two of about equal size at a time: each union copies both lattices.
    ///
    /// It is compact if either lattice is (see [`RawLattice::to_compact`]), spans the frames of the
    /// longer one, and has the acoustic scale of `self`.
    pub fn union(&self, other: &Lattice) -> Result<Lattice> {
        let (mut union, compact) = match (self, other) {
            (Lattice::Raw(one), Lattice::Raw(other)) => (joined(&*one.biased()?, &*other.biased()?)?, false),
            (one, other) => (joined_compact(&one.to_compact()?, &other.to_compact()?)?, true),
        };
        if union.finals.is_empty() {
            union.start = None;
        }
        let mut lattice: Lattice =
            if compact { CompactLattice::from_parts(union)?.into() } else { RawLattice::from_parts(union)?.into() };
        let (frames, reached_final) =
            (self.num_frames().max(other.num_frames()), self.reached_final() || other.reached_final());
        match &mut lattice {
            Lattice::Raw(RawLattice { num_frames, acoustic_scale, reached_final: reached, .. })
            | Lattice::Compact(CompactLattice { num_frames, acoustic_scale, reached_final: reached, .. }) => {
                (*num_frames, *acoustic_scale, *reached) = (frames, self.acoustic_scale(), reached_final);
            }
        }
        Ok(lattice)
    }
}

fn joined(one: &RawLattice, other: &RawLattice) -> Result<Parts> {
    let parts = Parts { start: Some(0), ..Parts::default() };
    let mut union = Join { parts, shift: one.num_states(), strings: None };
    union.append(one.offsets.as_slice(), &one.arcs, &one.finals, !one.is_empty() && !other.is_empty(), 0, None)?;
    union.append(other.offsets.as_slice(), &other.arcs, &other.finals, false, one.num_states(), None)?;
    Ok(union.parts)
}

fn joined_compact(one: &CompactLattice, other: &CompactLattice) -> Result<Parts> {
    let parts = Parts { start: Some(0), ..Parts::default() };
    let mut union = Join { parts, shift: one.num_states(), strings: Some(PartStrings::default()) };
    let link = !one.is_empty() && !other.is_empty();
    union.append(one.offsets.as_slice(), &one.arcs, &one.finals, link, 0, Some(one))?;
    union.append(other.offsets.as_slice(), &other.arcs, &other.finals, false, one.num_states(), Some(other))?;
    union.parts.strings = union.strings;
    Ok(union.parts)
}

/// A union while it grows.
struct Join {
    parts: Parts,
    /// Number of the second lattice's start.
    shift: usize,
    strings: Option<PartStrings>,
}

impl Join {
    /// Appends the states of a lattice, whose numbers grow by `shift`; with `link`, the first gets
    /// an arc to the second lattice's start.
    fn append(
        &mut self,
        offsets: &[u32],
        arcs: &[LatticeArc],
        finals: &[LatticeWeight],
        link: bool,
        shift: usize,
        compact: Option<&CompactLattice>,
    ) -> Result<()> {
        const WHAT: &str = "union of lattices";
        let (states, count) = (shift + finals.len(), self.parts.arcs.len() + arcs.len() + 1);
        if states.max(count) >= u32::MAX as usize {
            return Err(Error::Limit(format!("the union would have {states} states, {count} arcs")));
        }
        let parts = &mut self.parts;
        try_reserve(&mut parts.arcs, arcs.len() + 1, WHAT)?;
        try_reserve(&mut parts.offsets, finals.len(), WHAT)?;
        try_reserve(&mut parts.finals, finals.len(), WHAT)?;
        for (state, bounds) in offsets.windows(2).enumerate() {
            let range = bounds[0] as usize..bounds[1] as usize;
            parts
                .arcs
                .extend(arcs[range.clone()].iter().map(|arc| LatticeArc { next: arc.next + shift as u32, ..*arc }));
            if let (Some(strings), Some(compact)) = (&mut self.strings, compact) {
                range.into_iter().try_for_each(|arc| strings.arcs.push(compact.arc_string(arc)))?;
            }
            if link && state == 0 {
                let next = self.shift as u32;
                parts.arcs.push(LatticeArc { next, ilabel: 0, olabel: 0, weight: LatticeWeight::ONE });
                if let Some(strings) = &mut self.strings {
                    strings.arcs.push(&[])?;
                }
            }
            parts.offsets.push(parts.arcs.len() as u32);
            parts.finals.push(finals[state]);
            if let (Some(strings), Some(compact)) = (&mut self.strings, compact) {
                strings.finals.push(compact.final_string(state as u32))?;
            }
        }
        Ok(())
    }
}
