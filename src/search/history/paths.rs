//! Best paths of a history, to its end or to where it stands.

use std::cmp::Ordering;

use super::{History, PathEnd};
use crate::error::Result;
use crate::graph::Graph;
use crate::lattice::{Path, RawLattice};
use crate::search::backtrace::Place;
use crate::search::best_path::BestPath;
use crate::search::bias::bias_state;
use crate::search::config::SearchConfig;
use crate::search::ends::{Ends, LastToken};
use crate::search::window::Time;

impl History {
    /// The best of some ends of the last time, without final costs (ties: the smaller state, then the
    /// smaller bias state).
    pub(super) fn best_of(ends: impl Iterator<Item = (usize, LastToken)>) -> Option<(usize, LastToken)> {
        let order = |end: &LastToken| (end.cost + end.held, end.state, end.bias);
        let better = |a: &LastToken, b: &LastToken| order(a).partial_cmp(&order(b)).unwrap_or(Ordering::Equal);
        ends.min_by(|(_, a), (_, b)| better(a, b))
    }

    /// The best path now, to a final state if asked for and reached.
    pub fn best_path(&self, graph: &Graph, config: &SearchConfig, use_final: bool) -> Result<Path> {
        let (end, reached_final) = self.best_end(graph, use_final)?;
        let path = self.path_to(graph, config, end, 0)?;
        Ok(Path { reached_final, ..path })
    }

    /// The same as a lattice, which begins behind what has been committed.
    pub fn best_lattice(&self, graph: &Graph, config: &SearchConfig, use_final: bool) -> Result<RawLattice> {
        let (end, reached_final) = self.best_end(graph, use_final)?;
        let lattice = match (self.last_time(), end) {
            (Some(time), Some((token, final_cost, held))) => {
                let end = Place { time, token: token as u32 };
                self.links(graph).best_lattice(end, final_cost, held, config.acoustic_scale)?
            }
            _ => RawLattice::empty(config.acoustic_scale),
        };
        Ok(RawLattice { reached_final, ..lattice })
    }

    /// The token of the last time where the best path ends, with the final and bias cost that it pays, and
    /// whether it is one of the final ones that were asked for.
    fn best_end(&self, graph: &Graph, use_final: bool) -> Result<(Option<PathEnd>, bool)> {
        let ends = Ends::new(self.ends(), graph, use_final)?;
        let end = ends.best(self.ends());
        let empty = use_final && self.no_frames() && !ends.reached_final;
        let end = end.filter(|_| !empty).map(|token| (token, ends.final_costs[token], ends.held[token]));
        Ok((end, ends.reached_final && !empty))
    }

    /// The best path to the best token that emits, without its first `from` words, as `BestPath::path_from`
    /// gives it. `emitting` gives the places of the tokens that emit in the next frame. The work follows the
    /// frames since the last call.
    pub fn partial(
        &self,
        graph: &Graph,
        config: &SearchConfig,
        from: usize,
        emitting: impl Iterator<Item = u32>,
    ) -> Result<Path> {
        let end = self.best_emitting(emitting).map(|(token, end)| (token, 0.0, end.held));
        self.path_to(graph, config, end, from)
    }

    /// How many of the words of [`History::partial`] can no longer change. The work follows the frames since
    /// the last call, and the tokens that emit.
    pub fn stable_words(&self, graph: &Graph, emitting: impl ExactSizeIterator<Item = u32>) -> Result<usize> {
        match self.last_time() {
            Some(time) => self.traced.lock().stable.count(&self.links(graph), time, emitting),
            None => Ok(0),
        }
    }

    /// Makes `known`, which holds what the last such call has put there or nothing, the words of
    /// [`History::partial`]. On an error it stays as it is.
    pub fn tell_words(&self, graph: &Graph, emitting: impl Iterator<Item = u32>, known: &mut Vec<i32>) -> Result<()> {
        self.with_partial(graph, emitting, |best| best.tell_words(known))
    }

    /// Whether those words are others than `known`, which the last [`History::tell_words`] has left, or none.
    pub fn has_other_words(&self, graph: &Graph, emitting: impl Iterator<Item = u32>, known: &[i32]) -> Result<bool> {
        self.with_partial(graph, emitting, |best| Ok(best.has_other_words(known)))
    }

    fn with_partial<T>(
        &self,
        graph: &Graph,
        emitting: impl Iterator<Item = u32>,
        body: impl FnOnce(&mut BestPath) -> Result<T>,
    ) -> Result<T> {
        let best = &mut self.traced.lock().best;
        if let (Some(time), Some((token, _))) = (self.last_time(), self.best_emitting(emitting)) {
            best.trace(&self.links(graph), Place { time, token: token as u32 })?;
        }
        body(best)
    }

    /// The best end among tokens that emit. One that does not may be better, where others give back much; its
    /// words will be no more.
    fn best_emitting(&self, emitting: impl Iterator<Item = u32>) -> Option<(usize, LastToken)> {
        let last = self.last();
        let end = |last: Time<'_>, at: usize| self.end(last.states[at], last.alphas[at], bias_state(last.bias, at));
        Self::best_of(emitting.filter_map(|place| Some((place as usize, end(last?, place as usize)))))
    }

    /// The best path to a token of the last time, with the final and bias cost that it ends at, without
    /// its first `from` words.
    fn path_to(&self, graph: &Graph, config: &SearchConfig, end: Option<PathEnd>, from: usize) -> Result<Path> {
        let mut path = match (self.last_time(), end) {
            (Some(time), Some((token, final_cost, held))) => {
                let best = &mut self.traced.lock().best;
                best.trace(&self.links(graph), Place { time, token: token as u32 })?;
                let mut path = best.path_from(from)?;
                path.graph_cost += f64::from(final_cost);
                path.bias_cost += f64::from(held);
                path
            }
            _ => Path::default(),
        };
        path.acoustic_scale = config.acoustic_scale;
        Ok(path)
    }
}
