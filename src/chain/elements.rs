//! Those elements of the network output that a supervision speaks of. They are few: where the output is on a GPU, the
//! host asks for these alone.

use super::acceptor::Acceptor;
use super::numerator::Occupancy;
use super::scores::ScoreAt;
use super::supervision::{Paths, Supervision};
use crate::error::{Error, Result, try_reserve};

const WHAT: &str = "chain numerator";

/// Elements by row and pdf.
#[derive(Debug, Default)]
pub(super) struct Elements {
    /// Elements of row r are `offsets[r]..offsets[r + 1]`.
    pub offsets: Vec<u32>,
    /// Their pdfs, ascending in a row, each once.
    pub pdfs: Vec<u32>,
    /// The distinct pdfs of each FST where there are several, one FST behind the other, and where those of each end.
    distinct: Vec<u32>,
    ends: Vec<usize>,
}

impl Elements {
    /// Finds the elements of `supervision`.
    pub fn find(&mut self, supervision: &Supervision) -> Result<()> {
        match &supervision.paths {
            Paths::Joined { fst, times } => {
                let arcs = |state: usize| fst.arcs(state).iter().map(|arc| arc.label as u32 - 1);
                let rows = supervision.num_sequences() * supervision.frames_per_sequence();
                let places = || (0..fst.num_states()).filter(|&state| !fst.arcs(state).is_empty());
                let row = |state: usize| supervision.row(times[state] as usize);
                self.count(rows, places().map(|state| (row(state), fst.arcs(state).len())))?;
                places().for_each(|state| arcs(state).for_each(|pdf| self.put(row(state), pdf)));
            }
            Paths::EndToEnd(fsts) => {
                let sequences = supervision.num_sequences();
                let rows = sequences * supervision.frames_per_sequence();
                self.distinguish(fsts)?;
                // They may stand in any frame.
                let (distinct, ends) = (std::mem::take(&mut self.distinct), std::mem::take(&mut self.ends));
                let of = |row: usize| {
                    let fst = row % sequences;
                    &distinct[if fst == 0 { 0 } else { ends[fst - 1] }..ends[fst]]
                };
                let counted = self.count(rows, (0..rows).map(|row| (row, of(row).len())));
                if counted.is_ok() {
                    (0..rows).for_each(|row| of(row).iter().for_each(|&pdf| self.put(row, pdf)));
                }
                (self.distinct, self.ends) = (distinct, ends);
                counted?;
            }
        }
        self.compact();
        Ok(())
    }

    fn distinguish(&mut self, fsts: &[Acceptor]) -> Result<()> {
        let Elements { distinct, ends, .. } = self;
        distinct.clear();
        ends.clear();
        try_reserve(ends, fsts.len(), WHAT)?;
        for fst in fsts {
            let begin = distinct.len();
            try_reserve(distinct, fst.num_arcs(), WHAT)?;
            let arcs = (0..fst.num_states()).flat_map(|state| fst.arcs(state));
            distinct.extend(arcs.map(|arc| arc.label as u32 - 1));
            distinct[begin..].sort_unstable();
            let sorted = begin..distinct.len();
            let kept = keep_each_once(distinct, sorted, begin);
            distinct.truncate(kept);
            ends.push(kept);
        }
        Ok(())
    }

    /// Makes room for so many elements of each row; afterwards `offsets[r + 1]` tells where the next one of row r goes.
    fn count(&mut self, rows: usize, counts: impl Iterator<Item = (usize, usize)>) -> Result<()> {
        self.offsets.clear();
        try_reserve(&mut self.offsets, rows + 2, WHAT)?;
        self.offsets.resize(rows + 2, 0);
        let mut all = 0u64;
        for (row, count) in counts {
            all += count as u64;
            self.offsets[row + 2] = self.offsets[row + 2].wrapping_add(count as u32);
        }
        if all > u64::from(u32::MAX) {
            return Err(Error::Limit(format!("{all} scores of a supervision are too many for a GPU")));
        }
        let mut sum = 0;
        for offset in &mut self.offsets {
            sum += *offset;
            *offset = sum;
        }
        self.pdfs.clear();
        try_reserve(&mut self.pdfs, sum as usize, WHAT)?;
        self.pdfs.resize(sum as usize, 0);
        Ok(())
    }

    fn put(&mut self, row: usize, pdf: u32) {
        let place = &mut self.offsets[row + 1];
        self.pdfs[*place as usize] = pdf;
        *place += 1;
    }

    /// Sorts each row's pdfs and keeps each once.
    fn compact(&mut self) {
        self.offsets.pop();
        let (mut begin, mut kept) = (0usize, 0usize);
        for offset in &mut self.offsets[1..] {
            let end = *offset as usize;
            self.pdfs[begin..end].sort_unstable();
            kept = keep_each_once(&mut self.pdfs, begin..end, kept);
            begin = end;
            *offset = kept as u32;
        }
        self.pdfs.truncate(kept);
    }

    /// Which element this is; there is one for each arc of the supervision in each of its rows.
    fn index(&self, row: usize, pdf: u32) -> Option<usize> {
        let (begin, end) = (self.offsets[row] as usize, self.offsets[row + 1] as usize);
        self.pdfs[begin..end].binary_search(&pdf).ok().map(|at| begin + at)
    }

    /// Sums up occupancies times `weight`, by element.
    pub fn add_up(&self, occupancies: &[Occupancy], weight: f32, sums: &mut Vec<f32>) -> Result<()> {
        sums.clear();
        try_reserve(sums, self.pdfs.len(), WHAT)?;
        sums.resize(self.pdfs.len(), 0.0);
        for &Occupancy { row, pdf, value } in occupancies {
            if let Some(at) = self.index(row, pdf) {
                sums[at] += weight * value;
            }
        }
        Ok(())
    }
}

/// Moves sorted pdfs to `kept` and behind, each once; gives where they end.
fn keep_each_once(pdfs: &mut [u32], sorted: std::ops::Range<usize>, kept: usize) -> usize {
    let mut end = kept;
    for at in sorted {
        if end == kept || pdfs[end - 1] != pdfs[at] {
            pdfs[end] = pdfs[at];
            end += 1;
        }
    }
    end
}

/// Scores of elements.
#[derive(Clone, Copy)]
pub(super) struct Gathered<'a> {
    pub elements: &'a Elements,
    pub values: &'a [f32],
}

impl ScoreAt for Gathered<'_> {
    /// NaN for an element that is none.
    fn at(self, row: usize, pdf: usize) -> f32 {
        self.elements.index(row, pdf as u32).and_then(|at| self.values.get(at)).copied().unwrap_or(f32::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supervision(text: &str) -> Supervision {
        Supervision::from_memory(text.as_bytes()).unwrap()
    }

    #[test]
    fn each_pdf_of_each_row_once() {
        let head = "<Supervision> <Weight> 1 <NumSequences> 2 <FramesPerSeq> 2 <LabelDim> 9";
        let joined = "0 1 3 3\n0 1 1 1\n0 2 3 3\n1 3 5 5\n2 3 5 5\n3 4 9 9\n3 4 2 2\n4 5 7 7\n5\n";
        let mut elements = Elements::default();
        elements.find(&supervision(&format!("{head} <End2End> F \n{joined}\n</Supervision> "))).unwrap();
        // Rows: frame 0 of both sequences, then frame 1.
        assert_eq!(elements.offsets, [0, 2, 4, 5, 6]);
        assert_eq!(elements.pdfs, [0, 2, 1, 8, 4, 6]);
        let each = ["0 0 4 4\n0 0 2 2\n0 0 4 4\n0\n", "0 1 6 6\n1 0 6 6\n0\n"].map(|fst| format!("\n{fst}\n"));
        let text = format!("{head} <End2End> T <Fsts> {}</Fsts> </Supervision> ", each.concat());
        elements.find(&supervision(&text)).unwrap();
        assert_eq!(elements.offsets, [0, 2, 3, 5, 6]);
        assert_eq!(elements.pdfs, [1, 3, 5, 1, 3, 5]);
        let gathered = Gathered { elements: &elements, values: &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0] };
        assert_eq!((gathered.at(0, 3), gathered.at(2, 1), gathered.at(3, 5)), (1.0, 3.0, 5.0));
        assert!(gathered.at(0, 5).is_nan());
        let occupancy = |row, pdf, value| Occupancy { row, pdf, value };
        let found = [occupancy(2, 3, 0.5), occupancy(0, 1, 1.0), occupancy(2, 3, 0.25)];
        let mut sums = Vec::new();
        elements.add_up(&found, 2.0, &mut sums).unwrap();
        assert_eq!(sums, [2.0, 0.0, 0.0, 0.0, 1.5, 0.0]);
    }
}
