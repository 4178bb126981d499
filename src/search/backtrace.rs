//! Best paths: back along links with extra 0, without a lattice.

use std::collections::{BinaryHeap, HashMap};

use crate::error::{Error, Result, try_filled, try_reserve};
use crate::graph::Graph;
use crate::lattice::Path;

/// A token: its time (frames before it) and its place among the tokens of that time. What a
/// place means is the backend's own; it stays valid until the next frame is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Frames before the token.
    pub time: usize,
    /// Which token of that time.
    pub token: u32,
}

/// A link on a best path, seen from its destination.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Where it comes from.
    pub from: Place,
    /// State id of the source, which owns the arc.
    pub state: u32,
    /// Arc number in the graph.
    pub arc: u32,
    /// Acoustic cost without scale.
    pub acoustic: f32,
}

/// What a backend can say of its best links.
pub trait Backpointers {
    /// The link into `at` with extra 0 (ties: the smallest file arc), `None` at the start.
    fn best_link(&self, at: Place) -> Option<Step>;
}

/// The best path that ends at `end`, where it pays `final_cost`.
pub fn best_path(
    links: &impl Backpointers,
    graph: &Graph,
    end: Place,
    final_cost: f32,
    acoustic_scale: f32,
) -> Result<Path> {
    let mut path = Path { acoustic_scale, ..Path::default() };
    // Summed from the start, so that equal paths have equal sums however they were found.
    let mut costs: Vec<(f32, f32)> = Vec::new();
    let mut at = end;
    while let Some(step) = links.best_link(at) {
        let state = graph.state(step.state);
        push(&mut costs, (state.weight(step.arc), step.acoustic))?;
        if state.place(step.arc) < state.header.n_emit {
            push(&mut path.ilabels, graph.ilabel(step.arc))?;
        }
        let olabel = graph.olabel(step.arc);
        if olabel != 0 {
            push(&mut path.olabels, olabel)?;
            push(&mut path.frames, step.from.time as u32)?;
        }
        at = step.from;
    }
    path.ilabels.reverse();
    path.olabels.reverse();
    path.frames.reverse();
    for (graph_cost, acoustic) in costs.into_iter().rev() {
        path.graph_cost += f64::from(graph_cost);
        path.acoustic_cost += f64::from(acoustic);
    }
    path.graph_cost += f64::from(final_cost);
    Ok(path)
}

/// How many words at the head of all best paths to the tokens `alive` (all of one time) are
/// the same: whatever frames follow, the best path will begin with them.
pub fn stable_words(
    links: &impl Backpointers,
    graph: &Graph,
    alive: impl ExactSizeIterator<Item = Place>,
) -> Result<usize> {
    let leaves = alive.len();
    let (nodes, root) = merge(links, graph, alive)?;
    let Some(root) = root else { return Ok(0) };
    // Words before the root are common to all.
    let mut common = 0;
    let mut at = nodes[root].at;
    while let Some(step) = links.best_link(at) {
        common += usize::from(graph.olabel(step.arc) != 0);
        at = step.from;
    }
    Ok(common + agreement(&nodes, root, leaves)?)
}

/// How many words behind `root` the paths to the first `leaves` nodes have in common, in time
/// that follows the number of nodes.
fn agreement(nodes: &[Node], root: usize, leaves: usize) -> Result<usize> {
    // The words of one of them, and for each node how many words its path has and how many of
    // those, from the first, are the same.
    let mut model: Vec<i32> = Vec::new();
    let mut node = 0;
    while let Some((from, olabel)) = nodes[node].from {
        if olabel != 0 {
            push(&mut model, olabel)?;
        }
        node = from;
    }
    model.reverse();
    let mut known: Vec<Option<(usize, usize)>> = try_filled(None, nodes.len(), WHAT)?;
    known[root] = Some((0, 0));
    let mut way: Vec<usize> = Vec::new();
    let mut least = model.len();
    for leaf in 0..leaves {
        let mut node = leaf;
        let (mut words, mut same) = loop {
            match (known[node], nodes[node].from) {
                (Some(counts), _) => break counts,
                (None, Some((from, _))) => {
                    push(&mut way, node)?;
                    node = from;
                }
                (None, None) => break (0, 0),
            }
        };
        while let Some(node) = way.pop() {
            let olabel = nodes[node].from.map_or(0, |(_, olabel)| olabel);
            if olabel != 0 {
                same += usize::from(same == words && model.get(same) == Some(&olabel));
                words += 1;
            }
            known[node] = Some((words, same));
        }
        least = least.min(same);
    }
    Ok(least)
}

/// A token on one of several best paths.
struct Node {
    at: Place,
    /// Where it comes from, and the word on the way; `None` where the paths have met.
    from: Option<(usize, i32)>,
}

/// Walks all best paths to the tokens `alive` back together, to the token where they meet: its
/// number among the nodes, of which the first are `alive`.
fn merge(
    links: &impl Backpointers,
    graph: &Graph,
    alive: impl ExactSizeIterator<Item = Place>,
) -> Result<(Vec<Node>, Option<usize>)> {
    // `nodes` holds each visited token once; a frontier of one token means that everything
    // before it is common to all.
    let mut nodes: Vec<Node> = Vec::new();
    let mut index: HashMap<Place, usize> = HashMap::new();
    // Latest times first; within a time any order, since a token is expanded once.
    let mut frontier: BinaryHeap<(usize, usize)> = BinaryHeap::new();
    let mut visit = |at: Place, nodes: &mut Vec<Node>, frontier: &mut BinaryHeap<(usize, usize)>| -> Result<usize> {
        if let Some(&node) = index.get(&at) {
            return Ok(node);
        }
        let size = size_of::<(Place, usize)>() as u64;
        let no_memory = |count: usize| Error::NoMemory { what: WHAT.into(), asked: (count as u64 + 1) * size };
        index.try_reserve(1).map_err(|_| no_memory(nodes.len()))?;
        frontier.try_reserve(1).map_err(|_| no_memory(nodes.len()))?;
        push(nodes, Node { at, from: None })?;
        index.insert(at, nodes.len() - 1);
        frontier.push((at.time, nodes.len() - 1));
        Ok(nodes.len() - 1)
    };
    for at in alive {
        visit(at, &mut nodes, &mut frontier)?;
    }
    let mut start = None;
    while let Some((_, node)) = frontier.pop() {
        if frontier.is_empty() && start.is_none() {
            return Ok((nodes, Some(node)));
        }
        let Some(step) = links.best_link(nodes[node].at) else {
            start = Some(node);
            continue;
        };
        let from = visit(step.from, &mut nodes, &mut frontier)?;
        nodes[node].from = Some((from, graph.olabel(step.arc)));
    }
    Ok((nodes, start))
}

/// What the memory of this file is for, in messages.
const WHAT: &str = "best path";

fn push<T>(list: &mut Vec<T>, item: T) -> Result<()> {
    try_reserve(list, 1, WHAT)?;
    list.push(item);
    Ok(())
}
