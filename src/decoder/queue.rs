//! What waits to be searched for one channel, what its listener is to be told, and whose turn it is to use the
//! channel.
//!
//! Callers and the decoder's threads take turns. Callers that only look may be several, one that
//! changes the channel is alone. A caller is told when another one is in the way, and waits for a search
//! alone, which holds a channel for no longer than one chunk of frames. A thread that searches waits for
//! nobody: a channel that is in use is put off until the last caller has left.
//!
//! ```text
//!              submit, finish            claim               searched
//!         Idle ──────────────▶ Ready ──────────▶ Searching ───────────▶ Idle, Ready
//!
//!                                tell               told
//!                  Idle, Ready ───────▶ Telling ──────────▶ Idle, Ready
//! ```
//!
//! While a listener is told its channel is not searched, so that what it asks is what it was told of; callers
//! come in. New words that wait to be told hold up no search: what more is noticed meanwhile is told with them. An end
//! point and the end of the utterance do.
//!
//! Everything is under one lock. It is never held while rows are searched or callbacks run, nor while
//! any other lock is taken.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::sync::{Condvar, Mutex, MutexGuard};

/// Rows that wait.
pub trait Pending: Default {
    /// How many there are.
    fn frames(&self) -> usize;
    /// Forgets them, and gives their memory back.
    fn clear(&mut self);
}

/// Why nothing was queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal<E> {
    /// No utterance has begun.
    NotBegun,
    /// The utterance was finished, or is to be behind what is queued.
    Finished,
    /// The utterance has failed.
    Failed(E),
    /// The channel was freed.
    Closed,
    /// So many frames are queued that the new ones do not fit.
    Full {
        /// Frames that are queued.
        queued: usize,
    },
}

/// Whether the channel has to be put on the list of those that are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Wake {
    /// It stands there, or need not.
    No,
    /// Behind the others.
    Back,
    /// Before the others: its turn had come when it was in use.
    Front,
}

/// What is to be done for the channel now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Next {
    /// Whether it has to be put on the list of those that are ready.
    pub search: Wake,
    /// Whether it has to be put on the list of those whose listeners are to be told something.
    pub tell: bool,
}

impl Next {
    /// Nothing.
    pub const NOTHING: Next = Next { search: Wake::No, tell: false };
}

/// What a listener is to be told behind a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noticed {
    /// The words are others than those that it was told last.
    pub partial: bool,
    /// An end point was found.
    pub endpoint: bool,
}

/// A turn to tell the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Telling {
    /// What was noticed.
    pub noticed: Noticed,
    /// Which utterance it is of.
    pub utterance: u64,
}

/// What a caller does with the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Looks at it.
    Look,
    /// Changes it.
    Change,
    /// Searches rows of its own, for which nothing may be queued.
    Search,
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waited<E> {
    /// All that was queued is done.
    Done,
    /// Time was up before.
    TimedOut,
    /// The utterance has failed.
    Failed(E),
    /// The channel was freed meanwhile.
    Closed,
}

/// What becomes of a finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It stands behind what is queued.
    Queued(Wake),
    /// Nothing is queued: the caller finishes the channel.
    Now,
}

/// How an utterance has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End<E> {
    /// It was finished.
    Finished,
    /// It has failed.
    Failed(E),
}

/// What a search takes at its turn.
#[derive(Debug)]
pub struct Claim<B> {
    /// Rows to begin with. They go back with [`Queue::searched`].
    pub rows: B,
    /// Whether the channel's source is to be asked for rows; only where there are none.
    pub pull: bool,
    /// Whether words that an earlier search has noticed are still to be told.
    pub untold: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Idle,
    Ready,
    Searching,
    Telling,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage<E> {
    New,
    Open,
    /// To be finished behind what is queued.
    Finishing,
    Ended(End<E>),
}

/// The queue of one channel, of rows `B`, for an utterance that fails with an `E`.
#[derive(Debug)]
pub struct Queue<B, E> {
    state: Mutex<State<B, E>>,
    /// Told when a turn of the decoder's begins or ends, or what is waited for will never be.
    changed: Condvar,
}

#[derive(Debug)]
struct State<B, E> {
    turn: Turn,
    readers: u32,
    writer: bool,
    /// It stands on the list of those that are ready; where its turn is another one, in vain.
    ready: bool,
    /// It stands on the list of those to be told.
    listed: bool,
    /// A search has found the channel in use: nobody else comes in before its next turn.
    wanted: bool,
    stage: Stage<E>,
    /// What is still to be told, before the end.
    noticed: Noticed,
    /// The end of the utterance is still to be told.
    untold: bool,
    closed: bool,
    utterance: u64,
    incoming: B,
    working: B,
    /// Frames that are being searched.
    taken: usize,
    /// The channel's source may have rows.
    poked: bool,
}

impl<B: Pending, E: Clone> State<B, E> {
    fn in_use(&self) -> bool {
        self.writer || self.readers > 0
    }

    fn queued(&self) -> usize {
        self.incoming.frames() + self.working.frames() + self.taken
    }

    /// Whether there is something to search, or the channel is to be finished.
    fn work(&self) -> bool {
        let rows = self.incoming.frames() + self.working.frames() > 0;
        rows || self.poked || matches!(self.stage, Stage::Finishing)
    }

    /// Whether there is something to tell.
    fn news(&self) -> bool {
        self.noticed.partial || self.noticed.endpoint || self.untold
    }

    /// Whether nothing is searched before the listener knows.
    fn held(&self) -> bool {
        self.noticed.endpoint || self.untold
    }

    /// Makes the channel ready, if there is work and nobody is in the way.
    fn schedule(&mut self) -> Wake {
        if self.turn != Turn::Idle || self.in_use() || self.closed || self.held() || !self.work() {
            return Wake::No;
        }
        self.turn = Turn::Ready;
        if std::mem::replace(&mut self.ready, true) {
            return Wake::No;
        }
        if self.wanted { Wake::Front } else { Wake::Back }
    }

    /// Whether the channel has to be put on the list of those to be told. One that is being searched or told
    /// is looked at again behind that.
    fn list(&mut self) -> bool {
        let now = matches!(self.turn, Turn::Idle | Turn::Ready) && self.news() && !self.listed;
        self.listed |= now;
        now
    }

    fn next(&mut self) -> Next {
        Next { search: self.schedule(), tell: self.list() }
    }

    /// Forgets all that is queued.
    fn forget(&mut self) {
        self.incoming.clear();
        self.working.clear();
        self.poked = false;
    }

    fn end(&mut self, end: End<E>, tell: bool) {
        self.forget();
        self.stage = Stage::Ended(end);
        self.untold = tell;
    }

    fn check_open(&self) -> Result<(), Refusal<E>> {
        match &self.stage {
            _ if self.closed => Err(Refusal::Closed),
            Stage::New => Err(Refusal::NotBegun),
            Stage::Open => Ok(()),
            Stage::Finishing | Stage::Ended(End::Finished) => Err(Refusal::Finished),
            Stage::Ended(End::Failed(error)) => Err(Refusal::Failed(error.clone())),
        }
    }
}

impl<B: Pending, E: Clone> Default for Queue<B, E> {
    fn default() -> Queue<B, E> {
        let state = State {
            turn: Turn::Idle,
            readers: 0,
            writer: false,
            ready: false,
            listed: false,
            wanted: false,
            stage: Stage::New,
            noticed: Noticed::default(),
            untold: false,
            closed: false,
            utterance: 0,
            incoming: B::default(),
            working: B::default(),
            taken: 0,
            poked: false,
        };
        Queue { state: Mutex::new(state), changed: Condvar::new() }
    }
}

/// For any thread.
impl<B: Pending, E: Clone> Queue<B, E> {
    /// Queues `frames` rows, which `append` adds, if no more than `most` are queued then. What `append`
    /// refuses comes back as its own error.
    pub fn submit<X>(
        &self,
        frames: usize,
        most: usize,
        append: impl FnOnce(&mut B) -> Result<(), X>,
    ) -> Result<Result<Wake, X>, Refusal<E>> {
        let mut state = self.lock();
        state.check_open()?;
        let queued = state.queued();
        if queued.saturating_add(frames) > most {
            return Err(Refusal::Full { queued });
        }
        let appended = append(&mut state.incoming);
        Ok(appended.map(|()| state.schedule()))
    }

    /// Lets the channel's source be asked for rows.
    pub fn poke(&self) -> Result<Wake, Refusal<E>> {
        let mut state = self.lock();
        state.check_open()?;
        state.poked = true;
        Ok(state.schedule())
    }

    /// No more rows come. `tell`: the end is to be told; `poke`: there is a source, to be asked once more.
    /// A failed or finished utterance may be finished again, at once.
    pub fn finish(&self, tell: bool, poke: bool) -> Result<Finish, Refusal<E>> {
        let mut state = self.lock();
        match state.stage {
            _ if state.closed => Err(Refusal::Closed),
            Stage::New => Err(Refusal::NotBegun),
            Stage::Open if tell || poke || state.work() || state.turn == Turn::Searching => {
                state.stage = Stage::Finishing;
                state.poked |= poke;
                Ok(Finish::Queued(state.schedule()))
            }
            Stage::Finishing => Ok(Finish::Queued(Wake::No)),
            _ => Ok(Finish::Now),
        }
    }

    /// Ends an utterance that is open, with `error`: what is queued is forgotten. Answers whether there was one.
    /// `stop` stops who searches it; whoever sees that, finds it ended.
    pub fn cancel(&self, error: E, tell: bool, stop: impl FnOnce()) -> (bool, Next) {
        let mut state = self.lock();
        stop();
        if !matches!(state.stage, Stage::Open | Stage::Finishing) || state.closed {
            return (false, Next::NOTHING);
        }
        state.end(End::Failed(error), tell);
        let next = state.next();
        drop(state);
        self.changed.notify_all();
        (true, next)
    }

    /// The channel is freed: nothing more is queued, searched or told. Answers whether it is being searched.
    pub fn close(&self) -> bool {
        let mut state = self.lock();
        state.closed = true;
        // Its turn may never come: who is inside a call still is not kept out for it.
        state.wanted = false;
        state.noticed = Noticed::default();
        state.untold = false;
        state.stage = Stage::New;
        state.forget();
        let searching = state.turn == Turn::Searching;
        drop(state);
        self.changed.notify_all();
        searching
    }

    /// Frames that are queued, those included that are being searched.
    pub fn queued(&self) -> usize {
        self.lock().queued()
    }

    /// Waits until all that is queued is done and told, or until `deadline`.
    pub fn wait(&self, deadline: Option<Instant>) -> Waited<E> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return Waited::Closed;
            }
            if state.turn == Turn::Idle && !state.work() && !state.news() {
                return match &state.stage {
                    Stage::Ended(End::Failed(error)) => Waited::Failed(error.clone()),
                    _ => Waited::Done,
                };
            }
            match self.sleep(state, deadline) {
                Some(woken) => state = woken,
                None => return Waited::TimedOut,
            }
        }
    }

    /// Waits for a change; `None` once `deadline` is over.
    fn sleep<'a>(
        &'a self,
        state: MutexGuard<'a, State<B, E>>,
        deadline: Option<Instant>,
    ) -> Option<MutexGuard<'a, State<B, E>>> {
        let Some(deadline) = deadline else {
            return Some(self.changed.wait(state).unwrap_or_else(PoisonError::into_inner));
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left == Duration::ZERO {
            return None;
        }
        Some(self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0)
    }

    /// A caller's turn with the channel, or `false` if another caller's is in the way. Waits for the end of a
    /// search, unless `may_wait` says that this is a thread that searches.
    pub fn enter(&self, what: Purpose, may_wait: bool) -> bool {
        let mut state = self.lock();
        loop {
            let others = if what == Purpose::Look { state.writer } else { state.in_use() };
            let queued = what == Purpose::Search && (state.work() || state.turn == Turn::Searching);
            if others || queued {
                return false;
            }
            if !(state.wanted && may_wait) {
                break;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // Counted before the wait, so that the next search comes after this one.
        state.writer = what != Purpose::Look;
        state.readers += u32::from(what == Purpose::Look);
        while state.turn == Turn::Searching {
            if !may_wait {
                state.leave(what);
                return false;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// The end of a caller's turn.
    pub fn leave(&self, what: Purpose) -> Wake {
        let mut state = self.lock();
        state.leave(what);
        if state.in_use() {
            return Wake::No;
        }
        let wake = state.schedule();
        if state.wanted && state.turn == Turn::Idle {
            state.wanted = false;
            drop(state);
            self.changed.notify_all();
        }
        wake
    }

    /// Begins an utterance, at a caller's turn to change the channel: what was queued is forgotten.
    /// Until [`Queue::open`] nothing is taken.
    pub fn begin(&self) {
        let mut state = self.lock();
        state.forget();
        state.stage = Stage::New;
        state.noticed = Noticed::default();
        state.untold = false;
        state.utterance += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// The channel takes rows now; unless it was cancelled since it began, behind [`Queue::begin`], with `stopped()` for an error, which
    /// is told where `tell` says so. Answers whether it was, as [`Queue::cancel`].
    pub fn open(&self, tell: bool, stopped: impl FnOnce() -> Option<E>) -> (bool, Next) {
        let mut state = self.lock();
        if state.closed {
            return (false, Next::NOTHING);
        }
        let error = stopped();
        let cancelled = error.is_some();
        match error {
            Some(error) => state.end(End::Failed(error), tell),
            None => state.stage = Stage::Open,
        }
        (cancelled, state.next())
    }

    /// A caller finishes the channel at its own turn; `false` if something was queued since it was told
    /// that nothing is.
    pub fn finish_now(&self) -> bool {
        let mut state = self.lock();
        if matches!(state.stage, Stage::Open) {
            if state.work() {
                return false;
            }
            state.stage = Stage::Ended(End::Finished);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State<B, E>> {
        // Nothing that can panic half done runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B, E> State<B, E> {
    fn leave(&mut self, what: Purpose) {
        match what {
            Purpose::Look => self.readers -= 1,
            _ => self.writer = false,
        }
    }
}

/// For the threads that search, in this order.
impl<B: Pending, E: Clone> Queue<B, E> {
    /// A search's turn with a channel that was taken off the list of those that are ready; `None` where there is
    /// nothing to do, or somebody is in the way, who makes it ready again.
    pub fn claim(&self) -> Option<Claim<B>> {
        let mut state = self.lock();
        state.ready = false;
        if state.turn != Turn::Ready {
            // It is being told something, or has been, and was made idle behind that.
            return None;
        }
        if state.in_use() && !state.closed {
            state.turn = Turn::Idle;
            state.wanted = true;
            return None;
        }
        let idle = state.closed || !state.work();
        state.turn = if idle { Turn::Idle } else { Turn::Searching };
        let claim = if idle { None } else { Some(state.take()) };
        state.wanted = false;
        drop(state);
        // Who waits for the queue to be done, and who was kept out.
        self.changed.notify_all();
        claim
    }

    /// The search is over: callers may come in. `rows` are those that are left, `more` says whether the
    /// source may have more, `outcome` whether the channel was finished or the utterance has failed;
    /// that and what was `noticed`, if anything was searched, is told where `tell` says so.
    pub fn searched(
        &self,
        rows: B,
        more: bool,
        outcome: Result<bool, E>,
        noticed: Option<Noticed>,
        tell: bool,
    ) -> Next {
        let mut state = self.lock();
        state.turn = Turn::Idle;
        state.taken = 0;
        if let Some(noticed) = noticed.filter(|_| tell && !state.closed) {
            state.noticed = Noticed { endpoint: state.noticed.endpoint || noticed.endpoint, ..noticed };
        }
        if matches!(state.stage, Stage::Open | Stage::Finishing) {
            state.working = rows;
            state.poked |= more;
            match outcome {
                Err(error) => state.end(End::Failed(error), tell),
                Ok(true) => state.end(End::Finished, tell),
                Ok(false) => {}
            }
        } else {
            // Before anybody hears that all is over: they count as queued.
            drop(rows);
        }
        let next = state.next();
        drop(state);
        self.changed.notify_all();
        next
    }

    /// Whether the utterance is to be finished after the turn's rows, of which none are left and
    /// no `more` are to come.
    pub fn ends(&self, more: bool) -> bool {
        let state = self.lock();
        matches!(state.stage, Stage::Finishing) && state.incoming.frames() == 0 && !state.poked && !more
    }
}

/// For the thread that tells, in this order.
impl<B: Pending, E: Clone> Queue<B, E> {
    /// Its turn with a channel that was taken off the list of those to be told; `None` where there is nothing to
    /// tell any more, or it is being searched, and put there again behind that.
    pub fn tell(&self) -> Option<Telling> {
        let mut state = self.lock();
        state.listed = false;
        if state.closed || state.turn == Turn::Searching || !state.news() {
            return None;
        }
        state.turn = Turn::Telling;
        // The next search comes behind this turn, in which callers come in.
        state.wanted = false;
        let telling = Telling { noticed: std::mem::take(&mut state.noticed), utterance: state.utterance };
        drop(state);
        self.changed.notify_all();
        Some(telling)
    }

    /// Whether something of `utterance` may still be told.
    pub fn is_current(&self, utterance: u64) -> bool {
        let state = self.lock();
        state.utterance == utterance && !state.closed
    }

    /// How `utterance` has ended, once.
    pub fn end_to_tell(&self, utterance: u64) -> Option<End<E>> {
        let mut state = self.lock();
        if state.utterance != utterance || !std::mem::take(&mut state.untold) {
            return None;
        }
        match &state.stage {
            Stage::Ended(end) => Some(end.clone()),
            _ => None,
        }
    }

    /// The end of its turn.
    pub fn told(&self) -> Next {
        let mut state = self.lock();
        state.turn = Turn::Idle;
        let next = state.next();
        drop(state);
        self.changed.notify_all();
        next
    }
}

impl<B: Pending, E: Clone> State<B, E> {
    fn take(&mut self) -> Claim<B> {
        if self.working.frames() == 0 {
            std::mem::swap(&mut self.incoming, &mut self.working);
        }
        let rows = std::mem::take(&mut self.working);
        self.taken = rows.frames();
        let pull = self.poked && self.taken == 0;
        self.poked &= !pull;
        Claim { rows, pull, untold: self.noticed.partial }
    }
}
