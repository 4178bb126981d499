//! A lattice before it is checked and sorted: the form that readers fill.

use crate::error::{Error, Result, try_copy, try_reserve};

use super::topology::{View, filled};
use super::{LatticeArc, LatticeWeight, Strings};

/// Strings of a compact lattice: one an arc, and one a state (empty where it is not final).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartStrings {
    /// Strings by arc.
    pub arcs: Strings,
    /// Strings by state.
    pub finals: Strings,
}

/// States and arcs in any order, as they stand in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    /// The start state; `None` when there is none.
    pub start: Option<u32>,
    /// Arcs of state `s` are `arcs[offsets[s]..offsets[s + 1]]`; length is states + 1.
    pub offsets: Vec<u32>,
    /// Arcs by state.
    pub arcs: Vec<LatticeArc>,
    /// Final costs by state, [`LatticeWeight::ZERO`] where a state is not final.
    pub finals: Vec<LatticeWeight>,
    /// Strings, for a compact lattice.
    pub strings: Option<PartStrings>,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts { start: None, offsets: vec![0], arcs: Vec::new(), finals: Vec::new(), strings: None }
    }
}

impl Parts {
    /// Refuses with [`Error::Argument`] arrays that do not fit together, a start or next
    /// state out of range, negative labels, costs that are NaN or `-inf`, and compact
    /// arcs whose two labels differ.
    pub fn check(&self) -> Result<()> {
        self.view().check()?;
        if let Some(start) = self.start.filter(|&start| start as usize >= self.finals.len()) {
            return Err(Error::Argument(format!("lattice: start state {start} of {}", self.finals.len())));
        }
        let Some(strings) = &self.strings else { return Ok(()) };
        check_strings(self.view(), &strings.arcs, &strings.finals)
    }

    /// A copy, for which there may be no memory.
    pub(crate) fn try_clone(&self) -> Result<Parts> {
        let strings = match &self.strings {
            Some(PartStrings { arcs, finals }) => {
                Some(PartStrings { arcs: arcs.try_clone()?, finals: finals.try_clone()? })
            }
            None => None,
        };
        Ok(Parts {
            start: self.start,
            offsets: try_copy(&self.offsets, "states of a lattice")?,
            arcs: try_copy(&self.arcs, "arcs of a lattice")?,
            finals: try_copy(&self.finals, "final states of a lattice")?,
            strings,
        })
    }

    pub(crate) fn view(&self) -> View<'_> {
        View { offsets: &self.offsets, arcs: &self.arcs, finals: &self.finals }
    }
}

/// Refuses strings that are not one an arc and one a state, and arcs that are no acceptor's.
pub(super) fn check_strings(view: View, arcs: &Strings, finals: &Strings) -> Result<()> {
    if arcs.len() != view.arcs.len() || finals.len() != view.num_states() {
        return Err(Error::Argument(format!(
            "lattice: {} strings for {} arcs, {} for {} states",
            arcs.len(),
            view.arcs.len(),
            finals.len(),
            view.num_states()
        )));
    }
    if let Some(arc) = view.arcs.iter().position(|arc| arc.ilabel != arc.olabel) {
        let LatticeArc { ilabel, olabel, .. } = view.arcs[arc];
        return Err(Error::Argument(format!("lattice: compact arc {arc} has two labels, {ilabel} and {olabel}")));
    }
    if let Some(&label) = arcs.labels().iter().chain(finals.labels()).find(|&&label| label < 0) {
        return Err(Error::Argument(format!("lattice: a string holds {label}")));
    }
    Ok(())
}

/// Gathers arcs and final states in any order, under any state numbers, into [`Parts`].
#[derive(Debug, Default)]
pub struct PartsBuilder {
    start: Option<u32>,
    arcs: Vec<(u32, LatticeArc)>,
    arc_strings: Strings,
    finals: Vec<(u32, LatticeWeight)>,
    final_strings: Strings,
}

impl PartsBuilder {
    /// Sets the start state. Without this the lattice is empty.
    pub fn set_start(&mut self, state: u32) {
        self.start = Some(state);
    }

    /// Appends an arc after those of its state so far. `string` is the compact arc's.
    pub fn add_arc(&mut self, state: u32, arc: LatticeArc, string: &[i32]) -> Result<()> {
        try_reserve(&mut self.arcs, 1, "arcs of a lattice")?;
        self.arcs.push((state, arc));
        self.arc_strings.push(string)
    }

    /// Makes a state final; the last call for a state holds. `string` is the compact one.
    pub fn set_final(&mut self, state: u32, weight: LatticeWeight, string: &[i32]) -> Result<()> {
        try_reserve(&mut self.finals, 1, "final states of a lattice")?;
        self.finals.push((state, weight));
        self.final_strings.push(string)
    }

    /// The parts; `compact` says whether strings are kept. States are numbered in the
    /// order of the numbers given, without gaps, so that a far number costs nothing.
    pub fn finish(self, compact: bool) -> Result<Parts> {
        let numbers = self.numbers()?;
        // Every number that occurs was collected, so the search always finds it.
        let number = |state: u32| match numbers.get(state as usize) {
            Some(&same) if same == state => state,
            _ => numbers.partition_point(|&other| other < state) as u32,
        };
        if self.arcs.len() > u32::MAX as usize {
            return Err(Error::Limit("a lattice has more than 2^32 - 1 arcs".to_string()));
        }
        let mut offsets = filled(numbers.len() + 1, 0u32)?;
        for (state, _) in &self.arcs {
            offsets[number(*state) as usize + 1] += 1;
        }
        for state in 0..numbers.len() {
            offsets[state + 1] += offsets[state];
        }
        let mut place = filled(offsets.len(), 0u32)?;
        place.copy_from_slice(&offsets);
        let mut source = filled(self.arcs.len(), 0u32)?;
        for (index, (state, _)) in self.arcs.iter().enumerate() {
            let at = &mut place[number(*state) as usize];
            source[*at as usize] = index as u32;
            *at += 1;
        }
        let mut arcs = Vec::new();
        try_reserve(&mut arcs, source.len(), "arcs of a lattice")?;
        arcs.extend(source.iter().map(|&index| {
            let arc = self.arcs[index as usize].1;
            LatticeArc { next: number(arc.next), ..arc }
        }));
        let mut finals = filled(numbers.len(), LatticeWeight::ZERO)?;
        let mut final_index = filled(numbers.len(), usize::MAX)?;
        for (index, (state, weight)) in self.finals.iter().enumerate() {
            finals[number(*state) as usize] = *weight;
            final_index[number(*state) as usize] = index;
        }
        let strings = if compact {
            let arcs = self.arc_strings.select(source.iter().map(|&index| index as usize))?;
            Some(PartStrings { arcs, finals: self.final_strings.select(final_index.into_iter())? })
        } else {
            None
        };
        Ok(Parts { start: self.start.map(number), offsets, arcs, finals, strings })
    }

    /// All state numbers that occur, ascending.
    fn numbers(&self) -> Result<Vec<u32>> {
        let mut numbers = Vec::new();
        try_reserve(&mut numbers, 2 * self.arcs.len() + self.finals.len() + 1, "states of a lattice")?;
        numbers.extend(self.start);
        numbers.extend(self.arcs.iter().flat_map(|(state, arc)| [*state, arc.next]));
        numbers.extend(self.finals.iter().map(|(state, _)| *state));
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }
}
