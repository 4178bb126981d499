//! The threads of a decoder: those that search queued rows (`round`), and one that tells the listeners, so that slow
//! ones hold up no search.

use std::cell::Cell;
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::float_env::FloatEnv;
use crate::quiet::Quiet;

use super::config::DecoderConfig;
use super::metrics::Metrics;
use super::ready::Ready;
use super::round::Round;
use super::shared::SharedChannel;

/// What the threads of a decoder share.
#[derive(Default)]
struct Lists {
    ready: Ready<Arc<SharedChannel>>,
    /// Those whose listeners are to be told something.
    to_tell: Ready<Arc<SharedChannel>>,
}

/// What a thread of a decoder does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Searches, and so asks decodables.
    Searches,
    /// Tells listeners.
    Tells,
}

thread_local! {
    /// The lists that this thread serves, if it is a decoder's, and how.
    static SERVED: Cell<Option<(*const Lists, Role)>> = const { Cell::new(None) };
}

/// The scheduler of a decoder. Its threads begin with the first channel that needs them.
pub(super) struct Scheduler {
    lists: Arc<Lists>,
    pub metrics: Arc<Metrics>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    searching: usize,
    batch: usize,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}

impl Scheduler {
    /// One with `searching` threads that search batches of at most `batch` channels each.
    pub fn new(searching: usize, batch: usize) -> Result<Scheduler> {
        let (lists, threads) = (Arc::default(), Mutex::default());
        Ok(Scheduler { lists, metrics: Arc::new(Metrics::new()?), threads, searching, batch })
    }

    /// Seats for one channel more, and the threads, if they are not there yet.
    pub fn seat(&self, config: &DecoderConfig) -> Result<()> {
        self.start(config)?;
        if self.lists.ready.add_seat() {
            if self.lists.to_tell.add_seat() {
                return Ok(());
            }
            self.lists.ready.remove_seat();
        }
        Err(Error::NoMemory { what: "the lists of channels".into(), asked: size_of::<usize>() as u64 })
    }

    fn start(&self, config: &DecoderConfig) -> Result<()> {
        let mut threads = self.threads.lock();
        if threads.is_empty() {
            threads.push(start("koshi-listeners", &self.lists, Role::Tells, || Ok(tell))?);
        }
        while threads.len() <= self.searching {
            let (metrics, batch, config) = (Arc::clone(&self.metrics), self.batch, *config);
            let prepare = move || {
                let mut round = Round::new(batch, &config)?;
                Ok(move |lists: &Lists| {
                    while round.take(&lists.ready) {
                        round.run(&metrics);
                    }
                })
            };
            threads.push(start("koshi-scheduler", &self.lists, Role::Searches, prepare)?);
        }
        Ok(())
    }

    pub fn unseat(&self) {
        self.lists.ready.remove_seat();
        self.lists.to_tell.remove_seat();
    }

    /// Puts a channel on the list of those that are ready.
    pub fn put(&self, channel: Arc<SharedChannel>, in_front: bool) {
        self.lists.ready.put(channel, in_front);
    }

    /// Puts a channel on the list of those to be told.
    pub fn put_to_tell(&self, channel: Arc<SharedChannel>) {
        self.lists.to_tell.put(channel, false);
    }

    pub fn remove(&self, channel: *const SharedChannel) {
        for list in [&self.lists.ready, &self.lists.to_tell] {
            list.remove(|listed| Arc::as_ptr(listed) == channel);
        }
    }

    /// What this thread does for the decoder, if it is one of its own.
    pub fn role(&self) -> Option<Role> {
        SERVED.get().filter(|(lists, _)| *lists == Arc::as_ptr(&self.lists)).map(|(_, role)| role)
    }
}

impl Drop for Scheduler {
    /// No channel is left. A thread by whose own hand the last one has gone ends by itself.
    fn drop(&mut self) {
        self.lists.ready.stop();
        self.lists.to_tell.stop();
        let this = std::thread::current().id();
        for thread in self.threads.get_mut().drain(..).filter(|thread| thread.thread().id() != this) {
            let _ = thread.join();
        }
    }
}

/// Starts a thread, and waits until it has the memory that its work needs, which `prepare` takes.
fn start<W: FnOnce(&Lists)>(
    name: &str,
    lists: &Arc<Lists>,
    role: Role,
    prepare: impl FnOnce() -> Result<W> + Send + 'static,
) -> Result<JoinHandle<()>> {
    let (report, started) = mpsc::sync_channel(1);
    let lists = Arc::clone(lists);
    let body = move || {
        let (work, outcome) = prepare().map_or_else(|error| (None, Err(error)), |work| (Some(work), Ok(())));
        let _ = report.send(outcome);
        if let Some(work) = work {
            SERVED.set(Some((Arc::as_ptr(&lists), role)));
            Quiet::whole_thread();
            let _env = FloatEnv::enter();
            work(&lists);
        }
    };
    let thread = Builder::new().name(name.into()).spawn(body);
    let thread = thread.map_err(|error| Error::io("starting a thread of the decoder's", error))?;
    started.recv().unwrap_or_else(|_| Err(Error::Internal("a thread of the decoder's has ended".into())))?;
    Ok(thread)
}

/// Tells listeners.
fn tell(lists: &Lists) {
    let mut taken = Vec::new();
    while lists.to_tell.take(1, std::time::Duration::ZERO, &mut taken) {
        taken.drain(..).for_each(|channel| channel.tell());
    }
}
