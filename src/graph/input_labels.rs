//! Input labels. An arc's column stands in its state's block, so that of its label only the rank among the labels
//! that read that column is kept: a byte for most rules, nothing where each column has one label.

use std::ops::Range;
use std::sync::Arc;

use super::array::Array;
use super::labels::zeros;
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

/// The ranks of arcs by number, 0 for epsilon arcs.
#[derive(Debug)]
pub enum Ranks {
    /// All are 0.
    None,
    /// In 8 bits.
    Byte(Array<u8>),
    /// In 16 bits.
    Short(Array<u16>),
    /// In 32 bits.
    Long(Array<u32>),
}

impl Ranks {
    /// Rank of `arc`.
    pub fn get(&self, arc: u32) -> u32 {
        match self {
            Ranks::None => 0,
            Ranks::Byte(ranks) => u32::from(ranks[arc as usize]),
            Ranks::Short(ranks) => u32::from(ranks[arc as usize]),
            Ranks::Long(ranks) => ranks[arc as usize],
        }
    }

    /// The memory of the ranks of `arcs`; nothing where they are not all there.
    pub fn bytes(&self, arcs: Range<usize>) -> &[u8] {
        match self {
            Ranks::None => &[],
            Ranks::Byte(ranks) => ranks.get(arcs).unwrap_or(&[]),
            Ranks::Short(ranks) => ranks.get(arcs).map_or(&[], bytemuck::cast_slice),
            Ranks::Long(ranks) => ranks.get(arcs).map_or(&[], bytemuck::cast_slice),
        }
    }

    /// The memory of them all.
    pub fn all_bytes(&self) -> &[u8] {
        match self {
            Ranks::None => &[],
            Ranks::Byte(ranks) => ranks,
            Ranks::Short(ranks) => bytemuck::cast_slice(ranks),
            Ranks::Long(ranks) => bytemuck::cast_slice(ranks),
        }
    }
}

/// The input labels of a graph.
#[derive(Debug)]
pub struct InputLabels {
    pub(super) ranks: Ranks,
    pub(super) labels: Arc<ColumnLabels>,
}

impl InputLabels {
    /// Labels of `num_arcs` arcs, all of rank 0 yet.
    pub fn new(num_arcs: u32, labels: &Arc<ColumnLabels>) -> Result<InputLabels> {
        let num_arcs = num_arcs as usize;
        let ranks = match labels.rank_bytes() {
            0 => Ranks::None,
            1 => Ranks::Byte(zeros(num_arcs, WHAT)?),
            2 => Ranks::Short(zeros(num_arcs, WHAT)?),
            _ => Ranks::Long(zeros(num_arcs, WHAT)?),
        };
        Ok(InputLabels { ranks, labels: Arc::clone(labels) })
    }

    /// Label of emitting arc number `arc`, which reads `column`.
    pub fn get(&self, arc: u32, column: u32) -> i32 {
        self.labels.label(column, self.ranks.get(arc))
    }

    /// The ranks of `count` arcs from `first` on, to set them.
    #[inline(always)]
    pub fn slice(&mut self, first: u32, count: usize) -> RankSlice<'_> {
        let range = first as usize..first as usize + count;
        match &mut self.ranks {
            Ranks::None => RankSlice::None,
            Ranks::Byte(ranks) => RankSlice::Byte(&mut ranks.own()[range]),
            Ranks::Short(ranks) => RankSlice::Short(&mut ranks.own()[range]),
            Ranks::Long(ranks) => RankSlice::Long(&mut ranks.own()[range]),
        }
    }

    /// Bytes taken.
    pub fn memory(&self) -> usize {
        self.ranks.all_bytes().len() + self.labels.memory()
    }
}

/// Some of the ranks of an [`InputLabels`].
pub enum RankSlice<'a> {
    /// All are 0.
    None,
    /// In 8 bits.
    Byte(&'a mut [u8]),
    /// In 16 bits.
    Short(&'a mut [u16]),
    /// In 32 bits.
    Long(&'a mut [u32]),
}

impl RankSlice<'_> {
    /// Gives the arc at `place` the rank that `ranks` has for `ilabel`, which is not negative and has a column.
    #[inline(always)]
    pub fn set(&mut self, place: usize, ranks: &[u32], ilabel: i32) {
        match self {
            RankSlice::None => {}
            RankSlice::Byte(to) => to[place] = ranks[ilabel as usize] as u8,
            RankSlice::Short(to) => to[place] = ranks[ilabel as usize] as u16,
            RankSlice::Long(to) => to[place] = ranks[ilabel as usize],
        }
    }
}

/// What the memory of this file is for, in messages.
const WHAT: &str = "input labels";
