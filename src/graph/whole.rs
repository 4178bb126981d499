//! The check of a whole cache file, beside its first use.

use std::hash::Hasher;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use twox_hash::XxHash3_64;

use super::blocks::Graph;
use super::mapped::{Behind, Mapped};
use super::read::name_it;
use crate::error::{Error, Result};

/// Bytes after which the check looks whether it is still wanted.
const STEP: usize = 1 << 20;

/// How long the check leaves the disk to the first frames, unless somebody waits for it.
const HEAD_START: Duration = Duration::from_millis(50);

/// A part of a file and the XXH3 that its bytes should have.
#[derive(Debug)]
pub(super) struct Part {
    pub name: &'static str,
    pub bytes: Range<usize>,
    pub sum: u64,
}

/// A check that a thread of its own makes, or whoever needs its outcome first. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct WholeCheck {
    work: Arc<Work>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Work {
    file: String,
    map: Arc<Mapped>,
    parts: Vec<Part>,
    /// The same graph once more, over the same map.
    graph: Graph,
    unwanted: AtomicBool,
    fault: OnceLock<Option<Error>>,
}

impl WholeCheck {
    /// Begins to check `parts` of the map, and the structure of `graph`, which stands in it.
    pub fn begin(file: &str, map: Arc<Mapped>, parts: Vec<Part>, graph: Graph) -> WholeCheck {
        let work = Arc::new(Work {
            file: file.into(),
            map,
            parts,
            graph,
            unwanted: AtomicBool::new(false),
            fault: OnceLock::new(),
        });
        let its = Arc::clone(&work);
        // Without a thread the first who asks does the work.
        let thread = thread::Builder::new().name("koshi-graph".into()).spawn(move || {
            thread::park_timeout(HEAD_START);
            its.check();
        });
        WholeCheck { work, thread: thread.ok() }
    }

    /// Waits for the end of the check.
    pub fn wait(&self) -> Result<()> {
        self.work.outcome().as_ref().map_or(Ok(()), |fault| Err(fault.repeat()))
    }

    /// What has come out so far: a fault if one has been found.
    pub fn so_far(&self) -> Result<()> {
        self.work.fault.get().and_then(Option::as_ref).map_or(Ok(()), |fault| Err(fault.repeat()))
    }

    /// Whether the check has ended, without a fault.
    fn is_passed(&self) -> bool {
        matches!(self.work.fault.get(), Some(None))
    }
}

impl Drop for WholeCheck {
    fn drop(&mut self) {
        self.work.unwanted.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join(); // a panic was that thread's own, and nobody wants the outcome
        }
    }
}

impl Work {
    fn check(&self) {
        self.outcome();
    }

    fn outcome(&self) -> &Option<Error> {
        self.fault.get_or_init(|| {
            self.map.expect_anything();
            let checked = self.check_sums().and_then(|()| self.graph.check_blocks(&self.unwanted, self.behind()));
            self.parts.iter().skip(1).for_each(|part| self.behind().drop(&self.map.bytes()[part.bytes.clone()]));
            checked.err().map(|error| name_it(error, &self.file))
        })
    }

    /// Gives back the memory of parts of which a search needs little: all but the blocks, which come first.
    fn behind(&self) -> Behind<'_> {
        Behind::of(&self.map)
    }

    fn check_sums(&self) -> Result<()> {
        for (number, part) in self.parts.iter().enumerate() {
            let mut hasher = XxHash3_64::new();
            for bytes in self.map.bytes()[part.bytes.clone()].chunks(STEP) {
                if self.unwanted.load(Ordering::Relaxed) {
                    return Err(Error::Cancelled);
                }
                hasher.write(bytes);
                if number > 0 {
                    self.behind().drop(bytes);
                }
            }
            if hasher.finish() != part.sum {
                let message = format!("{} are not as they were written: the checksum is another", part.name);
                return Err(Error::format(&self.file, part.bytes.start as u64, message));
            }
        }
        Ok(())
    }
}

impl Graph {
    /// Waits until the file that the graph is mapped from has been checked to its end; at once for other graphs,
    /// and once that is done.
    ///
    /// # Errors
    /// [`Error::Format`] or [`Error::Graph`]: the file is damaged, and nothing found with the graph is worth anything.
    pub fn check_whole(&self) -> Result<()> {
        self.whole.as_ref().map_or(Ok(()), WholeCheck::wait)
    }

    /// As [`Graph::check_whole`], without waiting: fine as long as no fault has been found.
    pub fn check_so_far(&self) -> Result<()> {
        self.whole.as_ref().map_or(Ok(()), WholeCheck::so_far)
    }

    /// Whether it is known that there is no fault: not so while a file is being checked, nor once one has been found.
    pub fn is_sound(&self) -> bool {
        self.whole.as_ref().is_none_or(WholeCheck::is_passed)
    }
}
