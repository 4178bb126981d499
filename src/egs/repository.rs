//! A bounded place where some threads leave things and others fetch them (Kaldi's `ExamplesRepository`, for any number
//! of threads on both sides).

use std::collections::VecDeque;
use std::sync::PoisonError;

use super::sync::{Condvar, Mutex, MutexGuard};

/// Why nothing was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// [`Repository::done`] was called: nothing more is accepted.
    Done,
    /// [`Repository::cancel`] was called: nothing more is accepted or provided.
    Cancelled,
    /// Memory could not be had.
    NoMemory,
}

/// Hands things over between threads. Each is provided once, in the order in which they were accepted.
pub struct Repository<T> {
    state: Mutex<State<T>>,
    /// Told when there may be room, or when it is another one's turn to wait for it.
    room: Condvar,
    /// Told when there is something to fetch, or never will be.
    filled: Condvar,
    capacity: usize,
}

struct State<T> {
    things: VecDeque<T>,
    /// Those who bring things are let in in the order in which they came: a large batch is not passed by small ones for ever.
    came: u64,
    let_in: u64,
    done: bool,
    cancelled: bool,
}

impl<T> Repository<T> {
    /// An empty repository that holds up to `capacity` things. A batch that is larger than this is accepted when there
    /// is nothing else, so with capacity 0 there is never more than one batch in it, as in Kaldi's.
    pub fn new(capacity: usize) -> Repository<T> {
        let state = State { things: VecDeque::new(), came: 0, let_in: 0, done: false, cancelled: false };
        Repository { state: Mutex::new(state), room: Condvar::new(), filled: Condvar::new(), capacity }
    }

    /// Takes all of `batch` over, which is empty then; waits as long as there is no room. After a refusal `batch` is as
    /// it was.
    pub fn accept(&self, batch: &mut Vec<T>) -> Result<(), Refusal> {
        let mut state = self.lock();
        let place = state.came;
        state.came += 1;
        loop {
            if state.cancelled {
                return Err(Refusal::Cancelled);
            }
            if state.done {
                return Err(Refusal::Done);
            }
            let fits = state.things.is_empty() || state.things.len().saturating_add(batch.len()) <= self.capacity;
            if state.let_in == place && fits {
                break;
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.let_in += 1;
        let reserved = state.things.try_reserve(batch.len());
        if reserved.is_ok() {
            state.things.extend(batch.drain(..));
        }
        drop(state);
        // All are told: the next in line may have room as well, and a batch may be for several who wait.
        self.filled.notify_all();
        self.room.notify_all();
        reserved.map_err(|_| Refusal::NoMemory)
    }

    /// Nothing more will come. Who waits to bring something is refused; what is there can still be fetched.
    pub fn done(&self) {
        self.lock().done = true;
        self.filled.notify_all();
        self.room.notify_all();
    }

    /// Ends everything: who waits, on either side, is refused at once, and what is there is dropped.
    pub fn cancel(&self) {
        let mut state = self.lock();
        state.cancelled = true;
        let things = std::mem::take(&mut state.things);
        drop(state);
        self.filled.notify_all();
        self.room.notify_all();
        drop(things);
    }

    /// Fetches up to `most` things, at least one; waits as long as there is none. Nothing at all once
    /// [`Repository::done`] was called and all were fetched.
    pub fn provide(&self, most: usize) -> Result<Vec<T>, Refusal> {
        let mut state = self.lock();
        while state.things.is_empty() && !state.done && !state.cancelled {
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.cancelled {
            return Err(Refusal::Cancelled);
        }
        let count = most.max(1).min(state.things.len());
        let mut fetched = Vec::new();
        if fetched.try_reserve_exact(count).is_err() {
            return Err(Refusal::NoMemory);
        }
        fetched.extend(state.things.drain(..count));
        drop(state);
        self.room.notify_all();
        Ok(fetched)
    }

    /// Batches that wait for room.
    pub fn waiting(&self) -> u64 {
        let state = self.lock();
        state.came - state.let_in
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing that can panic runs under the lock but the drop of what cannot be half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
