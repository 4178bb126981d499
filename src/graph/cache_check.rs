//! Whether the arrays of a graph fit each other, for graphs that a file holds as they are: all that
//! `Graph::from_source` sees to when it makes them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::blocks::{ESCAPE, Graph, HAS_EPSILONS, Header, PADDING_WORDS};
use super::labels::Bits;
use super::mapped::Behind;
use super::validate::is_cost;
use crate::error::{Error, Result};

/// States after which the check looks whether it is still wanted.
const STEP: u32 = 1 << 14;

/// States and arcs of the blocks that a check has been through.
struct Found {
    /// First words of blocks, halved.
    ids: Bits,
    /// Those of them that have epsilon arcs.
    with_epsilons: Bits,
    max_level: u32,
}

impl Graph {
    /// Checks that everything holds of the arrays that the search takes for granted. Reads nothing out of bounds,
    /// whatever they hold. [`Error::Cancelled`] once `unwanted`. Labels go by `behind`.
    pub(super) fn check_blocks(&self, unwanted: &AtomicBool, behind: Behind<'_>) -> Result<()> {
        let found = self.check_headers(unwanted)?;
        if self.max_level != found.max_level || !found.has(self.start) {
            return fault("the start state or the largest level");
        }
        let (mut infinite, mut columns, mut max_ilabel, mut max_olabel) = (0, 0, 0, 0);
        let mut passed = 0;
        for (state, id) in (0..self.num_states).zip(self.ids()) {
            wanted(state, unwanted)?;
            let view = self.state(id);
            let (n_emit, first) = (view.header.n_emit, view.header.first_arc);
            if state.is_multiple_of(STEP) {
                behind.drop(self.ilabels.ranks.bytes(passed..first as usize));
                passed = first as usize;
            }
            for place in 0..n_emit {
                let (arc, column) = (first + place as u32, view.column(place));
                let ilabel = self.ilabels.get(arc, column);
                if !is_cost(view.weights[place]) || !found.has(view.dsts[place]) || ilabel <= 0 {
                    return fault_at("arc", arc);
                }
                columns = columns.max(column.saturating_add(1));
                max_ilabel = max_ilabel.max(ilabel);
                infinite += u64::from(view.weights[place] == f32::INFINITY);
            }
            for place in 0..view.header.n_eps {
                let (arc, dst, weight) =
                    (first + (n_emit + place) as u32, view.eps_dsts[place], view.eps_weights[place]);
                if !is_cost(weight) || !found.has(dst) || self.ilabels.ranks.get(arc as usize) != 0 {
                    return fault_at("arc", arc);
                }
                // Levels rise along epsilon arcs that can be taken, so that there is an end to them.
                if weight < f32::INFINITY && Header::unpack(&self.words, dst & !HAS_EPSILONS).level <= view.header.level
                {
                    return fault_at("the level behind arc", arc);
                }
                infinite += u64::from(weight == f32::INFINITY);
            }
            self.check_places(view.header)?;
        }
        behind.drop(self.ilabels.ranks.bytes(passed..self.totals.num_arcs as usize));
        let labels = &self.olabels.values;
        for begin in (0..labels.len()).step_by(STEP as usize) {
            let end = labels.len().min(begin + STEP as usize);
            for label in (begin..end).map(|at| labels.get(at) as i32) {
                if label <= 0 {
                    return fault("an output label");
                }
                max_olabel = max_olabel.max(label);
            }
            behind.drop(labels.bytes(begin..end));
        }
        let totals = &self.totals;
        if (columns, max_ilabel, max_olabel) != (totals.num_columns, totals.max_ilabel, totals.max_olabel)
            || infinite != totals.num_infinite_arcs
        {
            return fault("the largest labels, columns or the number of arcs that are +inf");
        }
        self.check_labels()?;
        self.check_finals(&found)
    }

    /// Checks that the blocks follow one another to the padding, and that their arcs are numbered on.
    fn check_headers(&self, unwanted: &AtomicBool) -> Result<Found> {
        let end = self.words.len().checked_sub(PADDING_WORDS).filter(|end| end.is_multiple_of(2));
        let Some(end) = end else { return fault("the state blocks") };
        let mut found = Found {
            ids: Bits::new(end / 2 + 1, "state ids")?,
            with_epsilons: Bits::new(end / 2 + 1, "state ids")?,
            max_level: 0,
        };
        let (mut at, mut arcs, mut epsilons) = (0usize, 0u64, 0u64);
        for state in 0..self.num_states {
            wanted(state, unwanted)?;
            // The padding makes up for the header of a last block that is cut short.
            if at >= end {
                return fault_at("state", state);
            }
            let header = Header::unpack(&self.words, (at / 2) as u32);
            let packed = Header::pack(header.n_emit, header.n_eps, header.level);
            let len = Header::block_words(header.n_emit, header.n_eps, header.level, self.wide);
            let escaped = self.words[at] == ESCAPE;
            if escaped == packed.is_some() || len > end - at || u64::from(header.first_arc) != arcs {
                return fault_at("state", state);
            }
            found.ids.set(at / 2);
            if header.n_eps > 0 {
                found.with_epsilons.set(at / 2);
            }
            found.max_level = found.max_level.max(header.level);
            at += len;
            arcs += header.n_emit as u64 + header.n_eps as u64;
            epsilons += header.n_eps as u64;
        }
        if at != end || arcs != self.totals.num_arcs || epsilons != self.totals.num_epsilon_arcs {
            return fault("the number of states or arcs");
        }
        if self.words[end..].iter().any(|&word| word != 0) {
            return fault("the end of the state blocks");
        }
        Ok(found)
    }

    /// Checks that as many arcs of a state are marked as epsilon arcs as it has.
    fn check_places(&self, header: Header) -> Result<()> {
        let Some(epsilons) = &self.epsilon_places.epsilons else { return Ok(()) };
        let first = header.first_arc as usize;
        let marked = (first..first + header.n_emit + header.n_eps).filter(|&arc| epsilons.get(arc)).count();
        if marked == header.n_eps { Ok(()) } else { fault_at("the places of epsilon arcs from arc", header.first_arc) }
    }

    /// Checks that the labels of the arcs are all there, and no more.
    fn check_labels(&self) -> Result<()> {
        let num_arcs = self.totals.num_arcs as usize;
        let present = &self.olabels.present;
        let bits = num_arcs.div_ceil(64);
        let num_bytes = num_arcs * self.ilabels.labels.rank_bytes() as usize;
        if self.ilabels.ranks.all_bytes().len() != num_bytes
            || present.words.len() != bits
            || present.before.len() != bits
        {
            return fault("the number of labels");
        }
        let mut sum = 0u32;
        for (&word, &before) in present.words.iter().zip(&*present.before) {
            if before != sum {
                return fault("the ranks of output labels");
            }
            sum += word.count_ones();
        }
        let past =
            present.words.last().is_some_and(|last| !num_arcs.is_multiple_of(64) && last >> (num_arcs % 64) != 0);
        if past || sum as usize != self.olabels.values.len() {
            return fault("the number of output labels");
        }
        Ok(())
    }

    /// Checks that final states are states, in order, and their costs costs.
    fn check_finals(&self, found: &Found) -> Result<()> {
        let ordered = self.finals.windows(2).all(|two| two[0].id < two[1].id);
        let good = |id: u32, cost: f32| is_cost(cost) && cost < f32::INFINITY && found.is_state(id);
        if ordered && self.finals.iter().all(|last| good(last.id, last.cost)) { Ok(()) } else { fault("a final state") }
    }
}

impl Found {
    fn is_state(&self, id: u32) -> bool {
        (id as usize) < self.ids.words.len() * 64 && self.ids.get(id as usize)
    }

    /// Whether `dst` is a destination word: a state, and told right whether it has epsilon arcs.
    fn has(&self, dst: u32) -> bool {
        let id = dst & !HAS_EPSILONS;
        self.is_state(id) && self.with_epsilons.get(id as usize) == (dst & HAS_EPSILONS != 0)
    }
}

fn wanted(state: u32, unwanted: &AtomicBool) -> Result<()> {
    if state.is_multiple_of(STEP) && unwanted.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
}

fn fault<T>(what: &str) -> Result<T> {
    Err(Error::Graph(format!("the graph cache is damaged: {what} cannot be right")))
}

fn fault_at<T>(what: &str, number: u32) -> Result<T> {
    fault(&format!("{what} {number}"))
}
