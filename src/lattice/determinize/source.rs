//! What a pass reads: a lattice as links with at most one label each.

use std::ops::Range;

use crate::error::Result;

use super::costs::Costs;

/// An arc as a pass sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub next: u32,
    /// 0 for none; see [`word_label`] and [`phone_label`].
    pub label: u32,
    pub costs: Costs,
}

/// The label of a word; words are positive.
pub(super) fn word_label(word: i32) -> u32 {
    (word as u32) << 1
}

/// The label of a phone, apart from those of all words; phones are positive.
pub(super) fn phone_label(phone: i32) -> u32 {
    (phone as u32) << 1 | 1
}

/// The word of a label, 0 for that of a phone and for none.
pub(super) fn word_of(label: u32) -> i32 {
    if label & 1 == 1 { 0 } else { (label >> 1) as i32 }
}

/// A lattice sorted topologically. States from `num_states` on are in the middle of an arc
/// that carries a word and then a phone: only links with a label lead to them, and one link
/// with a label leaves them.
pub(super) trait Source: Sized {
    /// States that may have several links.
    fn num_states(&self) -> usize;
    /// Links that leave states below `num_states`; their numbers start at 0.
    fn num_links(&self) -> usize;
    /// Numbers of the links that leave a state.
    fn links(&self, state: u32) -> Range<u32>;
    fn link(&self, link: u32) -> Link;
    /// Transition-ids of a link.
    fn string(&self, link: u32) -> &[i32];
    /// Cost of ending in a state below `num_states`.
    fn last(&self, state: u32) -> Option<Costs>;
    /// Grows along every link, also through states in the middle of arcs.
    fn rank(&self, state: u32) -> u64;
    /// The lattice with only those links below `num_links` and ends that are kept; states keep their numbers.
    fn filtered(&self, links: &[bool], ends: &[bool]) -> Result<Self>;
}
