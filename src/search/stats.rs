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
    /// Those bytes of `memory` that the trace holds: what an utterance grows by.
    pub trace_bytes: u64,
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
            trace_bytes: 0,
            links_followed: 0,
        }
    }
}

impl SearchStats {
    /// The counts of this and of what came before it together. What is held now is what this holds.
    pub fn behind(&self, before: &SearchStats) -> SearchStats {
        SearchStats {
            frames: before.frames + self.frames,
            tokens: before.tokens + self.tokens,
            max_tokens: before.max_tokens.max(self.max_tokens),
            arcs: before.arcs + self.arcs,
            links: before.links + self.links,
            max_active_held: before.max_active_held + self.max_active_held,
            capacity_held: before.capacity_held + self.capacity_held,
            effective_beam: before.effective_beam.min(self.effective_beam),
            trace_links: self.trace_links,
            memory: self.memory,
            trace_bytes: self.trace_bytes,
            // Lattices begin behind all that was closed.
            committed_frames: before.frames + self.committed_frames,
            forced_commits: before.forced_commits + self.forced_commits,
            seconds: before.seconds + self.seconds,
            links_followed: before.links_followed + self.links_followed,
        }
    }
}
