//! Lanes on CPU threads: a pool of working spaces, and a pool of threads for batches.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use rayon::prelude::*;

use crate::error::{Error, Result, try_reserve};
use crate::float_env::FloatEnv;
use crate::graph::Graph;
use crate::quiet::Quiet;
use crate::search::{Holds, LaneWork, Lanes, SearchConfig};

use super::channel::{CpuChannel, LentChannel, Shared};
use super::frame::Scratch;

/// The working spaces of a decoder: one a lane, made when first needed. Whoever wants one more
/// than there are lanes waits until one comes back.
pub(super) struct Scratches {
    max_level: u32,
    /// Most that may exist.
    lanes: usize,
    state: Mutex<ScratchState>,
    returned: Condvar,
}

struct ScratchState {
    idle: Vec<Scratch>,
    /// Working spaces that exist.
    made: usize,
}

impl std::fmt::Debug for Scratches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scratches")
    }
}

/// A working space on loan.
pub(super) struct Lent<'a> {
    home: &'a Scratches,
    scratch: Option<Scratch>,
}

impl Scratches {
    fn new(lanes: usize, max_level: u32) -> Scratches {
        let state = Mutex::new(ScratchState { idle: Vec::new(), made: 0 });
        Scratches { max_level, lanes, state, returned: Condvar::new() }
    }

    pub(super) fn take(&self) -> Result<Lent<'_>> {
        let mut state = self.state.lock();
        let scratch = loop {
            if let Some(scratch) = state.idle.pop() {
                break scratch;
            }
            if state.made < self.lanes {
                // Room for its return, which must not fail.
                let made = state.made + 1;
                try_reserve(&mut state.idle, made, "lanes")?;
                let scratch = Scratch::new(self.max_level)?;
                state.made = made;
                break scratch;
            }
            self.returned.wait(&mut state);
        };
        Ok(Lent { home: self, scratch: Some(scratch) })
    }

    fn memory(&self) -> usize {
        self.state.lock().idle.iter().map(Scratch::memory).sum()
    }
}

impl Deref for Lent<'_> {
    type Target = Scratch;
    fn deref(&self) -> &Scratch {
        match &self.scratch {
            Some(scratch) => scratch,
            None => unreachable!("taken only by drop"),
        }
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Scratch {
        match &mut self.scratch {
            Some(scratch) => scratch,
            None => unreachable!("taken only by drop"),
        }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = self.home.state.lock();
        state.idle.extend(self.scratch.take());
        self.home.returned.notify_one();
    }
}

/// The CPU backend.
#[derive(Debug)]
pub struct CpuLanes {
    pub(super) shared: Arc<Shared>,
    pub(super) scratches: Arc<Scratches>,
    /// None with one thread: batches then run on the caller's.
    pool: Option<rayon::ThreadPool>,
}

impl CpuLanes {
    /// `num_lanes` channels may be advanced at once; batches are spread over `num_threads` threads.
    pub fn new(graph: Arc<Graph>, config: SearchConfig, num_lanes: usize, num_threads: usize) -> Result<CpuLanes> {
        config.check()?;
        let pool = if num_threads > 1 {
            let built = rayon::ThreadPoolBuilder::new()
                .num_threads(num_threads)
                .thread_name(|at| format!("koshi-cpu-{at}"))
                .start_handler(|_| Quiet::whole_thread())
                .build();
            Some(built.map_err(|error| Error::Io {
                what: format!("starting {num_threads} threads"),
                source: std::io::Error::other(error.to_string()),
            })?)
        } else {
            None
        };
        let scratches = Arc::new(Scratches::new(num_lanes.max(1), graph.max_level()));
        Ok(CpuLanes { shared: Arc::new(Shared { graph, config }), scratches, pool })
    }

    /// Bytes of idle working spaces.
    pub fn memory(&self) -> usize {
        self.scratches.memory()
    }

    fn advance_one<H: Holds<LentChannel>>(&self, work: &mut LaneWork<'_, H>) {
        let Some(LentChannel { channel, .. }) = work.channel.held() else { return };
        let _env = FloatEnv::enter();
        let mut scratch = match self.scratches.take() {
            Ok(scratch) => scratch,
            Err(error) => {
                work.result = Err(error);
                return;
            }
        };
        (work.done, work.result) = channel.advance(work.rows, work.cancelled, &mut scratch);
    }
}

impl Lanes for CpuLanes {
    type Channel = LentChannel;

    fn new_channel(&self) -> Result<LentChannel> {
        let channel = CpuChannel::new(Arc::clone(&self.shared));
        Ok(LentChannel { channel, scratches: Arc::clone(&self.scratches) })
    }

    fn advance<H: Holds<LentChannel>>(&self, batch: &mut [LaneWork<'_, H>]) {
        match &self.pool {
            Some(pool) if batch.len() > 1 => {
                pool.install(|| batch.par_iter_mut().with_max_len(1).for_each(|work| self.advance_one(work)));
            }
            _ => batch.iter_mut().for_each(|work| self.advance_one(work)),
        }
    }
}
