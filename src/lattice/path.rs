//! One path through a graph or lattice: words, transition-ids, times, costs.

/// A path. Costs are negative natural logs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Path {
    /// Input labels of the emitting arcs in order: one a frame, behind those frames that a channel has committed.
    pub ilabels: Vec<i32>,
    /// Output labels that are not epsilon, in order.
    pub olabels: Vec<i32>,
    /// For each output label the frame at which its arc starts (frames before it).
    pub frames: Vec<u32>,
    /// Sum of graph costs, final cost included.
    pub graph_cost: f64,
    /// Sum of acoustic costs without the acoustic scale.
    pub acoustic_cost: f64,
    /// Sum of what phrases cost: below 0 where they made the path more likely. Not part of the graph cost.
    pub bias_cost: f64,
    /// The scale that was in force when the path was chosen.
    pub acoustic_scale: f32,
    /// Whether the path ends in a final state of the graph.
    pub reached_final: bool,
}

impl Path {
    /// `graph_cost + bias_cost + acoustic_scale * acoustic_cost`.
    pub fn total_cost(&self) -> f64 {
        self.graph_cost + self.bias_cost + f64::from(self.acoustic_scale) * self.acoustic_cost
    }
}
