//! The expected edit distance between a lattice and a hypothesis, and what stands at each place of the hypothesis.

use super::word_lattice::WordLattice;
use crate::error::{Error, Result, try_filled, try_reserve};

/// Cost of a lattice's word that the hypothesis passes over: a little more than one error, so that of equal alignments
/// the one wins in which the word stands somewhere.
const PASSED_WORD: f64 = 1.0 + 1e-5f32 as f64;

const WHAT: &str = "edit distances of a lattice";

/// What was found of a word at a place of the hypothesis: probability, and start and end times weighted by it.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub word: i32,
    pub mass: f64,
    pub start: f64,
    pub end: f64,
}

/// Tables that last through the rounds of a decoding.
pub(super) struct EditDistance<'a> {
    lattice: &'a WordLattice,
    /// Probability of each arc among those that lead to its state.
    arc_share: Vec<f64>,
    /// Expected distance between the paths to a state and the first places of the hypothesis; a row a state.
    alpha: Vec<f64>,
    /// Probability that flows through a state and a number of places; a row a state.
    beta: Vec<f64>,
    /// Distances along the arc in work, the probability on it, and which of three ways led to each place.
    on_arc: Vec<f64>,
    flow: Vec<f64>,
    way: Vec<u8>,
}

/// The arc stands at the place; the arc is passed over; the place is.
const STANDS: u8 = 1;
const ARC_PASSED: u8 = 2;
const PLACE_PASSED: u8 = 3;

fn differs(a: i32, b: i32) -> f64 {
    f64::from(u8::from(a != b))
}

fn passing(word: i32) -> f64 {
    if word == 0 { 0.0 } else { PASSED_WORD }
}

fn log_add(a: f64, b: f64) -> f64 {
    let (less, more) = if a < b { (a, b) } else { (b, a) };
    let difference = less - more;
    if difference >= f64::EPSILON.ln() { more + difference.exp().ln_1p() } else { more }
}

impl<'a> EditDistance<'a> {
    pub fn new(lattice: &'a WordLattice) -> Result<EditDistance<'a>> {
        let mut log_prob = try_filled(f64::NEG_INFINITY, lattice.num_states(), WHAT)?;
        let mut arc_share = Vec::new();
        try_reserve(&mut arc_share, lattice.arcs.len(), WHAT)?;
        log_prob[0] = 0.0;
        for state in 1..lattice.num_states() {
            let through = |arc: &super::word_lattice::WordArc| log_prob[arc.from as usize] + f64::from(arc.log_prob);
            let arcs = lattice.arcs_into(state);
            let sum = arcs.iter().map(through).fold(f64::NEG_INFINITY, log_add);
            arc_share.extend(arcs.iter().map(|arc| (through(arc) - sum).exp()));
            log_prob[state] = sum;
        }
        let (alpha, beta, on_arc, flow, way) = Default::default();
        Ok(EditDistance { lattice, arc_share, alpha, beta, on_arc, flow, way })
    }

    /// The expected distance to `hypothesis`, whose places are words and 0. Into `bins` comes, for each place, what
    /// stands there, by ascending word.
    pub fn measure(&mut self, hypothesis: &[i32], bins: &mut Vec<Vec<Share>>) -> Result<f64> {
        let columns = hypothesis.len() + 1;
        let cells = self.lattice.num_states().checked_mul(columns);
        let cells = cells.ok_or_else(|| Error::Limit("the hypothesis is too long for this lattice".to_string()))?;
        self.size_tables(cells, columns)?;
        self.forward(hypothesis);
        bins.iter_mut().for_each(Vec::clear);
        if bins.len() < hypothesis.len() {
            try_reserve(bins, hypothesis.len() - bins.len(), WHAT)?;
        }
        bins.resize_with(hypothesis.len(), Vec::new);
        self.backward(hypothesis, bins)?;
        Ok(self.alpha[cells - 1])
    }

    fn size_tables(&mut self, cells: usize, columns: usize) -> Result<()> {
        for (table, len) in
            [(&mut self.alpha, cells), (&mut self.beta, cells), (&mut self.on_arc, columns), (&mut self.flow, columns)]
        {
            table.clear();
            try_reserve(table, len, WHAT)?;
            table.resize(len, 0.0);
        }
        self.way.clear();
        try_reserve(&mut self.way, columns, WHAT)?;
        self.way.resize(columns, 0);
        Ok(())
    }

    fn forward(&mut self, hypothesis: &[i32]) {
        let columns = hypothesis.len() + 1;
        for place in 1..columns {
            self.alpha[place] = self.alpha[place - 1] + differs(0, hypothesis[place - 1]);
        }
        for state in 1..self.lattice.num_states() {
            let (before, row) = self.alpha.split_at_mut(state * columns);
            let row = &mut row[..columns];
            let first = self.lattice.offsets[state] as usize;
            for (arc, &share) in self.lattice.arcs_into(state).iter().zip(&self.arc_share[first..]) {
                let from = &before[arc.from as usize * columns..][..columns];
                let passed = passing(arc.word);
                let mut distance = from[0] + passed;
                row[0] += share * distance;
                // The two ways that look at `from` only have no chain through the loop.
                let on_arc = &mut self.on_arc[1..columns];
                for (((best, two), &place), out) in
                    on_arc.iter_mut().zip(from.windows(2)).zip(hypothesis).zip(&mut row[1..])
                {
                    *best = (two[0] + differs(arc.word, place)).min(two[1] + passed);
                    distance = best.min(distance + differs(0, place));
                    *out += share * distance;
                }
            }
        }
    }

    fn backward(&mut self, hypothesis: &[i32], bins: &mut [Vec<Share>]) -> Result<()> {
        let columns = hypothesis.len() + 1;
        let last = self.lattice.num_states() - 1;
        self.beta[last * columns + columns - 1] = 1.0;
        for state in (1..=last).rev() {
            // Most states meet only a few places of the hypothesis.
            let row = &self.beta[state * columns..][..columns];
            let Some(highest) = row.iter().rposition(|&flow| flow != 0.0) else { continue };
            let lowest = row.iter().position(|&flow| flow != 0.0).unwrap_or(highest);
            let first = self.lattice.offsets[state] as usize;
            for at in first..self.lattice.offsets[state + 1] as usize {
                self.choose_ways(at, hypothesis, highest);
                self.follow(state, at, lowest, highest, bins)?;
            }
        }
        // Places that the start passes over.
        self.flow.fill(0.0);
        for place in (1..columns).rev() {
            self.flow[place] += self.beta[place];
            self.flow[place - 1] += self.flow[place];
            add(&mut bins[place - 1], 0, self.flow[place], 0.0, 0.0)?;
        }
        Ok(())
    }

    /// Which way leads to each place up to `highest` on arc number `at`.
    fn choose_ways(&mut self, at: usize, hypothesis: &[i32], highest: usize) {
        let columns = hypothesis.len() + 1;
        let arc = self.lattice.arcs[at];
        let from = &self.alpha[arc.from as usize * columns..][..columns];
        let passed = passing(arc.word);
        let mut distance = from[0] + passed;
        for place in 1..=highest {
            let word = hypothesis[place - 1];
            let stands = from[place - 1] + differs(arc.word, word);
            let arc_passed = from[place] + passed;
            let place_passed = distance + differs(0, word);
            let (way, least) = if stands <= arc_passed { (STANDS, stands) } else { (ARC_PASSED, arc_passed) };
            (self.way[place], distance) =
                if least <= place_passed { (way, least) } else { (PLACE_PASSED, place_passed) };
        }
    }

    /// Sends the probability that reaches `state` over arc number `at` back along the ways chosen.
    fn follow(
        &mut self,
        state: usize,
        at: usize,
        lowest: usize,
        highest: usize,
        bins: &mut [Vec<Share>],
    ) -> Result<()> {
        let columns = self.flow.len();
        let (arc, share) = (self.lattice.arcs[at], self.arc_share[at]);
        let (starts, ends) = (self.lattice.times[arc.from as usize], self.lattice.times[state]);
        let (starts, ends) = (f64::from(starts), f64::from(ends));
        let (before, row) = self.beta.split_at_mut(state * columns);
        let from = &mut before[arc.from as usize * columns..][..columns];
        let mut passed_on = 0.0;
        for place in (1..=highest).rev() {
            let flow = passed_on + share * row[place];
            passed_on = 0.0;
            if flow == 0.0 {
                if place < lowest {
                    break;
                }
                continue;
            }
            match self.way[place] {
                STANDS => {
                    from[place - 1] += flow;
                    add(&mut bins[place - 1], arc.word, flow, starts * flow, ends * flow)?;
                }
                ARC_PASSED => from[place] += flow,
                _ => {
                    passed_on = flow;
                    // Not the arc's start, as the paper's appendix C has it: the place is passed over at its end.
                    add(&mut bins[place - 1], 0, flow, ends * flow, ends * flow)?;
                }
            }
        }
        from[0] += passed_on + share * row[0];
        Ok(())
    }
}

/// Adds to the share of `word`, keeping words in order.
fn add(bin: &mut Vec<Share>, word: i32, mass: f64, start: f64, end: f64) -> Result<()> {
    if mass == 0.0 {
        return Ok(());
    }
    match bin.binary_search_by_key(&word, |share| share.word) {
        Ok(at) => {
            let share = &mut bin[at];
            share.mass += mass;
            share.start += start;
            share.end += end;
        }
        Err(at) => {
            try_reserve(bin, 1, WHAT)?;
            bin.insert(at, Share { word, mass, start, end });
        }
    }
    Ok(())
}
