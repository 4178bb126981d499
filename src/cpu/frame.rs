//! One time of the search: candidates to tokens and links (pass 2), closure, emission.

use crate::error::{Error, Result, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS, Header};
use crate::search::{EPSILON, Link, NO_LINK, Room, SearchConfig, Token, Window, largest_fitting};

use super::biasing::Biasing;
use super::expand::{Candidates, prefetch_block};
use super::hash::StateHash;
use super::levels::LevelQueue;

/// Working space of a thread while it advances a channel. Nothing of a channel is kept in it
/// between frames.
pub(super) struct Scratch {
    pub hash: StateHash<u32>,
    /// The same with bias states.
    pub pairs: StateHash<u64>,
    pub candidates: Candidates,
    /// Scaled acoustic costs of the present row.
    pub row_costs: Vec<f32>,
    pub levels: LevelQueue,
    /// Tokens with epsilon arcs, before they are put in the queue.
    pub closing: Vec<u32>,
    /// For selections.
    pub room: Vec<f32>,
    pub backward: Room,
}

impl Scratch {
    pub fn new(max_level: u32) -> Result<Scratch> {
        Ok(Scratch {
            hash: StateHash::new(),
            pairs: StateHash::new(),
            candidates: Candidates::default(),
            row_costs: Vec::new(),
            levels: LevelQueue::new(max_level)?,
            closing: Vec::new(),
            room: Vec::new(),
            backward: Room::default(),
        })
    }

    pub fn memory(&self) -> usize {
        self.hash.memory()
            + self.pairs.memory()
            + self.candidates.memory()
            + self.levels.memory()
            + (self.closing.capacity() + self.row_costs.capacity() + self.room.capacity()) * 4
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

/// Turns the candidates of a time into tokens and links at the end of `window`, closes them
/// under epsilon arcs, and applies the capacities. The window's parts from `end()` on hold the
/// new time; on an error the caller cuts them off. `frame` is `None` at time 0, where the only
/// candidate is the start state, which no link leads to. `best` is the least candidate.
pub(super) fn settle<B: Biasing>(
    graph: &Graph,
    bias: B,
    config: &SearchConfig,
    frame: Option<u64>,
    (best, mut theta): (f32, f32),
    scratch: &mut Scratch,
    window: &mut Window,
) -> Result<Settled> {
    let end = window.end();
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

    if scratch.candidates.len() as u64 > config.candidate_capacity {
        refill(&mut scratch.room, scratch.candidates.costs.iter().copied())?;
        if let Some(tighter) = fit(theta, &mut scratch.room, config.candidate_capacity, "candidates")? {
            theta = tighter;
            capacity_held = true;
        }
    }
    // Tokens first, then links, until both fit: theta only falls, so this ends.
    loop {
        window.cut(end);
        insert::<B>(graph, theta, scratch, window)?;
        if window.states.len() == end.tokens {
            // With negative epsilon weights a bound on tokens or links may lie below every
            // candidate.
            let (what, capacity) = last_struck;
            return Err(Error::Capacity { frame: frame.unwrap_or(0), what, capacity });
        }
        if frame.is_none() {
            window.links.truncate(end.links);
            window.tokens[end.tokens].head = NO_LINK;
        }
        let closed = close(graph, bias, theta, scratch, window, end.tokens)?;
        arcs += closed.arcs;

        if (window.states.len() - end.tokens) as u64 > config.token_capacity {
            refill(&mut scratch.room, window.tokens[end.tokens..].iter().map(|token| token.alpha))?;
            if let Some(tighter) = fit(theta, &mut scratch.room, config.token_capacity, "tokens")? {
                theta = tighter;
                capacity_held = true;
                last_struck = ("tokens", config.token_capacity);
                continue;
            }
        }
        if (window.links.len() - end.links) as u64 > config.link_capacity {
            refill(&mut scratch.room, window.links[end.links..].iter().map(|link| link.cost))?;
            if let Some(tighter) = fit(theta, &mut scratch.room, config.link_capacity, "links")? {
                theta = tighter;
                capacity_held = true;
                last_struck = ("links", config.link_capacity);
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

/// Pass 2: all candidates within theta become links, their states tokens.
// On their own this loop and the next keep their registers.
#[inline(never)]
fn insert<B: Biasing>(graph: &Graph, theta: f32, scratch: &mut Scratch, window: &mut Window) -> Result<()> {
    let Scratch { hash, pairs, candidates, levels, closing, .. } = scratch;
    let hash = B::table(hash, pairs);
    let count = candidates.len();
    hash.start(count)?;
    levels.clear();
    window.reserve(count, count)?;
    if B::ON {
        try_reserve(&mut window.bias, count, "tokens")?;
    }
    if window.links.len() + count >= EPSILON as usize {
        return Err(Error::Limit("more links between two prunings than 2^31".into()));
    }
    let first_token = window.states.len();
    let first_link = window.links.len();
    let Candidates { costs, dsts, bias, srcs, arcs } = candidates;
    let (costs, dsts, srcs, arcs) = (&costs[..count], &dsts[..count], &srcs[..count], &arcs[..count]);
    let biases = B::states(bias, count);
    let mut slots = hash.slots();
    let (mut tokens, mut links) = (0usize, first_link as u32);
    // SAFETY: `reserve` made room for `count` more tokens and links, and each candidate adds at
    // most one of each, so every write lies within the capacity: `tokens < count` whenever a
    // token is written, since each earlier candidate counted at most one. A token that the hash
    // answers with is below `tokens` after counting, so its record has been written. The lengths
    // set at the end cover written records only.
    unsafe {
        let states_end = window.states.as_mut_ptr().add(first_token);
        let tokens_end = window.tokens.as_mut_ptr().add(first_token);
        let all_links = window.links.as_mut_ptr();
        let bias_end = window.bias.as_mut_ptr().wrapping_add(if B::ON { first_token } else { 0 });
        for at in 0..count {
            let (cost, dst, bias) = (costs[at], dsts[at], biases[at]);
            if cost > theta {
                continue;
            }
            // Written always, counted if the state is new.
            states_end.add(tokens).write(dst);
            tokens_end.add(tokens).write(Token { alpha: f32::INFINITY, head: NO_LINK });
            if let Some(bias) = B::number(bias) {
                bias_end.add(tokens).write(bias);
            }
            let (token, new) = slots.find_or_insert(B::key(dst & !HAS_EPSILONS, bias), tokens as u32);
            tokens += usize::from(new);
            let record = tokens_end.add(token as usize);
            let Token { alpha, head } = record.read();
            all_links.add(links as usize).write(Link { src: srcs[at], arc: arcs[at], cost, next: head });
            record.write(Token { alpha: if cost < alpha { cost } else { alpha }, head: links });
            links += 1;
        }
        window.states.set_len(first_token + tokens);
        window.bias.set_len(if B::ON { first_token + tokens } else { 0 });
        window.tokens.set_len(first_token + tokens);
        window.links.set_len(links as usize);
    }
    // Tokens with epsilon arcs: written always, counted if they have some.
    if closing.len() < tokens {
        let more = tokens - closing.len();
        try_reserve(closing, more, "tokens")?;
        closing.resize(tokens, 0);
    }
    let states = &window.states[first_token..];
    let mut count = 0;
    for (token, &state) in states.iter().enumerate() {
        closing[count] = token as u32;
        count += usize::from(state & HAS_EPSILONS != 0);
    }
    let closing = &closing[..count];
    levels.reserve(count)?;
    for (at, &token) in closing.iter().enumerate() {
        if let Some(&ahead) = closing.get(at + AHEAD) {
            prefetch_block(graph.words(), states[ahead as usize] & !HAS_EPSILONS);
        }
        levels.push(Header::unpack(graph.words(), states[token as usize] & !HAS_EPSILONS).level, token)?;
    }
    Ok(())
}

/// How many tokens ahead the blocks of those with epsilon arcs are asked for.
const AHEAD: usize = 12;

/// What the closure found.
struct Closed {
    /// Epsilon arcs looked at.
    arcs: u64,
    /// The least cost that one led to; `+inf` if there is none.
    least: f32,
}

/// Follows epsilon arcs to the fixpoint. By ascending level: when a token's turn comes, its
/// cost is final, so each is expanded once.
#[inline(never)]
fn close<B: Biasing>(
    graph: &Graph,
    bias: B,
    theta: f32,
    scratch: &mut Scratch,
    window: &mut Window,
    first_token: usize,
) -> Result<Closed> {
    let words = graph.words();
    let Scratch { hash, pairs, levels, .. } = scratch;
    let hash = B::table(hash, pairs);
    let mut fits = hash.fits();
    let mut slots = hash.slots();
    let mut closed = Closed { arcs: 0, least: f32::INFINITY };
    while let Some(token) = levels.pop() {
        try_reserve(&mut window.closed, 1, "tokens")?;
        window.closed.push(token);
        let at = first_token + token as usize;
        let header = Header::unpack(words, window.states[at] & !HAS_EPSILONS);
        let (weights, dsts) = graph.epsilons(&header);
        let alpha = window.tokens[at].alpha;
        let from = B::state(&window.bias, at);
        if B::ON {
            try_reserve(&mut window.bias, weights.len(), "tokens")?;
        }
        window.reserve(weights.len(), weights.len())?;
        let first_arc = header.first_arc + header.n_emit as u32;
        closed.arcs += weights.len() as u64;
        for (place, (&weight, &dst)) in weights.iter().zip(dsts).enumerate() {
            let (to_bias, weight) = bias.step(from, first_arc + place as u32, weight);
            let cost = alpha + weight;
            if cost > theta {
                continue;
            }
            closed.least = if cost < closed.least { cost } else { closed.least };
            let tokens = window.states.len() - first_token;
            if tokens >= fits {
                let biases = &B::states(&window.bias, window.states.len())[first_token..];
                let tokens = window.states[first_token..].iter().zip(biases);
                hash.grow(tokens.map(|(state, &bias)| B::key(state & !HAS_EPSILONS, bias)))?;
                (fits, slots) = (hash.fits(), hash.slots());
            }
            let (to, new) = slots.find_or_insert(B::key(dst & !HAS_EPSILONS, to_bias), tokens as u32);
            if new {
                window.states.push(dst);
                window.bias.extend(B::number(to_bias));
                window.tokens.push(Token { alpha: cost, head: NO_LINK });
            }
            if dst & HAS_EPSILONS != 0 {
                let level = Header::unpack(words, dst & !HAS_EPSILONS).level;
                if level <= header.level {
                    // Else links could go round: only a graph cache that is still being checked can say so.
                    return Err(Error::Graph("a level that does not rise along an epsilon arc".into()));
                }
                if new {
                    levels.push(level, to)?;
                }
            }
            let head = window.links.len() as u32;
            let record = &mut window.tokens[first_token + to as usize];
            let next = record.head;
            *record = Token { alpha: if cost < record.alpha { cost } else { record.alpha }, head };
            window.links.push(Link { src: token | EPSILON, arc: first_arc + place as u32, cost, next });
        }
    }
    Ok(closed)
}
