//! The objective and its derivatives, in one call.

use super::config::ChainConfig;
use super::den_graph::DenominatorGraph;
use super::denominator::{DEFAULT_LOG_PROB, Denominator, Lane, for_each_row};
use super::exp::LIMIT;
use super::gpu::{self, DeviceMatrix, Source, Target};
use super::numerator::{Numerator, Occupancy};
use super::scores::{Scores, ScoresMut, Shape};
use super::supervision::Supervision;
use super::workshop::Work;
use crate::error::{Error, Result};
use crate::float_env::FloatEnv;

/// What a batch is worth.
#[derive(Clone, Copy, Debug)]
pub struct Objective {
    /// Numerator less denominator log-probability, weighted; `-10 * weight` unless `ok`. Finite.
    pub objf: f64,
    /// The l2 term, which is not in `objf`. Finite.
    pub l2_term: f64,
    /// Weight of the supervision times its frames: what to divide by for a value a frame.
    pub weight: f64,
    /// Whether `objf` is the real one: both log-probabilities finite, and forward and backward agree.
    pub ok: bool,
}

/// Scores the network's output of a batch against what was said, as Kaldi's `ComputeChainObjfAndDeriv`.
///
/// `derivative` and `xent_derivative` are overwritten: with the derivative of `objf` plus l2 term plus out-of-range
/// penalty, and with the weighted numerator occupancies (not multiplied by `xent_regularize`), whose product with a
/// log-softmax output is the cross-entropy objective. `deriv_weights` multiply their rows. Unless the result is `ok`,
/// the first has the l2 part only and the second is 0. All that is written is finite.
///
/// # Errors
/// [`Error::Shape`] where rows, columns or weights do not fit, [`Error::Config`], [`Error::Argument`] for a weight that
/// is not finite, [`Error::NoMemory`]; with [`ChainBackend::Cuda`] [`Error::NoDevice`] and [`Error::Device`].
///
/// [`ChainBackend::Cuda`]: super::ChainBackend::Cuda
pub fn chain_objective(
    graph: &DenominatorGraph,
    supervision: &Supervision,
    config: &ChainConfig,
    scores: Scores,
    mut derivative: Option<&mut ScoresMut>,
    mut xent_derivative: Option<&mut ScoresMut>,
    deriv_weights: Option<&[f32]>,
) -> Result<Objective> {
    config.check()?;
    let shapes = [derivative.as_deref().map(ScoresMut::shape), xent_derivative.as_deref().map(ScoresMut::shape)];
    check(graph, supervision, scores.shape(), shapes, deriv_weights)?;
    let num_sequences = supervision.num_sequences();
    let mut lent = graph.workshop.lend();
    let work = lent.work();
    if let Some(gpu) = gpu::of(graph, config)? {
        let source = Source::Host(scores);
        let one = derivative.as_deref_mut().map(Target::Host);
        let other = xent_derivative.as_deref_mut().map(Target::Host);
        // SAFETY: nothing is in device memory.
        let done = unsafe { gpu::objective(&gpu, supervision, config, source, one, other, deriv_weights, work) };
        if let Some(found) = gpu::settled(config, done)? {
            return Ok(found);
        }
    }
    let wanted = (derivative.is_some(), derivative.is_some() || xent_derivative.is_some());
    let (denominator, numerator) = both(graph, supervision, config, scores, wanted, work)?;
    let found = put_together(supervision, config, || sum_of_squares(&scores), denominator, numerator);

    let row_weight = |row: usize| deriv_weights.map_or(1.0, |weights| weights[row]);
    if let Some(matrix) = derivative.as_deref_mut() {
        let parts = Parts::new(supervision, config, numerator, found.ok);
        let task = |row: usize, occupancies: Lane, target: &mut [f32]| {
            parts.write(scores.row(row), occupancies, row_weight(row), target);
        };
        let pool = graph.workshop.threads(config.num_threads)?;
        for_each_row(pool.as_deref(), &work.denominator, num_sequences, matrix.blocks(num_sequences), task);
    }
    if let Some(matrix) = xent_derivative.as_deref_mut() {
        (0..scores.rows()).for_each(|row| matrix.row(row).fill(0.0));
    }
    if found.ok {
        let add = |matrix: &mut ScoresMut| {
            for &Occupancy { row, pdf, value } in &work.numerator.occupancies {
                let place = &mut matrix.row(row)[pdf as usize];
                *place = bounded(*place + row_weight(row) * (supervision.weight() * value));
            }
        };
        if let Some(matrix) = derivative {
            add(matrix);
        }
        if let Some(matrix) = xent_derivative {
            add(matrix);
        }
    }
    Ok(found)
}

/// [`chain_objective`] for matrices in the memory of GPU `config.device`, behind the work that `stream` (a `CUstream` as
/// a number, 0 for the default one) holds so far. The weights are in the host's memory. All is done when the call returns.
///
/// # Errors
/// As [`chain_objective`]; [`Error::Unsupported`] where `config.backend` is the CPU.
///
/// # Safety
/// The matrices are there until the call returns, and the stream is a live one of the device's primary context.
#[allow(clippy::too_many_arguments)] // those of the other, and the stream
pub unsafe fn chain_objective_device(
    graph: &DenominatorGraph,
    supervision: &Supervision,
    config: &ChainConfig,
    scores: DeviceMatrix,
    derivative: Option<DeviceMatrix>,
    xent_derivative: Option<DeviceMatrix>,
    deriv_weights: Option<&[f32]>,
    stream: usize,
) -> Result<Objective> {
    config.check()?;
    scores.check("network output")?;
    for matrix in [&derivative, &xent_derivative].into_iter().flatten() {
        matrix.check("derivative")?;
    }
    let shapes = [&derivative, &xent_derivative].map(|it| it.as_ref().map(DeviceMatrix::shape));
    check(graph, supervision, scores.shape(), shapes, deriv_weights)?;
    let gpu = gpu::required(graph, config)?;
    let mut lent = graph.workshop.lend();
    let [one, other] = [derivative, xent_derivative].map(|it| it.map(Target::Device));
    let source = Source::Device(scores, stream);
    // SAFETY: by this function's own promise.
    unsafe { gpu::objective(&gpu, supervision, config, source, one, other, deriv_weights, lent.work()) }
}

/// Refuses what does not fit together.
fn check(
    graph: &DenominatorGraph,
    supervision: &Supervision,
    output: Shape,
    [derivative, xent_derivative]: [Option<Shape>; 2],
    deriv_weights: Option<&[f32]>,
) -> Result<()> {
    supervision.check(output)?;
    graph.check(output, supervision.num_sequences())?;
    for (shape, what) in [(derivative, "the derivative"), (xent_derivative, "the cross-entropy derivative")] {
        shape.map_or(Ok(()), |shape| shape.check(output, what))?;
    }
    let Some(weights) = deriv_weights else { return Ok(()) };
    if weights.len() != output.rows {
        return Err(Error::Shape(format!("{} derivative weights for {} rows", weights.len(), output.rows)));
    }
    match weights.iter().position(|weight| !weight.is_finite()) {
        None => Ok(()),
        Some(row) => Err(Error::Argument(format!("the derivative weight of row {row} is {}", weights[row]))),
    }
}

/// Denominator and numerator, beside each other where there are threads for it.
fn both(
    graph: &DenominatorGraph,
    supervision: &Supervision,
    config: &ChainConfig,
    scores: Scores,
    (deriv, occupancies): (bool, bool),
    work: &mut Work,
) -> Result<(Denominator, Numerator)> {
    let Work { denominator, numerator, .. } = work;
    let mut denominator = || graph.run(config, scores, supervision.num_sequences(), None, deriv, denominator);
    let mut numerator = || supervision.run(scores, occupancies, numerator);
    let (denominator, numerator) = match graph.workshop.threads(config.num_threads)? {
        None => (denominator(), numerator()),
        Some(pool) => {
            let in_default_env = || {
                let _env = FloatEnv::enter();
                numerator()
            };
            pool.install(|| rayon::join(denominator, in_default_env))
        }
    };
    Ok((denominator?, numerator?))
}

/// The objective; `squares` gives the sum of the squares of all scores that are finite.
pub(super) fn put_together(
    supervision: &Supervision,
    config: &ChainConfig,
    squares: impl FnOnce() -> f64,
    denominator: Denominator,
    numerator: Numerator,
) -> Objective {
    let weight = f64::from(supervision.weight());
    let frames = weight * supervision.num_sequences() as f64 * supervision.frames_per_sequence() as f64;
    let objf = numerator.log_prob - weight * denominator.log_prob;
    let ok = numerator.ok && denominator.ok && objf.is_finite();
    let l2_term = match l2_applies(supervision, numerator) && config.l2_regularize != 0.0 {
        true => -0.5 * weight * f64::from(config.l2_regularize) * squares(),
        false => 0.0,
    };
    Objective { objf: if ok { objf } else { DEFAULT_LOG_PROB * frames }, l2_term, weight: frames, ok }
}

/// Kaldi leaves the l2 term out where an end-to-end numerator failed.
fn l2_applies(supervision: &Supervision, numerator: Numerator) -> bool {
    numerator.ok || !supervision.is_end_to_end()
}

/// Of the elements that are finite.
fn sum_of_squares(scores: &Scores) -> f64 {
    const LANES: usize = 8;
    let square = |value: f32| if value.is_finite() { f64::from(value) * f64::from(value) } else { 0.0 };
    let mut sums = [0.0f64; LANES];
    for row in 0..scores.rows() {
        let (chunks, rest) = scores.row(row).as_chunks::<LANES>();
        for chunk in chunks {
            for lane in 0..LANES {
                sums[lane] += square(chunk[lane]);
            }
        }
        rest.iter().zip(&mut sums).for_each(|(&value, sum)| *sum += square(value));
    }
    sums.iter().sum()
}

/// The derivative but for the numerator.
pub(super) struct Parts {
    pub weight: f32,
    /// Scale of the l2 part, the weight included.
    pub l2: f32,
    /// Scale of the out-of-range penalty.
    pub penalty: f32,
    ok: bool,
}

impl Parts {
    pub fn new(supervision: &Supervision, config: &ChainConfig, numerator: Numerator, ok: bool) -> Parts {
        let weight = supervision.weight();
        let l2 = if l2_applies(supervision, numerator) { weight * config.l2_regularize } else { 0.0 };
        Parts { weight, l2, penalty: config.penalty_scale(), ok }
    }

    fn write(&self, scores: &[f32], occupancies: Lane, row_weight: f32, target: &mut [f32]) {
        for ((place, &score), &occupancy) in target.iter_mut().zip(scores).zip(occupancies) {
            let mut value = 0.0;
            if self.ok {
                value = -self.weight * occupancy - beyond(score, LIMIT, self.penalty);
            }
            if score.is_finite() {
                value -= self.l2 * score;
            }
            *place = bounded(row_weight * value);
        }
    }
}

/// How far a score is beyond the limits, times the scale; nothing for one that is not finite.
fn beyond(score: f32, limit: f32, scale: f32) -> f32 {
    if !score.is_finite() {
        return 0.0;
    }
    scale * (score - score.clamp(-limit, limit))
}

/// An overflow becomes the largest number.
fn bounded(value: f32) -> f32 {
    if value.is_nan() { 0.0 } else { value.clamp(f32::MIN, f32::MAX) }
}

/// Takes `scale` times what each score is beyond +-`limit` from `derivative`. Scores that are not finite count as
/// within. [`Error::Shape`]; [`Error::Argument`] unless limit and scale are 0 or more and finite.
pub fn penalize_out_of_range(limit: f32, scale: f32, scores: Scores, derivative: &mut ScoresMut) -> Result<()> {
    for (name, value) in [("limit", limit), ("scale", scale)] {
        if !(value >= 0.0 && value.is_finite()) {
            return Err(Error::Argument(format!("{name} is {value}; it must be 0 or more and finite")));
        }
    }
    derivative.shape().check(scores.shape(), "the derivative")?;
    for row in 0..scores.rows() {
        for (place, &score) in derivative.row(row).iter_mut().zip(scores.row(row)) {
            *place = bounded(*place - beyond(score, limit, scale));
        }
    }
    Ok(())
}
