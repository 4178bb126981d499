//! The graph in memory: one block of words a state for what the search touches on every
//! frame, and cold arrays for what only surviving links need.
//!
//! A block is a run of `u32` words at an even word index; a state's id is that index
//! divided by 2, so ids rise with the state numbers of the file and 31 bits reach 16 GiB.
//!
//! ```text
//! word 0   n_emit : 16 | n_eps : 12 | level : 4     (low bits first)
//! word 1   number of the state's first arc, over the whole graph
//!          only if word 0 is ESCAPE: three words n_emit, n_eps, level
//! then     weight  f32 [n_emit]
//!          dst     u32 [n_emit]     id of the destination, HAS_EPSILONS set if it has epsilon arcs
//!          column  u16 [n_emit]     (u32 when the graph is `wide`), padded to whole words
//!          weight  f32 [n_eps]
//!          dst     u32 [n_eps]
//! ```
//!
//! Arcs are renumbered inside a state: emitting ones first, then epsilon ones, each
//! kind in file order. `arc number = first arc + place in that order`.

/// Set in a destination word when that state has epsilon arcs.
pub const HAS_EPSILONS: u32 = 1 << 31;

/// Word 0 of a block whose counts or level do not fit the packed header.
pub(crate) const ESCAPE: u32 = u32::MAX;

/// Words of padding behind the last block, so that vector code may read over the end.
pub(crate) const PADDING_WORDS: usize = 16;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use super::array::Array;
use super::input_labels::InputLabels;
use super::labels::{EpsilonPlaces, SparseLabels};
use super::source::ColumnRule;
use super::whole::WholeCheck;
use crate::error::{Error, Result};
use crate::prefetch::prefetch;
use crate::table::Transitions;

/// A decoding graph, immutable once built.
#[derive(Debug)]
pub struct Graph {
    pub(crate) words: Array<u32>,
    pub(crate) wide: bool,
    pub(crate) start: u32,
    pub(crate) max_level: u32,
    pub(crate) num_states: u32,
    pub(super) totals: Totals,
    /// By ascending id.
    pub(crate) finals: Array<FinalState>,
    pub(crate) ilabels: InputLabels,
    pub(crate) olabels: SparseLabels,
    pub(crate) epsilon_places: EpsilonPlaces,
    pub(crate) transitions: Option<Arc<Transitions>>,
    /// The rule by which labels were given their columns.
    pub(super) rule: ColumnRule,
    /// States that cannot be reached, and states that reach no final state, once counted.
    pub(super) out_of_reach: OnceLock<(u32, u32)>,
    /// The check of a cache file that goes on beside the first frames.
    pub(super) whole: Option<WholeCheck>,
}

/// A state in which an utterance may end.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct FinalState {
    /// Id of the state.
    pub id: u32,
    /// Its final cost, finite.
    pub cost: f32,
}

/// Sums over a whole graph.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub num_arcs: u64,
    pub num_epsilon_arcs: u64,
    /// Arcs whose weight is `+inf`.
    pub num_infinite_arcs: u64,
    pub max_ilabel: i32,
    pub max_olabel: i32,
    /// Columns that a row must have, and file index and ilabel of the first arc that needs the last.
    pub num_columns: u32,
    pub widest_arc: (u32, i32),
    /// Whether some state of the file has an epsilon arc before an emitting one.
    pub mixed: bool,
}

/// The header of a state's block, unpacked.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Emitting arcs.
    pub n_emit: usize,
    /// Epsilon arcs.
    pub n_eps: usize,
    /// Length of the longest epsilon path that ends in the state.
    pub level: u32,
    /// Number of the state's first arc.
    pub first_arc: u32,
    /// Index of the word behind the header.
    pub body: usize,
}

impl Header {
    /// Unpacks the header of block `id`.
    #[inline(always)]
    pub fn unpack(words: &[u32], id: u32) -> Header {
        let at = id as usize * 2;
        // One look at the bounds, as there is padding behind the last block.
        let head: &[u32; 5] = words[at..at + 5].try_into().expect("five words");
        let [packed, first_arc, ..] = *head;
        if packed == ESCAPE {
            let [.., n_emit, n_eps, level] = *head;
            return Header { n_emit: n_emit as usize, n_eps: n_eps as usize, level, first_arc, body: at + 5 };
        }
        Header {
            n_emit: (packed & 0xffff) as usize,
            n_eps: (packed >> 16 & 0xfff) as usize,
            level: packed >> 28,
            first_arc,
            body: at + 2,
        }
    }

    /// The packed word, if everything fits it. A level of 15 with full counts would be [`ESCAPE`].
    pub(super) fn pack(n_emit: usize, n_eps: usize, level: u32) -> Option<u32> {
        (n_emit <= 0xffff && n_eps <= 0xfff && level < 15).then_some(n_emit as u32 | (n_eps as u32) << 16 | level << 28)
    }

    /// Words that `n_emit` columns take.
    #[inline(always)]
    pub fn column_words(n_emit: usize, wide: bool) -> usize {
        if wide { n_emit } else { n_emit.div_ceil(2) }
    }

    /// Words of the whole block, header included, padded to an even number.
    pub(super) fn block_words(n_emit: usize, n_eps: usize, level: u32, wide: bool) -> usize {
        let header = if Self::pack(n_emit, n_eps, level).is_some() { 2 } else { 5 };
        (header + 2 * n_emit + Self::column_words(n_emit, wide) + 2 * n_eps).next_multiple_of(2)
    }
}

/// Where an arc leads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArcTo {
    /// Its destination word.
    pub word: u32,
    /// What it weighs.
    pub weight: f32,
    /// Whether it is an epsilon arc.
    pub is_epsilon: bool,
}

/// One state of a graph, for everything but the hot loop.
#[derive(Clone, Copy, Debug)]
pub struct StateView<'g> {
    /// Counts, level, first arc.
    pub header: Header,
    /// Weights of the emitting arcs.
    pub weights: &'g [f32],
    /// Destination words of the emitting arcs.
    pub dsts: &'g [u32],
    /// Weights of the epsilon arcs.
    pub eps_weights: &'g [f32],
    /// Destination words of the epsilon arcs.
    pub eps_dsts: &'g [u32],
    columns: &'g [u32],
    wide: bool,
}

impl StateView<'_> {
    /// Place of arc number `arc` among the state's arcs, emitting ones first.
    #[inline]
    pub fn place(&self, arc: u32) -> usize {
        (arc - self.header.first_arc) as usize
    }

    /// Weight of arc number `arc`, emitting or epsilon.
    pub fn weight(&self, arc: u32) -> f32 {
        let place = self.place(arc);
        if place < self.header.n_emit { self.weights[place] } else { self.eps_weights[place - self.header.n_emit] }
    }

    /// Column of the emitting arc at `place`.
    #[inline]
    pub fn column(&self, place: usize) -> u32 {
        if self.wide { self.columns[place] } else { u32::from(bytemuck::cast_slice::<u32, u16>(self.columns)[place]) }
    }
}

/// Asks for the memory of block `id`: the cache lines of its first words and of the last of a usual one, which half
/// of the time are the same.
#[inline(always)]
pub(crate) fn prefetch_block(words: &[u32], id: u32) {
    let block = words.as_ptr().wrapping_add(id as usize * 2);
    prefetch(block);
    prefetch(block.wrapping_add(10));
}

impl Graph {
    /// The block words. See the head of this file for the layout.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Asks for the memory of a state's block.
    #[inline(always)]
    pub(crate) fn prefetch(&self, id: u32) {
        prefetch_block(&self.words, id);
    }

    /// Whether columns take 32 bits instead of 16.
    pub fn wide(&self) -> bool {
        self.wide
    }

    /// Destination word of the start state.
    pub fn start(&self) -> u32 {
        self.start
    }

    /// The largest epsilon level.
    pub fn max_level(&self) -> u32 {
        self.max_level
    }

    /// Number of states.
    pub fn num_states(&self) -> u32 {
        self.num_states
    }

    /// Number of arcs, epsilon ones included.
    pub fn num_arcs(&self) -> u32 {
        self.totals.num_arcs as u32
    }

    /// Number of arcs with ilabel 0.
    pub fn num_epsilon_arcs(&self) -> u32 {
        self.totals.num_epsilon_arcs as u32
    }

    /// Least number of columns that a row of log-likelihoods must have.
    pub fn num_columns(&self) -> u32 {
        self.totals.num_columns
    }

    /// No arc's column is as large as this, not even in a cache file that has not been checked yet: what may be
    /// looked up in a row of so many entries without a look at its bounds.
    pub fn row_width(&self) -> usize {
        match self.whole {
            Some(_) if !self.wide => 1 << 16,
            _ => self.totals.num_columns as usize,
        }
    }

    /// The transition model that the graph was read with.
    pub fn transitions(&self) -> Option<&Arc<Transitions>> {
        self.transitions.as_ref()
    }

    /// Refuses rows that are narrower than the graph's columns, naming arc, label and width.
    pub fn check_width(&self, dim: usize) -> Result<()> {
        if dim >= self.totals.num_columns as usize {
            return Ok(());
        }
        let (arc, ilabel) = self.totals.widest_arc;
        let column = self.totals.num_columns - 1;
        // What happens where a graph made of transition-ids is read without its model.
        let why = match self.transitions.is_none() && i64::from(ilabel) == i64::from(column) + 1 {
            true => ": the graph was read without a transition model, so that labels are columns",
            false => "",
        };
        Err(Error::Shape(format!(
            "rows have {dim} columns, but arc {arc} with ilabel {ilabel} needs column {column}{why}"
        )))
    }

    /// State `id` (a destination word without [`HAS_EPSILONS`]).
    pub fn state(&self, id: u32) -> StateView<'_> {
        let header = Header::unpack(&self.words, id);
        let rest = &self.words[header.body..];
        let (weights, rest) = rest.split_at(header.n_emit);
        let (dsts, rest) = rest.split_at(header.n_emit);
        let (columns, rest) = rest.split_at(Header::column_words(header.n_emit, self.wide));
        let (eps_weights, rest) = rest.split_at(header.n_eps);
        StateView {
            header,
            weights: bytemuck::cast_slice(weights),
            dsts,
            columns,
            wide: self.wide,
            eps_weights: bytemuck::cast_slice(eps_weights),
            eps_dsts: &rest[..header.n_eps],
        }
    }

    /// Weights and destination words of the epsilon arcs of the state whose header that is.
    #[inline(always)]
    pub fn epsilons(&self, header: &Header) -> (&[f32], &[u32]) {
        let begin = header.body + 2 * header.n_emit + Header::column_words(header.n_emit, self.wide);
        let (weights, dsts) = self.words[begin..begin + 2 * header.n_eps].split_at(header.n_eps);
        (bytemuck::cast_slice(weights), dsts)
    }

    /// Where arc number `arc` of state `id` leads; `None` where the state has no such arc.
    #[inline]
    pub fn arc(&self, id: u32, arc: u32) -> Option<ArcTo> {
        let header = Header::unpack(&self.words, id);
        let (place, n_emit, body) = (arc.checked_sub(header.first_arc)? as usize, header.n_emit, header.body);
        if let Some(place) = place.checked_sub(n_emit) {
            let (weights, words) = self.epsilons(&header);
            return Some(ArcTo { word: *words.get(place)?, weight: weights[place], is_epsilon: true });
        }
        let weight = f32::from_bits(self.words[body + place]);
        Some(ArcTo { word: self.words[body + n_emit + place], weight, is_epsilon: false })
    }

    /// Column of the emitting arc number `arc` of state `id`.
    #[inline]
    pub fn column(&self, id: u32, arc: u32) -> u32 {
        let header = Header::unpack(&self.words, id);
        let (begin, place) = (header.body + 2 * header.n_emit, (arc - header.first_arc) as usize);
        if self.wide { self.words[begin + place] } else { self.words[begin + place / 2] >> (place % 2 * 16) & 0xffff }
    }

    /// The final states, by ascending id.
    pub fn finals(&self) -> &[FinalState] {
        &self.finals
    }

    /// Ids of all states, in the order of their numbers in the file.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        let mut id = 0;
        (0..self.num_states).map(move |_| {
            let Header { n_emit, n_eps, level, .. } = Header::unpack(&self.words, id);
            let this = id;
            id += (Header::block_words(n_emit, n_eps, level, self.wide) / 2) as u32;
            this
        })
    }

    /// Final cost of state `id`; `+inf` where it is not final.
    pub fn final_cost(&self, id: u32) -> f32 {
        match self.finals.binary_search_by_key(&id, |entry| entry.id) {
            Ok(at) => self.finals[at].cost,
            Err(_) => f32::INFINITY,
        }
    }

    /// Input label of arc number `arc` of state `id`; 0 where that is an epsilon arc, or no arc of the state.
    pub fn ilabel(&self, id: u32, arc: u32) -> i32 {
        let header = Header::unpack(&self.words, id);
        let emits = (arc.wrapping_sub(header.first_arc) as usize) < header.n_emit;
        // (With the column read by that header the compiler makes unpredictable branches of what follows.)
        if emits { self.ilabels.get(arc, self.column(id, arc)) } else { 0 }
    }

    /// The state that arc number `arc` leaves, found by a walk over all states; `None` where there is no such arc.
    pub fn source_of(&self, arc: u32) -> Option<u32> {
        let has_it = |id: &u32| {
            let Header { n_emit, n_eps, first_arc, .. } = Header::unpack(&self.words, *id);
            (arc.wrapping_sub(first_arc) as usize) < n_emit + n_eps
        };
        self.ids().find(has_it)
    }

    /// Output label of arc number `arc`.
    pub fn olabel(&self, arc: u32) -> i32 {
        self.olabels.get(arc)
    }

    /// Which arcs have an output label, by number, 64 in a word; and how many there are before each word.
    pub fn labelled_arcs(&self) -> (&[u64], &[u32]) {
        (&self.olabels.present.words, &self.olabels.present.before)
    }

    /// The output labels of those arcs, which take memory where the graph has them in 16 bits.
    pub fn olabels(&self) -> Result<Cow<'_, [u32]>> {
        self.olabels.values.to_u32("output labels")
    }

    /// Index in the file of arc number `arc`, which leaves state `id`.
    pub fn file_arc(&self, id: u32, arc: u32) -> u32 {
        let header = Header::unpack(&self.words, id);
        self.epsilon_places.file_index(header.first_arc, header.n_emit, header.n_eps, arc)
    }

    /// Bytes that the graph takes in memory.
    pub fn memory(&self) -> usize {
        self.words.len() * 4
            + self.finals.len() * size_of::<FinalState>()
            + self.ilabels.memory()
            + self.olabels.memory()
            + self.epsilon_places.memory()
    }
}
