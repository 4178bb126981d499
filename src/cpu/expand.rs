//! Pass 1 of a frame: every candidate of every emitting token, under a running bound.

use crate::error::{Result, try_reserve};
use crate::graph::{Graph, Header};

use super::biasing::Biasing;

/// Tokens that emit in the next frame, side by side.
#[derive(Debug, Default)]
pub(super) struct Emitters {
    /// State ids.
    pub states: Vec<u32>,
    /// Bias states; empty without phrases.
    pub bias: Vec<u32>,
    /// Costs above the best token of the time.
    pub costs: Vec<f32>,
    /// Their places among the tokens of the time.
    pub tokens: Vec<u32>,
}

impl Emitters {
    pub fn len(&self) -> usize {
        self.states.len()
    }

    pub fn clear(&mut self) {
        self.states.clear();
        self.bias.clear();
        self.costs.clear();
        self.tokens.clear();
    }

    pub fn swap(&mut self, a: usize, b: usize) {
        self.states.swap(a, b);
        self.costs.swap(a, b);
        self.tokens.swap(a, b);
    }

    pub fn memory(&self) -> usize {
        (self.states.capacity() + self.bias.capacity() + self.costs.capacity() + self.tokens.capacity()) * 4
    }
}

/// Candidates of a frame, side by side, in no order that matters.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub costs: Vec<f32>,
    /// Destination words.
    pub dsts: Vec<u32>,
    /// Bias states of the destinations; empty without phrases.
    pub bias: Vec<u32>,
    /// Places of the source tokens.
    pub srcs: Vec<u32>,
    /// Arc numbers.
    pub arcs: Vec<u32>,
}

impl Candidates {
    pub fn len(&self) -> usize {
        self.costs.len()
    }

    pub fn clear(&mut self) {
        self.costs.clear();
        self.dsts.clear();
        self.bias.clear();
        self.srcs.clear();
        self.arcs.clear();
    }

    fn reserve<B: Biasing>(&mut self, more: usize) -> Result<()> {
        if B::ON {
            try_reserve(&mut self.bias, more, "candidates")?;
        }
        try_reserve(&mut self.costs, more, "candidates")?;
        try_reserve(&mut self.dsts, more, "candidates")?;
        try_reserve(&mut self.srcs, more, "candidates")?;
        try_reserve(&mut self.arcs, more, "candidates")
    }

    fn capacity<B: Biasing>(&self) -> usize {
        let bias = if B::ON { self.bias.capacity() } else { usize::MAX };
        self.costs.capacity().min(self.dsts.capacity()).min(self.srcs.capacity()).min(self.arcs.capacity()).min(bias)
    }

    pub fn memory(&self) -> usize {
        let labels = self.dsts.capacity() + self.bias.capacity() + self.srcs.capacity() + self.arcs.capacity();
        (self.costs.capacity() + labels) * 4
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
const PREFETCH: usize = 20;

/// Fills `out` with the candidates of all `emitters` that lie within `next_beam` of the least
/// found so far: all that are within it of the least of all, and some more.
/// `costs[column]` is the scaled acoustic cost; the row has at least `graph.row_width()` entries.
pub(super) fn expand<B: Biasing>(
    graph: &Graph,
    bias: B,
    emitters: &Emitters,
    costs: &[f32],
    next_beam: f32,
    out: &mut Candidates,
) -> Result<Expanded> {
    out.clear();
    assert!(costs.len() >= graph.row_width(), "the row's width was checked before");
    if graph.wide() {
        expand_all::<u32, B>(graph, bias, emitters, costs, next_beam, out)
    } else {
        expand_all::<u16, B>(graph, bias, emitters, costs, next_beam, out)
    }
}

/// A column number as a block holds it.
trait Column: Copy {
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
    out: &mut Candidates,
) -> Result<Expanded> {
    let words = graph.words();
    let mut best = f32::INFINITY;
    let mut arcs = 0u64;
    let mut n = 0usize;
    let mut capacity = out.capacity::<B>();
    let count = emitters.len();
    for at in 0..count {
        if let Some(&ahead) = emitters.states.get(at + PREFETCH) {
            prefetch(words, ahead);
        }
        let header = Header::unpack(words, emitters.states[at]);
        if n + header.n_emit > capacity {
            set_len::<B>(out, n);
            out.reserve::<B>(header.n_emit)?;
            capacity = out.capacity::<B>();
        }
        arcs += header.n_emit as u64;
        let (alpha, token) = (emitters.costs[at], emitters.tokens[at]);
        let from = B::state(&emitters.bias, at);
        let bound = (best + next_beam).min(f32::MAX);

        let end = header.body + 2 * header.n_emit + Header::column_words(header.n_emit, size_of::<C>() == 4);
        assert!(end <= words.len());
        // SAFETY: the block lies inside `words` (asserted just above): weights, then
        // destinations, then columns, `n_emit` of each; words are aligned for both column types.
        // Columns are below `row_width`, whatever the arcs hold, and `expand` compared that with the row. `n + n_emit <= capacity` of all output arrays,
        // and `n` grows by at most one an arc.
        unsafe {
            let weights = words.as_ptr().add(header.body).cast::<f32>();
            let dsts = words.as_ptr().add(header.body + header.n_emit);
            let columns = words.as_ptr().add(header.body + 2 * header.n_emit).cast::<C>();
            let (out_costs, out_dsts) = (out.costs.as_mut_ptr(), out.dsts.as_mut_ptr());
            let out_bias = out.bias.as_mut_ptr();
            let (out_srcs, out_arcs) = (out.srcs.as_mut_ptr(), out.arcs.as_mut_ptr());
            for arc in 0..header.n_emit {
                let acoustic = *costs.get_unchecked((*columns.add(arc)).index());
                let number = header.first_arc.wrapping_add(arc as u32);
                let (to, weight) = bias.step(from, number, *weights.add(arc));
                let cost = alpha + (weight + acoustic);
                *out_costs.add(n) = cost;
                *out_dsts.add(n) = *dsts.add(arc);
                *out_srcs.add(n) = token;
                *out_arcs.add(n) = number;
                if let Some(to) = B::number(to) {
                    *out_bias.add(n) = to;
                }
                n += usize::from(cost <= bound);
                best = if cost < best { cost } else { best };
            }
        }
    }
    set_len::<B>(out, n);
    Ok(Expanded { best, arcs })
}

/// Sets the length of all arrays.
fn set_len<B: Biasing>(out: &mut Candidates, n: usize) {
    assert!(n <= out.capacity::<B>());
    // SAFETY: within the capacity, and the first `n` entries have been written by `expand_all`
    // (every entry below the running count was stored before the count passed it).
    unsafe {
        out.costs.set_len(n);
        out.dsts.set_len(n);
        out.bias.set_len(if B::ON { n } else { 0 });
        out.srcs.set_len(n);
        out.arcs.set_len(n);
    }
}

/// Asks for the first two cache lines of a state's block.
#[inline(always)]
fn prefetch(words: &[u32], id: u32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let block = words.as_ptr().wrapping_add(id as usize * 2);
        // SAFETY: a prefetch never faults and has no effect that the program can see.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(block.cast());
            _mm_prefetch::<_MM_HINT_T0>(block.wrapping_add(16).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (words, id);
}
