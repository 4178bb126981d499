//! The graph as the recursion walks it: arcs that enter the same state with the same pdf are one group.
//!
//! What a group carries in a frame is `x(pdf) * sum of alpha(source) * prob`, so the emission is multiplied in once
//! a group and not once an arc, and the occupancy of a pdf is a sum over groups of what they carry times the beta of
//! the state that they enter. The backward pass then needs what the groups carried and no alpha at all.

use super::den_graph::Transition;
use crate::cuda::ChainArc as Arc;
use crate::error::{Result, try_filled, try_reserve};

const WHAT: &str = "denominator graph";

/// Groups, numbered by pdf and then by the state that they enter.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Groups of pdf k are `pdf_offsets[k]..pdf_offsets[k + 1]`.
    pub pdf_offsets: Vec<u32>,
    /// The state that a group enters.
    pub states: Vec<u32>,
    /// Groups that enter state j: those at `entering_offsets[j]..entering_offsets[j + 1]`, by pdf.
    pub entering_offsets: Vec<u32>,
    pub entering: Vec<Entering>,
    /// Arcs of all groups, those of one side by side, in the order of `entering`; `at` is the source state.
    pub arcs_in: Vec<Arc>,
    /// Arcs out of state i are `out_offsets[i]..out_offsets[i + 1]`; `at` is the group.
    pub out_offsets: Vec<u32>,
    pub arcs_out: Vec<Arc>,
}

/// A group as seen from the state that it enters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entering {
    pub group: u32,
    pub pdf: u32,
    /// Its arcs in `arcs_in`.
    pub begin: u32,
    pub end: u32,
}

impl Groups {
    /// Groups the arcs, which come by source state as `forward` tells. A group has at most `most` arcs: where more enter
    /// a state with one pdf, there are several.
    pub fn new(arcs: &[Transition], forward: &[(u32, u32)], num_pdfs: usize, most: usize) -> Result<Groups> {
        let num_states = forward.len();
        // (state entered, pdf, source) of each arc, in its place by source.
        let mut sources = try_filled(0u32, arcs.len(), WHAT)?;
        for (state, &(begin, end)) in forward.iter().enumerate() {
            sources[begin as usize..end as usize].fill(state as u32);
        }
        let mut order = Vec::new();
        try_reserve(&mut order, arcs.len(), WHAT)?;
        order.extend(0..arcs.len() as u32);
        let key = |at: u32| (arcs[at as usize].state, arcs[at as usize].pdf);
        order.sort_unstable_by_key(|&at| (key(at), at));

        let mut groups = Groups { arcs_in: Vec::new(), ..Groups::default() };
        try_reserve(&mut groups.arcs_in, arcs.len(), WHAT)?;
        groups.arcs_in.extend(order.iter().map(|&at| Arc { prob: arcs[at as usize].prob, at: sources[at as usize] }));
        let runs = order.chunk_by(|&a, &b| key(a) == key(b)).flat_map(|run| run.chunks(most));
        let num_groups = runs.clone().count();
        try_reserve(&mut groups.entering, num_groups, WHAT)?;
        groups.pdf_offsets = try_filled(0u32, num_pdfs + 1, WHAT)?;
        groups.entering_offsets = try_filled(0u32, num_states + 1, WHAT)?;
        let mut begin = 0;
        for run in runs {
            let (state, pdf) = key(run[0]);
            let end = begin + run.len() as u32;
            groups.entering.push(Entering { group: 0, pdf: pdf as u32, begin, end });
            groups.pdf_offsets[pdf as usize + 1] += 1;
            groups.entering_offsets[state as usize + 1] += 1;
            begin = end;
        }
        sum_up(&mut groups.pdf_offsets);
        sum_up(&mut groups.entering_offsets);
        groups.number(num_groups)?;
        groups.out(arcs, forward, &order)?;
        Ok(groups)
    }

    /// Gives groups their numbers: by pdf, and within one by state.
    fn number(&mut self, num_groups: usize) -> Result<()> {
        self.states = try_filled(0u32, num_groups, WHAT)?;
        let mut next = Vec::new();
        try_reserve(&mut next, self.pdf_offsets.len(), WHAT)?;
        next.extend_from_slice(&self.pdf_offsets);
        for state in 0..self.entering_offsets.len() - 1 {
            let (begin, end) = (self.entering_offsets[state] as usize, self.entering_offsets[state + 1] as usize);
            for entering in &mut self.entering[begin..end] {
                let number = &mut next[entering.pdf as usize];
                entering.group = *number;
                self.states[*number as usize] = state as u32;
                *number += 1;
            }
        }
        Ok(())
    }

    /// Arcs by source, in the order of the file.
    fn out(&mut self, arcs: &[Transition], forward: &[(u32, u32)], order: &[u32]) -> Result<()> {
        self.arcs_out = try_filled(Arc { prob: 0.0, at: 0 }, arcs.len(), WHAT)?;
        for entering in &self.entering {
            for &at in &order[entering.begin as usize..entering.end as usize] {
                self.arcs_out[at as usize] = Arc { prob: arcs[at as usize].prob, at: entering.group };
            }
        }
        try_reserve(&mut self.out_offsets, forward.len() + 1, WHAT)?;
        self.out_offsets.push(0);
        self.out_offsets.extend(forward.iter().map(|range| range.1));
        Ok(())
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.states.len()
    }
}

fn sum_up(counts: &mut [u32]) {
    let mut sum = 0;
    for count in counts {
        sum += *count;
        *count = sum;
    }
}
