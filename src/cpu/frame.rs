//! One time of the search: candidates to tokens and links (pass 2), closure, emission.

use crate::error::{Error, Result, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS, Header};
use crate::search::{EPSILON, Link, Room, SearchConfig, TimeStart, Window, largest_fitting};

use super::biasing::Biasing;
use super::hash::StateHash;
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
            bias: Vec::new(),
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
            + self.levels.memory()
            + (self.bias.capacity() + self.closing.capacity() + self.row_costs.capacity() + self.room.capacity()) * 4
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
        insert::<B>(graph, theta, scratch, window, end)?;
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

/// Pass 2: all candidates within theta become links, their states tokens.
// On their own this loop and the next keep their registers.
#[inline(never)]
fn insert<B: Biasing>(
    graph: &Graph,
    theta: f32,
    scratch: &mut Scratch,
    window: &mut Window,
    end: TimeStart,
) -> Result<()> {
    let Scratch { hash, pairs, bias, levels, closing, .. } = scratch;
    let hash = B::table(hash, pairs);
    let count = window.links.len() - end.links;
    hash.start(count)?;
    levels.clear();
    window.reserve(count, 0)?;
    if B::ON {
        try_reserve(&mut window.bias, count, "tokens")?;
    }
    if window.links.len() >= EPSILON as usize {
        return Err(Error::Limit("more links between two prunings than 2^31".into()));
    }
    let first_token = end.tokens;
    let biases = B::states(bias, count);
    let mut slots = hash.slots();
    let (mut tokens, mut kept) = (0usize, 0usize);
    // SAFETY: `reserve` made room for `count` more tokens, and each candidate adds at most one, so every write
    // of a token lies within the capacity: `tokens < count` whenever one is written, since each earlier candidate
    // counted at most one. A token that the hash answers with is below `tokens` after counting, so its cost has
    // been written. `kept <= at < count`, the length of `links`. The lengths set at the end cover written records only.
    unsafe {
        let states_end = window.states.as_mut_ptr().add(first_token);
        let alphas_end = window.alphas.as_mut_ptr().add(first_token);
        let bias_end = window.bias.as_mut_ptr().wrapping_add(if B::ON { first_token } else { 0 });
        let links = &mut window.links[end.links..];
        for at in 0..count {
            if let Some(ahead) = links.get(at + SLOTS_AHEAD) {
                slots.prefetch(B::key(ahead.dst & !HAS_EPSILONS, biases[at + SLOTS_AHEAD]));
            }
            let link = *links.get_unchecked(at);
            if link.cost > theta {
                continue;
            }
            let bias = biases[at];
            // Written always, counted if the state is new.
            states_end.add(tokens).write(link.dst);
            alphas_end.add(tokens).write(f32::INFINITY);
            if let Some(bias) = B::number(bias) {
                bias_end.add(tokens).write(bias);
            }
            let (token, new) = slots.find_or_insert(B::key(link.dst & !HAS_EPSILONS, bias), tokens as u32);
            tokens += usize::from(new);
            let alpha = alphas_end.add(token as usize);
            *alpha = if link.cost < *alpha { link.cost } else { *alpha };
            *links.get_unchecked_mut(kept) = Link { dst: token, ..link };
            kept += 1;
        }
        window.states.set_len(first_token + tokens);
        window.bias.set_len(if B::ON { first_token + tokens } else { 0 });
        window.alphas.set_len(first_token + tokens);
    }
    window.links.truncate(end.links + kept);
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
            graph.prefetch(states[ahead as usize] & !HAS_EPSILONS);
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
        let at = first_token + token as usize;
        let header = Header::unpack(words, window.states[at] & !HAS_EPSILONS);
        let (weights, dsts) = graph.epsilons(&header);
        let alpha = window.alphas[at];
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
                window.alphas.push(cost);
            }
            if (window.states[first_token + to as usize] ^ dst) & HAS_EPSILONS != 0 {
                // As below: or a token could be passed over and still be led on from.
                return Err(Error::Graph("a state with and without epsilon arcs".into()));
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
            let best = &mut window.alphas[first_token + to as usize];
            *best = if cost < *best { cost } else { *best };
            window.links.push(Link { src: token | EPSILON, arc: first_arc + place as u32, cost, dst: to });
        }
    }
    Ok(closed)
}
