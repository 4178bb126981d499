//! Destination words of states, while a graph is laid out: two bytes a state.

use super::blocks::HAS_EPSILONS;
use super::huge;
use crate::error::{Result, try_push};
use crate::prefetch::prefetch;

/// States whose ids are told from the first one's on.
const GROUP: usize = 64;

/// Stands for a distance that is kept in the list of far ones: it is as large or larger.
const FAR: u16 = HAS_EPSILONS_NEAR - 1;

/// [`HAS_EPSILONS`], in 16 bits.
const HAS_EPSILONS_NEAR: u16 = (HAS_EPSILONS >> 16) as u16;

/// Destination words by state, for states that are pushed in their order with rising ids.
pub(super) struct StateIds {
    /// Id of the first state of each group.
    first: Vec<u32>,
    /// How far a state's id is from that, and whether it has epsilon arcs.
    near: Vec<u16>,
    /// States that are [`FAR`], ascending, and their ids: those of a group behind a state with very many arcs.
    far: Vec<(u32, u32)>,
}

impl StateIds {
    /// No ids yet; there will be `num_states`.
    pub fn new(num_states: u32) -> Result<StateIds> {
        let groups = (num_states as usize).div_ceil(GROUP);
        Ok(StateIds {
            first: huge::reserve(groups, WHAT)?,
            near: huge::reserve(num_states as usize, WHAT)?,
            far: Vec::new(),
        })
    }

    /// Adds the next state. `id` is below 2^31.
    #[inline]
    pub fn push(&mut self, id: u32, has_epsilons: bool) -> Result<()> {
        let state = self.near.len();
        if state.is_multiple_of(GROUP) {
            try_push(&mut self.first, id, WHAT)?;
        }
        let distance = u16::try_from(id - self.first[state / GROUP]).unwrap_or(FAR).min(FAR);
        if distance == FAR {
            try_push(&mut self.far, (state as u32, id), WHAT)?;
        }
        try_push(&mut self.near, distance | if has_epsilons { HAS_EPSILONS_NEAR } else { 0 }, WHAT)
    }

    /// Destination word of `state`.
    #[inline(always)]
    pub fn get(&self, state: u32) -> Option<u32> {
        let near = *self.near.get(state as usize)?;
        let distance = near & FAR;
        let id = if distance == FAR {
            self.far(state)?
        } else {
            self.first.get(state as usize / GROUP)? + u32::from(distance)
        };
        Some(id | u32::from(near & HAS_EPSILONS_NEAR) << 16)
    }

    /// Asks for the memory of the id of `state`, which may be any number. That of the groups is little, and close by.
    #[inline(always)]
    pub fn prefetch(&self, state: u32) {
        prefetch(self.near.as_ptr().wrapping_add(state as usize));
    }

    #[cold]
    fn far(&self, state: u32) -> Option<u32> {
        let at = self.far.binary_search_by_key(&state, |far| far.0).ok()?;
        Some(self.far[at].1)
    }
}

/// What the memory of this file is for, in messages.
const WHAT: &str = "state ids";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_that_were_pushed() {
        // Lengths of blocks around the largest distance, at the beginning, amid and at the end of groups.
        let lengths = [1, 2, 0x7ffd, 0x7ffe, 0x7fff, 0x8000, 0x1_0000, 0x4000_0000];
        for (large, at) in lengths.into_iter().flat_map(|large| [0, 1, 31, 62, 63, 64, 200].map(|at| (large, at))) {
            let mut ids = StateIds::new(300).unwrap();
            let mut words = Vec::new();
            let mut id = 0u32;
            for state in 0..300 {
                let has_epsilons = state % 3 == 0;
                ids.push(id, has_epsilons).unwrap();
                words.push(id | if has_epsilons { HAS_EPSILONS } else { 0 });
                id += if state == at { large } else { 1 };
            }
            let found: Vec<u32> = (0..300).map(|state| ids.get(state).unwrap()).collect();
            assert!(found == words, "{large} {at}");
            assert_eq!(ids.get(300), None);
            let id = |state: usize| words[state] & !HAS_EPSILONS;
            let is_far = |state: &usize| id(*state) - id(state / GROUP * GROUP) >= u32::from(FAR);
            assert_eq!(ids.far.len(), (0..300).filter(is_far).count(), "{large} {at}");
        }
    }
}
