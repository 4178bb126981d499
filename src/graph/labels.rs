//! Cold arrays of a graph: labels by arc number, and the places of epsilon arcs in the file.

use super::array::Array;
use crate::error::{Result, try_reserve};

/// Input labels, in 16 bits where all fit.
#[derive(Debug)]
pub enum ArcLabels {
    /// All labels lie in 0..=65535.
    Short(Array<u16>),
    /// Any label.
    Long(Array<i32>),
}

impl ArcLabels {
    /// `num_arcs` labels up to `max`, all 0 yet.
    pub fn new(num_arcs: u32, max: i32) -> Result<ArcLabels> {
        Ok(if max <= i32::from(u16::MAX) {
            ArcLabels::Short(zeros(num_arcs as usize, "input labels")?)
        } else {
            ArcLabels::Long(zeros(num_arcs as usize, "input labels")?)
        })
    }

    /// The labels of `count` arcs from `first` on, to set them.
    #[inline(always)]
    pub fn slice(&mut self, first: u32, count: usize) -> LabelSlice<'_> {
        let range = first as usize..first as usize + count;
        match self {
            ArcLabels::Short(labels) => LabelSlice::Short(&mut labels.own()[range]),
            ArcLabels::Long(labels) => LabelSlice::Long(&mut labels.own()[range]),
        }
    }

    /// Label of `arc`.
    pub fn get(&self, arc: u32) -> i32 {
        match self {
            ArcLabels::Short(labels) => i32::from(labels[arc as usize]),
            ArcLabels::Long(labels) => labels[arc as usize],
        }
    }

    /// The memory of the labels of some arcs; nothing where they are not all there.
    pub(super) fn bytes(&self, arcs: std::ops::Range<usize>) -> &[u8] {
        match self {
            ArcLabels::Short(labels) => labels.get(arcs).map_or(&[], bytemuck::cast_slice),
            ArcLabels::Long(labels) => labels.get(arcs).map_or(&[], bytemuck::cast_slice),
        }
    }

    /// Bytes taken.
    pub fn memory(&self) -> usize {
        match self {
            ArcLabels::Short(labels) => labels.len() * 2,
            ArcLabels::Long(labels) => labels.len() * 4,
        }
    }
}

/// Some of the labels of an [`ArcLabels`].
pub enum LabelSlice<'a> {
    /// In 16 bits.
    Short(&'a mut [u16]),
    /// In 32 bits.
    Long(&'a mut [i32]),
}

impl LabelSlice<'_> {
    /// Sets the label at `place`; what does not fit is cut off.
    #[inline(always)]
    pub fn set(&mut self, place: usize, label: i32) {
        match self {
            LabelSlice::Short(labels) => labels[place] = label as u16,
            LabelSlice::Long(labels) => labels[place] = label,
        }
    }
}

fn zeros<T: Copy + Default>(len: usize, what: &str) -> Result<Array<T>> {
    let mut zeros = Vec::new();
    try_reserve(&mut zeros, len, what)?;
    zeros.resize(len, T::default());
    Ok(zeros.into())
}

/// A set of numbers below a bound, which can tell how many of its members are below one.
#[derive(Debug, Default)]
pub struct Bits {
    pub(super) words: Array<u64>,
    /// Members before each word, once counted.
    pub(super) before: Array<u32>,
}

impl Bits {
    /// An empty set of numbers below `bound`.
    pub fn new(bound: usize, what: &str) -> Result<Bits> {
        Ok(Bits { words: zeros(bound.div_ceil(64), what)?, before: Array::default() })
    }

    /// Adds `number`, which is below the bound.
    pub fn set(&mut self, number: usize) {
        self.words.own()[number / 64] |= 1 << (number % 64);
    }

    /// Whether `number` is a member.
    pub fn get(&self, number: usize) -> bool {
        self.words[number / 64] >> (number % 64) & 1 == 1
    }

    /// Makes [`Bits::rank`] work for the members so far, and gives their number.
    pub fn count(&mut self) -> Result<u32> {
        let mut before = Vec::new();
        try_reserve(&mut before, self.words.len(), "ranks")?;
        let mut sum = 0;
        for word in &*self.words {
            before.push(sum);
            sum += word.count_ones();
        }
        self.before = before.into();
        Ok(sum)
    }

    /// Members below `number`.
    pub fn rank(&self, number: usize) -> u32 {
        let below = self.words[number / 64] & ((1 << (number % 64)) - 1);
        self.before[number / 64] + below.count_ones()
    }

    /// Member number `rank`, counted from 0, of those from `from` on; of the other numbers
    /// unless `members`. It has to exist.
    pub fn select(&self, from: usize, rank: usize, members: bool) -> usize {
        let flip = if members { 0 } else { u64::MAX };
        let (mut word, mut rank) = (from / 64, rank);
        let mut found = (self.words[word] ^ flip) & u64::MAX << (from % 64);
        while rank >= found.count_ones() as usize {
            rank -= found.count_ones() as usize;
            word += 1;
            found = self.words[word] ^ flip;
        }
        for _ in 0..rank {
            found &= found - 1;
        }
        word * 64 + found.trailing_zeros() as usize
    }

    /// Bytes taken.
    pub fn memory(&self) -> usize {
        self.words.len() * 8 + self.before.len() * 4
    }
}

/// Labels most of which are 0: which ones are not, and their values.
#[derive(Debug, Default)]
pub struct SparseLabels {
    pub(super) present: Bits,
    pub(super) values: Array<i32>,
}

/// [`SparseLabels`] while they are filled.
#[derive(Debug, Default)]
pub struct SparseFill {
    present: Bits,
    values: Vec<i32>,
}

impl SparseFill {
    /// `num_arcs` labels, all 0 yet.
    pub fn new(num_arcs: u32) -> Result<SparseFill> {
        Ok(SparseFill { present: Bits::new(num_arcs as usize, "output labels")?, values: Vec::new() })
    }

    /// Makes room for `count` further labels that are not 0.
    pub fn reserve(&mut self, count: usize) -> Result<()> {
        try_reserve(&mut self.values, count, "output labels")
    }

    /// Sets the label of `arc`, for which room was made. Arcs come in ascending order, each once;
    /// `label` is not 0.
    #[inline(always)]
    pub fn push(&mut self, arc: u32, label: i32) {
        self.present.set(arc as usize);
        self.values.push(label);
    }

    /// The labels; what growing took too much is freed.
    pub fn finish(mut self) -> Result<SparseLabels> {
        self.present.count()?;
        self.values.shrink_to_fit();
        Ok(SparseLabels { present: self.present, values: self.values.into() })
    }
}

impl SparseLabels {
    /// Which labels are not 0, 64 in a word; how many before each word; and those.
    pub fn parts(&self) -> (&[u64], &[u32], &[i32]) {
        (&self.present.words, &self.present.before, &self.values)
    }

    /// Label of `arc`.
    pub fn get(&self, arc: u32) -> i32 {
        if self.present.get(arc as usize) { self.values[self.present.rank(arc as usize) as usize] } else { 0 }
    }

    /// Bytes taken.
    pub fn memory(&self) -> usize {
        self.present.memory() + self.values.len() * 4
    }
}

/// Which arcs of the file are epsilon arcs: what turns an arc number (emitting arcs of a
/// state first) back into the index in the file. The default is for graphs all of whose
/// states have their emitting arcs first.
#[derive(Debug, Default)]
pub struct EpsilonPlaces {
    pub(super) epsilons: Option<Bits>,
}

impl EpsilonPlaces {
    /// Places for `num_arcs` arcs, all emitting yet.
    pub fn new(num_arcs: u32) -> Result<EpsilonPlaces> {
        Ok(EpsilonPlaces { epsilons: Some(Bits::new(num_arcs as usize, "places of epsilon arcs")?) })
    }

    /// Says that arc `index` of the file is an epsilon arc.
    pub fn mark(&mut self, index: usize) {
        if let Some(epsilons) = &mut self.epsilons {
            epsilons.set(index);
        }
    }

    /// Index in the file of arc number `arc` of a state with `n_emit` emitting arcs and
    /// `n_eps` epsilon arcs from number `first` on.
    pub fn file_index(&self, first: u32, n_emit: usize, n_eps: usize, arc: u32) -> u32 {
        match &self.epsilons {
            Some(epsilons) if n_emit > 0 && n_eps > 0 => {
                let place = (arc - first) as usize;
                let (members, rank) = if place < n_emit { (false, place) } else { (true, place - n_emit) };
                epsilons.select(first as usize, rank, members) as u32
            }
            _ => arc,
        }
    }

    /// Bytes taken.
    pub fn memory(&self) -> usize {
        self.epsilons.as_ref().map_or(0, Bits::memory)
    }
}
