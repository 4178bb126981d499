//! Frames of a history that are committed while it goes on. What may be is said in `search/commit.rs`.

use super::{History, Traced};
use crate::error::{Result, try_filled};
use crate::graph::Graph;
use crate::search::backtrace::{Links, Name, Place, Step, WayBack};
use crate::search::backward::{Room, Windows, extras_before};
use crate::search::bias::bias_state;
use crate::search::commit::{BEHIND, CommitConfig, CommittedLattice, Dropping, LOOK, WHAT};
use crate::search::config::SearchConfig;

impl History {
    /// What [`History::set_commit`] was last given.
    pub fn commit_config(&self) -> Option<CommitConfig> {
        self.commits.config
    }

    /// Commits from now on as `config` says, or not at all. On an error nothing has changed.
    pub fn set_commit(&mut self, config: Option<CommitConfig>) -> Result<()> {
        config.map_or(Ok(()), |config| config.check())?;
        if self.commits.config.is_none() {
            self.commits.since = self.last_time().unwrap_or(0);
        }
        self.commits.config = config;
        Ok(())
    }

    /// Frames that may be searched before the next look, which is to be taken between two frames.
    pub fn frames_to_look(&self) -> usize {
        let time = self.last_time().unwrap_or(0);
        if self.commits.config.is_some() { LOOK - time % LOOK } else { usize::MAX }
    }

    /// Frames that have been committed: the time where lattices begin.
    pub fn committed_frames(&self) -> usize {
        self.trace.base()
    }

    /// Hands out the oldest lattice of committed frames that has not been.
    pub fn take_committed(&mut self) -> Option<CommittedLattice> {
        self.commits.take()
    }

    /// Commits what can be, if a look is due; to be called before each frame is searched. If the
    /// answer is true, tokens of the last time were dropped: those that cost `+inf` now must not emit.
    /// On an error nothing has changed.
    pub fn commit(&mut self, graph: &Graph, config: &SearchConfig, room: &mut Room) -> Result<bool> {
        let (Some(options), Some(now)) = (self.commits.config, self.last_time()) else { return Ok(false) };
        let base = self.trace.base();
        // Windows may be longer than with commits until as many frames have been searched as now fill one.
        let early = now <= base + BEHIND || now < self.commits.since + LOOK;
        if !now.is_multiple_of(LOOK) || self.commits.looked == now || early {
            return Ok(false);
        }
        let beam = config.lattice_beam;
        let mut extras = self.extras_seen_now(beam, room)?;
        let last = now - BEHIND;
        let narrow = self.trace.narrow(base + 1..last + 1, &extras, beam);
        let forced = narrow.is_none() && (now - base) as u64 >= options.frames;
        let end = self.best_token();
        let on_path = match end {
            Some(end) if forced => self.on_path(graph, end, last)?,
            _ => None,
        };
        let (Some(at), Some(end)) = (narrow.or(on_path), end) else {
            self.commits.looked = now;
            return Ok(false);
        };
        let lattice = self.trace.lattice_into(at, graph, &self.bias, beam, config.acoustic_scale)?;
        self.trace.single_out(at, forced, beam, &mut extras);
        let dropping = if forced { Some(self.dropping(&extras, beam)?) } else { None };
        self.trace.reserve_commit()?;
        self.commits.reserve()?;
        let Traced { best, stable } = self.traced.get_mut();
        let windows = Windows { older: &self.older, younger: &self.younger };
        best.trace(&Links { graph, bias: &self.bias, trace: &self.trace, boundary: &self.boundary, windows }, end)?;
        // From here on nothing fails.
        if let Some(mut dropping) = dropping {
            dropping.go_on(graph, &mut self.older);
            dropping.go_on(graph, &mut self.younger);
        }
        stable.commit(at.0, best.commit(at.0));
        self.trace.commit(at.0, extras, beam, &mut self.boundary);
        self.bias.commit(at.0);
        self.commits.keep(CommittedLattice { first_frame: base as u64, lattice });
        self.commits.looked = now;
        self.commits.forced += u64::from(forced);
        Ok(forced)
    }

    /// Extra costs of all tokens of the trace, as the tokens of the last time see them.
    fn extras_seen_now(&self, lattice_beam: f32, room: &mut Room) -> Result<Vec<f32>> {
        let (first, last) = (self.trace.base(), self.trace.num_times().saturating_sub(1));
        let seen = extras_before(self.windows(), self.boundary.len(), lattice_beam, room)?;
        let mut ends = try_filled(f32::INFINITY, self.trace.states_at(last).len(), WHAT)?;
        for (&place, &extra) in self.boundary.iter().zip(seen) {
            if let Some(end) = ends.get_mut(place as usize) {
                *end = end.min(extra);
            }
        }
        let mut extras = Vec::new();
        self.trace.extras(first, last, ends.into_iter(), lattice_beam, &mut extras)?;
        Ok(extras)
    }

    /// The best token of the last time, whatever it holds: it emits.
    fn best_token(&self) -> Option<Place> {
        let best = self.ends().enumerate().filter(|(_, end)| end.cost == 0.0);
        let best = best.min_by_key(|(_, end)| (end.state, end.bias));
        self.last_time().zip(best).map(|(time, (token, _))| Place { time, token: token as u32 })
    }

    /// The token by which the best path to `end` leaves `time`.
    fn on_path(&self, graph: &Graph, end: Place, time: usize) -> Result<Option<(usize, u32)>> {
        let (links, mut way) = (self.links(graph), WayBack::default());
        let mut at = end;
        while let Some(Step { from, .. }) = way.best_link(&links, at)? {
            if at.time > time && from.time == time {
                return Ok(Some((time, from.token)));
            }
            at = from;
        }
        Ok(None)
    }

    /// Begins to drop tokens of the windows, with what the trace keeps of its last time.
    fn dropping(&self, extras: &[f32], lattice_beam: f32) -> Result<Dropping> {
        let last = self.trace.num_times().saturating_sub(1);
        let (states, first) = (self.trace.states_at(last), self.trace.tokens_at(last).start);
        let before = self.boundary.iter().map(|&place| match states.get(place as usize) {
            Some(&state) => {
                let name = Name { state, bias: bias_state(self.trace.bias_at(last), place as usize) };
                (name, extras[first + place as usize] <= lattice_beam)
            }
            None => (Name::GONE, false),
        });
        let windows = self.windows();
        let most = (0..windows.num_times()).map(|at| windows.time(at).states.len()).max().unwrap_or(0);
        Dropping::new(before, most)
    }
}
