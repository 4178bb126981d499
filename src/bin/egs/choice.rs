//! How many copies of an example are made, and where they go.

use koshi::random::SplitMix;

/// What is left to chance; the same for the same seed on every machine.
pub struct Random(SplitMix);

impl Random {
    /// Starts anew at a seed.
    pub fn new(seed: i32) -> Random {
        Random(SplitMix::new(seed as u64))
    }

    /// A number below `limit`; 0 where there is none.
    pub fn below(&mut self, limit: usize) -> usize {
        // The high half of the product is as good as uniform: a limit is far below 2^64.
        ((u128::from(self.0.next_bits()) * limit as u128) >> 64) as usize
    }

    /// True with a probability; never at 0, always at 1.
    fn with_probability(&mut self, probability: f64) -> bool {
        ((self.0.next_bits() >> 11) as f64) < probability * (1u64 << 53) as f64
    }
}

/// Decides on copies.
pub struct Choice {
    random_output: bool,
    keep: f64,
    /// Where other choices come from.
    pub random: Random,
}

impl Choice {
    /// `keep` is how many copies are made of an example on average.
    pub fn new(random_output: bool, keep: f64, random: Random) -> Choice {
        Choice { random_output, keep, random }
    }

    /// How many copies of the next example are made: the average, rounded down or up.
    pub fn copies(&mut self) -> u64 {
        let certain = self.keep.floor();
        let one_more = self.keep > certain && self.random.with_probability(self.keep - certain);
        certain as u64 + u64::from(one_more)
    }

    /// The output for a copy, of `outputs`, after `written` were written.
    pub fn output(&mut self, written: u64, outputs: usize) -> usize {
        if self.random_output { self.random.below(outputs) } else { (written % outputs.max(1) as u64) as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(keep: f64, count: usize) -> Vec<u64> {
        let mut choice = Choice::new(false, keep, Random::new(7));
        (0..count).map(|_| choice.copies()).collect()
    }

    #[test]
    fn whole_numbers_of_copies_are_certain() {
        for keep in [0.0, 1.0, 2.0, 5.0] {
            assert!(copies(keep, 1000).iter().all(|&count| count as f64 == keep), "{keep}");
        }
    }

    #[test]
    fn others_are_right_on_average() {
        for keep in [0.1, 0.5, 1.25, 3.9] {
            let found = copies(keep, 20_000);
            assert!(found.iter().all(|&count| count == keep.floor() as u64 || count == keep.ceil() as u64));
            let mean = found.iter().sum::<u64>() as f64 / 20_000.0;
            // Five standard deviations of a coin thrown so often.
            assert!((mean - keep).abs() < 5.0 * 0.5 / 20_000f64.sqrt(), "{keep}: {mean}");
        }
    }

    #[test]
    fn outputs_in_turn_or_spread() {
        let mut turn = Choice::new(false, 1.0, Random::new(0));
        assert_eq!([0, 1, 2, 3, 4].map(|written| turn.output(written, 3)), [0, 1, 2, 0, 1]);
        let mut spread = Choice::new(true, 1.0, Random::new(0));
        let mut counts = [0; 3];
        (0..3000).for_each(|written| counts[spread.output(written, 3)] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
