//! Commits on endless streams: what all tokens agree on is handed out and forgotten.
//!
//! A look is taken every [`LOOK`] frames. All surviving links of a time may come from one token:
//! then every path goes through it, and what lies before it can no longer change. Where there is
//! no such time for long, the token on the best path is kept all the same, and the tokens whose
//! own best path does not go through it are dropped: costs and best paths of the others stay what
//! they were. What is found depends on the frames alone, not on the backend, on pushes, or on when
//! the links were pruned.

use std::collections::VecDeque;
use std::ops::Range;

use crate::error::{Error, Result, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS};
use crate::lattice::RawLattice;

use super::backtrace::Name;
use super::bias::bias_state;
use super::trace::EPSILON;
use super::window::{Link, Window};

/// Frames from one look to the next. (A launch on a GPU ends at a look and where the window of raw tokens is full, which
/// is after 60 times: half as many frames a launch as without commits. What that costs has not been measured.)
pub const LOOK: usize = 64;
/// Times before the last that are not committed. The windows of no backend hold as many, so that
/// what is committed has been pruned to the trace.
pub(super) const BEHIND: usize = 128;

/// What memory in this file is for, in messages.
pub(super) const WHAT: &str = "commit";

/// How an endless stream is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitConfig {
    /// Frames after which the best path's token is kept where no token is common to all paths.
    pub frames: u64,
    /// Committed frames whose lattices are kept until they are asked for; older ones are dropped.
    pub lattice_frames: u64,
}

impl CommitConfig {
    /// With fewer frames there would be too little of the future to decide by.
    pub const LEAST_FRAMES: u64 = 2 * BEHIND as u64;

    /// Refuses values outside their ranges.
    pub fn check(&self) -> Result<()> {
        if self.frames < Self::LEAST_FRAMES {
            let least = Self::LEAST_FRAMES;
            return Err(Error::Config(format!("commit_frames is {}; it must be 0, or {least} at least", self.frames)));
        }
        Ok(())
    }
}

/// The lattice of frames that have been committed: from the token where the one before ends to the
/// next that was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct CommittedLattice {
    /// The frame where it begins, counted from `begin`.
    pub first_frame: u64,
    /// Its times count from there. It ends in one state, at no cost.
    pub lattice: RawLattice,
}

/// What a history keeps of its commits.
#[derive(Debug, Default)]
pub(super) struct Commits {
    pub config: Option<CommitConfig>,
    /// Frames when they were asked for.
    pub since: usize,
    /// Frames at the last look.
    pub looked: usize,
    /// Commits at a token that not all paths went through.
    pub forced: u64,
    lattices: VecDeque<CommittedLattice>,
    lattice_frames: u64,
    lattice_bytes: usize,
}

impl Commits {
    /// Forgets the utterance.
    pub fn clear(&mut self) {
        *self = self.fresh();
    }

    /// As it was before the utterance, with the same options.
    pub fn fresh(&self) -> Commits {
        Commits { config: self.config, ..Commits::default() }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.lattice_bytes + self.lattices.capacity() * size_of::<CommittedLattice>()
    }

    /// Room for one more lattice.
    pub fn reserve(&mut self) -> Result<()> {
        let asked = size_of::<CommittedLattice>() as u64;
        self.lattices.try_reserve(1).map_err(|_| Error::NoMemory { what: WHAT.into(), asked })
    }

    /// Keeps a lattice, for which there is room, and drops the oldest ones that are too many.
    pub fn keep(&mut self, committed: CommittedLattice) {
        self.lattice_frames += u64::from(committed.lattice.num_frames);
        self.lattice_bytes += bytes(&committed.lattice);
        self.lattices.push_back(committed);
        let most = self.config.map_or(0, |config| config.lattice_frames);
        while self.lattice_frames > most && self.take().is_some() {}
    }

    /// Hands the oldest lattice out.
    pub fn take(&mut self) -> Option<CommittedLattice> {
        let oldest = self.lattices.pop_front()?;
        self.lattice_frames -= u64::from(oldest.lattice.num_frames);
        self.lattice_bytes -= bytes(&oldest.lattice);
        Some(oldest)
    }
}

fn bytes(lattice: &RawLattice) -> usize {
    size_of_val(lattice.arcs.as_slice())
        + size_of_val(lattice.finals.as_slice())
        + (lattice.offsets.len() + lattice.times.len() + lattice.bias.arcs.len() + lattice.bias.finals.len()) * 4
}

/// Which tokens of a time are kept, in the windows' own places, and their names.
#[derive(Debug, Default)]
pub(super) struct Kept {
    names: Vec<Name>,
    kept: Vec<bool>,
    /// What decides between best links, of the best so far.
    orders: Vec<u64>,
}

/// Before a best link has been seen, and where one comes from a token that is gone.
const UNSEEN: u64 = u64::MAX;
const GONE: u64 = 0;

/// Drops tokens of the windows, time by time.
#[derive(Debug, Default)]
pub(super) struct Dropping {
    before: Kept,
    here: Kept,
}

impl Dropping {
    /// Begins with the tokens of the time before the windows: names by place, [`Name::GONE`] where a
    /// token is gone for other reasons. `most` is the most tokens of a time.
    pub fn new(before: impl ExactSizeIterator<Item = (Name, bool)>, most: usize) -> Result<Dropping> {
        let mut room = Dropping::default();
        for (list, len) in [(&mut room.before, most.max(before.len())), (&mut room.here, most.max(before.len()))] {
            try_reserve(&mut list.names, len, WHAT)?;
            try_reserve(&mut list.kept, len, WHAT)?;
            try_reserve(&mut list.orders, len, WHAT)?;
        }
        for (name, kept) in before {
            room.before.names.push(name);
            room.before.kept.push(kept);
        }
        Ok(room)
    }

    /// Drops the tokens whose best link comes from a dropped one. Takes no memory.
    pub fn go_on(&mut self, graph: &Graph, window: &mut Window) {
        for at in 0..window.num_times() {
            let (start, end) = window.bounds(at);
            let tokens = start.tokens..end.tokens;
            self.here.names.clear();
            self.here.names.extend(tokens.clone().map(|token| Name {
                state: window.states[token] & !HAS_EPSILONS,
                bias: bias_state(&window.bias, token),
            }));
            self.here.kept.clear();
            self.here.kept.resize(tokens.len(), false);
            self.here.orders.clear();
            self.here.orders.resize(tokens.len(), UNSEEN);
            // A link stands behind all that lead to its source.
            for link in start.links..end.links {
                self.look_at(graph, window.links[link], window.alphas[start.tokens + window.links[link].dst as usize]);
            }
            self.apply(window, tokens, start.links..end.links);
            std::mem::swap(&mut self.before, &mut self.here);
        }
    }

    /// The source of a link: its name, and whether it is kept.
    fn source(&self, link: &Link) -> (Name, bool) {
        let tokens = if link.src & EPSILON != 0 { &self.here } else { &self.before };
        let place = (link.src & !EPSILON) as usize;
        match (tokens.names.get(place), tokens.kept.get(place)) {
            (Some(&name), Some(&kept)) => (name, kept),
            _ => (Name::GONE, false),
        }
    }

    /// Whether a token is kept is decided by its best link (ties: the smallest file arc, then bias state): is
    /// `link`, into a token of cost `alpha`, better than those before it?
    fn look_at(&mut self, graph: &Graph, link: Link, alpha: f32) {
        if link.cost != alpha || alpha == f32::INFINITY {
            return;
        }
        let (name, kept) = self.source(&link);
        let dst = link.dst as usize;
        let (best, best_kept) = (&mut self.here.orders[dst], &mut self.here.kept[dst]);
        // A source that is gone for other reasons lies too far above the best, and so does this token.
        let order = match name == Name::GONE {
            true => GONE,
            false => 1 + (u64::from(graph.file_arc(name.state, link.arc)) << 32 | u64::from(name.bias)),
        };
        if order < *best {
            (*best, *best_kept) = (order, kept);
        }
    }

    /// Takes what is dropped out of reach: links to it and from it cost too much.
    fn apply(&self, window: &mut Window, tokens: Range<usize>, links: Range<usize>) {
        for link in &mut window.links[links] {
            if !self.here.kept[link.dst as usize] || !self.source(link).1 {
                link.cost = f32::INFINITY;
            }
        }
        for (token, &kept) in tokens.zip(&self.here.kept) {
            if !kept {
                window.alphas[token] = f32::INFINITY;
            }
        }
    }
}
