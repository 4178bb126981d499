//! The walk that checks the arcs of a graph and puts them into their places.

use std::sync::Arc;

use super::blocks::{ESCAPE, FinalState, Header, PADDING_WORDS, Totals};
use super::huge;
use super::input_labels::{ColumnLabels, InputLabels};
use super::labels::{EpsilonPlaces, SparseFill};
use super::layout::Plan;
use super::source::{ColumnMap, Columns, GraphArc, NO_COLUMN, Source, walk};
use super::validate::{changed, is_cost, state_fault};
use crate::error::{Result, try_reserve};

/// How far ahead of the walk memory is asked for, and for how many arcs of a state at most.
const STATES_AHEAD: u32 = 8;
const ARCS_AHEAD: usize = 32;

/// What the walk makes.
pub(super) struct Filled {
    pub words: Vec<u32>,
    pub finals: Vec<FinalState>,
    pub ilabels: InputLabels,
    pub olabels: SparseFill,
    pub places: EpsilonPlaces,
    /// Source and destination of the epsilon arcs that are not `+inf`, in the order of the file.
    pub epsilons: Vec<(u32, u32)>,
    pub totals: Totals,
}

/// The walk.
pub(super) struct Fill<'a, S> {
    source: &'a S,
    columns: &'a Columns,
    column_map: &'a ColumnMap<'a>,
    /// Ranks of input labels among those of their columns.
    ranks: Vec<u32>,
    plan: &'a Plan<'a>,
    made: Filled,
    /// Output labels of the epsilon arcs of the state at hand.
    eps_olabels: Vec<i32>,
}

impl<'a, S: Source> Fill<'a, S> {
    pub fn new(
        source: &'a S,
        columns: &'a Columns,
        column_map: &'a ColumnMap,
        labels: &Arc<ColumnLabels>,
        plan: &'a Plan,
    ) -> Result<Self> {
        let made = Filled {
            words: huge::reserve(plan.num_words + PADDING_WORDS, "graph")?,
            finals: Vec::new(),
            ilabels: InputLabels::new(plan.num_arcs, labels)?,
            olabels: SparseFill::new(plan.num_arcs)?,
            places: EpsilonPlaces::new(plan.num_arcs)?,
            epsilons: Vec::new(),
            totals: Totals::default(),
        };
        Ok(Fill { source, columns, column_map, ranks: labels.ranks()?, plan, made, eps_olabels: Vec::new() })
    }

    /// Walks over all states. A source that is not what `plan` was made from gives an error.
    pub fn run(mut self) -> Result<Filled> {
        for state in walk(self.source) {
            self.prefetch(state.saturating_add(STATES_AHEAD));
            self.state(state)?;
        }
        self.source.passed(0..self.source.num_states()); // what was left of it
        if self.made.totals.num_arcs != u64::from(self.plan.num_arcs) {
            return Err(changed());
        }
        self.made.words.resize(self.plan.num_words + PADDING_WORDS, 0);
        if !self.made.totals.mixed {
            self.made.places = EpsilonPlaces::default();
        }
        Ok(self.made)
    }

    /// Asks for the memory of the ids of the states that arcs of `state` lead to: they lie anywhere, and each would be
    /// waited for.
    #[inline(always)]
    fn prefetch(&self, state: u32) {
        if state < self.source.num_states() {
            self.source.arcs(state).take(ARCS_AHEAD).for_each(|arc| self.plan.prefetch_id(arc.next));
        }
    }

    /// Makes the block of a state, with labels and final cost.
    fn state(&mut self, state: u32) -> Result<()> {
        let (n_emit, n_eps) = self.source.counts(state);
        let (first_arc, totals) = (self.made.totals.num_arcs, &mut self.made.totals);
        totals.num_arcs += u64::from(n_emit) + u64::from(n_eps);
        totals.num_epsilon_arcs += u64::from(n_eps);
        let (begin, end) = (self.plan.block(state), self.plan.block(state + 1));
        let len = Header::block_words(n_emit as usize, n_eps as usize, self.plan.level(state), self.plan.wide);
        if begin + len != end || totals.num_arcs > u64::from(self.plan.num_arcs) {
            return Err(changed());
        }
        self.made.words.resize(end, 0);
        let no_olabels = self.arcs(state, first_arc as u32, begin, (n_emit as usize, n_eps as usize))?;
        let cost = self.source.final_cost(state);
        let Some(no_olabels) = no_olabels.filter(|_| is_cost(cost)) else {
            return Err(state_fault(self.source, self.columns, state, first_arc));
        };
        self.source.check_epsilons(state, n_eps, no_olabels)?;
        if cost < f32::INFINITY {
            try_reserve(&mut self.made.finals, 1, "final costs")?;
            self.made.finals.push(FinalState { id: (begin / 2) as u32, cost: canonical(cost) });
        }
        Ok(())
    }

    /// Puts the arcs of `state` into its block, which begins at word `begin`. Gives how many have
    /// olabel 0, or `None` if something is wrong with an arc or with the number of them.
    #[inline(always)]
    fn arcs(&mut self, state: u32, first_arc: u32, begin: usize, counts: (usize, usize)) -> Result<Option<u32>> {
        let Fill { source, column_map, ranks, plan, made, eps_olabels, .. } = self;
        let mut block = Block::new(&mut made.words[begin..], counts, plan.level(state), first_arc, plan.wide);
        let mut ilabels = made.ilabels.ranks.slice(first_arc as usize, counts.0);
        eps_olabels.clear();
        let (mut signs, mut no_olabels, mut bad_weight, mut mixed) = (0, 0, false, false);
        let (mut max_ilabel, mut max_olabel) = (made.totals.max_ilabel, made.totals.max_olabel);
        for GraphArc { ilabel, olabel, weight, next } in source.arcs(state) {
            let Some(dst) = plan.ids.get(next) else { return Ok(None) };
            signs |= ilabel | olabel;
            no_olabels += u32::from(olabel == 0);
            bad_weight |= !is_cost(weight);
            max_olabel = max_olabel.max(olabel);
            if weight == f32::INFINITY {
                made.totals.num_infinite_arcs += 1;
            }
            if ilabel == 0 {
                let index = first_arc as usize + block.emitting + block.epsilons;
                if !block.add_epsilon(weight, dst) {
                    return Ok(None);
                }
                made.places.mark(index);
                try_reserve(eps_olabels, 1, "output labels")?;
                eps_olabels.push(olabel);
                if weight < f32::INFINITY {
                    try_reserve(&mut made.epsilons, 1, "epsilon arcs")?;
                    made.epsilons.push((state, next));
                }
                continue;
            }
            let (place, column) = (block.emitting, column_map.get(ilabel));
            if column >= made.totals.num_columns
                && !made.totals.widen(column, first_arc + (place + block.epsilons) as u32, ilabel)
            {
                return Ok(None);
            }
            if !block.add_emitting(weight, dst, column) {
                return Ok(None);
            }
            max_ilabel = max_ilabel.max(ilabel);
            mixed |= block.epsilons > 0;
            ilabels.set(place, ranks, ilabel as usize);
            if olabel != 0 {
                made.olabels.push(first_arc + place as u32, olabel)?;
            }
        }
        for (arc, &olabel) in (first_arc + counts.0 as u32..).zip(&*eps_olabels) {
            if olabel != 0 {
                made.olabels.push(arc, olabel)?;
            }
        }
        (made.totals.max_ilabel, made.totals.max_olabel) = (max_ilabel, max_olabel);
        made.totals.mixed |= mixed;
        let good = signs >= 0 && !bad_weight && (block.emitting, block.epsilons) == counts;
        Ok(good.then_some(no_olabels))
    }
}

/// The words of a block while they are filled.
struct Block<'a> {
    weights: &'a mut [u32],
    dsts: &'a mut [u32],
    columns: &'a mut [u32],
    eps_weights: &'a mut [u32],
    eps_dsts: &'a mut [u32],
    wide: bool,
    /// Arcs of each kind so far.
    emitting: usize,
    epsilons: usize,
}

impl<'a> Block<'a> {
    /// The header of a block of `words`, with room for its arcs behind it.
    #[inline(always)]
    fn new(words: &'a mut [u32], (n_emit, n_eps): (usize, usize), level: u32, first_arc: u32, wide: bool) -> Block<'a> {
        let rest = match Header::pack(n_emit, n_eps, level) {
            Some(packed) => {
                words[..2].copy_from_slice(&[packed, first_arc]);
                &mut words[2..]
            }
            None => {
                words[..5].copy_from_slice(&[ESCAPE, first_arc, n_emit as u32, n_eps as u32, level]);
                &mut words[5..]
            }
        };
        let (weights, rest) = rest.split_at_mut(n_emit);
        let (dsts, rest) = rest.split_at_mut(n_emit);
        let (columns, rest) = rest.split_at_mut(Header::column_words(n_emit, wide));
        let (eps_weights, rest) = rest.split_at_mut(n_eps);
        Block { weights, dsts, columns, eps_weights, eps_dsts: &mut rest[..n_eps], wide, emitting: 0, epsilons: 0 }
    }

    /// Puts an emitting arc into the next place; `false` if there is none.
    #[inline(always)]
    fn add_emitting(&mut self, weight: f32, dst: u32, column: u32) -> bool {
        let place = self.emitting;
        let (Some(to), Some(to_dst)) = (self.weights.get_mut(place), self.dsts.get_mut(place)) else { return false };
        (*to, *to_dst) = (canonical(weight).to_bits(), dst);
        if self.wide {
            self.columns[place] = column;
        } else {
            bytemuck::cast_slice_mut::<u32, u16>(self.columns)[place] = column as u16;
        }
        self.emitting += 1;
        true
    }

    /// The same for an epsilon arc.
    #[inline(always)]
    fn add_epsilon(&mut self, weight: f32, dst: u32) -> bool {
        let place = self.epsilons;
        let (Some(to), Some(to_dst)) = (self.eps_weights.get_mut(place), self.eps_dsts.get_mut(place)) else {
            return false;
        };
        (*to, *to_dst) = (canonical(weight).to_bits(), dst);
        self.epsilons += 1;
        true
    }
}

impl Totals {
    /// Takes in a `column` that is past those before; `false` if there is none.
    #[cold]
    fn widen(&mut self, column: u32, arc: u32, ilabel: i32) -> bool {
        if column != NO_COLUMN {
            self.num_columns = column + 1;
            self.widest_arc = (arc, ilabel);
        }
        column != NO_COLUMN
    }
}

/// `-0.0` becomes `0.0`, so that equal costs have equal bits.
#[inline(always)]
fn canonical(cost: f32) -> f32 {
    cost + 0.0
}
