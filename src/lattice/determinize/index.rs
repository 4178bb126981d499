//! An open-addressing index from hashes to numbers of things kept elsewhere.

use crate::error::{Result, try_reserve};

const FEWEST_SLOTS: usize = 256;

/// Finds the number of a thing by its hash. The things themselves, and what makes two of
/// them equal, are the caller's.
#[derive(Debug, Default)]
pub(in crate::lattice) struct Index {
    /// A number plus one, or 0 for a free slot. A power of two of them, at most half in use.
    slots: Vec<u32>,
    used: usize,
}

/// Spreads the bits of a hash, so that its low ones can be used alone.
pub(in crate::lattice) fn spread(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

impl Index {
    /// Forgets all. Memory is kept, but only a small table is cleared for the next use.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.used = 0;
    }

    /// Bytes that `used` entries take, on the assumption of a table three eighths full.
    pub const BYTES_AN_ENTRY: usize = 11;

    /// The thing with this (spread) hash that `is_it`.
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            match self.slots[at] {
                0 => return None,
                number if is_it(number - 1) => return Some(number - 1),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Adds a number below 2^32 - 1 under its (spread) hash; `hash_of` tells those of the others.
    pub fn insert(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) -> Result<()> {
        if (self.used + 1) * 2 > self.slots.len() {
            self.grow(hash_of)?;
        }
        self.place(hash, number + 1);
        self.used += 1;
        Ok(())
    }

    fn place(&mut self, hash: u64, entry: u32) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = entry;
    }

    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) -> Result<()> {
        let len = (self.slots.len() * 2).max(FEWEST_SLOTS);
        let more = len - self.slots.len();
        try_reserve(&mut self.slots, more, "determinization: an index")?;
        let old = self.slots.len();
        self.slots.resize(len, 0);
        let mut entries = Vec::new();
        try_reserve(&mut entries, self.used, "determinization: an index")?;
        entries.extend(self.slots[..old].iter().copied().filter(|&entry| entry != 0));
        self.slots[..old].fill(0);
        for entry in entries {
            self.place(hash_of(entry - 1), entry);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_put_in_though_all_hashes_clash() {
        for hash in [|_: u32| 7u64, |number: u32| spread(u64::from(number) / 3)] {
            let mut index = Index::default();
            assert_eq!(index.find(hash(0), |_| true), None);
            for number in 0..600 {
                index.insert(hash(number), number, hash).unwrap();
            }
            for number in 0..600 {
                assert_eq!(index.find(hash(number), |other| other == number), Some(number));
            }
            assert_eq!(index.find(hash(600), |other| other == 600), None);
            index.clear();
            assert_eq!(index.find(hash(1), |_| true), None);
        }
    }
}
