//! Pass 1 of a frame four arcs at a time, with SSE4.1. What it makes is what the plain loop in
//! `expand` makes, but for candidates above the exact theta.

use std::arch::x86_64::*;

use crate::error::Result;
use crate::graph::{Graph, Header};
use crate::search::{Link, grow};

use super::expand::{Column, Emitters, Expanded, PREFETCH};

/// Four columns of a block, as indices; 0 in place of those behind the first `valid`.
pub(super) trait FourColumns: Column {
    /// # Safety
    /// Four columns can be read at `columns`.
    unsafe fn four(columns: *const Self, valid: usize) -> [usize; 4];
}

impl FourColumns for u16 {
    #[inline(always)]
    unsafe fn four(columns: *const u16, valid: usize) -> [usize; 4] {
        const VALID: [u64; 5] = [0, 0xffff, 0xffff_ffff, 0xffff_ffff_ffff, u64::MAX];
        // SAFETY: as promised; `x86_64` is little-endian.
        let all = unsafe { columns.cast::<u64>().read_unaligned() } & VALID[valid];
        [all as u16 as usize, (all >> 16) as u16 as usize, (all >> 32) as u16 as usize, (all >> 48) as usize]
    }
}

impl FourColumns for u32 {
    #[inline(always)]
    unsafe fn four(columns: *const u32, valid: usize) -> [usize; 4] {
        // SAFETY: as promised.
        let all = unsafe { columns.cast::<[u32; 4]>().read_unaligned() };
        std::array::from_fn(|lane| if lane < valid { all[lane] as usize } else { 0 })
    }
}

/// For each set of four lanes: bytes to shuffle by so that those of the set come first in order.
static FRONT: [[u8; 16]; 16] = {
    let mut table = [[0; 16]; 16];
    let mut set = 0;
    while set < 16 {
        let (mut lane, mut to) = (0, 0);
        while lane < 4 {
            if set >> lane & 1 == 1 {
                let mut byte = 0;
                while byte < 4 {
                    table[set][4 * to + byte] = (4 * lane + byte) as u8;
                    byte += 1;
                }
                to += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    table
};

/// All bits set in the lanes behind the first so many: as floats, not numbers.
static BEHIND: [[u32; 4]; 5] =
    [[u32::MAX; 4], [0, u32::MAX, u32::MAX, u32::MAX], [0, 0, u32::MAX, u32::MAX], [0, 0, 0, u32::MAX], [0; 4]];

/// As `expand::expand_all`.
///
/// # Safety
/// The processor has SSE4.1.
#[target_feature(enable = "sse4.1")]
pub(super) unsafe fn expand_all<C: FourColumns>(
    graph: &Graph,
    emitters: &Emitters,
    costs: &[f32],
    next_beam: f32,
    links: &mut Vec<Link>,
) -> Result<Expanded> {
    let words = graph.words();
    let mut best = f32::INFINITY;
    let mut arcs = 0u64;
    // Kept here, so that they stay in registers.
    let (mut n, mut out, mut capacity) = (links.len(), links.as_mut_ptr().cast::<__m128i>(), links.capacity());
    let mut best_lanes = _mm_set1_ps(best);
    let mut bound_lanes = _mm_set1_ps(f32::MAX);
    for (at, ((&id, &alpha), &token)) in emitters.states.iter().zip(&emitters.costs).zip(&emitters.tokens).enumerate() {
        if let Some(&ahead) = emitters.states.get(at + PREFETCH) {
            graph.prefetch(ahead);
        }
        let header = Header::unpack(words, id);
        let n_emit = header.n_emit;
        if n_emit + 4 > capacity - n {
            // SAFETY: `n` is within the capacity, and all below it has been written: each before the count passed it.
            unsafe { links.set_len(n) };
            grow(links, n_emit + 4, "links")?;
            (out, capacity) = (links.as_mut_ptr().cast(), links.capacity());
        }
        arcs += n_emit as u64;
        let end = header.body + 2 * n_emit + Header::column_words(n_emit, size_of::<C>() == 4);
        assert!(end + 4 <= words.len());
        let alpha_lanes = _mm_set1_ps(alpha);
        let token_lanes = _mm_set1_epi32(token as i32);
        let mut numbers = _mm_add_epi32(_mm_set1_epi32(header.first_arc as i32), _mm_setr_epi32(0, 1, 2, 3));
        let mut arc = 0;
        while arc < n_emit {
            let valid = (n_emit - arc).min(4);
            // SAFETY: the block lies inside `words` with four words behind it (asserted above): weights,
            // then destinations, then columns, `n_emit` of each, so that four of each can be read from
            // `arc < n_emit` on. Columns of valid arcs are below `num_columns`, which `expand` compared
            // with the row, and others are 0, which the row has as the block has an arc. `links` have room for
            // `n_emit + 4` more, and each step, of which there are `n_emit / 4` rounded up, adds at most as many as it
            // has valid lanes. A link is four words: source, arc, cost, destination.
            unsafe {
                let block = words.as_ptr().add(header.body);
                let weights = _mm_loadu_ps(block.add(arc).cast());
                let dsts = _mm_loadu_si128(block.add(n_emit + arc).cast());
                let columns = C::four(block.add(2 * n_emit).cast::<C>().add(arc), valid);
                let [a, b, c, d] = columns.map(|column| *costs.get_unchecked(column));
                let acoustic = _mm_setr_ps(a, b, c, d);
                // Not a number where there is no arc: that is below nothing.
                let weights = _mm_or_ps(weights, _mm_loadu_ps(BEHIND[valid].as_ptr().cast()));
                let cost = _mm_add_ps(alpha_lanes, _mm_add_ps(weights, acoustic));
                let kept = _mm_movemask_ps(_mm_cmple_ps(cost, bound_lanes)) as usize;
                let front = _mm_loadu_si128(FRONT[kept].as_ptr().cast());
                let numbers_front = _mm_shuffle_epi8(numbers, front);
                let costs_front = _mm_shuffle_epi8(_mm_castps_si128(cost), front);
                let dsts_front = _mm_shuffle_epi8(dsts, front);
                let (from_01, from_23) =
                    (_mm_unpacklo_epi32(token_lanes, numbers_front), _mm_unpackhi_epi32(token_lanes, numbers_front));
                let (to_01, to_23) =
                    (_mm_unpacklo_epi32(costs_front, dsts_front), _mm_unpackhi_epi32(costs_front, dsts_front));
                _mm_storeu_si128(out.add(n), _mm_unpacklo_epi64(from_01, to_01));
                _mm_storeu_si128(out.add(n + 1), _mm_unpackhi_epi64(from_01, to_01));
                _mm_storeu_si128(out.add(n + 2), _mm_unpacklo_epi64(from_23, to_23));
                _mm_storeu_si128(out.add(n + 3), _mm_unpackhi_epi64(from_23, to_23));
                n += COUNT[kept] as usize;
                // The best token comes first, so this is rare.
                if _mm_movemask_ps(_mm_cmplt_ps(cost, best_lanes)) != 0 {
                    let least = _mm_min_ps(cost, best_lanes); // that of `best_lanes` where there is no number
                    let least = _mm_min_ps(least, _mm_movehl_ps(least, least));
                    let least = _mm_min_ss(least, _mm_shuffle_ps::<1>(least, least));
                    best = _mm_cvtss_f32(least);
                    best_lanes = _mm_set1_ps(best);
                    bound_lanes = _mm_set1_ps((best + next_beam).min(f32::MAX));
                }
            }
            numbers = _mm_add_epi32(numbers, _mm_set1_epi32(4));
            arc += 4;
        }
    }
    // SAFETY: as above.
    unsafe { links.set_len(n) };
    Ok(Expanded { best, arcs })
}

/// Lanes in each set of four.
static COUNT: [u8; 16] = [0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4];
