//! The n best paths of different words.
//!
//! Word sequences are explored by their prefixes, best first. A prefix is held as the states
//! that its last word's arcs lead to, each with the least cost of reaching it by exactly
//! these words (the subset that determinization would make of it, made only where it is
//! needed). The least cost so far plus best completion, over these states, is the cost of the
//! best sentence that begins so: an exact bound, so sentences come out by increasing cost
//! (A*, Hart and others 1968), each prefix on the way once, and no more prefixes need to be
//! kept than sentences are still wanted. Nothing is determinized first, and a lattice of any
//! kind will do: raw or compact, deterministic or not.

mod json;
mod queue;
mod subset;

use std::sync::Arc;

use crate::error::{Result, try_reserve};
use crate::random::SplitMix;

use super::best_path::{Scales, check_scale};
use super::topology::{View, filled};
use super::{Lattice, Path, Route};

use queue::{Entry, Prefixes, Queue};
use subset::{Element, Subsets};

/// The best word sequences of a lattice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NBest {
    /// The best path of each word sequence, by increasing cost.
    pub paths: Vec<Arc<Path>>,
    /// Posterior of each word sequence in the whole lattice.
    pub posteriors: Vec<f64>,
    /// Whether the list ends early, at the most memory that it may take.
    pub cut_short: bool,
}

/// Memory that prefixes and paths of one list may take together.
const MOST_BYTES: usize = 2 << 30;

/// `-ln(exp(-a) + exp(-b))`.
pub(super) fn log_add(a: f64, b: f64) -> f64 {
    let (least, most) = if a < b { (a, b) } else { (b, a) };
    if most == f64::INFINITY { least } else { least - (least - most).exp().ln_1p() }
}

impl Lattice {
    /// The `n` best paths of different word sequences, by increasing
    /// `graph + acoustic_scale * acoustic` in binary64; fewer where the lattice has fewer.
    /// Sequences of equal cost come in ascending order (word by word, a prefix first). Of a
    /// sequence's own alignments the best is given; of equal ones that of the lowest states.
    ///
    /// The posterior of a word sequence is its share of the whole lattice at this scale: the
    /// sum of `exp(-cost)` over its paths by that over all paths. So the posteriors of a list
    /// sum to 1 where it has all sequences, else to less.
    ///
    /// A lattice without any path gives an empty list, one whose only state is final a list of
    /// one path without words. The work is about that of determinizing the part of the lattice
    /// that the `n` sentences need; memory is bounded by [`NBest::cut_short`].
    pub fn nbest(&self, n: usize, acoustic_scale: f32) -> Result<NBest> {
        check_scale(acoustic_scale)?;
        let (sentences, cut_short) = search(self, n, Scales { graph: 1.0, acoustic: acoustic_scale }, MOST_BYTES)?;
        let mut nbest = NBest { cut_short, ..NBest::default() };
        try_reserve(&mut nbest.paths, sentences.len(), "n-best list")?;
        try_reserve(&mut nbest.posteriors, sentences.len(), "n-best list")?;
        for Sentence { route, posterior } in sentences {
            nbest.paths.push(Arc::new(self.path_along(&route, acoustic_scale)?));
            nbest.posteriors.push(posterior);
        }
        Ok(nbest)
    }

    /// The routes of [`Lattice::nbest`], by increasing `graph_scale * graph + acoustic_scale * acoustic`.
    pub fn nbest_routes(&self, n: usize, graph_scale: f32, acoustic_scale: f32) -> Result<Vec<Route>> {
        let scales = Scales { graph: graph_scale, acoustic: acoustic_scale };
        scales.check()?;
        let (sentences, _) = search(self, n, scales, MOST_BYTES)?;
        Ok(sentences.into_iter().map(|sentence| sentence.route).collect())
    }

    /// `n` routes drawn at random, with repetition: from each state any way on (its arcs, and
    /// ending where it is final) is as likely as any other. The same seed gives the same routes.
    pub fn random_routes(&self, n: usize, seed: u64) -> Result<Vec<Route>> {
        let view = self.view();
        let (mut routes, mut random) = (Vec::new(), SplitMix::new(seed));
        for _ in 0..if view.num_states() == 0 { 0 } else { n } {
            try_reserve(&mut routes, 1, "random paths")?;
            routes.push(random_route(view, &mut random)?);
        }
        Ok(routes)
    }
}

fn random_route(view: View, random: &mut SplitMix) -> Result<Route> {
    let (mut route, mut state) = (Route::default(), 0);
    loop {
        let arcs = view.arc_range(state);
        let ways = arcs.len() + usize::from(!view.finals[state].is_absent());
        // The bias of the remainder is below 2^-32.
        let way = (random.next_bits() % ways as u64) as usize;
        if way == arcs.len() {
            route.last = Some(state as u32);
            return Ok(route);
        }
        try_reserve(&mut route.arcs, 1, "random paths")?;
        route.arcs.push((arcs.start + way) as u32);
        state = view.arcs[arcs.start + way].next as usize;
    }
}

/// A word sequence: its best route, and its share of the lattice.
struct Sentence {
    route: Route,
    posterior: f64,
}

/// Least cost and log-sum of costs from each state to the end.
fn to_the_end(view: View, scales: Scales) -> Result<(Vec<f64>, Vec<f64>)> {
    let mut least = filled(view.num_states(), f64::INFINITY)?;
    let mut sum = filled(view.num_states(), f64::INFINITY)?;
    for state in (0..view.num_states()).rev() {
        (least[state], sum[state]) = (scales.total(view.finals[state]), scales.total(view.finals[state]));
        for arc in view.arcs_of(state) {
            let (cost, next) = (scales.total(arc.weight), arc.next as usize);
            least[state] = least[state].min(cost + least[next]);
            sum[state] = log_add(sum[state], cost + sum[next]);
        }
    }
    Ok((least, sum))
}

/// The sentences, and whether they would have been more with more memory than `most_bytes`.
fn search(lattice: &Lattice, n: usize, scales: Scales, most_bytes: usize) -> Result<(Vec<Sentence>, bool)> {
    let biased = lattice.biased()?;
    let (view, mut found) = (biased.view(), Vec::new());
    if view.num_states() == 0 {
        return Ok((found, false));
    }
    let (to_end, sum_to_end) = to_the_end(view, scales)?;
    let mut subsets = Subsets::new(view, scales)?;
    let mut prefixes = Prefixes::default();
    let mut queue = Queue::default();
    let root = prefixes.add(None, 0)?;
    let start = Element { state: 0, cost: 0.0, sum: 0.0 };
    queue.push(Entry { bound: to_end[0], prefix: root, sum: f64::INFINITY, elements: Some(vec![start]) }, &prefixes)?;
    let (mut bytes, mut words) = (0, Vec::new());
    while found.len() < n {
        let Some(entry) = queue.pop(&prefixes) else { break };
        if bytes + queue.bytes() + prefixes.bytes() > most_bytes {
            log::warn!(
                "an n-best list ends after {} of {n} paths: it would take more than {most_bytes} bytes",
                found.len()
            );
            return Ok((found, true));
        }
        let Some(elements) = entry.elements else {
            prefixes.words(entry.prefix, &mut words)?;
            let route = subsets.align(&words)?;
            let posterior = (sum_to_end[0] - entry.sum).exp().min(1.0);
            bytes += size_of::<Sentence>() + size_of::<Path>() + 4 * route.arcs.len();
            bytes += 8 * words.len() + 4 * lattice.num_frames() as usize;
            try_reserve(&mut found, 1, "n-best list")?;
            found.push(Sentence { route, posterior });
            continue;
        };
        let (ends, groups) = subsets.expand(&elements)?;
        if ends.cost < f64::INFINITY {
            queue.push(Entry { bound: ends.cost, prefix: entry.prefix, sum: ends.sum, elements: None }, &prefixes)?;
        }
        for (word, elements) in groups {
            let bounds = elements.iter().map(|element| element.cost + to_end[element.state as usize]);
            let bound = bounds.fold(f64::INFINITY, f64::min);
            if bound == f64::INFINITY {
                continue;
            }
            let prefix = prefixes.add(Some(entry.prefix), word)?;
            queue.push(Entry { bound, prefix, sum: f64::INFINITY, elements: Some(elements) }, &prefixes)?;
        }
        // Each entry holds a sentence of exactly its bound: those past the n-th are not needed.
        queue.keep_best(n - found.len(), &prefixes);
    }
    at_most_one(&mut found);
    Ok((found, false))
}

/// Rounding must not bring the sum of posteriors above 1.
fn at_most_one(found: &mut [Sentence]) {
    let sum: f64 = found.iter().map(|sentence| sentence.posterior).sum();
    if sum > 1.0 {
        found.iter_mut().for_each(|sentence| sentence.posterior /= sum * (1.0 + f64::EPSILON));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::{LatticeArc, LatticeWeight, PartsBuilder, RawLattice};

    /// `words` choices at each of `length` places, none dearer than another.
    fn grid(words: i32, length: u32) -> Lattice {
        let mut builder = PartsBuilder::default();
        builder.set_start(0);
        for state in 0..length {
            for olabel in 1..=words {
                let arc = LatticeArc { next: state + 1, ilabel: 1, olabel, weight: LatticeWeight::ONE };
                builder.add_arc(state, arc, &[]).unwrap();
            }
        }
        builder.set_final(length, LatticeWeight::ONE, &[]).unwrap();
        RawLattice::from_parts(builder.finish(false).unwrap()).unwrap().into()
    }

    #[test]
    fn sentences_of_equal_cost_come_in_ascending_order() {
        let nbest = grid(3, 3).nbest(30, 1.0).unwrap();
        let words: Vec<_> = nbest.paths.iter().map(|path| path.olabels.clone()).collect();
        assert_eq!((words.len(), words.is_sorted()), (27, true));
        assert!(nbest.posteriors.iter().all(|&posterior| (posterior - 1.0 / 27.0).abs() < 1e-12));
        assert!(nbest.posteriors.iter().sum::<f64>() <= 1.0);
        let first = grid(3, 3).nbest(5, 1.0).unwrap();
        assert_eq!(first.paths, nbest.paths[..5]);
    }

    #[test]
    fn memory_is_bounded_and_the_list_says_where_it_ends() {
        // 4^200 sentences, of which as many as fit.
        let lattice = grid(4, 200);
        let scales = Scales { graph: 1.0, acoustic: 1.0 };
        let (found, cut_short) = search(&lattice, usize::MAX, scales, 1 << 20).unwrap();
        assert!(cut_short && !found.is_empty() && found.len() < 10_000, "{}", found.len());
        let (few, cut_short) = search(&lattice, 3, scales, 1 << 20).unwrap();
        assert!(!cut_short && few.len() == 3);
    }

    #[test]
    fn log_sums() {
        assert_eq!(log_add(f64::INFINITY, f64::INFINITY), f64::INFINITY);
        assert_eq!(log_add(3.0, f64::INFINITY), 3.0);
        assert!((log_add(1.0, 1.0) - (1.0 - 2f64.ln())).abs() < 1e-15);
    }
}
