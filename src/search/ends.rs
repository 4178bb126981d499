//! Where an utterance may end: the end values of the last tokens.

use crate::error::{Result, try_filled, try_reserve};
use crate::graph::Graph;

/// End values of the tokens of the last time, in the order of those tokens.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    /// Extra cost of ending at each token, least 0; `+inf` where it may not end.
    pub extras: Vec<f32>,
    /// Graph final cost that an end at each token pays (0 where no final was reached).
    pub final_costs: Vec<f32>,
    /// Whether finals were asked for and reached.
    pub reached_final: bool,
}

impl Ends {
    /// End values for tokens given as (state id, cost above the best).
    ///
    /// With `use_final`, if any token is final only final tokens count, by `cost + final`;
    /// else every token counts by its cost.
    pub fn new(
        tokens: impl ExactSizeIterator<Item = (u32, f32)> + Clone,
        graph: &Graph,
        use_final: bool,
    ) -> Result<Ends> {
        let mut ends = Ends::default();
        try_reserve(&mut ends.extras, tokens.len(), "end values")?;
        try_reserve(&mut ends.final_costs, tokens.len(), "end values")?;
        if use_final {
            ends.final_costs.extend(tokens.clone().map(|(state, _)| graph.final_cost(state)));
            ends.extras.extend(tokens.clone().zip(&ends.final_costs).map(|((_, a), cost)| a + cost));
            let least = ends.extras.iter().copied().fold(f32::INFINITY, f32::min);
            if least < f32::INFINITY {
                ends.extras.iter_mut().for_each(|extra| *extra -= least);
                ends.reached_final = true;
                return Ok(ends);
            }
            ends.extras.clear();
            ends.final_costs.clear();
        }
        ends.extras.extend(tokens.map(|(_, a)| a));
        ends.final_costs.resize(ends.extras.len(), 0.0);
        Ok(ends)
    }

    /// The same ends for tokens in another order: `places[old]` is the new place of token
    /// `old`, all of them distinct and below their number.
    pub fn reordered(&self, places: &[u32]) -> Result<Ends> {
        let count = self.extras.len();
        let mut ends = Ends {
            extras: try_filled(f32::INFINITY, count, "end values")?,
            final_costs: try_filled(0.0, count, "end values")?,
            reached_final: self.reached_final,
        };
        for (old, &place) in places.iter().enumerate().take(count) {
            if let Some(slot) = ends.extras.get_mut(place as usize) {
                *slot = self.extras[old];
                ends.final_costs[place as usize] = self.final_costs[old];
            }
        }
        Ok(ends)
    }

    /// The token where the best path ends: extra 0, ties to the smaller state.
    pub fn best(&self, states: impl Iterator<Item = u32>) -> Option<usize> {
        let zeros = states.zip(&self.extras).enumerate().filter(|(_, (_, extra))| **extra == 0.0);
        zeros.min_by_key(|(_, (state, _))| *state).map(|(place, _)| place)
    }
}
