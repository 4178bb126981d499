//! The objective on a GPU: the denominator and the derivatives there, the numerator, which is small, on the host, with
//! those scores alone that it asks for.

use std::sync::Arc;

use super::config::{ChainBackend, ChainConfig};
use super::den_graph::DenominatorGraph;
use super::denominator::{Denominator, summary};
use super::elements::Gathered;
use super::groups::Groups;
use super::objective::{Objective, Parts, put_together};
use super::scores::{Scores, ScoresMut, Shape};
use super::supervision::Supervision;
use super::tile::{Outcome, is_usable};
use super::workshop::{GpuWork, Work, resize};
use crate::cuda::{
    self, ChainArc, ChainArrays, ChainBatch, ChainCall, ChainDerivative, ChainGraph, ChainGroup, ChainMatrix,
    ChainMatrixMut,
};
use crate::error::{Error, Result, try_filled, try_reserve};

/// Arcs of a group, and of a piece of what leaves a state: what one thread walks in one go, so that a state with very many
/// arcs does not hold up the others.
const MOST_ARCS: usize = 16;

const WHAT: &str = "denominator graph";

/// A matrix in the memory of a GPU.
#[derive(Clone, Copy, Debug)]
pub struct DeviceMatrix {
    /// Address of the first number, a `CUdeviceptr`; a multiple of 4.
    pub at: u64,
    /// Number of rows, at least 1.
    pub rows: usize,
    /// Number of columns, at least 1.
    pub cols: usize,
    /// Numbers from the beginning of a row to that of the next; what lies between rows is neither read nor written.
    pub stride: usize,
}

impl DeviceMatrix {
    pub(super) fn shape(&self) -> Shape {
        Shape { rows: self.rows, cols: self.cols }
    }

    pub(super) fn check(&self, what: &str) -> Result<()> {
        let DeviceMatrix { at, rows, cols, stride } = *self;
        if at == 0 || !at.is_multiple_of(4) {
            return Err(Error::Argument(format!("{what}: {at:#x} is not the address of a number")));
        }
        let len = rows.saturating_sub(1).checked_mul(stride).and_then(|before| before.checked_add(cols));
        let end = len.and_then(|len| (len as u64).checked_mul(4)).and_then(|bytes| at.checked_add(bytes));
        if rows == 0 || cols == 0 || stride < cols || end.is_none() {
            return Err(Error::Shape(format!("{what}: {rows} rows of {cols} numbers, {stride} apart")));
        }
        Ok(())
    }
}

/// The network output, wherever it is; with the stream that makes it.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    Host(Scores<'a>),
    Device(DeviceMatrix, usize),
}

impl<'a> Source<'a> {
    pub fn shape(&self) -> Shape {
        match self {
            Source::Host(scores) => scores.shape(),
            Source::Device(matrix, _) => matrix.shape(),
        }
    }

    fn matrix(&self) -> (ChainMatrix<'a>, usize) {
        match self {
            Source::Host(scores) => {
                let (data, stride) = scores.used();
                (ChainMatrix::Host(data, stride), 0)
            }
            Source::Device(matrix, stream) => (ChainMatrix::Device(matrix.at, matrix.stride), *stream),
        }
    }
}

/// A derivative, wherever it goes.
pub(super) enum Target<'a, 'b> {
    Host(&'a mut ScoresMut<'b>),
    Device(DeviceMatrix),
}

impl Target<'_, '_> {
    fn matrix(&mut self) -> ChainMatrixMut<'_> {
        match self {
            Target::Host(matrix) => {
                let (data, stride) = matrix.used();
                ChainMatrixMut::Host(data, stride)
            }
            Target::Device(matrix) => ChainMatrixMut::Device(matrix.at, matrix.stride),
        }
    }
}

/// The graph on the GPU of `config`, if that is to compute.
pub(super) fn of(graph: &DenominatorGraph, config: &ChainConfig) -> Result<Option<Arc<ChainGraph>>> {
    match config.backend {
        ChainBackend::Cpu => Ok(None),
        ChainBackend::Auto if cuda::devices().is_err() => Ok(None),
        ChainBackend::Auto => settled(config, on_device(graph, config.device)),
        ChainBackend::Cuda => on_device(graph, config.device).map(Some),
    }
}

/// The graph on the GPU of `config`, which has the matrices.
pub(super) fn required(graph: &DenominatorGraph, config: &ChainConfig) -> Result<Arc<ChainGraph>> {
    match config.backend {
        ChainBackend::Cpu => {
            Err(Error::Unsupported("the CPU does not compute on matrices in device memory; take the GPU".into()))
        }
        ChainBackend::Auto | ChainBackend::Cuda => on_device(graph, config.device),
    }
}

/// What a GPU has given; `None` where it failed and the CPU is to take its place.
pub(super) fn settled<T>(config: &ChainConfig, done: Result<T>) -> Result<Option<T>> {
    match done {
        Ok(found) => Ok(Some(found)),
        Err(error) if config.backend == ChainBackend::Auto && lacks(&error) => {
            log::warn!(target: "chain", "the CPU computes, since the GPU does not: {}", error.chain());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What the machine lacks is gone without; what the caller must change is told.
fn lacks(error: &Error) -> bool {
    matches!(error.root(), Error::NoDevice(_) | Error::Device(_) | Error::NoMemory { .. } | Error::Limit(_))
}

fn on_device(graph: &DenominatorGraph, device: u32) -> Result<Arc<ChainGraph>> {
    let mut gpus = graph.workshop.gpus.lock();
    if let Some(found) = gpus.iter().find(|gpu| gpu.device() == device) {
        return Ok(Arc::clone(found));
    }
    try_reserve(&mut gpus, 1, WHAT)?;
    let made = Arc::new(lay_out(graph, device)?);
    gpus.push(Arc::clone(&made));
    Ok(made)
}

/// Lays the graph out as the kernels walk it, and copies it.
fn lay_out(graph: &DenominatorGraph, device: u32) -> Result<ChainGraph> {
    let num_arcs = graph.transitions().len() / 2;
    let forward = graph.forward_transitions();
    let groups = Groups::new(&graph.transitions()[..num_arcs], forward, graph.num_pdfs(), MOST_ARCS)?;
    let mut entering = Vec::new();
    try_reserve(&mut entering, groups.len() + 1, WHAT)?;
    // Groups are numbered by pdf there, and stand by state here.
    let mut numbers = try_filled(0u32, groups.len(), WHAT)?;
    for (at, group) in groups.entering.iter().enumerate() {
        let state = groups.states[group.group as usize];
        entering.push(ChainGroup { begin: group.begin, pdf: group.pdf, state, place: group.group });
        numbers[group.group as usize] = at as u32;
    }
    entering.push(ChainGroup { begin: num_arcs as u32, ..ChainGroup::default() });
    let mut arcs_out = Vec::new();
    try_reserve(&mut arcs_out, num_arcs, WHAT)?;
    arcs_out.extend(groups.arcs_out.iter().map(|arc| ChainArc { at: numbers[arc.at as usize], ..*arc }));
    let (pieces, leaving) = pieces(forward)?;
    let arrays = ChainArrays {
        initial: graph.initial_probs(),
        groups: &entering,
        arcs_in: &groups.arcs_in,
        entering: &groups.entering_offsets,
        pdf_places: &groups.pdf_offsets,
        arcs_out: &arcs_out,
        pieces: &pieces,
        leaving: &leaving,
    };
    ChainGraph::new(device, &arrays)
}

/// Cuts the arcs out of each state into pieces: where each piece begins, and where the pieces of each state do.
fn pieces(forward: &[(u32, u32)]) -> Result<(Vec<u32>, Vec<u32>)> {
    let count = |&(begin, end): &(u32, u32)| (end - begin).div_ceil(MOST_ARCS as u32);
    let total: u32 = forward.iter().map(count).sum();
    let (mut pieces, mut leaving) = (Vec::new(), Vec::new());
    try_reserve(&mut pieces, total as usize + 1, WHAT)?;
    try_reserve(&mut leaving, forward.len() + 1, WHAT)?;
    for &(begin, end) in forward {
        leaving.push(pieces.len() as u32);
        pieces.extend((begin..end).step_by(MOST_ARCS));
    }
    leaving.push(pieces.len() as u32);
    pieces.push(forward.last().map_or(0, |range| range.1));
    Ok((pieces, leaving))
}

fn fill_lengths(places: &mut Vec<u32>, lengths: Option<&[u32]>, sequences: usize, frames: usize) -> Result<()> {
    let frames = u32::try_from(frames).map_err(|_| Error::Limit(format!("{frames} frames are too many for a GPU")))?;
    places.clear();
    try_reserve(places, sequences, WHAT)?;
    match lengths {
        Some(lengths) => places.extend_from_slice(lengths),
        None => places.resize(sequences, frames),
    }
    Ok(())
}

/// Probabilities may be anything: where they are out of range there is no objective. Squares are of scores that are finite.
fn can_be(found: &cuda::ChainOutcome) -> bool {
    found.squares >= 0.0 && found.squares.is_finite() && found.reserved == 0
}

/// Waits for the recursion, and leaves in `outcomes` what the CPU would.
fn wait(
    call: &mut ChainCall,
    batch: (&[u32], usize, bool),
    device: (&mut Vec<cuda::ChainOutcome>, &mut Vec<f32>),
    outcomes: &mut Vec<Outcome>,
) -> Result<Denominator> {
    let ((lengths, frames, backward), (found, scales)) = (batch, device);
    call.outcomes(found, scales)?;
    if !found.iter().all(can_be) {
        return Err(cuda::cannot_be_right("the outcome of a sequence of the chain objective"));
    }
    resize(outcomes, Some(lengths.len()), Outcome::default())?;
    for (sequence, (place, found)) in outcomes.iter_mut().zip(&*found).enumerate() {
        let scales = &scales[sequence * frames..][..lengths[sequence] as usize];
        let scaled: f64 = scales.iter().fold(0.0, |sum, &scale| sum - f64::from(scale).ln());
        // A sum that is 0, or not a number, or too large, gives a scale that is not usable.
        let usable = is_usable(found.prob) && scales.iter().all(|&scale| is_usable(scale));
        *place = Outcome {
            log_prob: scaled + f64::from(found.prob).ln(),
            usable: usable && (!backward || found.occupancies.is_finite()),
            product: found.product,
            occupancy: found.occupancy,
        };
    }
    Ok(summary(outcomes, |sequence| lengths[sequence] as usize, backward))
}

/// As `DenominatorGraph::forward_backward`, on a GPU.
///
/// # Safety
/// Matrices in device memory are there until this returns, and their stream is a live one or 0.
pub(super) unsafe fn denominator(
    graph: &ChainGraph,
    config: &ChainConfig,
    source: Source,
    num_sequences: usize,
    lengths: Option<&[u32]>,
    target: Option<(f32, Target)>,
    work: &mut Work,
) -> Result<Denominator> {
    let Work { denominator, gpu, .. } = work;
    let GpuWork { lengths: own, counted, outcomes, scales, occupancies, .. } = gpu;
    let Shape { rows, cols } = source.shape();
    let frames = rows / num_sequences;
    fill_lengths(own, lengths, num_sequences, frames)?;
    let (output, stream) = source.matrix();
    let backward = target.is_some();
    let batch = ChainBatch {
        output,
        stream,
        num_sequences,
        frames,
        lengths: own,
        backward,
        leak: config.leaky_hmm_coefficient,
        threshold: config.threshold(),
        seed: config.seed,
        elements: (&[], &[]),
        row_weights: None,
        to_host: 0,
    };
    // SAFETY: this function's own promise.
    let mut call = unsafe { graph.begin(batch) }?;
    call.launch()?;
    let found = wait(&mut call, (own, frames, backward), (outcomes, scales), &mut denominator.outcomes)?;
    let counts = |sequence: usize| if denominator.outcomes[sequence].usable { own[sequence] } else { 0 };
    match target {
        None => {}
        Some((weight, Target::Host(matrix))) => {
            call.occupancies(occupancies)?;
            let rows = || {
                let rows = occupancies.chunks_exact(cols).enumerate();
                rows.filter(|(row, _)| row / num_sequences < counts(row % num_sequences) as usize)
            };
            if rows().any(|(_, occupancies)| !occupancies.iter().all(|occupancy| occupancy.is_finite())) {
                return Err(cuda::cannot_be_right("an occupancy of the chain objective"));
            }
            for (row, occupancies) in rows() {
                let places = matrix.row(row).iter_mut();
                places.zip(occupancies).for_each(|(place, occupancy)| *place += weight * occupancy);
            }
        }
        Some((weight, Target::Device(matrix))) => {
            counted.clear();
            try_reserve(counted, num_sequences, WHAT)?;
            counted.extend((0..num_sequences).map(counts));
            // SAFETY: this function's own promise.
            unsafe { call.add(weight, counted, (matrix.at, matrix.stride)) }?;
        }
    }
    call.done()?;
    Ok(found)
}

/// As `chain_objective`, on a GPU.
///
/// # Safety
/// As for [`denominator`].
#[allow(clippy::too_many_arguments)] // those of `chain_objective`, the GPU and the working memory
pub(super) unsafe fn objective(
    graph: &ChainGraph,
    supervision: &Supervision,
    config: &ChainConfig,
    source: Source,
    mut derivative: Option<Target>,
    mut xent_derivative: Option<Target>,
    row_weights: Option<&[f32]>,
    work: &mut Work,
) -> Result<Objective> {
    let Work { denominator, numerator, gpu } = work;
    let GpuWork { lengths, elements, values, sums, outcomes, scales, .. } = gpu;
    let (sequences, frames) = (supervision.num_sequences(), supervision.frames_per_sequence());
    fill_lengths(lengths, None, sequences, frames)?;
    elements.find(supervision)?;
    let (output, stream) = source.matrix();
    let backward = derivative.is_some();
    let on_host = |target: &Option<Target>| usize::from(matches!(target, Some(Target::Host(_))));
    let batch = ChainBatch {
        output,
        stream,
        num_sequences: sequences,
        frames,
        lengths,
        backward,
        leak: config.leaky_hmm_coefficient,
        threshold: config.threshold(),
        seed: config.seed,
        elements: (&elements.offsets, &elements.pdfs),
        row_weights,
        to_host: on_host(&derivative) + on_host(&xent_derivative),
    };
    // SAFETY: this function's own promise.
    let mut call = unsafe { graph.begin(batch) }?;
    call.gather(values)?;
    call.launch()?;
    // The GPU is at work meanwhile.
    let wanted = backward || xent_derivative.is_some();
    let said = supervision.run(Gathered { elements, values }, wanted, numerator)?;
    let all = wait(&mut call, (lengths, frames, backward), (outcomes, scales), &mut denominator.outcomes)?;
    let squares = || outcomes.iter().map(|outcome| outcome.squares).sum();
    let found = put_together(supervision, config, squares, all, said);
    if wanted {
        elements.add_up(&numerator.occupancies, supervision.weight(), sums)?;
        let parts = Parts::new(supervision, config, said, found.ok);
        let what = ChainDerivative { ok: found.ok, weight: parts.weight, l2: parts.l2, penalty: parts.penalty };
        let derivative = derivative.as_mut().map(Target::matrix);
        let xent_derivative = xent_derivative.as_mut().map(Target::matrix);
        // SAFETY: this function's own promise.
        unsafe { call.derivative(what, sums, derivative, xent_derivative) }?;
    }
    call.done()?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_of_one_state_and_short() {
        let (pieces, leaving) = pieces(&[(0, 3), (3, 3), (3, 20), (20, 52)]).unwrap();
        assert_eq!(pieces, [0, 3, 19, 20, 36, 52]);
        assert_eq!(leaving, [0, 1, 1, 3, 5]);
    }

    #[test]
    fn matrices_of_the_device_are_checked() {
        let good = DeviceMatrix { at: 256, rows: 2, cols: 3, stride: 4 };
        good.check("x").unwrap();
        for bad in [DeviceMatrix { at: 0, ..good }, DeviceMatrix { at: 257, ..good }] {
            assert!(matches!(bad.check("x"), Err(Error::Argument(_))), "{bad:?}");
        }
        for bad in [
            DeviceMatrix { rows: 0, ..good },
            DeviceMatrix { cols: 0, ..good },
            DeviceMatrix { stride: 2, ..good },
            DeviceMatrix { rows: usize::MAX, ..good },
            DeviceMatrix { at: u64::MAX - 3, ..good },
        ] {
            assert!(matches!(bad.check("x"), Err(Error::Shape(_))), "{bad:?}");
        }
    }
}
