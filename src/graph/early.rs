//! The pages of a cache file that the first frames of a search touch. Who opens a file that is not in memory asks for all
//! of them at once: they come from the disk side by side, instead of one after the other as they are missed.

use std::mem;

use bytemuck::{Pod, Zeroable};

use super::blocks::{Graph, HAS_EPSILONS, Header, PADDING_WORDS};
use super::cache::PAGE;
use super::labels::Bits;
use crate::error::{Result, try_push};

/// How many pages are listed: what a disk gives in about a millisecond, and memory in no time. It is the first two
/// frames in a graph of a few million arcs; frames behind the last that fits miss some or all of their pages.
pub(super) const MOST_PAGES: usize = 128;

const PAGE_WORDS: usize = PAGE as usize / 4;
const WHAT: &str = "pages of the first frames";

/// Pages that follow one another; none where `count` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Run {
    pub first: u32,
    pub count: u32,
}

/// Whether the pages of all runs are among the first `pages`, in ascending order.
pub(super) fn fit(runs: &[Run], pages: u64) -> bool {
    let mut end = 0;
    runs.iter().filter(|run| run.count != 0).all(|run| {
        let behind = u64::from(run.first) >= end;
        end = u64::from(run.first) + u64::from(run.count);
        behind && end <= pages
    })
}

impl Graph {
    /// Pages with the blocks of the states that the first frames can reach, of earlier frames first as long as there is
    /// room. The blocks begin with page `first`.
    pub(super) fn early_pages(&self, first: u64) -> Result<[Run; MOST_PAGES]> {
        let mut seen = Bits::new(self.words.len() / 2, WHAT)?;
        let mut pages = Bits::new(self.words.len().div_ceil(PAGE_WORDS), WHAT)?;
        let mut room = MOST_PAGES;
        let (mut now, mut next) = (Vec::new(), Vec::new());
        try_push(&mut now, self.start, WHAT)?;
        while room > 0 && !now.is_empty() {
            let mut at = 0;
            while let Some(&word) = now.get(at).filter(|_| room > 0) {
                at += 1;
                let id = word & !HAS_EPSILONS;
                if seen.get(id as usize) {
                    continue;
                }
                seen.set(id as usize);
                let view = self.state(id);
                let Header { n_emit, n_eps, level, .. } = view.header;
                let begin = id as usize * 2;
                // Vector code may read over the end of a block.
                let end = begin + Header::block_words(n_emit, n_eps, level, self.wide) + PADDING_WORDS;
                for page in begin / PAGE_WORDS..end.min(self.words.len()).div_ceil(PAGE_WORDS) {
                    if room > 0 && !pages.get(page) {
                        pages.set(page);
                        room -= 1;
                    }
                }
                let emitting = (view.weights, view.dsts, &mut next);
                for (weights, dsts, reached) in [emitting, (view.eps_weights, view.eps_dsts, &mut now)] {
                    for (_, &dst) in weights.iter().zip(dsts).filter(|arc| *arc.0 < f32::INFINITY) {
                        try_push(reached, dst, WHAT)?;
                    }
                }
            }
            now.clear();
            mem::swap(&mut now, &mut next);
        }
        Ok(runs(&pages, first))
    }
}

/// The members of `pages`, each increased by `first`.
fn runs(pages: &Bits, first: u64) -> [Run; MOST_PAGES] {
    let mut runs = [Run::zeroed(); MOST_PAGES];
    let (mut used, mut end) = (0, None);
    for page in (first..).zip(0..pages.words.len() * 64).filter(|page| pages.get(page.1)).map(|page| page.0 as u32) {
        if end != Some(page) {
            runs[used].first = page;
            used += 1;
        }
        runs[used - 1].count += 1;
        end = Some(page + 1);
    }
    runs
}
