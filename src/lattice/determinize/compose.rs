//! The source of one step of incremental determinization: what is not settled yet, and behind it
//! the next piece of the lattice.
//!
//! ```text
//! 0 ─ entry label ─ states of the tail ─ leaves ─ states of the piece ─ exit label ─ last state
//! ```
//!
//! Entry and exit labels are treated as words, so that a path is kept for each entry and exit
//! (Chen et al. 2019, "Incremental lattice determinization for WFST decoders"). An entry costs
//! what the best way to it costs, and an exit what makes the total of a path the least by which
//! the whole lattice's paths through there lie above the best: then the beam of the whole is
//! the beam of the step.

use crate::error::{Error, Result, try_filled, try_reserve};
use crate::table::Transitions;

use super::costs::Costs;
use super::phones::phone_that_begins;
use super::piece::{Exits, LatticePiece};
use super::segments::{End, Segment, Segments, Span};
use super::source::{phone_label, word_label};

/// A way out of the tail: from one of its states to an exit of the last piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    pub state: u32,
    pub key: u128,
    pub costs: Costs,
    pub string: Span,
}

/// What has been determinized but may still change: the states with a leaf, and those that they
/// lead to.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// States and the links between them; none ends. Holds the strings of the leaves too.
    pub segments: Segments,
    /// By ascending state.
    pub leaves: Vec<Leaf>,
    /// The states to which settled states lead.
    pub entries: Vec<u32>,
}

impl Tail {
    /// Before the first piece: one state, from which its start is reached.
    pub fn start() -> Tail {
        let leaf = Leaf { state: 0, key: LatticePiece::START, costs: Costs::ONE, string: Span::default() };
        let segments = Segments { offsets: vec![0, 0], ends: vec![None], ..Segments::default() };
        Tail { segments, leaves: vec![leaf], entries: vec![0] }
    }

    fn num_states(&self) -> usize {
        self.segments.ends.len()
    }
}

/// The labels that are neither words nor phones: odd as those of phones, and above them all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Specials {
    first: u32,
    entries: u32,
}

impl Specials {
    fn new(phones: Option<&Transitions>, entries: usize, exits: usize) -> Result<Specials> {
        let greatest = phones.and_then(|model| model.phones().last().copied()).unwrap_or(0);
        let first = u64::from(phone_label(greatest)) + 2;
        if first + 2 * (entries as u64 + exits as u64) > u64::from(u32::MAX) {
            return Err(Error::Limit(format!("determinization: {entries} ways in and {exits} out are too many")));
        }
        Ok(Specials { first: first as u32, entries: entries as u32 })
    }

    /// Labels of phones are not above this.
    pub fn last_phone(&self) -> u32 {
        self.first - 2
    }

    /// The first label of an exit.
    pub fn first_exit(&self) -> u32 {
        self.first + 2 * self.entries
    }

    /// The label of an entry.
    pub fn entry(&self, number: u32) -> u32 {
        self.first + 2 * number
    }

    /// The number of the exit, if the label is that of one.
    pub fn exit(&self, label: u32) -> Option<usize> {
        let special = label & 1 == 1 && label >= self.first_exit();
        special.then(|| ((label - self.first_exit()) / 2) as usize)
    }
}

/// What a step determinizes.
pub(super) struct Composed {
    pub segments: Segments,
    pub specials: Specials,
    /// By exit, what its label costs in this step alone.
    pub exit_costs: Vec<f64>,
}

/// Puts tail and piece together. `entry_costs` are those of the tail's entries.
pub(super) fn compose(
    tail: &Tail,
    piece: &LatticePiece,
    entry_costs: &[f64],
    phones: Option<&Transitions>,
    scale: f64,
) -> Result<Composed> {
    let exits = match &piece.exits {
        Exits::On(exits) => exits.len(),
        Exits::Ends(_) => 0,
    };
    let specials = Specials::new(phones, tail.entries.len(), exits)?;
    let phones = arc_phones(piece, phones)?;
    let number = numbers(tail, piece, &phones)?;
    let mut draft = Draft::new(number[piece.num_states()] as usize + 1, scale)?;
    for (entry, (&state, &cost)) in tail.entries.iter().zip(entry_costs).enumerate() {
        let costs = Costs { graph: cost, acoustic: 0.0 };
        draft.link(1 + state, specials.entry(entry as u32), costs, &[])?;
    }
    draft.end_state(None)?;
    add_tail(tail, piece, &number, &mut draft)?;
    let exit_costs = add_piece(piece, &phones, &number, specials, &mut draft)?;
    let on = matches!(piece.exits, Exits::On(_));
    draft.end_state(on.then_some(Costs::ONE))?;
    Ok(Composed { segments: draft.segments, specials, exit_costs })
}

/// By arc the phone that begins on it, 0 for none.
fn arc_phones(piece: &LatticePiece, phones: Option<&Transitions>) -> Result<Vec<i32>> {
    let mut begins = try_filled(0, piece.arcs.len(), WHAT)?;
    let Some(model) = phones else { return Ok(begins) };
    // Arcs of the start have none, as in the pass over a whole lattice.
    let whole_start = piece.entries.first() == Some(&LatticePiece::START);
    let first = if whole_start { piece.offsets.get(1).copied().unwrap_or(0) as usize } else { 0 };
    for (at, arc) in piece.arcs.iter().enumerate().skip(first) {
        begins[at] = phone_that_begins(model, arc.ilabel, at)?;
    }
    Ok(begins)
}

/// The number of each state of the piece, and of the state behind all. Behind a state stand those
/// in the middle of its arcs that carry a word and then a phone.
fn numbers(tail: &Tail, piece: &LatticePiece, phones: &[i32]) -> Result<Vec<u32>> {
    let states = piece.num_states();
    let mut number = Vec::new();
    try_reserve(&mut number, states + 1, WHAT)?;
    let mut next = 1 + tail.num_states() as u64;
    for state in 0..states {
        number.push(next as u32);
        let arcs = piece.offsets[state] as usize..piece.offsets[state + 1] as usize;
        next += 1 + arcs.filter(|&arc| phones[arc] != 0 && piece.arcs[arc].olabel != 0).count() as u64;
    }
    number.push(next as u32);
    if next + 1 >= u64::from(u32::MAX) {
        return Err(Error::Limit("determinization: more than 2^32 - 2 states".to_string()));
    }
    Ok(number)
}

fn add_tail(tail: &Tail, piece: &LatticePiece, number: &[u32], draft: &mut Draft) -> Result<()> {
    let mut leaves = tail.leaves.as_slice();
    for state in 0..tail.num_states() {
        for at in tail.segments.offsets[state] as usize..tail.segments.offsets[state + 1] as usize {
            let Segment { next, label, costs, string } = tail.segments.segments[at];
            draft.link(1 + next, label, costs, tail.segments.string(string))?;
        }
        let (here, rest) = leaves.split_at(leaves.partition_point(|leaf| leaf.state as usize <= state));
        leaves = rest;
        for leaf in here {
            // Where the piece has no such state, it lies too far above the best by now.
            if let Ok(entry) = piece.entries.binary_search(&leaf.key) {
                draft.link(number[entry], 0, leaf.costs, tail.segments.string(leaf.string))?;
            }
        }
        draft.end_state(None)?;
    }
    Ok(())
}

/// Adds the states of the piece; gives what the labels of its exits cost.
fn add_piece(
    piece: &LatticePiece,
    phones: &[i32],
    number: &[u32],
    specials: Specials,
    draft: &mut Draft,
) -> Result<Vec<f64>> {
    let states = piece.num_states();
    let mut exit_at = try_filled(NONE, states, WHAT)?;
    let mut ends = try_filled(None, states, WHAT)?;
    let mut exit_costs = Vec::new();
    match &piece.exits {
        Exits::On(exits) => {
            exit_costs = try_filled(0.0, exits.len(), WHAT)?;
            exits.iter().enumerate().for_each(|(at, exit)| exit_at[exit.state as usize] = at as u32);
        }
        Exits::Ends(all) => all.iter().for_each(|&(state, weight)| ends[state as usize] = Some(Costs::from(weight))),
    }
    for state in 0..states {
        let arcs = piece.offsets[state] as usize..piece.offsets[state + 1] as usize;
        let cut = |arc: &usize| phones[*arc] != 0 && piece.arcs[*arc].olabel != 0;
        let mut middle = number[state] + 1;
        for at in arcs.clone() {
            let (arc, phone) = (&piece.arcs[at], phones[at]);
            let string: &[i32] = if arc.ilabel != 0 { std::slice::from_ref(&arc.ilabel) } else { &[] };
            let label = match (arc.olabel, phone) {
                (0, 0) => 0,
                (0, phone) => phone_label(phone),
                (word, _) => word_label(word),
            };
            let next = if cut(&at) { middle } else { number[arc.next as usize] };
            middle += u32::from(cut(&at));
            draft.link(next, label, Costs::from(arc.weight), string)?;
        }
        if let (Exits::On(exits), Some(cost)) = (&piece.exits, draft.cost_from_start())
            && let (at, Some(exit)) = (exit_at[state], exits.get(exit_at[state] as usize))
        {
            exit_costs[at as usize] = floored(f64::from(exit.extra) - cost);
            let costs = Costs { graph: exit_costs[at as usize], acoustic: 0.0 };
            draft.link(number[states], specials.first_exit() + 2 * at, costs, &[])?;
        }
        draft.end_state(ends[state])?;
        for at in arcs.filter(cut) {
            draft.link(number[piece.arcs[at].next as usize], phone_label(phones[at]), Costs::ONE, &[])?;
            draft.end_state(None)?;
        }
    }
    Ok(exit_costs)
}

const NONE: u32 = u32::MAX;

/// What the labels of entries and exits cost is rounded down to multiples of this: then it can be
/// added and taken away again without a trace, and equal costs stay equal.
pub(super) const QUANTUM: f64 = 1.0 / 1024.0;

/// The multiple of [`QUANTUM`] that is not above `cost`.
pub(super) fn floored(cost: f64) -> f64 {
    (cost / QUANTUM).floor() * QUANTUM
}

/// What the memory of this file is for, in messages.
const WHAT: &str = "determinization: a piece of a lattice";

/// A source while its states are added in order.
struct Draft {
    segments: Segments,
    /// Least cost from the start, by state.
    from_start: Vec<f64>,
    scale: f64,
}

impl Draft {
    fn new(states: usize, scale: f64) -> Result<Draft> {
        let mut from_start = try_filled(f64::INFINITY, states, WHAT)?;
        from_start.iter_mut().take(1).for_each(|cost| *cost = 0.0);
        let mut segments = Segments { offsets: vec![0], ..Segments::default() };
        try_reserve(&mut segments.offsets, states, WHAT)?;
        try_reserve(&mut segments.ends, states, WHAT)?;
        Ok(Draft { segments, from_start, scale })
    }

    /// Least cost from the start to the state at hand; `None` where no link leads to it.
    fn cost_from_start(&self) -> Option<f64> {
        let cost = self.from_start[self.segments.ends.len()];
        (cost < f64::INFINITY).then_some(cost)
    }

    /// A link out of the state at hand.
    fn link(&mut self, next: u32, label: u32, costs: Costs, string: &[i32]) -> Result<()> {
        let cost = self.from_start[self.segments.ends.len()] + costs.total(self.scale);
        let known = &mut self.from_start[next as usize];
        *known = known.min(cost);
        let string = self.segments.push_string(string)?;
        try_reserve(&mut self.segments.segments, 1, WHAT)?;
        self.segments.segments.push(Segment { next, label, costs, string });
        Ok(())
    }

    /// No more links leave the state at hand; the next one follows.
    fn end_state(&mut self, end: Option<Costs>) -> Result<()> {
        let segments = &mut self.segments;
        let links = u32::try_from(segments.segments.len());
        let links = links.map_err(|_| Error::Limit("determinization: more than 2^32 arcs".to_string()))?;
        segments.ends.push(end.map(|costs| End { costs, string: Span::default() }));
        segments.offsets.push(links);
        Ok(())
    }
}
