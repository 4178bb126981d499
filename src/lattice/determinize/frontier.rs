//! The states that wait for their turn in a closure: a set of numbers, lowest first.

use crate::error::{Result, try_reserve};

/// A set of numbers below a bound, taken out in ascending order. Two levels of bits: taking
/// the next costs a few instructions where numbers lie near each other.
#[derive(Debug, Default)]
pub(super) struct Frontier {
    bits: Vec<u64>,
    /// Bit i: whether word i of `bits` is not 0.
    words: Vec<u64>,
    /// No word of `words` below this one holds a bit.
    low: usize,
}

impl Frontier {
    /// Empties the set and gives it room for the numbers below `bound`.
    pub fn reset(&mut self, bound: usize) -> Result<()> {
        let bits = bound.div_ceil(64);
        let words = bits.div_ceil(64);
        self.bits.clear();
        self.words.clear();
        try_reserve(&mut self.bits, bits, "determinization: states")?;
        try_reserve(&mut self.words, words, "determinization: states")?;
        self.bits.resize(bits, 0);
        self.words.resize(words, 0);
        self.low = words;
        Ok(())
    }

    pub fn insert(&mut self, number: u32) {
        let word = number as usize / 64;
        self.bits[word] |= 1 << (number % 64);
        self.words[word / 64] |= 1 << (word % 64);
        self.low = self.low.min(word / 64);
    }

    /// Takes the lowest number out.
    pub fn pop(&mut self) -> Option<u32> {
        while self.low < self.words.len() {
            let summary = self.words[self.low];
            if summary == 0 {
                self.low += 1;
                continue;
            }
            let word = self.low * 64 + summary.trailing_zeros() as usize;
            let bits = self.bits[word];
            let rest = bits & (bits - 1);
            self.bits[word] = rest;
            if rest == 0 {
                self.words[self.low] = summary & (summary - 1);
            }
            return Some((word * 64) as u32 + bits.trailing_zeros());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Frontier;

    #[test]
    fn numbers_come_out_in_ascending_order() {
        let mut frontier = Frontier::default();
        frontier.reset(20_000).unwrap();
        for number in [19_999, 0, 64, 63, 4_096, 64] {
            frontier.insert(number);
        }
        assert_eq!((frontier.pop(), frontier.pop()), (Some(0), Some(63)));
        frontier.insert(65);
        let rest: Vec<u32> = std::iter::from_fn(|| frontier.pop()).collect();
        assert_eq!(rest, [64, 65, 4_096, 19_999]);
        frontier.insert(3);
        assert_eq!((frontier.pop(), frontier.pop()), (Some(3), None));
        frontier.reset(0).unwrap();
        assert_eq!(frontier.pop(), None);
    }
}
