//! Lays a graph out in the form of `blocks.rs`, checking it on the way.

use std::sync::{Arc, OnceLock};

use super::blocks::{ESCAPE, Graph, HAS_EPSILONS, Header, PADDING_WORDS};
use super::fill::{Fill, Filled};
use super::input_labels::ColumnLabels;
use super::levels::Levels;
use super::source::{ColumnMap, Columns, Source, walk};
use super::state_ids::StateIds;
use super::validate::{changed, check_start};
use crate::error::{Error, Result};

impl Graph {
    /// Checks `source` and lays it out, in one walk over its arcs. The walk takes for granted what
    /// nearly always holds: columns fit 16 bits, and levels a header. Where that
    /// turns out wrong, a second walk lays the graph out again by what the first has found.
    ///
    /// What is refused is said at [`Graph::read`]; faults are named in the order of the file.
    pub fn from_source(source: &impl Source, columns: Columns) -> Result<Graph> {
        let start = check_start(source)?;
        let column_map = ColumnMap::new(&columns)?;
        let labels = Arc::new(ColumnLabels::new(&column_map)?);
        let plan = Plan::new(source, false, None)?;
        let filled = Fill::new(source, &columns, &column_map, &labels, &plan)?.run()?;
        let levels = Levels::new(source.num_states(), &filled.epsilons)?;
        let deep = Header::pack(0, 0, levels.max()).is_none();
        let wide = filled.totals.num_columns > 1 << 16;
        let (plan, mut filled) = if deep || wide {
            drop((plan, filled)); // the second walk takes as much again
            let plan = Plan::new(source, wide, Some(&levels))?;
            let filled = Fill::new(source, &columns, &column_map, &labels, &plan)?.run()?;
            (plan, filled)
        } else {
            (plan, filled)
        };
        set_levels(&mut filled, &plan, &levels);
        Ok(Graph {
            words: filled.words.into(),
            wide,
            start: plan.ids.get(start).ok_or_else(changed)?,
            max_level: levels.max(),
            num_states: source.num_states(),
            totals: filled.totals,
            finals: filled.finals.into(),
            ilabels: filled.ilabels,
            olabels: filled.olabels.finish()?,
            epsilon_places: filled.places,
            transitions: columns.transitions().cloned(),
            rule: column_map.rule(&columns),
            out_of_reach: OnceLock::new(),
            whole: None,
        })
    }
}

/// Writes the levels into the headers.
fn set_levels(filled: &mut Filled, plan: &Plan, levels: &Levels) {
    for &(_, state) in &filled.epsilons {
        let level = levels.get(state);
        let at = plan.block(state);
        if filled.words[at] == ESCAPE {
            filled.words[at + 4] = level;
        } else {
            filled.words[at] = filled.words[at] & 0x0fff_ffff | level << 28;
        }
    }
}

/// Where everything will stand.
pub(super) struct Plan<'a> {
    pub ids: StateIds,
    /// Words of all blocks, without the padding behind them.
    pub num_words: usize,
    pub num_arcs: u32,
    /// Whether columns take 32 bits.
    pub wide: bool,
    /// The levels, once known.
    levels: Option<&'a Levels>,
}

impl<'a> Plan<'a> {
    fn new(source: &impl Source, wide: bool, levels: Option<&'a Levels>) -> Result<Plan<'a>> {
        let num_states = source.num_states();
        let mut plan = Plan { ids: StateIds::new(num_states)?, num_words: 0, num_arcs: 0, wide, levels };
        let mut num_arcs = 0u64;
        for state in walk(source) {
            let (n_emit, n_eps) = source.counts(state);
            let id = plan.num_words / 2;
            if id >= HAS_EPSILONS as usize {
                return Err(Error::Graph("the graph is too large: its state blocks pass 16 GiB".into()));
            }
            plan.ids.push(id as u32, n_eps > 0)?;
            plan.num_words += Header::block_words(n_emit as usize, n_eps as usize, plan.level(state), wide);
            num_arcs += u64::from(n_emit) + u64::from(n_eps);
        }
        plan.num_arcs =
            u32::try_from(num_arcs).map_err(|_| Error::Graph(format!("{num_arcs} arcs; the limit is {}", u32::MAX)))?;
        plan.num_words.checked_add(PADDING_WORDS).map(|_| plan).ok_or_else(|| Error::Graph("too large".into()))
    }

    /// Asks for the memory of the id of `state`, which may be any number.
    #[inline(always)]
    pub fn prefetch_id(&self, state: u32) {
        self.ids.prefetch(state);
    }

    /// First word of the block of `state`, or the end of all blocks.
    pub fn block(&self, state: u32) -> usize {
        self.ids.get(state).map_or(self.num_words, |word| (word & !HAS_EPSILONS) as usize * 2)
    }

    /// The level of `state`, 0 while it is not known.
    pub fn level(&self, state: u32) -> u32 {
        self.levels.map_or(0, |levels| levels.get(state))
    }
}
