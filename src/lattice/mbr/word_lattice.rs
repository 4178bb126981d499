//! The lattice as the method sees it: words and probabilities on arcs, sorted by where they lead, one final state.

use crate::error::{Error, Result, try_filled, try_reserve};
use crate::lattice::CompactLattice;

use super::WordsConfig;

/// An arc by the state that it leads to.
#[derive(Clone, Copy)]
pub(super) struct WordArc {
    pub from: u32,
    pub word: i32,
    pub log_prob: f32,
}

/// States are in topological order; state 0 is the start, the last one the end.
pub(super) struct WordLattice {
    /// Arcs into state `s` are `arcs[offsets[s]..offsets[s + 1]]`.
    pub offsets: Vec<u32>,
    pub arcs: Vec<WordArc>,
    /// Frames before each state.
    pub times: Vec<u32>,
}

const WHAT: &str = "words of a lattice";

impl WordLattice {
    /// `lattice` is not empty.
    pub fn new(lattice: &CompactLattice, config: &WordsConfig) -> Result<WordLattice> {
        let states = lattice.num_states();
        if lattice.times.len() != states {
            let what = "lattice: paths to one state differ in frames, so words have no times";
            return Err(Error::Argument(what.to_string()));
        }
        let finals = || (0..states).filter(|&state| !lattice.finals[state].is_absent());
        // Without need there is no further state: arcs without a word count, if little.
        let one_end = finals().count() == 1
            && finals().all(|state| {
                lattice.finals[state].canonical() == crate::lattice::LatticeWeight::ONE
                    && lattice.final_string(state as u32).is_empty()
                    && lattice.arc_range(state as u32).is_empty()
            });
        let ends = || finals().filter(|_| !one_end);
        let total = states + usize::from(!one_end);
        let mut offsets = try_filled(0u32, total + 1, WHAT)?;
        for arc in &lattice.arcs {
            offsets[arc.next as usize + 1] += 1;
        }
        offsets[total] += ends().count() as u32;
        for state in 0..total {
            offsets[state + 1] += offsets[state];
        }
        let mut place = Vec::new();
        try_reserve(&mut place, total, WHAT)?;
        place.extend_from_slice(&offsets[..total]);
        let none = WordArc { from: 0, word: 0, log_prob: 0.0 };
        let mut arcs = try_filled(none, offsets[total] as usize, WHAT)?;
        let mut add = |next: usize, arc: WordArc| {
            arcs[place[next] as usize] = arc;
            place[next] += 1;
        };
        for state in 0..states {
            for arc in lattice.arcs_of(state as u32) {
                let log_prob = log_prob(arc.weight, config)?;
                add(arc.next as usize, WordArc { from: state as u32, word: arc.olabel, log_prob });
            }
        }
        for state in ends() {
            let log_prob = log_prob(lattice.finals[state], config)?;
            add(total - 1, WordArc { from: state as u32, word: 0, log_prob });
        }
        let mut times = Vec::new();
        try_reserve(&mut times, total, WHAT)?;
        times.extend_from_slice(&lattice.times);
        let end =
            ends().map(|state| lattice.times[state].saturating_add(lattice.final_string(state as u32).len() as u32));
        times.extend(end.max());
        Ok(WordLattice { offsets, arcs, times })
    }

    pub fn num_states(&self) -> usize {
        self.times.len()
    }

    /// Arcs into `state`.
    pub fn arcs_into(&self, state: usize) -> &[WordArc] {
        &self.arcs[self.offsets[state] as usize..self.offsets[state + 1] as usize]
    }

    /// Words of the likeliest path; of equal ones the arc of lowest number, from the end back.
    pub fn best_words(&self) -> Result<Vec<i32>> {
        let mut best = try_filled((f64::NEG_INFINITY, 0u32), self.num_states(), WHAT)?;
        best[0].0 = 0.0;
        for state in 1..self.num_states() {
            for at in self.offsets[state]..self.offsets[state + 1] {
                let arc = self.arcs[at as usize];
                let candidate = best[arc.from as usize].0 + f64::from(arc.log_prob);
                if candidate > best[state].0 {
                    best[state] = (candidate, at);
                }
            }
        }
        let mut words = Vec::new();
        let mut state = self.num_states() - 1;
        while state != 0 {
            let arc = self.arcs[best[state].1 as usize];
            if arc.word != 0 {
                try_reserve(&mut words, 1, WHAT)?;
                words.push(arc.word);
            }
            state = arc.from as usize;
        }
        words.reverse();
        Ok(words)
    }
}

/// Rounded as Kaldi does: each scaled cost, then their sum.
fn log_prob(weight: crate::lattice::LatticeWeight, config: &WordsConfig) -> Result<f32> {
    let scaled = |cost: f32, scale: f32| (f64::from(scale) * f64::from(cost)) as f32;
    let log_prob = -(scaled(weight.graph, config.graph_scale) + scaled(weight.acoustic, config.acoustic_scale));
    if log_prob.is_finite() {
        return Ok(log_prob);
    }
    Err(Error::Argument(format!(
        "lattice: the costs {},{} are too much at these scales",
        weight.graph, weight.acoustic
    )))
}
