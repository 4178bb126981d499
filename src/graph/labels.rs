//! Cold arrays of a graph: output labels by arc number, and the places of epsilon arcs in the file.

use super::array::Array;
use super::narrow::Narrow;
use crate::error::{Result, shrink_to, try_filled, try_push, try_reserve};

/// `len` elements that are 0.
pub(super) fn zeros<T: Clone + Default>(len: usize, what: &str) -> Result<Array<T>> {
    Ok(try_filled(T::default(), len, what)?.into())
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
#[derive(Debug)]
pub struct SparseLabels {
    pub(super) present: Bits,
    /// In 16 or 32 bits.
    pub(super) values: Narrow,
}

/// [`SparseLabels`] while they are filled.
#[derive(Debug, Default)]
pub struct SparseFill {
    present: Bits,
    short: Vec<u16>,
    /// All labels, once one needs more than 16 bits.
    long: Vec<u32>,
}

impl SparseFill {
    /// `num_arcs` labels, all 0 yet.
    pub fn new(num_arcs: u32) -> Result<SparseFill> {
        Ok(SparseFill { present: Bits::new(num_arcs as usize, "output labels")?, ..SparseFill::default() })
    }

    /// Sets the label of `arc`. Arcs come in ascending order, each once; `label` is not 0.
    #[inline(always)]
    pub fn push(&mut self, arc: u32, label: i32) -> Result<()> {
        self.present.set(arc as usize);
        match u16::try_from(label) {
            Ok(label) if self.long.is_empty() => try_push(&mut self.short, label, "output labels"),
            _ => self.push_long(label),
        }
    }

    fn push_long(&mut self, label: i32) -> Result<()> {
        if self.long.is_empty() {
            try_reserve(&mut self.long, self.short.len() + 1, "output labels")?;
            self.long.extend(std::mem::take(&mut self.short).into_iter().map(u32::from));
        }
        try_push(&mut self.long, label as u32, "output labels")
    }

    /// The labels; what growing took too much is freed.
    pub fn finish(mut self) -> Result<SparseLabels> {
        self.present.count()?;
        shrink_to(&mut self.short, 0);
        shrink_to(&mut self.long, 0);
        let values =
            if self.long.is_empty() { Narrow::Short(self.short.into()) } else { Narrow::Long(self.long.into()) };
        Ok(SparseLabels { present: self.present, values })
    }
}

impl SparseLabels {
    /// Label of `arc`.
    pub fn get(&self, arc: u32) -> i32 {
        if !self.present.get(arc as usize) {
            return 0;
        }
        self.values.get(self.present.rank(arc as usize) as usize) as i32
    }

    /// Bytes taken.
    pub fn memory(&self) -> usize {
        self.present.memory() + self.values.all_bytes().len()
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
