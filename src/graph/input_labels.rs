//! Input labels. An arc's column stands in its state's block, so that of its label only the rank among the labels
//! that read that column is kept: a byte for most rules, nothing where each column has one label.

use std::sync::Arc;

use super::narrow::Narrow;
use super::source::ColumnMap;
use crate::error::{Result, try_filled};

/// Labels are listed by as many of the low bits of their columns: few lists, however far apart columns are.
const LISTS: u32 = 1 << 16;

/// Which labels read a column, by a rule for columns.
#[derive(Debug)]
pub enum ColumnLabels {
    /// `column + 1`.
    Next,
    /// Those of a table.
    Listed {
        /// Where the list of each column begins, and behind them the end of all.
        first: Vec<u32>,
        /// The lists, each ascending.
        labels: Vec<i32>,
    },
}

impl ColumnLabels {
    pub(super) fn new(map: &ColumnMap<'_>) -> Result<ColumnLabels> {
        let ColumnMap::Table(table) = map else { return Ok(ColumnLabels::Next) };
        let labels = table.iter().take(1 << 31).enumerate().skip(1).filter(|label| *label.1 >= 0);
        let largest = labels.clone().map(|label| *label.1).max().unwrap_or(0).min(LISTS as i32 - 1);
        let mut first = try_filled(0u32, largest as usize + 2, WHAT)?;
        labels.clone().for_each(|(_, &column)| first[list_of(column as u32)] += 1);
        let mut sum = 0;
        for end in &mut first {
            sum += *end;
            *end = sum;
        }
        let mut lists = try_filled(0, sum as usize, WHAT)?;
        for (label, &column) in labels.rev() {
            let at = &mut first[list_of(column as u32)];
            *at -= 1;
            lists[*at as usize] = label as i32;
        }
        Ok(ColumnLabels::Listed { first, labels: lists })
    }

    /// Label number `rank` of those that read `column`, 0 where there is none.
    fn label(&self, column: u32, rank: u32) -> i32 {
        match self {
            ColumnLabels::Next => column.wrapping_add(1) as i32,
            ColumnLabels::Listed { first, labels } => {
                let [begin, end] = match first.get(list_of(column)..) {
                    Some(&[begin, end, ..]) => [begin as usize, end as usize],
                    _ => [0, 0],
                };
                labels.get(begin..end).and_then(|list| list.get(rank as usize)).copied().unwrap_or(0)
            }
        }
    }

    /// The rank of each label up to the largest.
    pub fn ranks(&self) -> Result<Vec<u32>> {
        let ColumnLabels::Listed { first, labels } = self else { return Ok(Vec::new()) };
        let len = labels.iter().max().map_or(0, |&largest| largest as usize + 1);
        let mut ranks = try_filled(0, len, WHAT)?;
        for list in first.windows(2) {
            for (rank, &label) in (0..).zip(&labels[list[0] as usize..list[1] as usize]) {
                ranks[label as usize] = rank;
            }
        }
        Ok(ranks)
    }

    /// Bytes that a rank takes: 0, 1, 2 or 4.
    pub fn rank_bytes(&self) -> u32 {
        let longest = match self {
            ColumnLabels::Next => 1,
            ColumnLabels::Listed { first, .. } => first.windows(2).map(|list| list[1] - list[0]).max().unwrap_or(0),
        };
        match longest {
            0..=1 => 0,
            2..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 4,
        }
    }

    fn memory(&self) -> usize {
        match self {
            ColumnLabels::Next => 0,
            ColumnLabels::Listed { first, labels } => (first.len() + labels.len()) * 4,
        }
    }
}

/// The list that the labels of `column` stand in.
fn list_of(column: u32) -> usize {
    (column % LISTS) as usize
}

/// The input labels of a graph.
#[derive(Debug)]
pub struct InputLabels {
    /// By arc number, 0 for epsilon arcs.
    pub(super) ranks: Narrow,
    pub(super) labels: Arc<ColumnLabels>,
}

impl InputLabels {
    /// Labels of `num_arcs` arcs, all of rank 0 yet.
    pub fn new(num_arcs: u32, labels: &Arc<ColumnLabels>) -> Result<InputLabels> {
        let ranks = Narrow::zeros(num_arcs as usize, labels.rank_bytes(), WHAT)?;
        Ok(InputLabels { ranks, labels: Arc::clone(labels) })
    }

    /// Label of emitting arc number `arc`, which reads `column`.
    pub fn get(&self, arc: u32, column: u32) -> i32 {
        self.labels.label(column, self.ranks.get(arc as usize))
    }

    /// Bytes taken.
    pub fn memory(&self) -> usize {
        self.ranks.all_bytes().len() + self.labels.memory()
    }
}

/// What the memory of this file is for, in messages.
const WHAT: &str = "input labels";
