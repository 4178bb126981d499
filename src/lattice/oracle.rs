//! The path of a lattice that comes nearest to a reference.

use crate::error::{Error, Result, try_reserve};

use super::topology::{View, filled};
use super::{Lattice, Path, Route};

/// The path with the fewest word errors, and how the errors are made up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Oracle {
    /// The path.
    pub path: Path,
    /// Its arcs.
    pub route: Route,
    /// Words of the path that stand for another word of the reference.
    pub substitutions: u32,
    /// Words of the path that stand for none of the reference.
    pub insertions: u32,
    /// Words of the reference that the path lacks.
    pub deletions: u32,
}

impl Oracle {
    /// Substitutions, insertions and deletions together: the edit distance.
    pub fn errors(&self) -> u32 {
        self.substitutions + self.insertions + self.deletions
    }
}

/// How a cell is best come to.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    Start,
    /// A word of the reference that the path lacks.
    Delete,
    /// An arc without a word, or with one that stands for none of the reference.
    Arc(u32, u32),
    /// An arc whose word stands for one of the reference.
    Stand(u32, u32),
}

/// A state, after some words of the reference.
#[derive(Clone, Copy)]
struct Cell {
    errors: u32,
    cost: f64,
    step: Step,
}

const ABSENT: Cell = Cell { errors: u32::MAX, cost: f64::INFINITY, step: Step::Start };

impl Lattice {
    /// The path whose words differ least from `reference`: least edit distance (substitution,
    /// insertion and deletion cost 1 each), of equal ones the least cost at the lattice's own
    /// acoustic scale, of those the one found first in the order of states and arcs.
    ///
    /// Dynamic programming over states and places of the reference (Kaldi's `lattice-oracle`
    /// composes with an edit transducer): time and memory are states or arcs times words.
    /// [`Error::Argument`] for a lattice without any path, and for a word of the reference that
    /// is 0 or negative.
    pub fn oracle(&self, reference: &[i32]) -> Result<Oracle> {
        if let Some(word) = reference.iter().find(|&&word| word <= 0) {
            return Err(Error::Argument(format!("the reference holds {word}, which is no word")));
        }
        if self.is_empty() {
            return Err(Error::Argument("the lattice has no path".to_string()));
        }
        let biased = self.biased()?;
        let table = Table::fill(biased.view(), reference, self.acoustic_scale())?;
        let mut oracle = table.trace(biased.view(), reference)?;
        oracle.path = self.path_along(&oracle.route, self.acoustic_scale())?;
        Ok(oracle)
    }
}

/// Cells by state, then by place.
struct Table {
    cells: Vec<Cell>,
    width: usize,
    acoustic_scale: f32,
}

impl Table {
    fn fill(view: View, reference: &[i32], acoustic_scale: f32) -> Result<Table> {
        let width = reference.len() + 1;
        let count = view.num_states().checked_mul(width);
        let count =
            count.ok_or_else(|| Error::Limit(format!("a reference of {} words is too long", reference.len())))?;
        let mut table = Table { cells: filled(count, ABSENT)?, width, acoustic_scale };
        table.cells[0] = Cell { errors: 0, cost: 0.0, step: Step::Start };
        for state in 0..view.num_states() {
            for place in 0..width {
                let Cell { errors, cost, .. } = table.cells[state * width + place];
                if errors == u32::MAX {
                    continue;
                }
                if place < reference.len() {
                    table.offer(state, place + 1, errors + 1, cost, Step::Delete);
                }
                for arc in view.arc_range(state) {
                    let link = &view.arcs[arc];
                    let (next, cost) = (link.next as usize, cost + link.weight.total(acoustic_scale));
                    let inserted = u32::from(link.olabel != 0);
                    table.offer(next, place, errors + inserted, cost, Step::Arc(state as u32, arc as u32));
                    if link.olabel != 0 && place < reference.len() {
                        let wrong = u32::from(link.olabel != reference[place]);
                        table.offer(next, place + 1, errors + wrong, cost, Step::Stand(state as u32, arc as u32));
                    }
                }
            }
        }
        Ok(table)
    }

    fn offer(&mut self, state: usize, place: usize, errors: u32, cost: f64, step: Step) {
        let cell = &mut self.cells[state * self.width + place];
        if (errors, cost) < (cell.errors, cell.cost) {
            *cell = Cell { errors, cost, step };
        }
    }

    /// From the best end back to the start.
    fn trace(&self, view: View, reference: &[i32]) -> Result<Oracle> {
        let end = |state: usize| {
            let cell = self.cells[state * self.width + reference.len()];
            (cell.errors, cell.cost + view.finals[state].total(self.acoustic_scale))
        };
        let finals = (0..view.num_states()).filter(|&state| !view.finals[state].is_absent());
        let best = finals.reduce(|best, state| if end(state) < end(best) { state } else { best });
        let mut oracle = Oracle::default();
        let (mut state, mut place) = (best.unwrap_or(0), reference.len());
        oracle.route.last = Some(state as u32);
        loop {
            let (from, arc) = match self.cells[state * self.width + place].step {
                Step::Start => break,
                Step::Delete => {
                    oracle.deletions += 1;
                    place -= 1;
                    continue;
                }
                Step::Arc(from, arc) => {
                    oracle.insertions += u32::from(view.arcs[arc as usize].olabel != 0);
                    (from, arc)
                }
                Step::Stand(from, arc) => {
                    place -= 1;
                    oracle.substitutions += u32::from(view.arcs[arc as usize].olabel != reference[place]);
                    (from, arc)
                }
            };
            try_reserve(&mut oracle.route.arcs, 1, "path of a lattice")?;
            oracle.route.arcs.push(arc);
            state = from as usize;
        }
        oracle.route.arcs.reverse();
        Ok(oracle)
    }
}
