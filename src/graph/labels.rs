//! Cold arrays of a graph: labels by arc number, and the places of epsilon arcs in the file.

use crate::error::{Result, try_reserve};

/// Input labels, in 16 bits where all fit.
#[derive(Debug)]
pub enum ArcLabels {
    /// All labels lie in 0..=65535.
    Short(Vec<u16>),
    /// Any label.
    Long(Vec<i32>),
}

impl ArcLabels {
    /// Room for `num_arcs` labels up to `max`.
    pub fn new(num_arcs: u32, max: i32) -> Result<ArcLabels> {
        if max <= i32::from(u16::MAX) {
            let mut labels = Vec::new();
            try_reserve(&mut labels, num_arcs as usize, "input labels")?;
            Ok(ArcLabels::Short(labels))
        } else {
            let mut labels = Vec::new();
            try_reserve(&mut labels, num_arcs as usize, "input labels")?;
            Ok(ArcLabels::Long(labels))
        }
    }

    /// Appends the label of the next arc. Labels are not negative (validated before).
    pub fn push(&mut self, label: i32) {
        match self {
            ArcLabels::Short(labels) => labels.push(label as u16),
            ArcLabels::Long(labels) => labels.push(label),
        }
    }

    /// Labels held.
    pub fn len(&self) -> u32 {
        match self {
            ArcLabels::Short(labels) => labels.len() as u32,
            ArcLabels::Long(labels) => labels.len() as u32,
        }
    }

    /// Label of `arc`.
    pub fn get(&self, arc: u32) -> i32 {
        match self {
            ArcLabels::Short(labels) => i32::from(labels[arc as usize]),
            ArcLabels::Long(labels) => labels[arc as usize],
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

/// Labels most of which are 0: a bitmap of the non-zero ones, their count before each
/// word of it, and their values.
#[derive(Debug, Default)]
pub struct SparseLabels {
    bits: Vec<u64>,
    before: Vec<u32>,
    values: Vec<i32>,
    len: usize,
}

impl SparseLabels {
    /// An empty array with room for `num_arcs` labels, `num_values` of them not 0.
    pub fn new(num_arcs: u32, num_values: u32) -> Result<SparseLabels> {
        let mut labels = SparseLabels::default();
        let words = num_arcs as usize / 64 + 1;
        try_reserve(&mut labels.bits, words, "output labels")?;
        try_reserve(&mut labels.before, words, "output labels")?;
        try_reserve(&mut labels.values, num_values as usize, "output labels")?;
        Ok(labels)
    }

    /// Appends the label of the next arc.
    pub fn push(&mut self, label: i32) {
        if self.len % 64 == 0 {
            self.bits.push(0);
            self.before.push(self.values.len() as u32);
        }
        if label != 0 {
            self.bits[self.len / 64] |= 1 << (self.len % 64);
            self.values.push(label);
        }
        self.len += 1;
    }

    /// Label of `arc`.
    pub fn get(&self, arc: u32) -> i32 {
        let (word, bit) = (arc as usize / 64, arc % 64);
        let bits = self.bits[word];
        if bits >> bit & 1 == 0 {
            return 0;
        }
        let rank = self.before[word] + (bits & ((1 << bit) - 1)).count_ones();
        self.values[rank as usize]
    }

    /// Bytes taken.
    pub fn memory(&self) -> usize {
        self.bits.len() * 8 + self.before.len() * 4 + self.values.len() * 4
    }
}

/// Which arcs of the file are epsilon arcs: what turns an arc number (emitting arcs of a
/// state first) back into the index in the file. Empty when every state of the file has
/// its emitting arcs first, or none but them.
#[derive(Debug, Default)]
pub struct EpsilonPlaces {
    bits: Vec<u64>,
}

impl EpsilonPlaces {
    /// Places for `num_arcs` arcs, all emitting yet; nothing is kept unless `mixed`.
    pub fn new(num_arcs: u32, mixed: bool) -> Result<EpsilonPlaces> {
        let mut bits = Vec::new();
        if mixed {
            let words = num_arcs as usize / 64 + 1;
            try_reserve(&mut bits, words, "places of epsilon arcs")?;
            bits.resize(words, 0);
        }
        Ok(EpsilonPlaces { bits })
    }

    /// Says that arc `index` of the file is an epsilon arc.
    pub fn mark(&mut self, index: u32) {
        if let Some(word) = self.bits.get_mut(index as usize / 64) {
            *word |= 1 << (index % 64);
        }
    }

    /// Index in the file of arc number `arc` of a state with `n_emit + n_eps` arcs from `first`.
    pub fn file_index(&self, first: u32, n_emit: usize, n_eps: usize, arc: u32) -> u32 {
        if self.bits.is_empty() || n_emit == 0 || n_eps == 0 {
            return arc;
        }
        let place = (arc - first) as usize;
        let (flip, mut rank) = if place < n_emit { (u64::MAX, place) } else { (0, place - n_emit) };
        let mut word = first as usize / 64;
        let mut found = (self.bits[word] ^ flip) & u64::MAX << (first % 64);
        while rank >= found.count_ones() as usize {
            rank -= found.count_ones() as usize;
            word += 1;
            found = self.bits[word] ^ flip;
        }
        for _ in 0..rank {
            found &= found - 1;
        }
        word as u32 * 64 + found.trailing_zeros()
    }

    /// Bytes taken.
    pub fn memory(&self) -> usize {
        self.bits.len() * 8
    }
}
