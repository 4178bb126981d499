//! From the trace to lattices: the raw lattice of an utterance, and pieces of one that grows.

use std::ops::RangeInclusive;

use crate::error::{Error, Result, try_filled, try_reserve};
use crate::graph::Graph;
use crate::lattice::{BiasCosts, Exit, Exits, LatticeArc, LatticePiece, LatticeWeight, RawLattice};

use super::bias::Bias;
use super::ends::Ends;
use super::trace::{Trace, TraceLink, source};

/// The tokens of some times that survive, as states in the order of the tokens, which is
/// canonical; and the links between them.
struct Stretch {
    arcs: Vec<LatticeArc>,
    offsets: Vec<u32>,
    /// Bias costs of the arcs; empty without phrases.
    bias: Vec<f32>,
    /// State of each token; that of the next survivor where it does not survive.
    state_of: Vec<u32>,
}

/// A stretch that is read off a trace.
struct Survivors<'a> {
    trace: &'a Trace,
    graph: &'a Graph,
    bias: &'a Bias,
    times: RangeInclusive<usize>,
    /// Of the tokens from the first time on.
    extras: &'a [f32],
    lattice_beam: f32,
}

impl Survivors<'_> {
    /// Places of the tokens of a time among `extras`.
    fn tokens(&self, time: usize) -> std::ops::Range<usize> {
        let (tokens, first) = (self.trace.tokens_at(time), self.trace.tokens_at(*self.times.start()).start);
        tokens.start - first..tokens.end - first
    }

    /// Bias state of a token, by its place among `extras`.
    fn bias_of(&self, token: usize) -> u32 {
        self.trace.bias_of(self.trace.tokens_at(*self.times.start()).start + token)
    }

    /// Calls `visit(link, state of its source, src, dst)` for each surviving link into the times
    /// from `first` on, in the order of the trace; `src` and `dst` are places among `extras`.
    fn each_link(
        &self,
        first: usize,
        mut visit: impl FnMut(&TraceLink, u32, usize, usize) -> Result<()>,
    ) -> Result<()> {
        for time in first..=*self.times.end() {
            let here = self.tokens(time).start;
            let before = (time > *self.times.start()).then(|| self.tokens(time - 1).start);
            for link in self.trace.links_at(time) {
                let dst = here + link.dst as usize;
                if link.extra + self.extras[dst] <= self.lattice_beam
                    && let Some(src) = source(link, here, before)
                {
                    let state = match src.checked_sub(here) {
                        Some(place) => self.trace.states_at(time)[place],
                        None => self.trace.states_at(time - 1)[link.src as usize],
                    };
                    visit(link, state, src, dst)?;
                }
            }
        }
        Ok(())
    }

    /// The stretch, with the links into the times from `first` on.
    fn stretch(&self, first: usize) -> Result<Stretch> {
        let mut state_of: Vec<u32> = Vec::new();
        let count = self.tokens(*self.times.end()).end;
        try_reserve(&mut state_of, count, "lattice states")?;
        let mut num_states = 0u32;
        for &extra in &self.extras[..count] {
            state_of.push(num_states);
            num_states += u32::from(extra <= self.lattice_beam);
        }
        let too_large = || Error::Limit("the lattice has more than 2^32 arcs".into());
        // Arcs grouped by source: links come by (dst, file arc), and counting keeps that order.
        let mut offsets = try_filled(0u32, num_states as usize + 1, "lattice states")?;
        let mut num_arcs = 0u32;
        self.each_link(first, |_, _, src, _| {
            offsets[state_of[src] as usize + 1] += 1;
            num_arcs = num_arcs.checked_add(1).ok_or_else(too_large)?;
            Ok(())
        })?;
        for state in 1..offsets.len() {
            offsets[state] += offsets[state - 1];
        }
        let mut next_arc = Vec::new();
        try_reserve(&mut next_arc, offsets.len(), "lattice states")?;
        next_arc.extend_from_slice(&offsets);
        let blank = LatticeArc { next: 0, ilabel: 0, olabel: 0, weight: LatticeWeight::ONE };
        let mut arcs = try_filled(blank, num_arcs as usize, "lattice arcs")?;
        let mut bias = try_filled(0.0, if self.bias.is_on() { arcs.len() } else { 0 }, "lattice arcs")?;
        self.each_link(first, |link, state, src, dst| {
            let slot = &mut next_arc[state_of[src] as usize];
            let olabel = self.graph.olabel(link.arc);
            if let Some(cost) = bias.get_mut(*slot as usize) {
                *cost = self.bias.cost(self.bias_of(src), self.bias_of(dst), olabel);
            }
            arcs[*slot as usize] = LatticeArc {
                next: state_of[dst],
                ilabel: self.graph.ilabel(state, link.arc),
                olabel,
                weight: LatticeWeight { graph: self.graph.state(state).weight(link.arc), acoustic: link.acoustic },
            };
            *slot += 1;
            Ok(())
        })?;
        Ok(Stretch { arcs, offsets, bias, state_of })
    }

    /// Places of the surviving tokens of a time.
    fn alive(&self, time: usize) -> impl Iterator<Item = usize> {
        self.tokens(time).filter(|&token| self.extras[token] <= self.lattice_beam)
    }

    /// Places of the tokens of the last time where paths end, their final costs and bias costs.
    fn ends(&self, last: usize, ends: &Ends) -> impl Iterator<Item = (usize, LatticeWeight, f32)> {
        let costs = ends.final_costs.iter().zip(&ends.held);
        let within = self.tokens(last).zip(ends.extras.iter().zip(costs));
        let within = within.filter(|(_, (extra, _))| **extra <= self.lattice_beam);
        within.map(|(token, (_, (&graph, &held)))| (token, LatticeWeight { graph, acoustic: 0.0 }, held))
    }

    /// By what a token is known while the trace changes. Ascending in the order of tokens.
    fn key(&self, time: usize, token: usize) -> u128 {
        let state = self.trace.states_at(time)[token - self.tokens(time).start];
        u128::from(self.graph.state(state).header.level) << 64
            | u128::from(state) << 32
            | u128::from(self.bias_of(token))
    }

    /// A piece of a growing lattice: the stretch behind its first time, or from the start. Bias costs
    /// are part of its graph costs.
    fn piece(&self, from_start: bool) -> Result<(LatticePiece, Vec<u32>)> {
        let first = *self.times.start();
        let Stretch { mut arcs, offsets, bias, state_of } = self.stretch(if from_start { first } else { first + 1 })?;
        for (arc, &bias) in arcs.iter_mut().zip(&bias) {
            arc.weight = arc.weight.with_bias(bias)?;
        }
        let mut entries = Vec::new();
        try_reserve(&mut entries, self.tokens(first).len() + 1, "lattice states")?;
        match from_start {
            true => entries.push(LatticePiece::START),
            false => entries.extend(self.alive(first).map(|token| self.key(first, token))),
        }
        Ok((LatticePiece { arcs, offsets, entries, exits: Exits::default() }, state_of))
    }
}

impl Trace {
    /// The raw lattice with the given ends, one for each token of the last time.
    pub fn lattice(
        &self,
        graph: &Graph,
        bias: &Bias,
        ends: &Ends,
        lattice_beam: f32,
        acoustic_scale: f32,
    ) -> Result<RawLattice> {
        match self.num_times().checked_sub(1) {
            Some(last) => self.lattice_to(last, graph, bias, ends, lattice_beam, acoustic_scale),
            None => Ok(RawLattice::empty(acoustic_scale)),
        }
    }

    /// The same with the given ends for the tokens of time `last`. Times count from the first one held.
    fn lattice_to(
        &self,
        last: usize,
        graph: &Graph,
        bias: &Bias,
        ends: &Ends,
        lattice_beam: f32,
        acoustic_scale: f32,
    ) -> Result<RawLattice> {
        let base = self.base();
        let mut extras = Vec::new();
        self.extras(base, last, ends.extras.iter().copied(), lattice_beam, &mut extras)?;
        let survivors = Survivors { trace: self, graph, bias, times: base..=last, extras: &extras, lattice_beam };
        let Stretch { arcs, offsets, bias: arc_costs, state_of } = survivors.stretch(base)?;
        let num_states = offsets.len() - 1;
        let mut finals = try_filled(LatticeWeight::ZERO, num_states, "lattice states")?;
        let mut end_costs = try_filled(0.0, if bias.is_on() { num_states } else { 0 }, "lattice states")?;
        for (token, weight, held) in survivors.ends(last, ends) {
            let state = state_of[token] as usize;
            finals[state] = weight;
            if let Some(cost) = end_costs.get_mut(state) {
                *cost = held;
            }
        }
        let mut times = Vec::new();
        try_reserve(&mut times, num_states, "lattice states")?;
        for time in base..=last {
            times.extend(survivors.alive(time).map(|_| (time - base) as u32));
        }
        let (num_frames, reached_final) = ((last - base) as u32, ends.reached_final);
        let bias = BiasCosts { arcs: arc_costs, finals: end_costs };
        Ok(RawLattice { arcs, offsets, finals, bias, times, acoustic_scale, num_frames, reached_final })
    }

    /// The lattice from the first time held to token `token` of time `time`, where it ends at no cost: what is
    /// held there goes on being held.
    pub(super) fn lattice_into(
        &self,
        (time, token): (usize, u32),
        graph: &Graph,
        bias: &Bias,
        lattice_beam: f32,
        acoustic_scale: f32,
    ) -> Result<RawLattice> {
        let tokens = self.states_at(time).len();
        let mut ends = Ends {
            extras: try_filled(f32::INFINITY, tokens, "end values")?,
            final_costs: try_filled(0.0, tokens, "end values")?,
            held: try_filled(0.0, tokens, "end values")?,
            reached_final: false,
        };
        ends.extras[token as usize] = 0.0;
        self.lattice_to(time, graph, bias, &ends, lattice_beam, acoustic_scale)
    }

    /// The piece of the lattice from time `from`, or from the start, to time `to`, as it can be
    /// told `ahead` times later, all of which the trace holds.
    pub fn piece(
        &self,
        graph: &Graph,
        bias: &Bias,
        from: Option<usize>,
        to: usize,
        ahead: usize,
        lattice_beam: f32,
    ) -> Result<LatticePiece> {
        let first = from.unwrap_or(self.base());
        let mut extras = Vec::new();
        self.extras(first, to + ahead, std::iter::repeat(0.0), lattice_beam, &mut extras)?;
        let survivors = Survivors { trace: self, graph, bias, times: first..=to, extras: &extras, lattice_beam };
        let (mut piece, state_of) = survivors.piece(from.is_none())?;
        let mut exits = Vec::new();
        try_reserve(&mut exits, survivors.tokens(to).len(), "lattice states")?;
        exits.extend(survivors.alive(to).map(|token| Exit {
            state: state_of[token],
            key: survivors.key(to, token),
            extra: extras[token],
        }));
        piece.exits = Exits::On(exits);
        Ok(piece)
    }

    /// The piece from time `from`, or from the start, to the last time, with its ends.
    pub fn last_piece(
        &self,
        graph: &Graph,
        bias: &Bias,
        from: Option<usize>,
        ends: &Ends,
        lattice_beam: f32,
    ) -> Result<LatticePiece> {
        let Some(last) = self.num_times().checked_sub(1) else { return Ok(LatticePiece::default()) };
        let first = from.unwrap_or(self.base());
        let mut extras = Vec::new();
        self.extras(first, last, ends.extras.iter().copied(), lattice_beam, &mut extras)?;
        let survivors = Survivors { trace: self, graph, bias, times: first..=last, extras: &extras, lattice_beam };
        let (mut piece, state_of) = survivors.piece(from.is_none())?;
        let mut finals = Vec::new();
        try_reserve(&mut finals, survivors.tokens(last).len(), "lattice states")?;
        for (token, weight, held) in survivors.ends(last, ends) {
            finals.push((state_of[token], weight.with_bias(held)?));
        }
        piece.exits = Exits::Ends(finals);
        Ok(piece)
    }
}
