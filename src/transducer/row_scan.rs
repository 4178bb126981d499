//! A row of scores is gone over once: checked, normalised, and its best labels found.
//!
//! The code is generic over vectors, of which there are one for every processor (a single number) and those of x86-64. All
//! add up in the same order and none fuses a multiplication with an addition, so that the bits are the same.

use super::model::{ScoreKind, Shape};
use super::score_row::{Norm, Top};
use crate::error::{Result, try_reserve};

#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

/// Values that are worked on side by side: a few vectors, since each addition waits for the one before.
const LANES: usize = 64;

/// Blocks whose exponentials are added up in single precision.
const BLOCKS_A_SUM: usize = 16;

/// Blocks of which the best values are noted, so that most need no second look for the best labels.
const BLOCKS_A_GROUP: usize = 4;

pub(super) type Block = [f32; LANES];

const NOTHING: Block = [f32::NEG_INFINITY; LANES];

/// Which labels of a row a search wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// None.
    Nothing,
    /// The best one, if it is better than the blank.
    AboveBlank,
    /// The best so many besides the blank, best first, of equal ones the smaller first; those of `-inf` are left out.
    Best(usize),
}

impl Wanted {
    /// How many labels that are at most.
    pub fn most(self) -> usize {
        match self {
            Wanted::Nothing => 0,
            Wanted::AboveBlank => 1,
            Wanted::Best(count) => count,
        }
    }
}

/// What rows are like, and room to look through one.
#[derive(Debug)]
pub(super) struct RowScan {
    kind: ScoreKind,
    blank: i32,
    /// The best values of each group of blocks.
    groups: Vec<Block>,
}

impl RowScan {
    pub fn new(shape: &Shape) -> Result<RowScan> {
        let mut groups = Vec::new();
        // Those of whole blocks, and the rest.
        try_reserve(&mut groups, (shape.vocab_size / LANES).div_ceil(BLOCKS_A_GROUP) + 1, "scores")?;
        Ok(RowScan { kind: shape.scores, blank: shape.blank, groups })
    }

    /// The normaliser of a row of the vocabulary's size; the labels that are wanted are added to `tops`, which has
    /// room for them. `None` if the row has NaN or `+inf`.
    pub fn scan(&mut self, row: &[f32], wanted: Wanted, tops: &mut Vec<Top>) -> Option<Norm> {
        #[cfg(target_arch = "x86_64")]
        {
            if x86::has_avx512() {
                // SAFETY: the processor has it, as was just asked.
                return unsafe { x86::scan_avx512(self, row, wanted, tops) };
            }
            if x86::has_avx2() {
                // SAFETY: as above.
                return unsafe { x86::scan_avx2(self, row, wanted, tops) };
            }
        }
        self.scan_by::<f32, LANES>(row, wanted, tops)
    }

    /// `N` vectors are [`LANES`] values.
    #[inline(always)]
    fn scan_by<V: Vector, const N: usize>(&mut self, row: &[f32], wanted: Wanted, tops: &mut Vec<Top>) -> Option<Norm> {
        let (blocks, rest) = row.as_chunks::<LANES>();
        let mut last = NOTHING;
        last[..rest.len()].copy_from_slice(rest);
        let bests = self.bests::<V, N>(blocks, &last)?;
        let max = largest(&bests);
        if max == f32::INFINITY {
            return None;
        }
        let norm = match self.kind {
            // Of a row without any allowed label nothing is taken, whatever is subtracted.
            ScoreKind::Logits if max > f32::NEG_INFINITY => {
                Norm { max, log_sum: sum_of_exps::<V, N>(blocks, &last, max).ln() as f32 }
            }
            _ => Norm::default(),
        };
        let (count, bound) = match wanted {
            Wanted::Nothing | Wanted::Best(0) => return Some(norm),
            Wanted::AboveBlank => match row.get(self.blank as usize) {
                Some(blank) if *blank >= max => return Some(norm),
                _ => (1, max),
            },
            Wanted::Best(count) => (count, bound(&bests, count + 1)),
        };
        // What equals the bound still counts.
        let bound = if bound == f32::NEG_INFINITY { bound } else { bound.next_down() };
        self.collect::<V, N>(blocks, &last, count, bound, tops);
        Some(norm)
    }

    /// The best values of each lane, and of the lanes of each group; `None` if there is a NaN.
    #[inline(always)]
    fn bests<V: Vector, const N: usize>(&mut self, blocks: &[Block], last: &Block) -> Option<Block> {
        self.groups.clear();
        let mut all = [V::splat(f32::NEG_INFINITY); N];
        let mut size = [V::splat(0.0); N];
        // (No closures: their code would not be compiled for the processor's vectors.)
        for group in blocks.chunks(BLOCKS_A_GROUP) {
            self.groups.push(bests_of_group(group, &mut all, &mut size));
        }
        self.groups.push(bests_of_group(std::slice::from_ref(last), &mut all, &mut size));
        let sizes = stored(size);
        let mut numbers = true;
        for size in sizes {
            numbers &= !size.is_nan();
        }
        if numbers { Some(stored(all)) } else { None }
    }

    /// Adds the best `count` labels above `bound` to `tops`.
    #[inline(always)]
    fn collect<V: Vector, const N: usize>(
        &self,
        blocks: &[Block],
        last: &Block,
        count: usize,
        bound: f32,
        tops: &mut Vec<Top>,
    ) {
        let first = tops.len();
        let mut least = bound;
        let groups = blocks.chunks(BLOCKS_A_GROUP).chain([std::slice::from_ref(last)]);
        let mut start = 0;
        for (group, bests) in groups.zip(&self.groups) {
            if above::<V, N>(bests, least) != 0 {
                for (at, block) in group.iter().enumerate() {
                    let mut found = above::<V, N>(block, least);
                    while found != 0 {
                        let lane = found.trailing_zeros() as usize;
                        found &= found - 1;
                        let top = Top { label: (start + at * LANES + lane) as i32, value: block[lane % LANES] };
                        if top.value > least && top.label != self.blank {
                            insert(tops, first, count, top);
                            if tops.len() - first == count {
                                least = tops[tops.len() - 1].value;
                            }
                        }
                    }
                }
            }
            start += group.len() * LANES;
        }
    }
}

/// Puts a label where it belongs among those from `first` on, behind equal ones, and keeps the best `count`.
#[inline(always)]
fn insert(tops: &mut Vec<Top>, first: usize, count: usize, top: Top) {
    tops.truncate(first + count - 1);
    let mut place = tops.len();
    tops.push(top);
    while place > first && tops[place - 1].value < top.value {
        tops[place] = tops[place - 1];
        place -= 1;
    }
    tops[place] = top;
}

/// Some values side by side.
trait Vector: Copy {
    /// The vector `at` of a block.
    fn load(block: &Block, at: usize) -> Self;
    fn store(self, block: &mut Block, at: usize);
    fn splat(value: f32) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// The greater of two; `other` where one is NaN.
    fn greater(self, other: Self) -> Self;
    /// The one farther from 0, without its sign; NaN where one is NaN. That of the greatest bits.
    fn farther(self, other: Self) -> Self;
    /// The one nearer to 0 of two that are not above it. That of the least bits.
    fn nearer(self, other: Self) -> Self;
    /// 2 to the power of what [`ROUND`] was added to.
    fn power(self) -> Self;
    /// The lanes with a value above `bound`, the first the lowest bit.
    fn above(self, bound: Self) -> u32;
    /// Number of lanes.
    const WIDTH: usize;
}

impl Vector for f32 {
    const WIDTH: usize = 1;

    #[inline(always)]
    fn load(block: &Block, at: usize) -> f32 {
        block[at]
    }

    #[inline(always)]
    fn store(self, block: &mut Block, at: usize) {
        block[at] = self;
    }

    #[inline(always)]
    fn splat(value: f32) -> f32 {
        value
    }

    #[inline(always)]
    fn add(self, other: f32) -> f32 {
        self + other
    }

    #[inline(always)]
    fn sub(self, other: f32) -> f32 {
        self - other
    }

    #[inline(always)]
    fn mul(self, other: f32) -> f32 {
        self * other
    }

    #[inline(always)]
    fn greater(self, other: f32) -> f32 {
        if self > other { self } else { other }
    }

    #[inline(always)]
    fn farther(self, other: f32) -> f32 {
        f32::from_bits(self.to_bits().max(other.to_bits() & MAGNITUDE))
    }

    #[inline(always)]
    fn nearer(self, other: f32) -> f32 {
        f32::from_bits(self.to_bits().min(other.to_bits()))
    }

    #[inline(always)]
    fn power(self) -> f32 {
        let bits = self.to_bits();
        f32::from_bits((bits << 19).wrapping_add(ROOTS[bits as usize % 16]))
    }

    #[inline(always)]
    fn above(self, bound: f32) -> u32 {
        u32::from(self > bound)
    }
}

/// All bits but the sign.
const MAGNITUDE: u32 = 0x7fff_ffff;

/// Whether a score is a number below infinity.
pub(super) fn usable(value: f32) -> bool {
    value <= f32::MAX
}

/// The lanes of a block with a value above `bound`.
#[inline(always)]
fn above<V: Vector, const N: usize>(block: &Block, bound: f32) -> u64 {
    let bound = V::splat(bound);
    let mut bits = 0;
    for at in 0..N {
        bits |= u64::from(V::load(block, at).above(bound)) << (at * V::WIDTH);
    }
    bits
}

/// The largest of all lanes.
#[inline(always)]
fn largest(bests: &Block) -> f32 {
    let mut bests = *bests;
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            bests[lane] = bests[lane + half].greater(bests[lane]);
        }
        half /= 2;
    }
    bests[0]
}

/// The best values of the lanes of a group, which are looked at for the whole row too, as are the values farthest from 0.
#[inline(always)]
fn bests_of_group<V: Vector, const N: usize>(group: &[Block], all: &mut [V; N], size: &mut [V; N]) -> Block {
    let mut bests = [V::splat(f32::NEG_INFINITY); N];
    for block in group {
        for at in 0..N {
            let values = V::load(block, at);
            bests[at] = values.greater(bests[at]);
            size[at] = size[at].farther(values);
        }
    }
    for at in 0..N {
        all[at] = bests[at].greater(all[at]);
    }
    stored(bests)
}

#[inline(always)]
fn stored<V: Vector, const N: usize>(vectors: [V; N]) -> Block {
    let mut block = NOTHING;
    for (at, vector) in vectors.into_iter().enumerate() {
        vector.store(&mut block, at);
    }
    block
}

/// A value that `count` labels reach. The bests of the lanes are different labels, so that the `count`th
/// of them is one.
#[inline(always)]
fn bound(bests: &Block, count: usize) -> f32 {
    const HALF: usize = LANES / 2;
    if count > LANES {
        f32::NEG_INFINITY
    } else if count > 3 * HALF / 4 {
        nth_largest(bests, count)
    } else {
        // With fewer lanes a few more labels reach it, and it is found in a quarter of the time.
        let mut half = [0.0; HALF];
        for lane in 0..HALF {
            half[lane] = bests[lane].greater(bests[lane + HALF]);
        }
        nth_largest(&half, count)
    }
}

/// The `count`th largest: the least of those that fewer than `count` are above.
#[inline(always)]
fn nth_largest<const N: usize>(values: &[f32; N], count: usize) -> f32 {
    let mut above = [0u32; N];
    for value in values {
        for lane in 0..N {
            above[lane] += u32::from(*value > values[lane]);
        }
    }
    let mut least = f32::INFINITY;
    for lane in 0..N {
        let candidate = if above[lane] < count as u32 { values[lane] } else { f32::INFINITY };
        least = if candidate < least { candidate } else { least };
    }
    least
}

/// Sum of `exp(value - max)`.
#[inline(always)]
fn sum_of_exps<V: Vector, const N: usize>(blocks: &[Block], last: &Block, max: f32) -> f64 {
    let mut total = 0.0;
    for part in blocks.chunks(BLOCKS_A_SUM) {
        let mut sums = [V::splat(0.0); N];
        for block in part {
            add_exps(block, max, &mut sums);
        }
        total += sum(sums);
    }
    let mut sums = [V::splat(0.0); N];
    add_exps(last, max, &mut sums);
    total + sum(sums)
}

#[inline(always)]
fn add_exps<V: Vector, const N: usize>(block: &Block, max: f32, sums: &mut [V; N]) {
    for (at, sum) in sums.iter_mut().enumerate() {
        *sum = sum.add(exp(V::load(block, at).sub(V::splat(max))));
    }
}

/// The sum of all lanes, by halves.
#[inline(always)]
fn sum<V: Vector, const N: usize>(vectors: [V; N]) -> f64 {
    let mut sums = stored(vectors);
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
        half /= 2;
    }
    sums[0].into()
}

/// Adding it to a number of at most 126 leaves the nearest sixteenth in the low bits: four for the fraction, and before them
/// the whole part with 127, the bias of exponents, on top.
const ROUND: f32 = 786_432.0 + 127.0;

/// The roots `2^(i/16)`: their bits, less those of 1 and of `i` where [`Vector::power`] has it.
const ROOTS: [u32; 16] = {
    const VALUES: [f32; 16] = [
        1.0,
        1.044_273_7,
        1.090_507_7,
        1.138_788_6,
        1.189_207_1,
        1.241_857_8,
        1.296_839_6,
        1.354_255_6,
        std::f32::consts::SQRT_2,
        1.476_826_2,
        1.542_210_8,
        1.610_490_3,
        1.681_792_9,
        1.756_252_2,
        1.834_008_1,
        1.915_206_6,
    ];
    let mut bits = [0; 16];
    let mut at = 0;
    while at < 16 {
        bits[at] = VALUES[at].to_bits().wrapping_sub(1.0f32.to_bits()).wrapping_sub((at as u32) << 19);
        at += 1;
    }
    bits
};

/// `exp` of a number that is not above 0, to 6e-7; exactly 1 at 0, and below -87.3 it stays at the
/// value there, which is next to nothing. Multiplications, additions and a small table only, so that every
/// machine gets the same bits.
#[inline(always)]
fn exp<V: Vector>(x: V) -> V {
    let t = x.mul(V::splat(std::f32::consts::LOG2_E)).nearer(V::splat(-126.0));
    let shifted = t.add(V::splat(ROUND));
    let r = t.sub(shifted.sub(V::splat(ROUND)));
    // 2^r for -1/32 to 1/32: the polynomial with the least relative error, 4.2e-7.
    let p = r.mul(V::splat(0.240_226_43)).add(V::splat(0.693_187_7)).mul(r).add(V::splat(1.0));
    p.mul(shifted.power())
}
