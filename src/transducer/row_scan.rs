//! A row of scores is gone over once: checked, normalised, and its best labels found.
//!
//! The code is generic over vectors, of which there are one for every processor (a single number) and those of x86-64. All
//! add up in the same order and none fuses a multiplication with an addition, so that the bits are the same.

use super::model::{ScoreKind, Shape};
use super::score_row::{Norm, Top};
use crate::error::{Result, try_reserve};

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

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::is_x86_feature_detected;
    use std::arch::x86_64::*;

    use super::*;

    pub fn has_avx2() -> bool {
        is_x86_feature_detected!("avx2")
    }

    pub fn has_avx512() -> bool {
        is_x86_feature_detected!("avx512f")
    }

    #[target_feature(enable = "avx2")]
    pub fn scan_avx2(scan: &mut RowScan, row: &[f32], wanted: Wanted, tops: &mut Vec<Top>) -> Option<Norm> {
        scan.scan_by::<Eight, 8>(row, wanted, tops)
    }

    #[target_feature(enable = "avx512f")]
    pub fn scan_avx512(scan: &mut RowScan, row: &[f32], wanted: Wanted, tops: &mut Vec<Top>) -> Option<Norm> {
        scan.scan_by::<Sixteen, 4>(row, wanted, tops)
    }

    /// A vector of the processor, made in the function of its instructions alone.
    macro_rules! vector {
        ($name:ident: $register:ty, $width:literal, $load:ident, $store:ident, $splat:ident, $add:ident, $sub:ident, $mul:ident,
         $max:ident, $max_bits:ident, $min_bits:ident, $and:ident, $splat_bits:ident, $to_bits:ident, $from_bits:ident) => {
            #[derive(Clone, Copy)]
            struct $name($register);

            impl Vector for $name {
                const WIDTH: usize = $width;

                #[inline(always)]
                fn load(block: &Block, at: usize) -> $name {
                    let part = &block.as_chunks::<$width>().0[at];
                    // SAFETY: the processor has the instruction; the array is as long as the vector.
                    $name(unsafe { $load(part.as_ptr()) })
                }

                #[inline(always)]
                fn store(self, block: &mut Block, at: usize) {
                    let part = &mut block.as_chunks_mut::<$width>().0[at];
                    // SAFETY: as above.
                    unsafe { $store(part.as_mut_ptr(), self.0) }
                }

                #[inline(always)]
                fn splat(value: f32) -> $name {
                    // SAFETY: the processor has the instruction.
                    $name(unsafe { $splat(value) })
                }

                #[inline(always)]
                fn add(self, other: $name) -> $name {
                    // SAFETY: the processor has the instruction.
                    $name(unsafe { $add(self.0, other.0) })
                }

                #[inline(always)]
                fn sub(self, other: $name) -> $name {
                    // SAFETY: the processor has the instruction.
                    $name(unsafe { $sub(self.0, other.0) })
                }

                #[inline(always)]
                fn mul(self, other: $name) -> $name {
                    // SAFETY: the processor has the instruction.
                    $name(unsafe { $mul(self.0, other.0) })
                }

                #[inline(always)]
                fn greater(self, other: $name) -> $name {
                    // SAFETY: the processor has the instruction.
                    $name(unsafe { $max(self.0, other.0) })
                }

                #[inline(always)]
                fn farther(self, other: $name) -> $name {
                    // SAFETY: the processor has the instructions.
                    $name(unsafe {
                        let size = $and($to_bits(other.0), $splat_bits(MAGNITUDE as i32));
                        $from_bits($max_bits($to_bits(self.0), size))
                    })
                }

                #[inline(always)]
                fn nearer(self, other: $name) -> $name {
                    // SAFETY: the processor has the instructions.
                    $name(unsafe { $from_bits($min_bits($to_bits(self.0), $to_bits(other.0))) })
                }

                #[inline(always)]
                fn power(self) -> $name {
                    // SAFETY: the processor has the instructions.
                    $name(unsafe { self.power_of() })
                }

                #[inline(always)]
                fn above(self, bound: $name) -> u32 {
                    // SAFETY: the processor has the instructions.
                    unsafe { self.bits_above(bound) }
                }
            }
        };
    }

    vector!(Eight: __m256, 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_add_ps, _mm256_sub_ps, _mm256_mul_ps,
        _mm256_max_ps, _mm256_max_epu32, _mm256_min_epu32, _mm256_and_si256, _mm256_set1_epi32, _mm256_castps_si256,
        _mm256_castsi256_ps);

    vector!(Sixteen: __m512, 16, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_add_ps, _mm512_sub_ps,
        _mm512_mul_ps, _mm512_max_ps, _mm512_max_epu32, _mm512_min_epu32, _mm512_and_si512, _mm512_set1_epi32,
        _mm512_castps_si512, _mm512_castsi512_ps);

    impl Eight {
        /// # Safety
        /// The processor has AVX2.
        #[inline(always)]
        unsafe fn power_of(self) -> __m256 {
            // SAFETY: as promised; the table has two vectors.
            unsafe {
                let bits = _mm256_castps_si256(self.0);
                let table = ROOTS.as_ptr().cast::<__m256i>();
                let low = _mm256_permutevar8x32_epi32(_mm256_loadu_si256(table), bits);
                let high = _mm256_permutevar8x32_epi32(_mm256_loadu_si256(table.add(1)), bits);
                let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
                // By the fourth bit, where signs are.
                let root = _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32::<28>(bits)));
                _mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32::<19>(bits), _mm256_castps_si256(root)))
            }
        }

        /// # Safety
        /// The processor has AVX2.
        #[inline(always)]
        unsafe fn bits_above(self, bound: Eight) -> u32 {
            // SAFETY: as promised.
            unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(self.0, bound.0)) as u32 }
        }
    }

    impl Sixteen {
        /// # Safety
        /// The processor has AVX-512F.
        #[inline(always)]
        unsafe fn power_of(self) -> __m512 {
            // SAFETY: as promised; the table is one vector.
            unsafe {
                let bits = _mm512_castps_si512(self.0);
                let root = _mm512_permutexvar_epi32(bits, _mm512_loadu_si512(ROOTS.as_ptr().cast()));
                _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32::<19>(bits), root))
            }
        }

        /// # Safety
        /// The processor has AVX-512F.
        #[inline(always)]
        unsafe fn bits_above(self, bound: Sixteen) -> u32 {
            // SAFETY: as promised.
            unsafe { _mm512_cmp_ps_mask::<_CMP_GT_OQ>(self.0, bound.0).into() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::score_row::ScoreRow;
    use super::*;

    fn scan_of(kind: ScoreKind, vocab_size: usize, blank: i32) -> RowScan {
        RowScan::new(&Shape { vocab_size, blank, encoder_dim: 1, output_dim: 1, scores: kind, has_lm: false }).unwrap()
    }

    type Scan = fn(&mut RowScan, &[f32], Wanted, &mut Vec<Top>) -> Option<Norm>;

    /// All that this processor runs; the first is the plain one.
    fn variants() -> Vec<(&'static str, Scan)> {
        let mut variants: Vec<(&'static str, Scan)> = vec![("plain", RowScan::scan_by::<f32, LANES>)];
        #[cfg(target_arch = "x86_64")]
        {
            if x86::has_avx2() {
                // SAFETY: the processor has it, as was just asked.
                variants.push(("avx2", |scan, row, wanted, tops| unsafe { x86::scan_avx2(scan, row, wanted, tops) }));
            }
            if x86::has_avx512() {
                // SAFETY: as above.
                variants
                    .push(("avx512", |scan, row, wanted, tops| unsafe { x86::scan_avx512(scan, row, wanted, tops) }));
            }
        }
        variants.push(("chosen", RowScan::scan));
        variants
    }

    /// What all variants say, bit for bit.
    fn scanned(values: &[f32], kind: ScoreKind, blank: i32, wanted: Wanted) -> Option<(Norm, Vec<Top>)> {
        let mut answers = Vec::new();
        for (name, variant) in variants() {
            let mut scan = scan_of(kind, values.len(), blank);
            let room = scan.groups.capacity();
            let before = Top { label: 77, value: 3.0 };
            let mut tops = Vec::with_capacity(1 + wanted.most());
            tops.push(before);
            let norm = variant(&mut scan, values, wanted, &mut tops);
            assert_eq!(tops.remove(0), before, "{name}: what is there stays");
            assert_eq!(scan.groups.capacity(), room, "{name}: no memory is taken");
            let bits = norm.map(|norm| [norm.max, norm.log_sum].map(f32::to_bits));
            answers.push((name, bits, norm, tops));
        }
        for (name, bits, _, tops) in &answers {
            assert_eq!((bits, tops), (&answers[0].1, &answers[0].3), "{name}");
        }
        let (.., norm, tops) = answers.swap_remove(0);
        norm.map(|norm| (norm, tops))
    }

    #[test]
    fn exp_is_within_6e_7() {
        let mut worst = 0.0f64;
        for step in 0..1_000_000 {
            let x = -(step as f32) * 2e-5;
            let error = f64::from(exp(x)) / f64::from(x).exp() - 1.0;
            // (Far below, the product with log2 e is not more exact than its own size allows.)
            worst = worst.max((error.abs() - 1.2e-7 * f64::from(x).abs()).max(0.0));
        }
        assert!(worst <= 6e-7, "{worst}");
        assert_eq!([exp(0.0f32), exp(-0.0f32)], [1.0; 2]);
        assert!(exp(f32::NEG_INFINITY) < 2e-38);
    }

    /// Log-softmax by definition.
    fn plain(values: &[f32]) -> Vec<f64> {
        let max = values.iter().fold(f32::NEG_INFINITY, |max, value| max.max(*value));
        let sum: f64 = values.iter().map(|value| f64::from(value - max).exp()).sum();
        values.iter().map(|value| f64::from(value - max) - sum.ln()).collect()
    }

    fn values(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 1e6 - 8.0
        };
        (0..count).map(|_| next()).collect()
    }

    const LENGTHS: [usize; 16] = [2, 3, 7, 31, 63, 64, 65, 127, 128, 255, 256, 257, 500, 1_023, 1_025, 5_000];

    #[test]
    fn rows_of_all_lengths_are_normalised() {
        for count in LENGTHS {
            let values = values(count, count as u32);
            let row = |kind| {
                let (norm, _) = scanned(&values, kind, 0, Wanted::Nothing).unwrap();
                ScoreRow { values: &values, norm, tops: &[] }
            };
            for (label, wanted) in plain(&values).into_iter().enumerate() {
                let found = f64::from(row(ScoreKind::Logits).log_prob(label as i32));
                assert!((found - wanted).abs() < 2e-6 * wanted.abs().max(1.0), "{count} {label}: {found} {wanted}");
            }
            assert_eq!(row(ScoreKind::LogProbs).log_prob(1), values[1]);
        }
    }

    #[test]
    fn the_best_are_those_of_a_sorted_row() {
        for (count, blank) in [(2, 0), (3, 2), (40, 7), (500, 499), (500, -1), (2047, 64), (2048, 0), (6_500, 3_000)] {
            // Many ties; fewer; none; all the same; and each better than all before.
            let made: [Box<dyn Fn(f32, usize) -> f32>; 5] = [
                Box::new(|value, _| value.round() + 0.0),
                Box::new(|value, _| (value * 50.0).round() / 50.0 + 0.0),
                Box::new(|value, _| value),
                Box::new(|_, _| 2.5),
                Box::new(|_, at| at as f32),
            ];
            for (nth, made) in made.iter().enumerate() {
                let values: Vec<f32> =
                    values(count, 5).into_iter().enumerate().map(|(at, value)| made(value, at)).collect();
                let mut sorted: Vec<i32> = (0..count as i32).filter(|label| *label != blank).collect();
                sorted.sort_by(|a, b| values[*b as usize].total_cmp(&values[*a as usize]));
                for want in [0, 1, 2, 4, 5, 16, 23, 24, 25, 63, 64, 65, count - 1] {
                    let want = want.min(count - 1);
                    let (_, found) = scanned(&values, ScoreKind::Logits, blank, Wanted::Best(want)).unwrap();
                    let labels: Vec<i32> = found.iter().map(|top| top.label).collect();
                    assert_eq!(labels, sorted[..want], "{want} of {count}, row {nth}");
                    assert!(found.iter().all(|top| top.value == values[top.label as usize]));
                }
                let (_, found) = scanned(&values, ScoreKind::LogProbs, blank, Wanted::AboveBlank).unwrap();
                let blank = values.get(blank as usize).copied().unwrap_or(f32::NEG_INFINITY);
                let best = sorted.first().filter(|best| values[**best as usize] > blank);
                assert_eq!(found.iter().map(|top| top.label).collect::<Vec<_>>(), Vec::from_iter(best.copied()));
            }
        }
    }

    #[test]
    fn what_is_forbidden_is_never_taken_and_what_is_no_number_is_refused() {
        let low = f32::NEG_INFINITY;
        for count in [4, 64, 300] {
            let mut values = vec![low; count];
            for wanted in [Wanted::Best(3), Wanted::AboveBlank] {
                let (norm, tops) = scanned(&values, ScoreKind::Logits, 0, wanted).unwrap();
                assert_eq!((ScoreRow { values: &values, norm, tops: &[] }.log_prob(3), tops.len()), (low, 0));
            }
            values[1] = 1.0;
            for wanted in [Wanted::Best(3), Wanted::AboveBlank] {
                let (norm, tops) = scanned(&values, ScoreKind::Logits, 0, wanted).unwrap();
                assert_eq!(tops.iter().map(|top| top.label).collect::<Vec<_>>(), [1]);
                let row = ScoreRow { values: &values, norm, tops: &tops };
                assert_eq!((row.log_prob(1), row.log_prob(0)), (0.0, low));
            }
        }
        for count in [9, 64, 333] {
            for (bad, others) in
                [f32::NAN, -f32::NAN, f32::INFINITY].into_iter().flat_map(|bad| [(bad, 0.5), (bad, low)])
            {
                for at in 0..count {
                    let mut values = vec![others; count];
                    values[at] = bad;
                    for kind in [ScoreKind::LogProbs, ScoreKind::Logits] {
                        assert!(scanned(&values, kind, 0, Wanted::Nothing).is_none(), "{bad} at {at} of {count}");
                    }
                }
            }
        }
    }
}
