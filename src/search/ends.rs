//! Where an utterance may end: the end values of the last tokens.

use crate::error::{Result, try_filled, try_reserve};
use crate::graph::Graph;

/// A token of the last time, where the utterance may end.
#[derive(Clone, Copy, Debug)]
pub struct LastToken {
    /// State id.
    pub state: u32,
    /// Bias state; 0 without phrases.
    pub bias: u32,
    /// Cost above the best token.
    pub cost: f32,
    /// Bias cost of ending here: what is only held is given back.
    pub held: f32,
}

/// End values of the tokens of the last time, in the order of those tokens.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    /// Extra cost of ending at each token, least 0; `+inf` where it may not end.
    pub extras: Vec<f32>,
    /// Graph final cost that an end at each token pays (0 where no final was reached).
    pub final_costs: Vec<f32>,
    /// Bias cost that an end at each token pays.
    pub held: Vec<f32>,
    /// Whether finals were asked for and reached.
    pub reached_final: bool,
}

impl Ends {
    /// End values for the tokens of the last time.
    ///
    /// With `use_final`, if any token is final only final tokens count, by `cost + (final + held)`;
    /// else every token counts by `cost + held`.
    pub fn new(
        tokens: impl ExactSizeIterator<Item = LastToken> + Clone,
        graph: &Graph,
        use_final: bool,
    ) -> Result<Ends> {
        let mut ends = Ends::default();
        try_reserve(&mut ends.extras, tokens.len(), "end values")?;
        try_reserve(&mut ends.final_costs, tokens.len(), "end values")?;
        try_reserve(&mut ends.held, tokens.len(), "end values")?;
        ends.held.extend(tokens.clone().map(|token| token.held));
        if use_final {
            ends.final_costs.extend(tokens.clone().map(|token| graph.final_cost(token.state)));
            let totals = tokens.clone().zip(&ends.final_costs);
            ends.extras.extend(totals.map(|(token, cost)| token.cost + (cost + token.held)));
            if ends.subtract_least() {
                ends.reached_final = true;
                return Ok(ends);
            }
            ends.extras.clear();
            ends.final_costs.clear();
        }
        ends.extras.extend(tokens.map(|token| token.cost + token.held));
        ends.final_costs.resize(ends.extras.len(), 0.0);
        ends.subtract_least();
        Ok(ends)
    }

    /// Makes the least extra cost 0, if any is finite.
    fn subtract_least(&mut self) -> bool {
        let least = least(self.extras.iter().copied());
        if least < f32::INFINITY {
            self.extras.iter_mut().for_each(|extra| *extra -= least);
        }
        least < f32::INFINITY
    }

    /// Cost of the best final end above the best end; `+inf` where no token is final.
    pub fn final_relative_cost(tokens: impl Iterator<Item = LastToken> + Clone, graph: &Graph) -> f32 {
        let with_final = least(tokens.clone().map(|token| token.cost + (graph.final_cost(token.state) + token.held)));
        let without = least(tokens.map(|token| token.cost + token.held));
        if with_final < f32::INFINITY { with_final - without } else { with_final }
    }

    /// The same ends for tokens in another order: `places[old]` is the new place of token
    /// `old`, all of them distinct and below their number.
    pub fn reordered(&self, places: &[u32]) -> Result<Ends> {
        let count = self.extras.len();
        let mut ends = Ends {
            extras: try_filled(f32::INFINITY, count, "end values")?,
            final_costs: try_filled(0.0, count, "end values")?,
            held: try_filled(0.0, count, "end values")?,
            reached_final: self.reached_final,
        };
        for (old, &place) in places.iter().enumerate().take(count) {
            if let Some(slot) = ends.extras.get_mut(place as usize) {
                *slot = self.extras[old];
                ends.final_costs[place as usize] = self.final_costs[old];
                ends.held[place as usize] = self.held[old];
            }
        }
        Ok(ends)
    }

    /// The token where the best path ends: extra 0, ties to the smaller state, then the smaller bias state.
    pub fn best(&self, tokens: impl Iterator<Item = LastToken>) -> Option<usize> {
        let zeros = tokens.zip(&self.extras).enumerate().filter(|(_, (_, extra))| **extra == 0.0);
        zeros.min_by_key(|(_, (token, _))| (token.state, token.bias)).map(|(place, _)| place)
    }
}

fn least(costs: impl Iterator<Item = f32>) -> f32 {
    costs.fold(f32::INFINITY, f32::min)
}
