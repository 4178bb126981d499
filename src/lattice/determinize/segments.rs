//! What a pass makes: a lattice of links with strings, costs in binary64. It is what the next
//! pass reads, and what the compact lattice is made from.

use std::ops::Range;

use crate::error::{Error, Result, try_filled, try_reserve};

use super::super::{CompactLattice, LatticeArc, LatticeWeight, Strings};
use super::costs::Costs;
use super::source::{Link, Source, word_of};

/// A range of [`Segments::labels`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub from: u32,
    pub len: u32,
}

/// An arc with its string.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub next: u32,
    pub label: u32,
    pub costs: Costs,
    pub string: Span,
}

/// Cost and string of ending in a state.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub costs: Costs,
    pub string: Span,
}

/// A lattice in topological order. Empty without states.
#[derive(Debug, Default)]
pub(super) struct Segments {
    /// Segments of state `s` are those from `offsets[s]` to `offsets[s + 1]`.
    pub offsets: Vec<u32>,
    pub segments: Vec<Segment>,
    pub ends: Vec<Option<End>>,
    /// Transition-ids of all strings.
    pub labels: Vec<i32>,
}

impl Segments {
    pub fn string(&self, span: Span) -> &[i32] {
        &self.labels[span.from as usize..(span.from + span.len) as usize]
    }

    /// Room for `len` more labels, or the report that there are too many.
    pub fn reserve_string(&mut self, len: usize) -> Result<Span> {
        let from = self.labels.len();
        if from + len > u32::MAX as usize {
            return Err(Error::Limit("a lattice holds more than 2^32 - 1 transition-ids".to_string()));
        }
        try_reserve(&mut self.labels, len, "determinization: transition-ids")?;
        self.labels.resize(from + len, 0);
        Ok(Span { from: from as u32, len: len as u32 })
    }

    /// Adds a string.
    pub fn push_string(&mut self, string: &[i32]) -> Result<Span> {
        self.push_strings([string, &[]])
    }

    /// Adds the string that is one after another.
    pub fn push_strings(&mut self, [head, rest]: [&[i32]; 2]) -> Result<Span> {
        let span = self.reserve_string(head.len() + rest.len())?;
        let (place, behind) = self.labels[span.from as usize..].split_at_mut(head.len());
        place.copy_from_slice(head);
        behind.copy_from_slice(rest);
        Ok(span)
    }

    /// The lattice in which ending costs no string: an end with a string becomes a link
    /// without a label to a state of its own, behind all others.
    pub fn with_plain_ends(mut self) -> Result<Segments> {
        let states = self.ends.len();
        let with_string = |end: &Option<End>| end.filter(|end| end.string.len > 0);
        let more = self.ends.iter().filter_map(with_string).count();
        if more == 0 {
            return Ok(self);
        }
        let mut segments = Vec::new();
        try_reserve(&mut segments, self.segments.len() + more, "determinization: arcs")?;
        try_reserve(&mut self.ends, more, "determinization: states")?;
        try_reserve(&mut self.offsets, more, "determinization: states")?;
        for state in 0..states {
            let range = self.offsets[state] as usize..self.offsets[state + 1] as usize;
            // The offset of this state was read; that of the next one is written in its turn.
            self.offsets[state] = segments.len() as u32;
            segments.extend_from_slice(&self.segments[range]);
            if let Some(End { costs, string }) = with_string(&self.ends[state]) {
                segments.push(Segment { next: self.ends.len() as u32, label: 0, costs, string });
                self.ends[state] = None;
                self.ends.push(Some(End { costs: Costs::ONE, string: Span::default() }));
            }
        }
        self.offsets.truncate(states);
        self.offsets.resize(states + more + 1, segments.len() as u32);
        self.segments = segments;
        Ok(self)
    }

    /// The compact lattice: labels of phones left out, costs rounded to binary32. What rounding
    /// takes from an arc on the best way to a state is given to the arcs that leave it, so that
    /// the cost of the best path at `scale` is that of its arcs to one rounding.
    pub fn into_compact(self, scale: f64) -> Result<CompactLattice> {
        let mut lattice = CompactLattice::default();
        if self.ends.is_empty() {
            return Ok(lattice);
        }
        let carried = self.carried(scale)?;
        try_reserve(&mut lattice.arcs, self.segments.len(), "arcs of a lattice")?;
        try_reserve(&mut lattice.finals, self.ends.len(), "states of a lattice")?;
        lattice.arc_strings = Strings::with_capacity(self.segments.len())?;
        lattice.final_strings = Strings::with_capacity(self.ends.len())?;
        for (state, end) in self.ends.iter().enumerate() {
            for number in self.offsets[state]..self.offsets[state + 1] {
                let Segment { next, label, costs, string } = self.segments[number as usize];
                let weight = costs.plus(carried[state]).minus(carried[next as usize]).rounded()?;
                let word = word_of(label);
                lattice.arcs.push(LatticeArc { next, ilabel: word, olabel: word, weight });
                lattice.arc_strings.push(self.string(string))?;
            }
            let weight = end.map(|end| end.costs.plus(carried[state]).rounded()).transpose()?;
            lattice.finals.push(weight.unwrap_or(LatticeWeight::ZERO));
            lattice.final_strings.push(end.map_or(&[], |end| self.string(end.string)))?;
        }
        lattice.offsets = self.offsets;
        Ok(lattice)
    }

    /// Cost of the best path; infinite without any.
    pub fn best(&self, scale: f64) -> Result<f64> {
        let mut to_end = try_filled(f64::INFINITY, self.ends.len(), "states of a lattice")?;
        for state in (0..self.ends.len()).rev() {
            let end = self.ends[state].map_or(f64::INFINITY, |end| end.costs.total(scale));
            let segments = &self.segments[self.offsets[state] as usize..self.offsets[state + 1] as usize];
            let ways = segments.iter().map(|segment| segment.costs.total(scale) + to_end[segment.next as usize]);
            to_end[state] = ways.fold(end, f64::min);
        }
        Ok(to_end.first().copied().unwrap_or(f64::INFINITY))
    }

    /// For each state what rounding takes from the best way to it.
    fn carried(&self, scale: f64) -> Result<Vec<Costs>> {
        let mut carried = try_filled(Costs::ONE, self.ends.len(), "states of a lattice")?;
        let mut least = try_filled(f64::INFINITY, self.ends.len(), "states of a lattice")?;
        least.iter_mut().take(1).for_each(|cost| *cost = 0.0);
        for state in 0..self.ends.len() {
            for number in self.offsets[state]..self.offsets[state + 1] {
                let Segment { next, costs, .. } = self.segments[number as usize];
                let cost = least[state] + costs.total(scale);
                if cost < least[next as usize] {
                    let exact = costs.plus(carried[state]);
                    least[next as usize] = cost;
                    carried[next as usize] = exact.minus(Costs::from(exact.rounded()?));
                }
            }
        }
        Ok(carried)
    }
}

/// Segments as the source of a pass; ends have no strings.
pub(super) struct SegmentSource {
    pub segments: Segments,
    /// Labels of phones up to this one count as none.
    pub hidden: u32,
}

impl SegmentSource {
    /// Without the labels of all phones.
    pub fn of_words(segments: Segments) -> SegmentSource {
        SegmentSource { segments, hidden: u32::MAX }
    }
}

impl Source for SegmentSource {
    fn num_states(&self) -> usize {
        self.segments.ends.len()
    }

    fn num_links(&self) -> usize {
        self.segments.segments.len()
    }

    fn links(&self, state: u32) -> Range<u32> {
        self.segments.offsets[state as usize]..self.segments.offsets[state as usize + 1]
    }

    fn link(&self, link: u32) -> Link {
        let Segment { next, label, costs, .. } = self.segments.segments[link as usize];
        let hidden = label & 1 == 1 && label <= self.hidden;
        Link { next, label: if hidden { 0 } else { label }, costs }
    }

    fn string(&self, link: u32) -> &[i32] {
        self.segments.string(self.segments.segments[link as usize].string)
    }

    fn last(&self, state: u32) -> Option<Costs> {
        self.segments.ends[state as usize].map(|end| end.costs)
    }

    fn rank(&self, state: u32) -> u64 {
        u64::from(state)
    }

    fn filtered(&self, links: &[bool], ends: &[bool]) -> Result<Self> {
        let all = &self.segments;
        let mut kept = Segments { offsets: vec![0], ..Segments::default() };
        kept.ends = try_filled(None, all.ends.len(), "determinization: pruning")?;
        try_reserve(&mut kept.offsets, all.ends.len(), "determinization: pruning")?;
        for (state, &ends_here) in ends.iter().enumerate() {
            for link in self.links(state as u32).filter(|&link| links[link as usize]) {
                let segment = all.segments[link as usize];
                let string = kept.push_string(all.string(segment.string))?;
                try_reserve(&mut kept.segments, 1, "determinization: pruning")?;
                kept.segments.push(Segment { string, ..segment });
            }
            kept.offsets.push(kept.segments.len() as u32);
            // Ends of a source have no strings.
            kept.ends[state] = all.ends[state].filter(|_| ends_here);
        }
        Ok(SegmentSource { segments: kept, hidden: self.hidden })
    }
}
