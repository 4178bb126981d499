//! Lays a checked graph out in the form of `blocks.rs`.

use std::sync::OnceLock;

use super::blocks::{ESCAPE, Graph, HAS_EPSILONS, Header, PADDING_WORDS};
use super::labels::{ArcLabels, EpsilonPlaces, SparseLabels};
use super::source::{ColumnMap, Columns, Source};
use super::validate::{Checked, Totals};
use crate::error::{Error, Result, try_reserve};

impl Graph {
    /// Lays out `source`, which has passed [`check`](super::validate::check) as `checked`.
    /// A source that has changed since then gives an error.
    pub(super) fn build(source: &impl Source, checked: Checked, columns: &Columns) -> Result<Graph> {
        let Checked { counts, levels, start, totals } = checked;
        let wide = totals.num_columns > 1 << 16;
        let (ids, num_words) = place_blocks(&counts, &levels, wide)?;
        let mut layout = Layout::new(&totals, ids, wide, num_words)?;
        let columns_of = ColumnMap::new(columns)?;
        for (state, (&counts, &level)) in (0u32..).zip(counts.iter().zip(&levels)) {
            layout.state(state, counts, level, source, &columns_of)?;
        }
        layout.words.resize(num_words + PADDING_WORDS, 0);
        Ok(Graph {
            words: layout.words,
            wide,
            start: layout.ids[start as usize],
            max_level: levels.iter().copied().max().unwrap_or(0),
            num_states: counts.len() as u32,
            totals,
            finals: layout.finals,
            ilabels: layout.ilabels,
            olabels: layout.olabels.finish()?,
            epsilon_places: layout.places,
            transitions: columns.transitions().cloned(),
            out_of_reach: OnceLock::new(),
        })
    }
}

/// Destination word of each state, and words of all blocks.
fn place_blocks(counts: &[(u32, u32)], levels: &[u32], wide: bool) -> Result<(Vec<u32>, usize)> {
    let mut ids: Vec<u32> = Vec::new();
    try_reserve(&mut ids, counts.len(), "state ids")?;
    let mut num_words = 0usize;
    for (&(n_emit, n_eps), &level) in counts.iter().zip(levels) {
        let id = num_words / 2;
        if id >= HAS_EPSILONS as usize {
            return Err(Error::Graph("the graph is too large: its state blocks pass 16 GiB".into()));
        }
        ids.push(if n_eps > 0 { id as u32 | HAS_EPSILONS } else { id as u32 });
        num_words += Header::block_words(n_emit as usize, n_eps as usize, level, wide);
    }
    Ok((ids, num_words))
}

/// The arrays while they are filled, state after state. All are reserved in full before.
struct Layout {
    words: Vec<u32>,
    ids: Vec<u32>,
    wide: bool,
    num_columns: u32,
    finals: Vec<(u32, f32)>,
    ilabels: ArcLabels,
    olabels: SparseLabels,
    places: EpsilonPlaces,
    /// Output labels of the epsilon arcs of the state at hand.
    eps_olabels: Vec<i32>,
}

impl Layout {
    fn new(totals: &Totals, ids: Vec<u32>, wide: bool, num_words: usize) -> Result<Layout> {
        let num_arcs = totals.num_arcs as u32;
        let mut words = Vec::new();
        try_reserve(&mut words, num_words + PADDING_WORDS, "graph")?;
        let mut finals = Vec::new();
        try_reserve(&mut finals, totals.num_finals as usize, "final costs")?;
        Ok(Layout {
            words,
            ids,
            wide,
            num_columns: totals.num_columns,
            finals,
            ilabels: ArcLabels::new(num_arcs, totals.max_ilabel)?,
            olabels: SparseLabels::new(num_arcs, totals.num_olabels as u32)?,
            places: EpsilonPlaces::new(num_arcs, totals.mixed)?,
            eps_olabels: Vec::new(),
        })
    }

    fn state(
        &mut self,
        state: u32,
        (n_emit, n_eps): (u32, u32),
        level: u32,
        source: &impl Source,
        columns_of: &ColumnMap,
    ) -> Result<()> {
        let first_arc = self.ilabels.len();
        let end = self.words.len() + Header::block_words(n_emit as usize, n_eps as usize, level, self.wide);
        match Header::pack(n_emit as usize, n_eps as usize, level) {
            Some(packed) => self.words.extend([packed, first_arc]),
            None => self.words.extend([ESCAPE, first_arc, n_emit, n_eps, level]),
        }
        let body = self.words.len();
        self.words.resize(end, 0);
        let (weights, rest) = self.words[body..].split_at_mut(n_emit as usize);
        let (dsts, rest) = rest.split_at_mut(n_emit as usize);
        let (columns, rest) = rest.split_at_mut(Header::column_words(n_emit as usize, self.wide));
        let (eps_weights, rest) = rest.split_at_mut(n_eps as usize);
        let eps_dsts = &mut rest[..n_eps as usize];

        self.eps_olabels.clear();
        try_reserve(&mut self.eps_olabels, n_eps as usize, "epsilon arcs of a state")?;
        let (mut emitting, mut epsilons) = (0, 0);
        for arc in source.arcs(state) {
            let (weight, &dst) =
                (canonical(arc.weight).to_bits(), self.ids.get(arc.next as usize).ok_or_else(changed)?);
            if arc.ilabel == 0 {
                *eps_weights.get_mut(epsilons).ok_or_else(changed)? = weight;
                eps_dsts[epsilons] = dst;
                self.places.mark(first_arc + (emitting + epsilons) as u32);
                self.eps_olabels.push(arc.olabel);
                epsilons += 1;
            } else {
                *weights.get_mut(emitting).ok_or_else(changed)? = weight;
                dsts[emitting] = dst;
                let column = columns_of.get(arc.ilabel);
                if column >= self.num_columns {
                    return Err(changed());
                }
                if self.wide {
                    columns[emitting] = column;
                } else {
                    bytemuck::cast_slice_mut::<u32, u16>(columns)[emitting] = column as u16;
                }
                self.ilabels.push(arc.ilabel);
                if arc.olabel != 0 {
                    self.olabels.push(first_arc + emitting as u32, arc.olabel);
                }
                emitting += 1;
            }
        }
        if (emitting, epsilons) != (n_emit as usize, n_eps as usize) {
            return Err(changed());
        }
        for (arc, &olabel) in (first_arc + n_emit..).zip(&self.eps_olabels) {
            self.ilabels.push(0);
            if olabel != 0 {
                self.olabels.push(arc, olabel);
            }
        }
        let cost = source.final_cost(state);
        if cost != f32::INFINITY {
            self.finals.push((self.ids[state as usize] & !HAS_EPSILONS, canonical(cost)));
        }
        Ok(())
    }
}

/// `-0.0` becomes `0.0`, so that equal costs have equal bits.
fn canonical(cost: f32) -> f32 {
    cost + 0.0
}

fn changed() -> Error {
    Error::Graph("the graph changed while it was read".into())
}
