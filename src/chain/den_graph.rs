//! The denominator graph: all that could have been said, as states and pdfs.

use super::groups::Groups;
use super::workshop::Workshop;
use crate::error::{Error, Result, try_filled, try_reserve};
use crate::graph::{FstBytes, GraphArc, VecSource};
use crate::table::Input;

/// Steps over which the occupancy of states is averaged.
const STEPS: usize = 100;

/// Weights of the arcs out of a state, its final one included, must sum to less than this, as in Kaldi.
const MOST_WEIGHT: f64 = 100.0;

/// One transition, seen from one of its two states.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Transition {
    /// Probability of the arc; those out of a state need not sum to one.
    pub prob: f32,
    /// Column of the network's output.
    pub pdf: i32,
    /// The state at the other end.
    pub state: i32,
}

/// The denominator graph of chain training, an acceptor over pdfs without epsilons.
#[derive(Debug)]
pub struct DenominatorGraph {
    num_pdfs: usize,
    transitions: Vec<Transition>,
    forward: Vec<(u32, u32)>,
    backward: Vec<(u32, u32)>,
    initial: Vec<f32>,
    pub(super) groups: Groups,
    pub(super) workshop: Workshop,
}

impl DenominatorGraph {
    /// Reads an OpenFst file, `vector` or `const`, whose labels are pdf + 1. `rxfilename` is a path or what else Kaldi
    /// calls so (`path:offset`, and `command |` where commands are allowed).
    ///
    /// # Errors
    /// Those of [`DenominatorGraph::from_source`], [`Error::Io`], [`Error::Format`], [`Error::Unsupported`].
    pub fn read(rxfilename: &str, num_pdfs: usize) -> Result<DenominatorGraph> {
        let mut input = Input::open(rxfilename)?;
        let bytes = FstBytes::read(&mut input)?;
        input.close()?;
        let graph = DenominatorGraph::from_source(&bytes.to_source()?, num_pdfs);
        graph.map_err(|error| error.context(rxfilename))
    }

    /// Reads the bytes of such a file.
    pub fn from_memory(bytes: &[u8], num_pdfs: usize) -> Result<DenominatorGraph> {
        let mut copy = Vec::new();
        try_reserve(&mut copy, bytes.len(), "denominator graph")?;
        copy.extend_from_slice(bytes);
        let mut input = Input::from_bytes("memory", copy);
        DenominatorGraph::from_source(&FstBytes::read(&mut input)?.to_source()?, num_pdfs)
    }

    /// Lays a graph out. Input labels are pdf + 1, output labels are not looked at. Final weights count only towards
    /// the initial probabilities, as in Kaldi.
    ///
    /// # Errors
    /// [`Error::Shape`] for a pdf that is not below `num_pdfs`; [`Error::Graph`] for a label below 1, a weight that
    /// is NaN or `-inf`, a state or start out of range or missing, and weights out of a state that do not sum to more
    /// than 0 and less than 100.
    pub fn from_source(source: &VecSource, num_pdfs: usize) -> Result<DenominatorGraph> {
        check(source, num_pdfs)?;
        let (transitions, forward, backward) = transitions(source)?;
        let initial = initial_probs(source, &transitions, &forward)?;
        let num_arcs = transitions.len() / 2;
        let groups = Groups::new(&transitions[..num_arcs], &forward, num_pdfs, usize::MAX)?;
        Ok(DenominatorGraph {
            num_pdfs,
            transitions,
            forward,
            backward,
            initial,
            groups,
            workshop: Workshop::default(),
        })
    }

    /// Columns that the network's output must have.
    pub fn num_pdfs(&self) -> usize {
        self.num_pdfs
    }

    /// Number of states.
    pub fn num_states(&self) -> usize {
        self.initial.len()
    }

    /// All arcs twice: by the state they leave, in the order of the file, and by the state they enter.
    pub fn transitions(&self) -> &[Transition] {
        &self.transitions
    }

    /// For each state, where in [`transitions`](Self::transitions) those out of it begin and end; `state` is where they lead.
    pub fn forward_transitions(&self) -> &[(u32, u32)] {
        &self.forward
    }

    /// For each state, where those into it begin and end; `state` is where they come from.
    pub fn backward_transitions(&self) -> &[(u32, u32)] {
        &self.backward
    }

    /// Probability of each state in the middle of an utterance: the average over the first 100 steps from the start.
    /// Where the graph cannot be walked that far, over the steps that there are (Kaldi has NaN there).
    pub fn initial_probs(&self) -> &[f32] {
        &self.initial
    }
}

fn check(source: &VecSource, num_pdfs: usize) -> Result<()> {
    let num_states = source.states.len();
    if num_pdfs == 0 || num_pdfs > i32::MAX as usize {
        return Err(Error::Shape(format!("{num_pdfs} pdfs")));
    }
    if num_states > i32::MAX as usize {
        return Err(Error::Graph(format!("{num_states} states; the limit is {}", i32::MAX)));
    }
    match source.start {
        Some(start) if (start as usize) < num_states => {}
        Some(start) => return Err(Error::Graph(format!("start state {start} of {num_states} states"))),
        None => return Err(Error::Graph("the graph has no start state".to_string())),
    }
    for (state, (_, arcs)) in source.states.iter().enumerate() {
        for arc in arcs {
            check_arc(arc, num_states, num_pdfs).map_err(|error| error.context(format!("state {state}")))?;
        }
    }
    Ok(())
}

fn check_arc(arc: &GraphArc, num_states: usize, num_pdfs: usize) -> Result<()> {
    let label = arc.ilabel;
    if label < 1 {
        let advice = "a denominator graph has no epsilons, and labels are pdf + 1";
        return Err(Error::Graph(format!("label {label}: {advice}")));
    }
    if label as usize > num_pdfs {
        return Err(Error::Shape(format!("an arc has pdf {}; there are {num_pdfs} pdfs", label - 1)));
    }
    if arc.next as usize >= num_states {
        return Err(Error::Graph(format!("an arc leads to state {} of {num_states}", arc.next)));
    }
    if arc.weight.is_nan() || arc.weight == f32::NEG_INFINITY {
        return Err(Error::Graph(format!("an arc has weight {}", arc.weight)));
    }
    Ok(())
}

/// Where arcs of each state begin and end.
type Ranges = Vec<(u32, u32)>;

fn transitions(source: &VecSource) -> Result<(Vec<Transition>, Ranges, Ranges)> {
    const WHAT: &str = "denominator graph";
    let num_states = source.states.len();
    let total: usize = source.states.iter().map(|(_, arcs)| arcs.len()).sum();
    // Ranges into both halves are 32 bits wide.
    if total > (i32::MAX / 2) as usize {
        return Err(Error::Graph(format!("{total} arcs; the limit is {}", i32::MAX / 2)));
    }
    let mut all = Vec::new();
    try_reserve(&mut all, 2 * total, WHAT)?;
    let mut forward = Vec::new();
    try_reserve(&mut forward, num_states, WHAT)?;
    let mut backward = try_filled((0u32, 0u32), num_states, WHAT)?;
    for (_, arcs) in &source.states {
        let begin = all.len() as u32;
        for arc in arcs {
            all.push(Transition { prob: (-arc.weight).exp(), pdf: arc.ilabel - 1, state: arc.next as i32 });
            backward[arc.next as usize].1 += 1;
        }
        forward.push((begin, all.len() as u32));
    }
    let mut end = total as u32;
    for range in &mut backward {
        let count = range.1;
        // `end` runs up to its place as the arcs are put there.
        *range = (end, end);
        end += count;
    }
    all.resize(2 * total, Transition { prob: 0.0, pdf: 0, state: 0 });
    for (state, &(begin, end)) in forward.iter().enumerate() {
        for at in begin..end {
            let arc = all[at as usize];
            let range = &mut backward[arc.state as usize];
            all[range.1 as usize] = Transition { state: state as i32, ..arc };
            range.1 += 1;
        }
    }
    Ok((all, forward, backward))
}

/// The average of the first steps, from the start state on. Mass lost at final states is made up for in each step.
fn initial_probs(source: &VecSource, transitions: &[Transition], forward: &[(u32, u32)]) -> Result<Vec<f32>> {
    const WHAT: &str = "initial probabilities";
    let num_states = source.states.len();
    let mut sums = Vec::new();
    try_reserve(&mut sums, num_states, WHAT)?;
    for (state, (cost, arcs)) in source.states.iter().enumerate() {
        let weights = arcs.iter().map(|arc| f64::from(-arc.weight).exp());
        let sum = f64::from(-cost).exp() + weights.sum::<f64>();
        if !(sum > 0.0 && sum < MOST_WEIGHT) {
            let rule = "it must be above 0 and below 100";
            return Err(Error::Graph(format!("state {state}: the weights out of it sum to {sum}; {rule}")));
        }
        sums.push(sum);
    }
    let mut now = try_filled(0.0f64, num_states, WHAT)?;
    let mut next = try_filled(0.0f64, num_states, WHAT)?;
    let mut average = try_filled(0.0f64, num_states, WHAT)?;
    now[source.start.unwrap_or(0) as usize] = 1.0;
    let mut steps = 0;
    while steps < STEPS {
        average.iter_mut().zip(&now).for_each(|(sum, &prob)| *sum += prob);
        steps += 1;
        next.fill(0.0);
        for (state, &prob) in now.iter().enumerate().filter(|(_, prob)| **prob != 0.0) {
            let scale = prob / sums[state];
            for arc in &transitions[forward[state].0 as usize..forward[state].1 as usize] {
                next[arc.state as usize] += scale * f64::from(arc.prob);
            }
        }
        let total: f64 = next.iter().sum();
        if !(total > 0.0 && total.is_finite()) {
            break;
        }
        next.iter_mut().for_each(|prob| *prob /= total);
        std::mem::swap(&mut now, &mut next);
    }
    let mut initial = Vec::new();
    try_reserve(&mut initial, num_states, WHAT)?;
    initial.extend(average.iter().map(|sum| (sum / steps as f64) as f32));
    Ok(initial)
}
