//! States of the result as subsets of the source's states.

use crate::error::{Result, try_reserve};

use super::arena::{Arena, Tail};
use super::costs::Costs;
use super::index::spread;

/// A state of the source with the best way of reaching it from where its subset starts.
/// Strings are whole histories: what counts is what follows the subset's prefix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    pub state: u32,
    pub string: u32,
    pub costs: Costs,
}

/// Elements in [`Subsets::elements`], in ascending order of states, and the string that begins all of theirs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subset {
    pub first: u32,
    pub len: u32,
    pub prefix: u32,
}

/// The elements of all subsets.
#[derive(Debug, Default)]
pub(super) struct Subsets {
    pub elements: Vec<Element>,
}

impl Subsets {
    pub fn get(&self, subset: Subset) -> &[Element] {
        &self.elements[subset.first as usize..(subset.first + subset.len) as usize]
    }

    /// Appends elements as a subset; `None` where there would be more than 2^32 elements.
    pub fn push(&mut self, elements: &[Element], prefix: u32) -> Result<Subset> {
        let first = self.elements.len();
        if first + elements.len() > u32::MAX as usize {
            return Err(crate::error::Error::Limit("determinization: more than 2^32 elements".to_string()));
        }
        try_reserve(&mut self.elements, elements.len(), "determinization: subsets")?;
        self.elements.extend_from_slice(elements);
        Ok(Subset { first: first as u32, len: elements.len() as u32, prefix })
    }
}

/// Takes the best costs off all elements; gives them, and the longest prefix of all strings.
pub(super) fn normalize(elements: &mut [Element], arena: &Arena, scale: f64) -> (Costs, u32) {
    let Some(first) = elements.first() else { return (Costs::ONE, super::arena::ROOT) };
    let (mut best, mut prefix) = (first.costs, first.string);
    for element in &elements[1..] {
        if element.costs.order(best, scale).is_lt() {
            best = element.costs;
        }
        prefix = arena.common_prefix(prefix, element.string);
    }
    for element in elements {
        element.costs = element.costs.minus(best);
    }
    (best, prefix)
}

/// A hash of states and of strings past the prefix; costs are left out, since they need not be equal.
pub(super) fn fingerprint(elements: &[Element], prefix: u32, arena: &Arena) -> u64 {
    elements.iter().fold(elements.len() as u64, |hash, element| {
        spread(hash ^ arena.tail_hash(element.string, prefix).wrapping_add(u64::from(element.state)))
    })
}

/// Whether two subsets have the same states and strings, and totals within `delta`.
pub(super) fn same(
    (a, a_prefix): (&[Element], u32),
    (b, b_prefix): (&[Element], u32),
    arena: &Arena,
    (scale, delta): (f64, f64),
) -> bool {
    let (a_from, b_from) = (arena.depth(a_prefix), arena.depth(b_prefix));
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            a.state == b.state
                && (a.costs.total(scale) - b.costs.total(scale)).abs() <= delta
                && arena.same_tail(Tail { node: a.string, from: a_from }, Tail { node: b.string, from: b_from })
        })
}
