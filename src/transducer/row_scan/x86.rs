//! The vectors of x86-64, and the scans that are compiled for processors that have them.

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
