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

/// A set of numbers below a bound, which can tell how many of its members are below one.
#[derive(Debug, Default)]
pub struct Bits {
    words: Vec<u64>,
    /// Members before each word, once counted.
    before: Vec<u32>,
}

impl Bits {
    /// An empty set of numbers below `bound`.
    pub fn new(bound: usize, what: &str) -> Result<Bits> {
        let mut words = Vec::new();
        try_reserve(&mut words, bound.div_ceil(64), what)?;
        words.resize(bound.div_ceil(64), 0);
        Ok(Bits { words, before: Vec::new() })
    }

    /// Adds `number`, which is below the bound.
    pub fn set(&mut self, number: usize) {
        self.words[number / 64] |= 1 << (number % 64);
    }

    /// Whether `number` is a member.
    pub fn get(&self, number: usize) -> bool {
        self.words[number / 64] >> (number % 64) & 1 == 1
    }

    /// Makes [`Bits::rank`] work for the members so far.
    pub fn count(&mut self) -> Result<()> {
        self.before.clear();
        try_reserve(&mut self.before, self.words.len(), "ranks")?;
        let mut sum = 0;
        for word in &self.words {
            self.before.push(sum);
            sum += word.count_ones();
        }
        Ok(())
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
    present: Bits,
    values: Vec<i32>,
}

impl SparseLabels {
    /// `num_arcs` labels, all 0 yet, with room for `num_values` that are not.
    pub fn new(num_arcs: u32, num_values: u32) -> Result<SparseLabels> {
        let mut values = Vec::new();
        try_reserve(&mut values, num_values as usize, "output labels")?;
        Ok(SparseLabels { present: Bits::new(num_arcs as usize, "output labels")?, values })
    }

    /// Sets the label of `arc`. Arcs come in ascending order, each once; `label` is not 0.
    pub fn push(&mut self, arc: u32, label: i32) {
        self.present.set(arc as usize);
        self.values.push(label);
    }

    /// Makes [`SparseLabels::get`] work.
    pub fn finish(mut self) -> Result<SparseLabels> {
        self.present.count()?;
        Ok(self)
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
/// state first) back into the index in the file. Empty when every state of the file has
/// its emitting arcs first, or none but them.
#[derive(Debug, Default)]
pub struct EpsilonPlaces {
    epsilons: Option<Bits>,
}

impl EpsilonPlaces {
    /// Places for `num_arcs` arcs, all emitting yet; nothing is kept unless `mixed`.
    pub fn new(num_arcs: u32, mixed: bool) -> Result<EpsilonPlaces> {
        let epsilons = if mixed { Some(Bits::new(num_arcs as usize, "places of epsilon arcs")?) } else { None };
        Ok(EpsilonPlaces { epsilons })
    }

    /// Says that arc `index` of the file is an epsilon arc.
    pub fn mark(&mut self, index: u32) {
        if let Some(epsilons) = &mut self.epsilons {
            epsilons.set(index as usize);
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
