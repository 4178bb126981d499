//! Following links without labels from a subset.

use crate::error::{Result, try_reserve};

use super::arena::Arena;
use super::costs::Costs;
use super::frontier::Frontier;
use super::source::Source;
use super::subset::Element;

/// In [`Entry::link`]: the string is that of the entry itself.
const MADE: u32 = u32::MAX;

/// A state reached in this closure.
#[derive(Clone, Copy, Debug)]
struct Entry {
    costs: Costs,
    total: f64,
    /// String of the state before, to which that of `link` is to be added; or the string itself.
    string: u32,
    link: u32,
}

/// Where the entry of a state is, if `stamp` is that of this closure.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    stamp: u32,
    entry: u32,
}

/// Scratch of closures.
#[derive(Debug, Default)]
pub(super) struct Closure {
    slots: Vec<Slot>,
    stamp: u32,
    entries: Vec<Entry>,
    frontier: Frontier,
    /// The result: elements with a labelled link or an end, in ascending order of states.
    pub elements: Vec<Element>,
}

impl Closure {
    /// Makes ready for a source of so many states.
    pub fn reset(&mut self, states: usize) -> Result<()> {
        if self.slots.len() < states {
            let more = states - self.slots.len();
            try_reserve(&mut self.slots, more, "determinization: states")?;
            self.slots.resize(states, Slot::default());
        }
        self.frontier.reset(states)
    }

    /// Puts into `self.elements` what `from` reaches over links without labels, itself
    /// included, as far as `keeps` the state; each state by its best path. `from` is in
    /// ascending order of states.
    pub fn follow<S: Source>(
        &mut self,
        source: &S,
        from: &[Element],
        scale: f64,
        arena: &mut Arena,
        keeps: &[bool],
    ) -> Result<()> {
        self.begin();
        let inner = from.partition_point(|element| (element.state as usize) < source.num_states());
        for element in &from[..inner] {
            let total = element.costs.total(scale);
            self.enter(element.state, Entry { costs: element.costs, total, string: element.string, link: MADE })?;
        }
        while let Some(state) = self.frontier.pop() {
            let at = self.slots[state as usize].entry as usize;
            let string = made(&mut self.entries[at], source, arena)?;
            let costs = self.entries[at].costs;
            if keeps[state as usize] {
                try_reserve(&mut self.elements, 1, "determinization: subsets")?;
                self.elements.push(Element { state, string, costs });
            }
            for number in source.links(state) {
                let link = source.link(number);
                if link.label == 0 {
                    let costs = costs.plus(link.costs);
                    let entry = Entry { costs, total: costs.total(scale), string, link: number };
                    self.relax(source, link.next, entry, arena)?;
                }
            }
        }
        // States in the middle of arcs have no links without labels.
        try_reserve(&mut self.elements, from.len() - inner, "determinization: subsets")?;
        self.elements.extend_from_slice(&from[inner..]);
        Ok(())
    }

    fn begin(&mut self) {
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            self.slots.fill(Slot::default());
            self.stamp = 1;
        }
        self.entries.clear();
        self.elements.clear();
    }

    fn enter(&mut self, state: u32, entry: Entry) -> Result<()> {
        self.slots[state as usize] = Slot { stamp: self.stamp, entry: self.entries.len() as u32 };
        try_reserve(&mut self.entries, 1, "determinization: subsets")?;
        self.entries.push(entry);
        self.frontier.insert(state);
        Ok(())
    }

    /// Enters a state, or gives it the better of its paths.
    fn relax<S: Source>(&mut self, source: &S, state: u32, mut entry: Entry, arena: &mut Arena) -> Result<()> {
        let slot = self.slots[state as usize];
        if slot.stamp != self.stamp {
            return self.enter(state, entry);
        }
        let known = &mut self.entries[slot.entry as usize];
        if entry.total > known.total {
            return Ok(());
        }
        if entry.total == known.total {
            let by_graph = entry.costs.graph.partial_cmp(&known.costs.graph);
            let worse = match by_graph {
                Some(std::cmp::Ordering::Less) => false,
                Some(std::cmp::Ordering::Equal) => {
                    let (a, b) = (made(&mut entry, source, arena)?, made(known, source, arena)?);
                    arena.order(a, b).is_ge()
                }
                _ => true,
            };
            if worse {
                return Ok(());
            }
        }
        *known = entry;
        Ok(())
    }
}

/// The entry's string, made now if it is not yet.
fn made<S: Source>(entry: &mut Entry, source: &S, arena: &mut Arena) -> Result<u32> {
    if entry.link != MADE {
        entry.string = arena.append(entry.string, source.string(entry.link))?;
        entry.link = MADE;
    }
    Ok(entry.string)
}
