//! One time of the search: candidates to tokens and links (pass 2), closure, emission.

use std::ops::Range;

use crate::error::{Error, Result, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS, Header};
use crate::search::{EPSILON, Link, Room, SearchConfig, TimeStart, Window, grow, largest_fitting};

use super::biasing::Biasing;
use super::hash::{Slots, StateHash};
use super::levels::LevelQueue;

/// Working space of a thread while it advances a channel. Nothing of a channel is kept in it
/// between frames.
pub(super) struct Scratch {
    pub hash: StateHash<u32>,
    /// The same with bias states.
    pub pairs: StateHash<u64>,
    /// Bias states of the candidates; empty without phrases.
    pub bias: Vec<u32>,
    /// Scaled acoustic costs of the present row.
    pub row_costs: Vec<f32>,
    pub levels: LevelQueue,
    /// Tokens with epsilon arcs, before they are put in the queue, and those of one level, out of it.
    pub closing: Vec<u32>,
    pub level: Vec<u32>,
    /// For selections.
    pub room: Vec<f32>,
    pub backward: Room,
}

impl Scratch {
    pub fn new(max_level: u32) -> Result<Scratch> {
        Ok(Scratch {
            hash: StateHash::new(),
            pairs: StateHash::new(),
            bias: Vec::new(),
            row_costs: Vec::new(),
            levels: LevelQueue::new(max_level)?,
            closing: Vec::new(),
            level: Vec::new(),
            room: Vec::new(),
            backward: Room::default(),
        })
    }

    /// Empties what belongs to a time, for one of so many candidates.
    fn start<B: Biasing>(&mut self, candidates: usize) -> Result<()> {
        self.levels.clear();
        B::table(&mut self.hash, &mut self.pairs).start(candidates)
    }

    pub fn memory(&self) -> usize {
        self.hash.memory()
            + self.pairs.memory()
            + self.levels.memory()
            + [&self.bias, &self.closing, &self.level].map(|list| list.capacity() * 4).iter().sum::<usize>()
            + [&self.row_costs, &self.room].map(|list| list.capacity() * 4).iter().sum::<usize>()
            + self.backward.memory()
    }
}

/// What became of a time.
pub(super) struct Settled {
    /// The bound that held in the end.
    pub theta: f32,
    /// Least cost of a token.
    pub least: f32,
    /// Epsilon arcs looked at.
    pub arcs: u64,
    /// Whether a capacity tightened theta.
    pub capacity_held: bool,
}

/// Turns the candidates of a time, which stand as links behind `end` in `window`, into tokens and links, closes them
/// under epsilon arcs, and applies the capacities. The window's parts from `end` on hold the
/// new time; on an error the caller cuts them off. `frame` is `None` at time 0, where the only
/// candidate is the start state, which no link leads to. `best` is the least candidate.
pub(super) fn settle<B: Biasing>(
    graph: &Graph,
    bias: B,
    config: &SearchConfig,
    frame: Option<u64>,
    (best, mut theta): (f32, f32),
    scratch: &mut Scratch,
    (window, end): (&mut Window, TimeStart),
) -> Result<Settled> {
    let mut capacity_held = false;
    let mut arcs = 0;
    let fit = |theta: f32, costs: &mut Vec<f32>, capacity: u64, what: &'static str| -> Result<Option<f32>> {
        let bound = usize::try_from(capacity).unwrap_or(usize::MAX);
        if costs.len() <= bound {
            return Ok(None);
        }
        costs.retain(|&cost| cost <= theta);
        if costs.len() <= bound {
            return Ok(None);
        }
        let too_many = Error::Capacity { frame: frame.unwrap_or(0), what, capacity };
        largest_fitting(costs, bound).map(Some).ok_or(too_many)
    };
    let mut last_struck = ("candidates", config.candidate_capacity);

    if (window.links.len() - end.links) as u64 > config.candidate_capacity {
        refill(&mut scratch.room, window.links[end.links..].iter().map(|link| link.cost))?;
        if let Some(tighter) = fit(theta, &mut scratch.room, config.candidate_capacity, "candidates")? {
            theta = tighter;
            capacity_held = true;
        }
    }
    // Tokens first, then links, until both fit: theta only falls, so this ends.
    loop {
        scratch.start::<B>(window.links.len() - end.links)?;
        insert::<B>(theta, scratch, window, end)?;
        queue(graph, scratch, &window.states[end.tokens..], 0)?;
        let inserted = window.links.len();
        if window.states.len() == end.tokens {
            // With negative epsilon weights a bound on tokens or links may lie below every
            // candidate.
            let (what, capacity) = last_struck;
            return Err(Error::Capacity { frame: frame.unwrap_or(0), what, capacity });
        }
        if frame.is_none() {
            window.links.truncate(end.links);
        }
        let closed = close(graph, bias, theta, scratch, window, end.tokens)?;
        arcs += closed.arcs;

        if (window.states.len() - end.tokens) as u64 > config.token_capacity {
            refill(&mut scratch.room, window.alphas[end.tokens..].iter().copied())?;
            if let Some(tighter) = fit(theta, &mut scratch.room, config.token_capacity, "tokens")? {
                theta = tighter;
                capacity_held = true;
                last_struck = ("tokens", config.token_capacity);
                take_back(scratch, window, end, inserted, frame.is_none());
                continue;
            }
        }
        if (window.links.len() - end.links) as u64 > config.link_capacity {
            refill(&mut scratch.room, window.links[end.links..].iter().map(|link| link.cost))?;
            if let Some(tighter) = fit(theta, &mut scratch.room, config.link_capacity, "links")? {
                theta = tighter;
                capacity_held = true;
                last_struck = ("links", config.link_capacity);
                take_back(scratch, window, end, inserted, frame.is_none());
                continue;
            }
        }
        let least = if closed.least < best { closed.least } else { best };
        return Ok(Settled { theta, least, arcs, capacity_held });
    }
}

/// Fills working space for a selection.
pub(super) fn refill(room: &mut Vec<f32>, costs: impl ExactSizeIterator<Item = f32>) -> Result<()> {
    room.clear();
    try_reserve(room, costs.len(), "selection")?;
    room.extend(costs);
    Ok(())
}

/// Makes candidates of the links of emitting arcs again, which end at `inserted`, and drops what was made of them.
/// `first`: at time 0, where the one candidate is no link.
fn take_back(scratch: &mut Scratch, window: &mut Window, end: TimeStart, inserted: usize, first: bool) {
    let Window { links, states, bias, .. } = window;
    // There was room for as many before, here and below.
    links.truncate(if first { end.links } else { inserted });
    links.extend(first.then_some(Link { src: 0, arc: 0, cost: 0.0, dst: 0 }));
    scratch.bias.clear();
    for link in &mut links[end.links..] {
        let token = end.tokens + link.dst as usize;
        link.dst = states[token];
        scratch.bias.extend(bias.get(token));
    }
    window.cut(TimeStart { links: inserted, ..end });
}

/// How many candidates ahead their slots are asked for.
const SLOTS_AHEAD: usize = 8;

/// Pass 2: all candidates within theta, which stand behind `from` in the window, become links, their states tokens.
/// The tokens of the time begin where `from` says, its candidates perhaps later: some may have become links already.
fn insert<B: Biasing>(theta: f32, scratch: &mut Scratch, window: &mut Window, from: TimeStart) -> Result<()> {
    let Scratch { hash, pairs, bias, .. } = scratch;
    let hash = B::table(hash, pairs);
    let count = window.links.len() - from.links;
    window.reserve(count, 0)?;
    if B::ON {
        try_reserve(&mut window.bias, count, "tokens")?;
    }
    if window.links.len() >= EPSILON as usize {
        return Err(Error::Limit("more links between two prunings than 2^31".into()));
    }
    // Tokens are known by destination words, of which a state has one.
    let first = from.tokens;
    let before = window.states.len() - first;
    while hash.fits() < before + count {
        let biases = &B::states(&window.bias, window.states.len())[first..];
        hash.grow(window.states[first..].iter().zip(biases).map(|(&state, &bias)| B::key(state, bias)))?;
    }
    let Window { states, bias: token_bias, alphas, links, .. } = window;
    // SAFETY: there are `before` tokens from `first` on, and `reserve` made room for as many more as there are
    // candidates. The lengths cover written records only.
    unsafe {
        let tokens = Tokens {
            states: states.as_mut_ptr().add(first),
            alphas: alphas.as_mut_ptr().add(first),
            bias: if B::ON { token_bias.as_mut_ptr().add(first) } else { std::ptr::null_mut() },
        };
        let (tokens, kept) =
            number::<B>(theta, &mut links[from.links..], B::states(bias, count), tokens, before, hash.slots());
        let kept = kept.offset_from_unsigned(links.as_mut_ptr());
        states.set_len(first + tokens);
        alphas.set_len(first + tokens);
        token_bias.set_len(if B::ON { first + tokens } else { 0 });
        links.truncate(kept);
    }
    Ok(())
}

/// Where the tokens of a time begin.
struct Tokens {
    states: *mut u32,
    alphas: *mut f32,
    /// Not used without phrases.
    bias: *mut u32,
}

/// Gives each of `candidates` within theta the number of its token in place of its destination, and moves them up.
/// How many tokens there are then, and how many candidates are left.
///
/// # Safety
/// `tokens` has `before` of them, those of which the table knows, and room for as many more as there are candidates;
/// there is a bias state for each candidate.
// On their own this loop and those below keep their registers.
#[inline(never)]
unsafe fn number<B: Biasing>(
    theta: f32,
    candidates: &mut [Link],
    biases: &[B::State],
    tokens: Tokens,
    before: usize,
    mut slots: Slots<'_, B::Key>,
) -> (usize, *mut Link) {
    let Tokens { states, alphas, bias: bias_to } = tokens;
    let mut tokens = before;
    let Range { start, end } = candidates.as_mut_ptr_range();
    if candidates.is_empty() {
        return (tokens, start);
    }
    // SAFETY: each candidate adds at most one token, so every write of one lies within the room: `tokens < before +
    // candidates.len()` whenever one is written, since each earlier candidate counted at most one. A token that the
    // table answers with is below `tokens` after counting, so its cost has been written. `first..=last` are the
    // candidates; `kept <= at` whenever it is written.
    unsafe {
        let last = end.sub(1);
        let bias_of = |link: *mut Link| *biases.get_unchecked(link.offset_from_unsigned(start));
        let (mut at, mut kept) = (start, start);
        while at <= last {
            let ahead = at.wrapping_add(SLOTS_AHEAD).min(last);
            slots.prefetch(B::key((*ahead).dst, bias_of(ahead)));
            let (link, bias) = (*at, bias_of(at));
            at = at.add(1);
            if link.cost > theta {
                continue;
            }
            // Written always, counted if the state is new.
            states.add(tokens).write(link.dst);
            alphas.add(tokens).write(f32::INFINITY);
            if let Some(bias) = B::number(bias) {
                bias_to.add(tokens).write(bias);
            }
            let (token, new) = slots.find_or_insert(B::key(link.dst, bias), tokens as u32);
            tokens += usize::from(new);
            let alpha = alphas.add(token as usize);
            *alpha = if link.cost < *alpha { link.cost } else { *alpha };
            *kept = Link { dst: token, ..link };
            kept = kept.add(1);
        }
        (tokens, kept)
    }
}

/// How many tokens ahead the blocks of those with epsilon arcs are asked for.
const AHEAD: usize = 12;

/// Queues the tokens with epsilon arcs among those of a time, `states`, from token `first` on.
#[inline(never)]
fn queue(graph: &Graph, scratch: &mut Scratch, states: &[u32], first: usize) -> Result<()> {
    let Scratch { levels, closing, .. } = scratch;
    let most = states.len() - first;
    if closing.len() < most {
        let more = most - closing.len();
        try_reserve(closing, more, "tokens")?;
        closing.resize(most, 0);
    }
    // Written always, counted if they have some.
    let mut count = 0;
    for (token, &state) in states.iter().enumerate().skip(first) {
        closing[count] = token as u32;
        count += usize::from(state & HAS_EPSILONS != 0);
    }
    let closing = &closing[..count];
    levels.reserve(count)?;
    for (at, &token) in closing.iter().enumerate() {
        if let Some(&ahead) = closing.get(at + AHEAD) {
            graph.prefetch(states[ahead as usize] & !HAS_EPSILONS);
        }
        levels.push(Header::unpack(graph.words(), states[token as usize] & !HAS_EPSILONS).level, token)?;
    }
    Ok(())
}

/// What the closure found.
struct Closed {
    /// Epsilon arcs looked at.
    arcs: u64,
    /// The least cost that one led to; `+inf` if there is none.
    least: f32,
}

/// Follows epsilon arcs to the fixpoint. By ascending level: when a token's turn comes, its
/// cost is final, so each is expanded once.
fn close<B: Biasing>(
    graph: &Graph,
    bias: B,
    theta: f32,
    scratch: &mut Scratch,
    window: &mut Window,
    first_token: usize,
) -> Result<Closed> {
    let mut closed = Closed { arcs: 0, least: f32::INFINITY };
    while let Some(level) = scratch.levels.take(&mut scratch.level)? {
        let from = TimeStart { tokens: first_token, ..window.end() };
        let tokens = window.states.len() - first_token;
        lead_on(graph, bias, theta, scratch, (&mut *window, first_token), &mut closed)?;
        insert::<B>(theta, scratch, window, from)?;
        let states = &window.states[first_token..];
        if !graph.is_sound() {
            check_levels(graph, states, &window.links[from.links..], level)?;
        }
        queue(graph, scratch, states, tokens)?;
    }
    Ok(closed)
}

/// Puts the candidates within theta of the epsilon arcs of the tokens `scratch.level` behind the links.
#[inline(never)]
fn lead_on<B: Biasing>(
    graph: &Graph,
    bias: B,
    theta: f32,
    scratch: &mut Scratch,
    (window, first_token): (&mut Window, usize),
    closed: &mut Closed,
) -> Result<()> {
    let words = graph.words();
    let (states, alphas) = (&window.states[first_token..], &window.alphas[first_token..]);
    let biases = &B::states(&window.bias, window.states.len())[first_token..];
    scratch.bias.clear();
    for &token in &scratch.level {
        let at = token as usize;
        let header = Header::unpack(words, states[at] & !HAS_EPSILONS);
        let (weights, dsts) = graph.epsilons(&header);
        let (alpha, from) = (alphas[at], biases[at]);
        grow(&mut window.links, weights.len(), "links")?;
        if B::ON {
            try_reserve(&mut scratch.bias, weights.len(), "candidates")?;
        }
        let first_arc = header.first_arc + header.n_emit as u32;
        closed.arcs += weights.len() as u64;
        for ((&weight, &dst), arc) in weights.iter().zip(dsts).zip(first_arc..) {
            let (to, weight) = bias.step(from, arc, weight);
            let cost = alpha + weight;
            if cost <= theta {
                closed.least = if cost < closed.least { cost } else { closed.least };
                window.links.push(Link { src: token | EPSILON, arc, cost, dst });
                scratch.bias.extend(B::number(to));
            }
        }
    }
    Ok(())
}

/// Refuses epsilon arcs from `level` that do not lead to a higher one. Else links could go round, or lie in no order; only
/// a graph cache that is still being checked has such.
fn check_levels(graph: &Graph, states: &[u32], links: &[Link], level: u32) -> Result<()> {
    for link in links {
        if Header::unpack(graph.words(), states[link.dst as usize] & !HAS_EPSILONS).level <= level {
            return Err(Error::Graph("a level that does not rise along an epsilon arc".into()));
        }
    }
    Ok(())
}
