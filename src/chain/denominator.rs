//! Forward-backward of the denominator over a batch of sequences.

use rayon::prelude::*;

use super::config::ChainConfig;
use super::den_graph::DenominatorGraph;
use super::gpu::{self, DeviceMatrix};
use super::scores::{Blocks, Scores, ScoresMut, Shape};
use super::tile::{self, Outcome, Task};
use super::workshop::DenominatorWork;
use crate::error::{Error, Result};
use crate::float_env::FloatEnv;

/// What a sequence counts as whose probability cannot be had, by frame.
pub(super) const DEFAULT_LOG_PROB: f64 = -10.0;

/// Beyond this, forward and backward disagree so much that a batch is given up, as in Kaldi (sums over sequences).
const MOST_DISAGREEMENT: f64 = 2.0;

/// What is known of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Denominator {
    /// Log-probability of all sequences together, each frame's scores clamped to [-30, 30].
    pub log_prob: f64,
    /// Whether everything was in the range of float32 and forward and backward agreed. If not, sequences out of range
    /// count as -10 a frame in `log_prob` and add nothing to the derivative.
    pub ok: bool,
}

impl DenominatorGraph {
    /// The log-probability of all that the graph holds, given `scores`, and, if wanted, `weight` times its derivative,
    /// which is added to a matrix of the same shape. Entries beyond +-30, where the scores are clamped, get the
    /// derivative as if they were not; NaN counts as -30.
    ///
    /// `lengths` are the frames of each sequence where they are not all of them: rows behind are neither read nor
    /// written. `log_probs` takes those of each sequence.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Config`], [`Error::Argument`] for a weight that is not finite, [`Error::NoMemory`];
    /// with [`ChainBackend::Cuda`] [`Error::NoDevice`] and [`Error::Device`].
    ///
    /// [`ChainBackend::Cuda`]: super::ChainBackend::Cuda
    pub fn forward_backward(
        &self,
        config: &ChainConfig,
        scores: Scores,
        num_sequences: usize,
        lengths: Option<&[u32]>,
        derivative: Option<(f32, &mut ScoresMut)>,
        log_probs: Option<&mut [f64]>,
    ) -> Result<Denominator> {
        config.check()?;
        self.check(scores.shape(), num_sequences)?;
        if let Some((weight, matrix)) = &derivative {
            check_weight(*weight)?;
            matrix.shape().check(scores.shape(), "the derivative")?;
        }
        check_lengths(lengths, num_sequences, scores.rows() / num_sequences)?;
        check_places(log_probs.as_deref(), num_sequences)?;
        let mut lent = self.workshop.lend();
        let mut derivative = derivative;
        if let Some(gpu) = gpu::of(self, config)? {
            let target = derivative.as_mut().map(|(weight, matrix)| (*weight, gpu::Target::Host(matrix)));
            let source = gpu::Source::Host(scores);
            // SAFETY: nothing is in device memory.
            let done = unsafe { gpu::denominator(&gpu, config, source, num_sequences, lengths, target, lent.work()) };
            if let Some(found) = gpu::settled(config, done)? {
                tell(log_probs, &lent.work().denominator.outcomes);
                return Ok(found);
            }
        }
        let work = &mut lent.work().denominator;
        let found = self.run(config, scores, num_sequences, lengths, derivative.is_some(), work)?;
        if let Some((weight, matrix)) = derivative {
            let pool = self.workshop.threads(config.num_threads)?;
            let usable = work.outcomes.as_slice();
            let task = |row: usize, occupancies: Lane, target: &mut [f32]| {
                let (frame, sequence) = (row / num_sequences, row % num_sequences);
                let inside = lengths.is_none_or(|lengths| frame < lengths[sequence] as usize);
                if inside && usable[sequence].usable {
                    target.iter_mut().zip(occupancies).for_each(|(place, value)| *place += weight * value);
                }
            };
            for_each_row(pool.as_deref(), work, num_sequences, matrix.blocks(num_sequences), task);
        }
        tell(log_probs, &work.outcomes);
        Ok(found)
    }

    /// The same for matrices in the memory of GPU `config.device`, behind the work that `stream` (a `CUstream` as a
    /// number, 0 for the default one) holds so far. All is done when the call returns.
    ///
    /// # Errors
    /// As [`DenominatorGraph::forward_backward`]; [`Error::Unsupported`] where `config.backend` is the CPU;
    /// [`Error::NoDevice`], [`Error::Device`].
    ///
    /// # Safety
    /// The matrices are there until the call returns, and the stream is a live one of the device's primary context.
    #[allow(clippy::too_many_arguments)] // those of the other, and the stream
    pub unsafe fn forward_backward_device(
        &self,
        config: &ChainConfig,
        scores: DeviceMatrix,
        num_sequences: usize,
        lengths: Option<&[u32]>,
        derivative: Option<(f32, DeviceMatrix)>,
        log_probs: Option<&mut [f64]>,
        stream: usize,
    ) -> Result<Denominator> {
        config.check()?;
        scores.check("network output")?;
        self.check(scores.shape(), num_sequences)?;
        if let Some((weight, matrix)) = &derivative {
            check_weight(*weight)?;
            matrix.check("the derivative")?;
            matrix.shape().check(scores.shape(), "the derivative")?;
        }
        check_lengths(lengths, num_sequences, scores.rows / num_sequences)?;
        check_places(log_probs.as_deref(), num_sequences)?;
        let gpu = gpu::required(self, config)?;
        let mut lent = self.workshop.lend();
        let target = derivative.map(|(weight, matrix)| (weight, gpu::Target::Device(matrix)));
        let source = gpu::Source::Device(scores, stream);
        // SAFETY: by this function's own promise.
        let found = unsafe { gpu::denominator(&gpu, config, source, num_sequences, lengths, target, lent.work()) }?;
        tell(log_probs, &lent.work().denominator.outcomes);
        Ok(found)
    }

    /// Refuses what does not fit together.
    pub(super) fn check(&self, Shape { rows, cols }: Shape, num_sequences: usize) -> Result<()> {
        if cols != self.num_pdfs() {
            return Err(Error::Shape(format!(
                "the network output has {cols} columns, the graph {} pdfs",
                self.num_pdfs()
            )));
        }
        if num_sequences == 0 || !rows.is_multiple_of(num_sequences) {
            return Err(Error::Shape(format!("the network output has {rows} rows for {num_sequences} sequences")));
        }
        Ok(())
    }

    /// Runs the recursion; behind it, `work` has the outcomes and, with `backward`, the occupancies.
    pub(super) fn run(
        &self,
        config: &ChainConfig,
        scores: Scores,
        num_sequences: usize,
        lengths: Option<&[u32]>,
        backward: bool,
        work: &mut DenominatorWork,
    ) -> Result<Denominator> {
        let frames = scores.rows() / num_sequences;
        let pool = self.workshop.threads(config.num_threads)?;
        let threads = config.num_threads as usize;
        let lanes = lanes(num_sequences, threads);
        let tiles = num_sequences.div_ceil(lanes);
        let sizes = [frames, scores.cols(), self.num_states(), self.groups.len()];
        work.prepare([tiles, lanes, threads], sizes, backward)?;
        let task = Task {
            groups: &self.groups,
            initial: self.initial_probs(),
            leak: config.leaky_hmm_coefficient,
            scores,
            num_sequences,
            frames,
            lengths,
            backward,
        };
        let run = match lanes {
            1 => tile::run::<1>,
            4 => tile::run::<4>,
            8 => tile::run::<8>,
            _ => tile::run::<16>,
        };
        let DenominatorWork { emissions, outcomes, scratches, .. } = work;
        let scratches = scratches.as_slice();
        let size = lanes * frames * scores.cols();
        match pool {
            Some(pool) if tiles > 1 => pool.install(|| {
                let parts = emissions.par_chunks_mut(size).zip(outcomes.par_chunks_mut(lanes));
                parts.enumerate().with_max_len(1).for_each(|(at, (emissions, outcomes))| {
                    let _env = FloatEnv::enter();
                    // As many as threads or tiles, whichever is less; a tile waits for nobody but by chance.
                    let own = rayon::current_thread_index().unwrap_or(0) % tiles.min(threads);
                    run(&task, at * lanes, emissions, outcomes, &mut scratches[own].lock());
                });
            }),
            _ => {
                let scratch = &mut scratches[0].lock();
                let parts = emissions.chunks_mut(size).zip(outcomes.chunks_mut(lanes));
                for (at, (emissions, outcomes)) in parts.enumerate() {
                    run(&task, at * lanes, emissions, outcomes, scratch);
                }
            }
        }
        let length = |sequence: usize| lengths.map_or(frames, |all| all[sequence] as usize);
        Ok(summary(&mut outcomes[..num_sequences], length, backward))
    }
}

/// How many sequences go side by side: as many as fill a vector, but each thread gets some.
fn lanes(num_sequences: usize, threads: usize) -> usize {
    match num_sequences.div_ceil(threads) {
        0 | 1 => 1,
        2..=4 => 4,
        5..=8 => 8,
        _ => 16,
    }
}

fn check_weight(weight: f32) -> Result<()> {
    match weight.is_finite() {
        true => Ok(()),
        false => Err(Error::Argument(format!("the weight of the derivative is {weight}"))),
    }
}

fn check_lengths(lengths: Option<&[u32]>, num_sequences: usize, frames: usize) -> Result<()> {
    let Some(lengths) = lengths else { return Ok(()) };
    if lengths.len() != num_sequences {
        return Err(Error::Shape(format!("{} lengths for {num_sequences} sequences", lengths.len())));
    }
    match lengths.iter().position(|&length| length as usize > frames) {
        None => Ok(()),
        Some(at) => Err(Error::Shape(format!("sequence {at} is to have {} frames of {frames}", lengths[at]))),
    }
}

fn check_places(log_probs: Option<&[f64]>, num_sequences: usize) -> Result<()> {
    match log_probs {
        Some(places) if places.len() != num_sequences => {
            Err(Error::Shape(format!("{} places for {num_sequences} log-probabilities", places.len())))
        }
        _ => Ok(()),
    }
}

fn tell(log_probs: Option<&mut [f64]>, outcomes: &[Outcome]) {
    for (place, outcome) in log_probs.unwrap_or_default().iter_mut().zip(outcomes) {
        *place = outcome.log_prob;
    }
}

/// Sums over the sequences in their order. A sequence whose log-probability cannot be had is no longer usable.
pub(super) fn summary(outcomes: &mut [Outcome], length: impl Fn(usize) -> usize, backward: bool) -> Denominator {
    let mut found = Denominator { log_prob: 0.0, ok: true };
    let (mut product, mut occupancy, mut begun) = (0.0, 0.0, 0.0);
    for (sequence, outcome) in outcomes.iter_mut().enumerate() {
        let frames = length(sequence);
        outcome.usable &= outcome.log_prob.is_finite();
        if !outcome.usable {
            found.ok = false;
            outcome.log_prob = DEFAULT_LOG_PROB * frames as f64;
        }
        found.log_prob += outcome.log_prob;
        product += outcome.product;
        if frames > 0 {
            occupancy += outcome.occupancy;
            begun += 1.0;
        }
    }
    if backward && found.ok {
        found.ok = agree("alpha times beta sums", product, outcomes.len() as f64, 0.001)
            && agree("occupancies sum", occupancy, begun, 0.01);
    }
    found
}

/// Whether two sums that should be equal are so nearly; says so where they are not. The rule is Kaldi's, but for NaN,
/// which never comes here.
fn agree(what: &str, found: f64, expected: f64, tolerance: f64) -> bool {
    let apart = (found - expected).abs();
    if apart <= tolerance * (found.abs() + expected.abs()) {
        return true;
    }
    log::warn!(target: "chain", "first frame: {what} to {found}, not to {expected}");
    apart <= MOST_DISAGREEMENT
}

/// The numbers of one lane, pdf after pdf.
pub(super) type Lane<'a> = std::iter::StepBy<std::slice::Iter<'a, f32>>;

/// Calls `each` with every row of a matrix, its number and its occupancies, over the threads.
pub(super) fn for_each_row(
    pool: Option<&rayon::ThreadPool>,
    work: &DenominatorWork,
    num_sequences: usize,
    blocks: Blocks,
    each: impl Fn(usize, Lane, &mut [f32]) + Sync,
) {
    let Blocks { data, len, stride, cols } = blocks;
    let lanes = work.lanes;
    let frames = work.emissions.len() / (work.outcomes.len() * cols);
    let frame_of = |(frame, rows): (usize, &mut [f32])| {
        for (sequence, row) in rows.chunks_mut(stride).enumerate() {
            let (tile, lane) = (sequence / lanes, sequence % lanes);
            let block = &work.emissions[(tile * frames + frame) * cols * lanes..][..cols * lanes];
            each(frame * num_sequences + sequence, block[lane..].iter().step_by(lanes), &mut row[..cols]);
        }
    };
    match pool {
        Some(pool) => pool.install(|| data.par_chunks_mut(len).enumerate().for_each(frame_of)),
        None => data.chunks_mut(len).enumerate().for_each(frame_of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_b71_forward_and_backward_may_differ_by_two() {
        assert!(agree("x", 128.0, 128.0, 0.001));
        assert!(agree("x", 126.5, 128.0, 0.001), "1.5 apart is told and let pass");
        assert!(!agree("x", 125.9, 128.0, 0.001));
        assert!(!agree("x", 1e30, 128.0, 0.001));
        assert!(agree("x", 10_003.0, 10_000.0, 0.001), "within the tolerance, however far apart");
    }

    #[test]
    fn sums_over_a_batch_that_should_be_its_sequences() {
        let good = Outcome { log_prob: -2.0, usable: true, product: 1.0, occupancy: 1.0 };
        // Sequences without frames have a product, and no first frame whose occupancies could be summed.
        let empty = Outcome { occupancy: 0.0, ..good };
        let found = |outcomes: &[Outcome], backward: bool| {
            summary(&mut outcomes.to_vec(), |at| usize::from(outcomes[at].occupancy != 0.0), backward)
        };
        let batch = [good, empty, empty, empty, empty, good];
        assert!(found(&batch, true).ok && found(&batch, true).log_prob == -12.0);
        let off = Outcome { product: 3.5, ..good };
        let more = Outcome { occupancy: 3.5, ..good };
        assert!(!found(&[good, off], true).ok && !found(&[good, more], true).ok);
        assert!(found(&[good, off], false).ok, "nothing went backward");
        let mut lost = [good, Outcome { usable: false, ..good }, Outcome { log_prob: f64::NAN, ..good }];
        let all = summary(&mut lost, |_| 3, true);
        assert!(!all.ok && all.log_prob == -2.0 - 30.0 - 30.0 && !lost[2].usable);
    }
}
