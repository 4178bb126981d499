//! Pass 1 of a frame four arcs at a time, with SSE4.1. What it makes is what the plain loop in
//! `expand` makes, but for candidates above the exact theta.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

use crate::error::Result;
use crate::graph::{Graph, Header, prefetch_block};
use crate::search::{Link, grow};

use super::expand::{Column, Emitter, Emitters, Expanded, PREFETCH};

/// Four columns of a block, as indices; 0 in place of those behind the first `valid`.
pub(super) trait FourColumns: Column {
    /// # Safety
    /// Four columns can be read at `columns`.
    unsafe fn four(columns: *const Self, valid: &Valid) -> [usize; 4];
}

impl FourColumns for u16 {
    #[inline(always)]
    unsafe fn four(columns: *const u16, valid: &Valid) -> [usize; 4] {
        // SAFETY: as promised; `x86_64` is little-endian.
        let all = unsafe { columns.cast::<u64>().read_unaligned() } & valid.columns;
        [all as u16 as usize, (all >> 16) as u16 as usize, (all >> 32) as u16 as usize, (all >> 48) as usize]
    }
}

impl FourColumns for u32 {
    #[inline(always)]
    unsafe fn four(columns: *const u32, valid: &Valid) -> [usize; 4] {
        // SAFETY: as promised.
        let all = unsafe { columns.cast::<[u32; 4]>().read_unaligned() };
        std::array::from_fn(|lane| (all[lane] & !valid.behind[lane]) as usize)
    }
}

/// What goes with so many arcs of four.
#[repr(C, align(16))]
pub(super) struct Valid {
    /// All bits set in the lanes behind them: as floats, not numbers.
    behind: [u32; 4],
    /// All bits set in their columns.
    columns: u64,
}

/// Of four links some of which are kept, where the second, third and fourth go, and where the next four begin, in bytes
/// from the first. One that is not kept goes where the next one goes, which overwrites it.
type Places = [usize; 4];

/// Tables that the loop looks into, in one so that it needs one address.
struct Tables {
    /// By the number of arcs, four at the most.
    valid: [Valid; 5],
    /// By the set of those kept.
    places: [Places; 16],
}

static TABLES: Tables = {
    const NONE: Valid = Valid { behind: [u32::MAX; 4], columns: 0 };
    let mut tables = Tables { valid: [NONE; 5], places: [[0; 4]; 16] };
    let mut valid = 1;
    while valid <= 4 {
        let mut lane = 0;
        while lane < valid {
            tables.valid[valid].behind[lane] = 0;
            tables.valid[valid].columns |= 0xffff << (16 * lane);
            lane += 1;
        }
        valid += 1;
    }
    let mut set = 0;
    while set < 16 {
        let mut lane = 0;
        while lane < 4 {
            let up_to = (2usize << lane) - 1;
            tables.places[set][lane] = (set & up_to).count_ones() as usize * size_of::<Link>();
            lane += 1;
        }
        set += 1;
    }
    tables
};

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
    let mut arcs = 0;
    // Kept here, so that they stay in registers.
    let mut room = links.spare_capacity_mut().as_mut_ptr_range();
    let (mut best_lanes, mut bound_lanes) = (_mm_set1_ps(best), _mm_set1_ps(f32::MAX));
    let Range { start: mut at, end } = emitters.list.as_ptr_range();
    while at < end {
        // SAFETY: `at` and `ahead` lie in the list, which has an end behind `at`.
        let Emitter { state, cost: alpha, token } = unsafe {
            let ahead = at.wrapping_add(PREFETCH).min(end.sub(1));
            prefetch_block(words, (*ahead).state);
            *at
        };
        at = at.wrapping_add(1);
        let header = Header::unpack(words, state);
        let n_emit = header.n_emit;
        if room.end.addr() - room.start.addr() < (n_emit + 4) * size_of::<Link>() {
            // SAFETY: the room begins behind what has been written.
            unsafe { end_at(links, room.start) };
            grow(links, n_emit + 4, "links")?;
            room = links.spare_capacity_mut().as_mut_ptr_range();
        }
        arcs += n_emit;
        let end = header.body + 2 * n_emit + Header::column_words(n_emit, size_of::<C>() == 4);
        assert!(end + 4 <= words.len());
        let alpha_lanes = _mm_set1_ps(alpha);
        // Source and arc of the first and second link.
        let from = _mm_unpacklo_epi32(_mm_set1_epi32(token as i32), _mm_set1_epi32(header.first_arc as i32));
        let mut from_01 = _mm_add_epi32(from, _mm_setr_epi32(0, 0, 0, 1));
        let mut arc = 0;
        while arc < n_emit {
            let valid = &TABLES.valid[(n_emit - arc).min(4)];
            // SAFETY: the block lies inside `words` with four words behind it (asserted above): weights,
            // then destinations, then columns, `n_emit` of each, so that four of each can be read from
            // `arc < n_emit` on. Columns of valid arcs are below `row_width`, whatever the arcs hold, and others are 0;
            // `expand` compared both with the row. `links` have room for `n_emit + 4` more, and each step, of which
            // there are `n_emit / 4` rounded up, adds at most as many as it has valid lanes. A link is four words:
            // source, arc, cost, destination.
            unsafe {
                let block = words.as_ptr().add(header.body);
                let weights = _mm_loadu_ps(block.add(arc).cast());
                let dsts = _mm_loadu_si128(block.add(n_emit + arc).cast());
                let columns = C::four(block.add(2 * n_emit).cast::<C>().add(arc), valid);
                let [a, b, c, d] = columns.map(|column| *costs.get_unchecked(column));
                let acoustic = _mm_setr_ps(a, b, c, d);
                // Not a number where there is no arc: that is below nothing.
                let weights = _mm_or_ps(weights, _mm_load_ps(valid.behind.as_ptr().cast()));
                let cost = _mm_add_ps(alpha_lanes, _mm_add_ps(weights, acoustic));
                let kept = _mm_movemask_ps(_mm_cmple_ps(cost, bound_lanes)) as usize;
                let to_01 = _mm_unpacklo_epi32(_mm_castps_si128(cost), dsts);
                let to_23 = _mm_unpackhi_epi32(_mm_castps_si128(cost), dsts);
                // Those of the third and fourth.
                let from_23 = _mm_add_epi32(from_01, _mm_setr_epi32(0, 2, 0, 2));
                let [second, third, fourth, next] = *TABLES.places.get_unchecked(kept);
                let to = room.start.cast::<__m128i>();
                _mm_storeu_si128(to, _mm_unpacklo_epi64(from_01, to_01));
                _mm_storeu_si128(to.byte_add(second), _mm_unpackhi_epi64(from_01, to_01));
                _mm_storeu_si128(to.byte_add(third), _mm_unpacklo_epi64(from_23, to_23));
                _mm_storeu_si128(to.byte_add(fourth), _mm_unpackhi_epi64(from_23, to_23));
                room.start = room.start.byte_add(next);
                from_01 = _mm_add_epi32(from_01, _mm_setr_epi32(0, 4, 0, 4));
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
            arc += 4;
        }
    }
    // SAFETY: as above.
    unsafe { end_at(links, room.start) };
    Ok(Expanded { best, arcs: arcs as u64 })
}

/// # Safety
/// All links before `end`, which lies in the list's memory, have been written.
unsafe fn end_at(links: &mut Vec<Link>, end: *mut MaybeUninit<Link>) {
    // SAFETY: as promised.
    unsafe {
        let len = end.cast::<Link>().offset_from_unsigned(links.as_ptr());
        links.set_len(len);
    }
}
