//! One time of the search: candidates to tokens and links (pass 2), closure, emission.

use crate::error::{Error, Result, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS, Header};
use crate::search::{EPSILON, Link, NO_LINK, Room, SearchConfig, Token, Window, largest_fitting};

use super::biasing::Biasing;
use super::expand::Candidates;
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
            room: Vec::new(),
            backward: Room::default(),
        })
    }

    pub fn memory(&self) -> usize {
        self.hash.memory()
            + self.pairs.memory()
            + self.candidates.memory()
            + self.levels.memory()
            + (self.row_costs.capacity() + self.room.capacity()) * 4
            + self.backward.memory()
    }
}

/// What became of a time.
pub(super) struct Settled {
    /// The bound that held in the end.
    pub theta: f32,
    /// Epsilon arcs looked at.
    pub arcs: u64,
    /// Whether a capacity tightened theta.
    pub capacity_held: bool,
}

/// Turns the candidates of a time into tokens and links at the end of `window`, closes them
/// under epsilon arcs, and applies the capacities. The window's parts from `end()` on hold the
/// new time; on an error the caller cuts them off. `frame` is `None` at time 0, where the only
/// candidate is the start state, which no link leads to.
pub(super) fn settle<B: Biasing>(
    graph: &Graph,
    bias: B,
    config: &SearchConfig,
    frame: Option<u64>,
    mut theta: f32,
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
        arcs += close(graph, bias, theta, scratch, window, end.tokens)?;

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
        return Ok(Settled { theta, arcs, capacity_held });
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
fn insert<B: Biasing>(graph: &Graph, theta: f32, scratch: &mut Scratch, window: &mut Window) -> Result<()> {
    let Scratch { hash, pairs, candidates, levels, .. } = scratch;
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
    let biases = B::states(bias, count);
    let (mut tokens, mut links) = (0usize, 0usize);
    // SAFETY: `reserve` made room for `count` more tokens and links, and each candidate adds at
    // most one of each, so every write lies within the capacity: `tokens < count` whenever a
    // token is written, since each earlier candidate counted at most one. A token that the hash
    // answers with is below `tokens` after counting, so its record has been written. The lengths
    // set at the end cover written records only.
    unsafe {
        let states_end = window.states.as_mut_ptr().add(first_token);
        let tokens_end = window.tokens.as_mut_ptr().add(first_token);
        let links_end = window.links.as_mut_ptr().add(first_link);
        let bias_end = window.bias.as_mut_ptr().wrapping_add(if B::ON { first_token } else { 0 });
        for ((((&cost, &dst), &src), &arc), &bias) in costs.iter().zip(&*dsts).zip(&*srcs).zip(&*arcs).zip(biases) {
            if cost > theta {
                continue;
            }
            // Written always, counted if the state is new.
            states_end.add(tokens).write(dst);
            tokens_end.add(tokens).write(Token { alpha: f32::INFINITY, head: NO_LINK });
            if let Some(bias) = B::number(bias) {
                bias_end.add(tokens).write(bias);
            }
            let (token, new) = hash.find_or_insert(B::key(dst & !HAS_EPSILONS, bias), tokens as u32);
            tokens += usize::from(new);
            let record = &mut *tokens_end.add(token as usize);
            links_end.add(links).write(Link { src, arc, cost, next: record.head });
            record.alpha = if cost < record.alpha { cost } else { record.alpha };
            record.head = (first_link + links) as u32;
            links += 1;
        }
        window.states.set_len(first_token + tokens);
        window.bias.set_len(if B::ON { first_token + tokens } else { 0 });
        window.tokens.set_len(first_token + tokens);
        window.links.set_len(first_link + links);
    }
    for (token, &state) in window.states[first_token..].iter().enumerate() {
        if state & HAS_EPSILONS != 0 {
            // (their blocks are not in the cache yet, but they are few)
            levels.push(Header::unpack(graph.words(), state & !HAS_EPSILONS).level, token as u32)?;
        }
    }
    Ok(())
}

/// Follows epsilon arcs to the fixpoint. By ascending level: when a token's turn comes, its
/// cost is final, so each is expanded once. Returns the number of arcs looked at.
fn close<B: Biasing>(
    graph: &Graph,
    bias: B,
    theta: f32,
    scratch: &mut Scratch,
    window: &mut Window,
    first_token: usize,
) -> Result<u64> {
    let words = graph.words();
    let Scratch { hash, pairs, levels, .. } = scratch;
    let hash = B::table(hash, pairs);
    let mut looked_at = 0;
    while let Some(token) = levels.pop() {
        try_reserve(&mut window.closed, 1, "tokens")?;
        window.closed.push(token);
        let at = first_token + token as usize;
        let state = graph.state(window.states[at] & !HAS_EPSILONS);
        let alpha = window.tokens[at].alpha;
        let from = B::state(&window.bias, at);
        if B::ON {
            try_reserve(&mut window.bias, state.eps_weights.len(), "tokens")?;
        }
        window.reserve(state.eps_weights.len(), state.eps_weights.len())?;
        let first_arc = state.header.first_arc + state.header.n_emit as u32;
        looked_at += state.eps_weights.len() as u64;
        for (place, (&weight, &dst)) in state.eps_weights.iter().zip(state.eps_dsts).enumerate() {
            let (to_bias, weight) = bias.step(from, first_arc + place as u32, weight);
            let cost = alpha + weight;
            if cost > theta {
                continue;
            }
            let tokens = window.states.len() - first_token;
            if hash.is_full(tokens) {
                let biases = &B::states(&window.bias, window.states.len())[first_token..];
                let tokens = window.states[first_token..].iter().zip(biases);
                hash.grow(tokens.map(|(state, &bias)| B::key(state & !HAS_EPSILONS, bias)))?;
            }
            let (to, new) = hash.find_or_insert(B::key(dst & !HAS_EPSILONS, to_bias), tokens as u32);
            let to_at = first_token + to as usize;
            if new {
                window.states.push(dst);
                window.bias.extend(B::number(to_bias));
                window.tokens.push(Token { alpha: cost, head: NO_LINK });
            }
            if dst & HAS_EPSILONS != 0 {
                let level = Header::unpack(words, dst & !HAS_EPSILONS).level;
                if level <= state.header.level {
                    // Else links could go round: only a graph cache that is still being checked can say so.
                    return Err(Error::Graph("a level that does not rise along an epsilon arc".into()));
                }
                if new {
                    levels.push(level, to)?;
                }
            }
            let head = window.links.len() as u32;
            let record = &mut window.tokens[to_at];
            record.alpha = record.alpha.min(cost);
            let link = Link { src: token | EPSILON, arc: first_arc + place as u32, cost, next: record.head };
            record.head = head;
            window.links.push(link);
        }
    }
    Ok(looked_at)
}
