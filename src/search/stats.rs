//! Counts that a channel keeps while it searches.

/// What a channel did since `begin`. Counts are of the channel alone, whatever its neighbours did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchStats {
    /// Frames searched.
    pub frames: u64,
    /// Tokens made, over all times.
    pub tokens: u64,
    /// Largest number of tokens at one time.
    pub max_tokens: u64,
    /// Arcs looked at, emitting and epsilon.
    pub arcs: u64,
    /// Links made, before any pruning.
    pub links: u64,
    /// Frames on which `max_active` tightened the beam.
    pub max_active_held: u64,
    /// Frames on which a capacity tightened theta.
    pub capacity_held: u64,
    /// Least beam that was in force for a frame (`theta` less the best candidate).
    pub effective_beam: f32,
    /// Links of the trace that are held now.
    pub trace_links: u64,
    /// Bytes that tokens, links, trace and remembered best path hold now.
    pub memory: u64,
    /// Seconds spent searching, by the wall.
    pub seconds: f64,
    /// Links followed back for best paths, partial results and end points.
    pub links_followed: u64,
    /// Frames that have been committed: lattices begin behind them.
    pub committed_frames: u64,
    /// Commits at a token that not all paths went through.
    pub forced_commits: u64,
}

impl Default for SearchStats {
    fn default() -> SearchStats {
        SearchStats {
            frames: 0,
            tokens: 0,
            max_tokens: 0,
            arcs: 0,
            links: 0,
            max_active_held: 0,
            capacity_held: 0,
            effective_beam: f32::INFINITY,
            trace_links: 0,
            memory: 0,
            seconds: 0.0,
            committed_frames: 0,
            forced_commits: 0,
            links_followed: 0,
        }
    }
}
