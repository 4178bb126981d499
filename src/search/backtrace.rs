//! Best paths: back along links with extra 0, without a lattice.

use crate::error::Result;
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
        let place = (step.arc - state.header.first_arc) as usize;
        let emitting = place < state.header.n_emit;
        let graph_cost = if emitting { state.weights[place] } else { state.eps_weights[place - state.header.n_emit] };
        costs.push((graph_cost, step.acoustic));
        if emitting {
            path.ilabels.push(graph.ilabel(step.arc));
        }
        let olabel = graph.olabel(step.arc);
        if olabel != 0 {
            path.olabels.push(olabel);
            path.frames.push(step.from.time as u32);
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
pub fn stable_words(links: &impl Backpointers, graph: &Graph, alive: &[Place]) -> usize {
    // Walk all paths back together. `nodes` holds each visited token once, with where it came
    // from; a frontier of one token means that everything before it is common to all.
    struct Node {
        at: Place,
        from: Option<(usize, i32)>,
    }
    let mut nodes: Vec<Node> = alive.iter().map(|&at| Node { at, from: None }).collect();
    let mut index: std::collections::HashMap<Place, usize> =
        nodes.iter().enumerate().map(|(node, entry)| (entry.at, node)).collect();
    // Latest times first; within a time any order, since a token is expanded once.
    let mut frontier: std::collections::BinaryHeap<(usize, usize)> =
        nodes.iter().enumerate().map(|(node, entry)| (entry.at.time, node)).collect();
    let (mut root, mut start) = (None, None);
    while let Some((_, node)) = frontier.pop() {
        if frontier.is_empty() && start.is_none() {
            root = Some(node);
            break;
        }
        let Some(step) = links.best_link(nodes[node].at) else {
            start = Some(node);
            continue;
        };
        let olabel = graph.olabel(step.arc);
        let from = *index.entry(step.from).or_insert_with(|| {
            nodes.push(Node { at: step.from, from: None });
            frontier.push((step.from.time, nodes.len() - 1));
            nodes.len() - 1
        });
        nodes[node].from = Some((from, olabel));
    }
    let root = root.or(start);
    let Some(root) = root else { return 0 };

    // Words before the root are common to all.
    let mut common = 0;
    let mut at = nodes[root].at;
    while let Some(step) = links.best_link(at) {
        common += usize::from(graph.olabel(step.arc) != 0);
        at = step.from;
    }
    // Behind it: words of each alive token since the root, and how far they agree.
    let mut shared: Option<Vec<i32>> = None;
    for leaf in 0..alive.len() {
        let mut words = Vec::new();
        let mut node = leaf;
        while let Some((from, olabel)) = nodes[node].from {
            if olabel != 0 {
                words.push(olabel);
            }
            node = from;
        }
        words.reverse();
        match &mut shared {
            None => shared = Some(words),
            Some(shared) => {
                let agree = shared.iter().zip(&words).take_while(|(a, b)| a == b).count();
                shared.truncate(agree);
            }
        }
    }
    common + shared.map_or(0, |words| words.len())
}
