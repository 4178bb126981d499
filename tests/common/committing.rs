//! Commits on endless streams as their definition reads, over the plain reference.

use std::collections::BTreeSet;

use koshi::search::CommittedLattice;

use super::reference::{Link, Reference};

/// Frames from one look to the next, and times before the last that are not committed.
pub const LOOK: usize = 64;
pub const BEHIND: usize = 128;

/// A committed piece, and whether it was forced.
pub struct Commit {
    pub piece: CommittedLattice,
    pub forced: bool,
}

impl Reference {
    /// Frames that are committed.
    pub fn base(&self) -> usize {
        self.base
    }

    /// What is to be done before a frame is searched: commits up to the last time whose surviving links all leave one token,
    /// or, if there is none for `frames` frames, up to the best path's token, and drops what does not go on from there.
    pub fn look(&mut self, frames: usize) -> Option<Commit> {
        let now = self.tokens.len() - 1;
        if !now.is_multiple_of(LOOK) || now <= self.base + BEHIND {
            return None;
        }
        let last = now - BEHIND;
        let narrow = self.narrow(last);
        let forced = narrow.is_none();
        if forced && now - self.base < frames {
            return None;
        }
        let at = narrow.unwrap_or_else(|| self.on_best_path(last));
        let end = [(at.1, (0.0, 0.0))].into();
        let mut lattice = self.lattice_to(at.0, &end, false);
        // What is held there goes on being held.
        lattice.bias.finals.fill(0.0);
        let piece = CommittedLattice { first_frame: self.base as u64, lattice };
        let steps = self.best_links(at);
        self.committed.extend(steps);
        self.begin_at(at);
        Some(Commit { piece, forced })
    }

    /// The token that all links which survive the tokens of now leave, at the last time up to `last` where there is
    /// such a one.
    fn narrow(&self, last: usize) -> Option<(usize, u32)> {
        let now = self.tokens.len() - 1;
        let ends = self.tokens[now].keys().map(|&state| (state, (0.0, 0.0))).collect();
        let extras = self.extras(now, &ends);
        let survives = |link: &&Link| {
            let extra = link.cost - self.tokens[link.dst.0][&link.dst.1];
            extras.get(&link.dst).is_some_and(|to| extra + to <= self.config.lattice_beam)
        };
        (self.base + 1..=last).rev().find_map(|time| {
            let leaving = self.links_into(time + 1).iter().filter(|link| link.src.0 == time);
            let sources: BTreeSet<u32> = leaving.filter(survives).map(|link| link.src.1).collect();
            match Vec::from_iter(sources)[..] {
                [only] => Some((time, only)),
                _ => None,
            }
        })
    }

    /// The token by which the best path leaves a time.
    fn on_best_path(&self, time: usize) -> (usize, u32) {
        let now = self.tokens.len() - 1;
        let least = self.least(now);
        let (&best, _) = self.tokens[now].iter().find(|(_, alpha)| **alpha == least).unwrap();
        let links = self.best_links((now, best));
        links.iter().find(|link| link.src.0 == time && link.dst.0 > time).unwrap().src
    }

    /// Forgets all before a token, and those behind it whose best path does not go through it.
    fn begin_at(&mut self, at: (usize, u32)) {
        let mut kept = BTreeSet::from([at]);
        for time in at.0 + 1..self.tokens.len() {
            let mut order: Vec<u32> = self.tokens[time].keys().copied().collect();
            // Epsilon arcs lead to higher levels.
            order.sort_by_key(|&state| self.graph.levels[state as usize]);
            for state in order {
                if self.best_link((time, state)).is_some_and(|link| kept.contains(&link.src)) {
                    kept.insert((time, state));
                }
            }
        }
        self.links.retain(|link| kept.contains(&link.src) && kept.contains(&link.dst) && link.dst.0 > at.0);
        for (time, tokens) in self.tokens.iter_mut().enumerate() {
            tokens.retain(|&state, _| kept.contains(&(time, state)));
        }
        self.base = at.0;
    }
}
