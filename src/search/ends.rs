//! Where an utterance may end: the end values of the last tokens.

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
    pub fn new(tokens: impl Iterator<Item = (u32, f32)> + Clone, graph: &Graph, use_final: bool) -> Ends {
        if use_final {
            let final_costs: Vec<f32> = tokens.clone().map(|(state, _)| graph.final_cost(state)).collect();
            let totals: Vec<f32> = tokens.clone().zip(&final_costs).map(|((_, a), cost)| a + cost).collect();
            let least = totals.iter().copied().fold(f32::INFINITY, f32::min);
            if least < f32::INFINITY {
                let extras = totals.iter().map(|total| total - least).collect();
                return Ends { extras, final_costs, reached_final: true };
            }
        }
        let extras: Vec<f32> = tokens.map(|(_, a)| a).collect();
        let final_costs = vec![0.0; extras.len()];
        Ends { extras, final_costs, reached_final: false }
    }

    /// The token where the best path ends: extra 0, ties to the smaller state.
    pub fn best(&self, states: impl Iterator<Item = u32>) -> Option<usize> {
        let zeros = states.zip(&self.extras).enumerate().filter(|(_, (_, extra))| **extra == 0.0);
        zeros.min_by_key(|(_, (state, _))| *state).map(|(place, _)| place)
    }
}
