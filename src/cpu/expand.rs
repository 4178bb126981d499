//! Pass 1 of a frame: every candidate of every emitting token, under a running bound.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Result, try_reserve};
use crate::graph::{Graph, Header};
use crate::search::{Link, grow};

use super::biasing::Biasing;
#[cfg(target_arch = "x86_64")]
use super::expand_sse41;

/// A token that emits in the next frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Emitter {
    /// State id.
    pub state: u32,
    /// Cost above the best token of the time.
    pub cost: f32,
    /// Place among the tokens of the time.
    pub token: u32,
}

/// Tokens that emit in the next frame.
#[derive(Debug, Default)]
pub(super) struct Emitters {
    pub list: Vec<Emitter>,
    /// Their bias states; empty without phrases.
    pub bias: Vec<u32>,
}

impl Emitters {
    /// Their places among the tokens of the time.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = u32> {
        self.list.iter().map(|emitter| emitter.token)
    }

    pub fn clear(&mut self) {
        self.list.clear();
        self.bias.clear();
    }

    pub fn memory(&self) -> usize {
        self.list.capacity() * size_of::<Emitter>() + self.bias.capacity() * 4
    }
}

/// What pass 1 found.
pub(super) struct Expanded {
    /// Least candidate; `+inf` if there is none.
    pub best: f32,
    /// Arcs looked at.
    pub arcs: u64,
}

/// How many tokens ahead the graph's memory is asked for.
pub(super) const PREFETCH: usize = 20;

/// Whether only code that every processor runs is used.
static PORTABLE: AtomicBool = AtomicBool::new(false);

/// Keeps searches of this process from using more of the processor than every one has, for tests of
/// the code for those: results are the same.
pub fn set_portable(on: bool) {
    PORTABLE.store(on, Ordering::Relaxed);
}

/// Puts the candidates of all `emitters` that lie within `next_beam` of the least found so far behind the `links` that
/// are there: all that are within it of the least of all, and some more, with destination words in place of
/// tokens. `to` becomes their bias states, if there are phrases.
/// `costs[column]` is the scaled acoustic cost; the row has at least `graph.row_width()` entries.
pub(super) fn expand<B: Biasing>(
    graph: &Graph,
    bias: B,
    emitters: &Emitters,
    costs: &[f32],
    next_beam: f32,
    links: &mut Vec<Link>,
    to: &mut Vec<u32>,
) -> Result<Expanded> {
    to.clear();
    assert!(costs.len() >= graph.row_width(), "the row's width was checked before");
    #[cfg(target_arch = "x86_64")]
    if !B::ON && !costs.is_empty() && is_x86_feature_detected!("sse4.1") && !PORTABLE.load(Ordering::Relaxed) {
        // SAFETY: the processor has it.
        return unsafe {
            match graph.wide() {
                true => expand_sse41::expand_all::<u32>(graph, emitters, costs, next_beam, links),
                false => expand_sse41::expand_all::<u16>(graph, emitters, costs, next_beam, links),
            }
        };
    }
    if graph.wide() {
        expand_all::<u32, B>(graph, bias, emitters, costs, next_beam, links, to)
    } else {
        expand_all::<u16, B>(graph, bias, emitters, costs, next_beam, links, to)
    }
}

/// A column number as a block holds it.
pub(super) trait Column: Copy {
    fn index(self) -> usize;
}

impl Column for u16 {
    #[inline(always)]
    fn index(self) -> usize {
        self as usize
    }
}

impl Column for u32 {
    #[inline(always)]
    fn index(self) -> usize {
        self as usize
    }
}

// On its own each of these loops keeps its registers.
#[inline(never)]
fn expand_all<C: Column, B: Biasing>(
    graph: &Graph,
    bias: B,
    emitters: &Emitters,
    costs: &[f32],
    next_beam: f32,
    links: &mut Vec<Link>,
    to: &mut Vec<u32>,
) -> Result<Expanded> {
    let words = graph.words();
    let mut best = f32::INFINITY;
    let mut arcs = 0u64;
    for (at, &Emitter { state, cost: alpha, token }) in emitters.list.iter().enumerate() {
        if let Some(ahead) = emitters.list.get(at + PREFETCH) {
            graph.prefetch(ahead.state);
        }
        let header = Header::unpack(words, state);
        reserve::<B>(header.n_emit, links, to)?;
        arcs += header.n_emit as u64;
        let from = B::state(&emitters.bias, at);
        let bound = (best + next_beam).min(f32::MAX);

        let end = header.body + 2 * header.n_emit + Header::column_words(header.n_emit, size_of::<C>() == 4);
        assert!(end <= words.len());
        let mut n = links.len();
        // SAFETY: the block lies inside `words` (asserted just above): weights, then
        // destinations, then columns, `n_emit` of each; words are aligned for both column types.
        // Columns are below `row_width`, whatever the arcs hold, and `expand` compared that with the row. Both
        // output lists have room for `n_emit` more, and `n` grows by at most one an arc. What lies below `n` has been
        // written.
        unsafe {
            let weights = words.as_ptr().add(header.body).cast::<f32>();
            let dsts = words.as_ptr().add(header.body + header.n_emit);
            let columns = words.as_ptr().add(header.body + 2 * header.n_emit).cast::<C>();
            let (out, first) = (links.as_mut_ptr(), n);
            let out_bias = to.as_mut_ptr().wrapping_add(to.len());
            for arc in 0..header.n_emit {
                let acoustic = *costs.get_unchecked((*columns.add(arc)).index());
                let number = header.first_arc.wrapping_add(arc as u32);
                let (bias, weight) = bias.step(from, number, *weights.add(arc));
                let cost = alpha + (weight + acoustic);
                out.add(n).write(Link { src: token, arc: number, cost, dst: *dsts.add(arc) });
                if let Some(bias) = B::number(bias) {
                    out_bias.add(n - first).write(bias);
                }
                n += usize::from(cost <= bound);
                best = if cost < best { cost } else { best };
            }
            if B::ON {
                to.set_len(to.len() + n - first);
            }
            links.set_len(n);
        }
    }
    Ok(Expanded { best, arcs })
}

/// Room for `more` candidates.
#[inline(always)]
fn reserve<B: Biasing>(more: usize, links: &mut Vec<Link>, to: &mut Vec<u32>) -> Result<()> {
    if B::ON {
        try_reserve(to, more, "candidates")?;
    }
    grow(links, more, "links")
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::super::biasing::Plain;
    use super::*;
    use crate::graph::{Columns, GraphArc, VecSource};
    use crate::random::SplitMix;

    /// Candidates within theta, by bits.
    fn within(links: &[Link], theta: f32) -> Vec<[u32; 4]> {
        let bits = |link: &Link| [link.cost.to_bits(), link.dst, link.src, link.arc];
        links.iter().filter(|link| link.cost <= theta).map(bits).collect()
    }

    #[test]
    fn four_at_a_time_finds_what_one_at_a_time_does() {
        if !is_x86_feature_detected!("sse4.1") {
            return;
        }
        for wide in [false, true] {
            let columns = if wide { 70_000 } else { 300 };
            for seed in 0..if cfg!(miri) { 4 } else { 300 } {
                let mut random = SplitMix::new(seed);
                let mut below = |most: u64| random.next_bits() % most;
                let num_states = 1 + below(12) as u32;
                let states = (0..num_states).map(|state| {
                    let arcs = (0..below(23)).map(|_| {
                        let forward = state + 1 < num_states && below(5) == 0;
                        let next = if forward { state + 1 } else { below(u64::from(num_states)) as u32 };
                        let ilabel = if forward { 0 } else { 1 + below(columns) as i32 };
                        let weight = if below(30) == 0 { f32::INFINITY } else { below(40) as f32 / 4.0 - 3.0 };
                        GraphArc { ilabel, olabel: 0, weight, next }
                    });
                    (0.0, arcs.collect())
                });
                let mut source = VecSource { start: Some(0), states: states.collect() };
                if wide {
                    source.states[0].1.push(GraphArc { ilabel: columns as i32, olabel: 0, weight: 0.0, next: 0 });
                }
                let graph = Graph::from_source(&source, Columns::Labels).unwrap();
                assert_eq!(graph.wide(), wide);
                let scores: Vec<f32> = (0..columns)
                    .map(|_| if below(20) == 0 { f32::INFINITY } else { below(100) as f32 / 8.0 })
                    .collect();
                let mut emitters = Emitters::default();
                for (token, id) in graph.ids().enumerate() {
                    if below(4) == 0 {
                        continue;
                    }
                    let cost = below(50) as f32 / 8.0;
                    emitters.list.push(Emitter { state: id, cost, token: token as u32 });
                }
                let beam = [0.5, 4.0, f32::INFINITY][below(3) as usize];
                // Behind a link that is there.
                let there = Link { src: 7, arc: 8, cost: -1e9, dst: 9 };
                let (mut one, mut four, mut none) = (vec![there], vec![there], Vec::new());
                // SAFETY: the processor has SSE4.1.
                let (by_one, by_four) = unsafe {
                    match wide {
                        true => (
                            expand_all::<u32, Plain>(&graph, Plain, &emitters, &scores, beam, &mut one, &mut none),
                            expand_sse41::expand_all::<u32>(&graph, &emitters, &scores, beam, &mut four),
                        ),
                        false => (
                            expand_all::<u16, Plain>(&graph, Plain, &emitters, &scores, beam, &mut one, &mut none),
                            expand_sse41::expand_all::<u16>(&graph, &emitters, &scores, beam, &mut four),
                        ),
                    }
                };
                let (by_one, by_four) = (by_one.unwrap(), by_four.unwrap());
                assert_eq!(by_one.best.to_bits(), by_four.best.to_bits());
                assert_eq!(by_one.arcs, by_four.arcs);
                let theta = (by_one.best + beam).min(f32::MAX);
                assert_eq!(within(&one, theta), within(&four, theta), "wide {wide}, seed {seed}");
            }
        }
    }
}
