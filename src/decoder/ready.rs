//! The channels that are ready to be searched, or whose listeners are to be told, in the order in which they became so.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::sync::{Condvar, Mutex, MutexGuard};

/// A list that threads put things on and others take from. Its lock is held while no other one is taken.
#[derive(Debug)]
pub struct Ready<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
}

#[derive(Debug)]
struct State<T> {
    list: VecDeque<T>,
    /// Things that may stand on the list at the same time.
    seats: usize,
    stopped: bool,
}

impl<T> Default for Ready<T> {
    fn default() -> Ready<T> {
        let state = State { list: VecDeque::new(), seats: 0, stopped: false };
        Ready { state: Mutex::new(state), filled: Condvar::new() }
    }
}

impl<T> Ready<T> {
    /// Makes room for one thing more, so that putting it on the list takes no memory; `false` where there is none.
    pub fn add_seat(&self) -> bool {
        let mut state = self.lock();
        let more = (state.seats + 1).saturating_sub(state.list.len());
        if state.list.try_reserve(more).is_err() {
            return false;
        }
        state.seats += 1;
        true
    }

    /// Takes a seat back.
    pub fn remove_seat(&self) {
        self.lock().seats -= 1;
    }

    /// Puts `thing` behind the others, or before them.
    pub fn put(&self, thing: T, in_front: bool) {
        let mut state = self.lock();
        if in_front {
            state.list.push_front(thing)
        } else {
            state.list.push_back(thing)
        }
        drop(state);
        self.filled.notify_one();
    }

    /// Takes out what `unwanted` says.
    pub fn remove(&self, unwanted: impl Fn(&T) -> bool) {
        let mut removed = None;
        let mut state = self.lock();
        if let Some(at) = state.list.iter().position(unwanted) {
            removed = state.list.remove(at);
        }
        drop(state);
        drop(removed);
    }

    /// Moves up to `most` things to `taken`, the oldest first, and waits for the first. From then on waits
    /// up to `patience` for as many as `most`. `false` once stopped.
    pub fn take(&self, most: usize, patience: Duration, taken: &mut Vec<T>) -> bool {
        let mut state = self.lock();
        while state.list.is_empty() && !state.stopped {
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if patience > Duration::ZERO {
            state = self.fill(state, most, patience);
        }
        if state.stopped {
            return false;
        }
        let count = most.min(state.list.len());
        taken.extend(state.list.drain(..count));
        true
    }

    fn fill<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<T>>,
        most: usize,
        patience: Duration,
    ) -> MutexGuard<'a, State<T>> {
        let deadline = Instant::now() + patience;
        while state.list.len() < most && !state.stopped {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                break;
            }
            state = self.filled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }

    /// Ends [`Ready::take`] for good.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.filled.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
