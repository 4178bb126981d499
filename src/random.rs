//! Numbers that look random, and are the same for a seed on every machine and for ever.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014);
/// neighbouring seeds give unrelated numbers.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Starts anew at a seed.
    pub fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    /// The next number.
    pub fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix;

    #[test]
    fn the_numbers_are_those_of_the_paper() {
        // The first three of seed 0, as the authors' program gives them.
        let mut random = SplitMix::new(0);
        let found = [random.next_bits(), random.next_bits(), random.next_bits()];
        assert_eq!(found, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }
}
