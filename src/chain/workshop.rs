//! Arrays and threads that are kept from call to call, so that a call after the first asks for neither.

use std::sync::Arc;

use parking_lot::Mutex;

use super::elements::Elements;
use super::numerator::NumeratorWork;
use super::tile::{Outcome, Scratch};
use crate::cuda::{ChainGraph, ChainOutcome};
use crate::error::{Error, Result, try_reserve};
use crate::quiet::Quiet;

/// Arrays and threads of a denominator graph.
#[derive(Debug, Default)]
pub(super) struct Workshop {
    idle: Mutex<Vec<Work>>,
    pool: Mutex<Option<Arc<rayon::ThreadPool>>>,
    /// The graph on GPUs.
    pub gpus: Mutex<Vec<Arc<ChainGraph>>>,
}

/// The arrays of one call.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub denominator: DenominatorWork,
    pub numerator: NumeratorWork,
    pub gpu: GpuWork,
}

/// The host's arrays of a call on a GPU.
#[derive(Debug, Default)]
pub(super) struct GpuWork {
    pub lengths: Vec<u32>,
    pub elements: Elements,
    /// Of the elements: their scores, and sums of their occupancies.
    pub values: Vec<f32>,
    pub sums: Vec<f32>,
    /// Frames of each sequence whose occupancies count.
    pub counted: Vec<u32>,
    /// As the device tells them, and the scale of each frame, sequence after sequence.
    pub outcomes: Vec<ChainOutcome>,
    pub scales: Vec<f32>,
    /// By row and pdf.
    pub occupancies: Vec<f32>,
}

/// The arrays of the denominator.
#[derive(Debug, Default)]
pub(super) struct DenominatorWork {
    /// Emissions, and then occupancies: tile by tile, each by frame, pdf and lane.
    pub emissions: Vec<f32>,
    /// By sequence, idle lanes at the end.
    pub outcomes: Vec<Outcome>,
    /// One a thread.
    pub scratches: Vec<Mutex<Scratch>>,
    /// Lanes of a tile.
    pub lanes: usize,
}

/// A [`Work`] that goes back when it is dropped.
pub(super) struct Lent<'a> {
    home: &'a Workshop,
    work: Option<Work>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut idle = self.home.idle.lock();
        // Where there is no place for it, it is made anew for a later call.
        if try_reserve(&mut idle, 1, WHAT).is_ok() {
            idle.extend(self.work.take());
        }
    }
}

impl Lent<'_> {
    pub fn work(&mut self) -> &mut Work {
        self.work.get_or_insert_default()
    }
}

impl Workshop {
    pub fn lend(&self) -> Lent<'_> {
        let work = self.idle.lock().pop().unwrap_or_default();
        Lent { home: self, work: Some(work) }
    }

    /// The threads for `num_threads`, kept while the same number is asked for. `None` for one: the caller's own.
    pub fn threads(&self, num_threads: u32) -> Result<Option<Arc<rayon::ThreadPool>>> {
        let wanted = num_threads as usize;
        if wanted <= 1 {
            return Ok(None);
        }
        let mut pool = self.pool.lock();
        if let Some(pool) = pool.as_ref().filter(|pool| pool.current_num_threads() == wanted) {
            return Ok(Some(Arc::clone(pool)));
        }
        let built = rayon::ThreadPoolBuilder::new()
            .num_threads(wanted)
            .thread_name(|at| format!("koshi-chain-{at}"))
            .start_handler(|_| Quiet::whole_thread())
            .build();
        let built = Arc::new(built.map_err(|error| Error::Io {
            what: format!("starting {wanted} threads"),
            source: std::io::Error::other(error.to_string()),
        })?);
        *pool = Some(Arc::clone(&built));
        Ok(Some(built))
    }
}

/// What an array is for, in messages.
const WHAT: &str = "chain denominator";

/// Makes `vec` exactly `len` long. What it held is of no use any more.
pub(super) fn resize<T: Clone>(vec: &mut Vec<T>, len: Option<usize>, value: T) -> Result<()> {
    let len = len.ok_or_else(|| Error::NoMemory { what: WHAT.into(), asked: u64::MAX })?;
    if len > vec.len() {
        try_reserve(vec, len - vec.len(), WHAT)?;
    }
    vec.resize(len, value);
    Ok(())
}

impl DenominatorWork {
    /// Makes room for `tiles` tiles of `lanes` sequences, on `threads` threads.
    pub fn prepare(
        &mut self,
        [tiles, lanes, threads]: [usize; 3],
        [frames, pdfs, states, groups]: [usize; 4],
        backward: bool,
    ) -> Result<()> {
        let times = |sizes: &[usize]| sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        self.lanes = lanes;
        resize(&mut self.emissions, times(&[tiles, lanes, frames, pdfs]), 0.0)?;
        resize(&mut self.outcomes, times(&[tiles, lanes]), Outcome::default())?;
        let threads = threads.min(tiles).max(1);
        while self.scratches.len() < threads {
            try_reserve(&mut self.scratches, 1, WHAT)?;
            self.scratches.push(Mutex::default());
        }
        for scratch in &mut self.scratches[..threads] {
            let scratch = scratch.get_mut();
            resize(&mut scratch.alpha, times(&[states, lanes]), 0.0)?;
            resize(&mut scratch.next, times(&[states, lanes]), 0.0)?;
            resize(&mut scratch.carried, times(&[groups, lanes, if backward { frames } else { 1 }]), 0.0)?;
            resize(&mut scratch.worth, if backward { times(&[groups, lanes]) } else { Some(0) }, 0.0)?;
        }
        Ok(())
    }
}
