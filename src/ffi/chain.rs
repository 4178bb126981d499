//! The chain objective: denominator graphs, and the functions over matrices.

use std::ffi::c_char;
use std::ptr;

use super::arg;
use super::chain_config::koshi_chain_config;
use super::config;
use super::error::{koshi_error, koshi_status, ok_or_partial};
use super::guard;
use super::registry::{self, Kind, Opaque};
use super::supervision::{self, koshi_supervision};
use crate::chain::{
    DenominatorGraph, DeviceMatrix, Scores, ScoresMut, chain_objective, chain_objective_device, penalize_out_of_range,
};
use crate::error::{Error, Result};

/// The denominator graph of chain training: all that could have been said. It keeps working memory and
/// threads from call to call; calls on it may run together. Immutable and counted.
pub struct koshi_den_graph {
    _opaque: (),
}

impl Opaque for koshi_den_graph {
    type Object = DenominatorGraph;
    const KIND: Kind = Kind::DenGraph;
}

/// Reads a den.fst, an OpenFst acceptor of type vector or const over labels pdf + 1, into *graph, for network
/// outputs of `num_pdfs` columns. `path` is a file, or what else Kaldi calls an rxfilename. KOSHI_E_SHAPE for
/// a pdf that is not below `num_pdfs`; KOSHI_E_GRAPH for epsilons, negative labels, weights that are NaN or
/// -inf, no start state, and a state whose outgoing probabilities do not sum to more than 0 and less than
/// 100; KOSHI_E_IO, KOSHI_E_FORMAT, KOSHI_E_UNSUPPORTED, KOSHI_E_NO_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_den_graph_read(
    path: *const c_char,
    num_pdfs: usize,
    graph: *mut *mut koshi_den_graph,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on texts and results.
        let (path, out) = unsafe { (arg::text(path, "path")?, arg::out(graph, "graph")?) };
        out.set(registry::insert(DenominatorGraph::read(path, num_pdfs)?)?);
        Ok(())
    })
}

/// As koshi_den_graph_read, from `size` bytes at `data`, which are not needed afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_den_graph_from_memory(
    data: *const u8,
    size: usize,
    num_pdfs: usize,
    graph: *mut *mut koshi_den_graph,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on arrays and results.
        let (bytes, out) = unsafe { (arg::array(data, size, "data")?, arg::out(graph, "graph")?) };
        out.set(registry::insert(DenominatorGraph::from_memory(bytes, num_pdfs)?)?);
        Ok(())
    })
}

/// Number of states; -1 for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_den_graph_num_states(graph: *const koshi_den_graph) -> i64 {
    guard::query(-1, || Ok(registry::get(graph, "graph")?.num_states() as i64))
}

/// Number of pdfs that it was read for; -1 for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_den_graph_num_pdfs(graph: *const koshi_den_graph) -> i64 {
    guard::query(-1, || Ok(registry::get(graph, "graph")?.num_pdfs() as i64))
}

/// The initial probability of each state, and how many there are in *len. NULL and 0 for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_den_graph_initial_probs(graph: *const koshi_den_graph, len: *mut usize) -> *const f32 {
    guard::query(ptr::null(), || {
        // SAFETY: the header's promise on results.
        let len = unsafe { arg::length(len) };
        Ok(len.of(registry::get(graph, "graph")?.initial_probs()))
    })
}

/// Counts `graph` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_den_graph_ref(graph: *const koshi_den_graph) -> *mut koshi_den_graph {
    guard::query(ptr::null_mut(), || registry::count(graph, "graph"))
}

/// Takes back one count of `graph`; the last one frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_den_graph_free(graph: *mut koshi_den_graph) -> koshi_status {
    guard::free(|| registry::free(graph, "graph"))
}

/// The caller's matrices: the network output, and derivatives of the same shape.
struct Matrices {
    rows: usize,
    cols: usize,
    /// First and last address of each so far.
    taken: [(usize, usize); 3],
    count: usize,
}

impl Matrices {
    fn new(rows: usize, cols: usize) -> Matrices {
        Matrices { rows, cols, taken: [(0, 0); 3], count: 0 }
    }

    /// Numbers from the first to the last of a matrix, which no other one may lie in.
    fn len(&mut self, pointer: *const f32, stride: usize, name: &str) -> Result<usize> {
        let (rows, cols) = (self.rows, self.cols);
        let shape = || Error::Shape(format!("{name}: {rows} rows of {cols} numbers, {stride} apart"));
        if rows == 0 || cols == 0 || stride < cols {
            return Err(shape());
        }
        let len = (rows - 1).checked_mul(stride).and_then(|before| before.checked_add(cols)).ok_or_else(shape)?;
        let begin = pointer as usize;
        let end = len.checked_mul(size_of::<f32>()).and_then(|bytes| begin.checked_add(bytes)).ok_or_else(shape)?;
        if self.taken[..self.count].iter().any(|&(from, to)| begin < to && from < end) {
            return Err(Error::Argument(format!("{name} overlaps another matrix of the call")));
        }
        self.taken[self.count] = (begin, end);
        self.count += 1;
        Ok(len)
    }

    /// # Safety
    /// `pointer` is null or points to such a matrix, which nobody writes to while `'a` lasts.
    unsafe fn scores<'a>(&mut self, pointer: *const f32, stride: usize) -> Result<Scores<'a>> {
        let len = self.len(pointer, stride, "output")?;
        // SAFETY: by this function's own promise.
        let data = unsafe { arg::array(pointer, len, "output") }?;
        Scores::new(data, self.rows, self.cols, stride)
    }

    /// A matrix in device memory; `None` for null.
    fn on_device(&mut self, pointer: *const f32, stride: usize, name: &str) -> Result<Option<DeviceMatrix>> {
        if pointer.is_null() {
            return Ok(None);
        }
        self.len(pointer, stride, name)?;
        Ok(Some(DeviceMatrix { at: pointer as u64, rows: self.rows, cols: self.cols, stride }))
    }

    /// The network output in device memory.
    fn output_on_device(&mut self, pointer: *const f32, stride: usize) -> Result<DeviceMatrix> {
        let output = self.on_device(pointer, stride, "output")?;
        output.ok_or_else(|| Error::Argument("output is NULL".into()))
    }

    /// A matrix to write to; `None` for null.
    ///
    /// # Safety
    /// `pointer` is null or points to such a matrix, which nobody else uses while `'a` lasts.
    unsafe fn derivative<'a>(&mut self, pointer: *mut f32, stride: usize, name: &str) -> Result<Option<ScoresMut<'a>>> {
        if pointer.is_null() {
            return Ok(None);
        }
        arg::aligned(pointer, name)?;
        let len = self.len(pointer, stride, name)?;
        // SAFETY: by this function's own promise; null, alignment, size and overlap were checked.
        let data = unsafe { std::slice::from_raw_parts_mut(pointer, len) };
        ScoresMut::new(data, self.rows, self.cols, stride).map(Some)
    }
}

/// The chain objective (LF-MMI) of a batch and its derivatives, as Kaldi's ComputeChainObjfAndDeriv.
///
/// `output` is the network output: `rows` rows of `cols` numbers that begin `stride` apart, row
/// frame * num_sequences + sequence, a column for each pdf. `config` may be NULL for the defaults.
///
/// *objf is the numerator's log-probability less the denominator's, times the supervision's weight; *l2_term
/// is not in it; *weight is the supervision's weight times all frames: objf / weight is the value a frame.
/// Each may be NULL. `deriv` and `xent_deriv` may be NULL; what they held does not matter. `deriv` gets the
/// derivative of objf, l2 term and out-of-range penalty by `output`, `xent_deriv` the weighted likelihood of
/// each pdf given what was said (not times xent_regularize). Matrices may not overlap. All three are where
/// config->memory says: in the memory of the host or of the GPU.
///
/// KOSHI_OK_PARTIAL where no objective can be had (NaN or +inf where something was said, nothing that was
/// said is possible, numbers out of range, or forward and backward pass disagree: sums over the batch that
/// should equal the number of sequences are more than 2 off): *objf is then -10 * weight, `xent_deriv` 0
/// and `deriv` 0 but for the l2 term. All that is written is finite; elements of `output` that are not add
/// nothing to the l2 term. NaN where nothing was said counts as -30, and the call is KOSHI_OK.
///
/// KOSHI_E_SHAPE where output, graph, supervision and deriv_weights do not fit together; KOSHI_E_CONFIG;
/// KOSHI_E_UNSUPPORTED for device memory without the GPU; KOSHI_E_ARGUMENT; KOSHI_E_NO_MEMORY; and, on a GPU,
/// KOSHI_E_NO_DEVICE, KOSHI_E_DEVICE. A GPU that fails may have written to `deriv` and `xent_deriv` before.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn koshi_chain_objf(
    graph: *const koshi_den_graph,
    supervision: *const koshi_supervision,
    config: *const koshi_chain_config,
    output: *const f32,
    rows: usize,
    cols: usize,
    stride: usize,
    objf: *mut f64,
    l2_term: *mut f64,
    weight: *mut f64,
    deriv: *mut f32,
    deriv_stride: usize,
    xent_deriv: *mut f32,
    xent_deriv_stride: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let graph = registry::get(graph, "graph")?;
        let supervision = supervision::get(supervision)?;
        let mut matrices = Matrices::new(rows, cols);
        // SAFETY: the header's promises on structs, arrays and results.
        unsafe {
            let config = config::read_optional(config, "config")?;
            let places = [
                arg::out_optional(objf, "objf")?,
                arg::out_optional(l2_term, "l2_term")?,
                arg::out_optional(weight, "weight")?,
            ];
            let options = config.chain_config()?;
            let weights = config.deriv_weights()?;
            let found = if let Some(stream) = config.device_memory()? {
                let scores = matrices.output_on_device(output, stride)?;
                let deriv = matrices.on_device(deriv, deriv_stride, "deriv")?;
                let xent_deriv = matrices.on_device(xent_deriv, xent_deriv_stride, "xent_deriv")?;
                chain_objective_device(&graph, &supervision, &options, scores, deriv, xent_deriv, weights, stream)?
            } else {
                let scores = matrices.scores(output, stride)?;
                let mut deriv = matrices.derivative(deriv, deriv_stride, "deriv")?;
                let mut xent_deriv = matrices.derivative(xent_deriv, xent_deriv_stride, "xent_deriv")?;
                let (deriv, xent_deriv) = (deriv.as_mut(), xent_deriv.as_mut());
                chain_objective(&graph, &supervision, &options, scores, deriv, xent_deriv, weights)?
            };
            for (place, value) in places.into_iter().zip([found.objf, found.l2_term, found.weight]) {
                if let Some(place) = place {
                    place.set(value);
                }
            }
            Ok(ok_or_partial(found.ok))
        }
    })
}

/// The log-probability of all that the graph holds, summed over `num_sequences` sequences, in *logprob, and
/// `deriv_weight` (finite) times its derivative, added to `deriv` unless that is NULL. `output` and `config`
/// are as for koshi_chain_objf; of the options, only backend, device, memory, stream, num_threads,
/// leaky_hmm_coefficient, randomised_thresholds and seed matter.
/// Scores are clamped to -30 and 30, NaN counts as -30. `lengths` are the frames of each sequence, at most
/// rows / num_sequences; NULL if all have that many. Rows of frames that a sequence has not are not read, and
/// their rows in `deriv` left alone.
///
/// KOSHI_OK_PARTIAL where the probability of a sequence cannot be held in 32 bits: it counts as -10 a frame,
/// and adds nothing to `deriv`; or where the forward and backward pass disagree (see koshi_chain_objf).
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn koshi_chain_denominator(
    graph: *const koshi_den_graph,
    config: *const koshi_chain_config,
    num_sequences: usize,
    lengths: *const u32,
    output: *const f32,
    rows: usize,
    cols: usize,
    stride: usize,
    logprob: *mut f64,
    deriv_weight: f32,
    deriv: *mut f32,
    deriv_stride: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let graph = registry::get(graph, "graph")?;
        let mut matrices = Matrices::new(rows, cols);
        // SAFETY: the header's promises on structs, arrays and results.
        unsafe {
            let config = config::read_optional(config, "config")?;
            let options = config.chain_config()?;
            let out = arg::out(logprob, "logprob")?;
            let lengths = match lengths.is_null() || num_sequences > rows {
                true => None,
                false => Some(arg::array(lengths, num_sequences, "lengths")?),
            };
            let found = if let Some(stream) = config.device_memory()? {
                let scores = matrices.output_on_device(output, stride)?;
                let target = matrices.on_device(deriv, deriv_stride, "deriv")?.map(|deriv| (deriv_weight, deriv));
                graph.forward_backward_device(&options, scores, num_sequences, lengths, target, None, stream)?
            } else {
                let scores = matrices.scores(output, stride)?;
                let mut deriv = matrices.derivative(deriv, deriv_stride, "deriv")?;
                let target = deriv.as_mut().map(|deriv| (deriv_weight, deriv));
                graph.forward_backward(&options, scores, num_sequences, lengths, target, None)?
            };
            out.set(found.log_prob);
            Ok(ok_or_partial(found.ok))
        }
    })
}

/// The log-probability of what was said, times the supervision's weight (end-to-end without it, as in Kaldi),
/// in *logprob, and weight times its derivative, added to `deriv` unless that is NULL. `output` is as for
/// koshi_chain_objf, in the memory of the host; scores are not clamped. KOSHI_OK_PARTIAL where it is not
/// finite: *logprob is then -10 a frame times the weight, and nothing is added.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn koshi_chain_numerator(
    supervision: *const koshi_supervision,
    output: *const f32,
    rows: usize,
    cols: usize,
    stride: usize,
    logprob: *mut f64,
    deriv: *mut f32,
    deriv_stride: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let supervision = supervision::get(supervision)?;
        let mut matrices = Matrices::new(rows, cols);
        // SAFETY: the header's promises on arrays and results.
        unsafe {
            let out = arg::out(logprob, "logprob")?;
            let scores = matrices.scores(output, stride)?;
            let mut deriv = matrices.derivative(deriv, deriv_stride, "deriv")?;
            let found = supervision.forward_backward(scores, deriv.as_mut())?;
            out.set(found.log_prob);
            Ok(ok_or_partial(found.ok))
        }
    })
}

/// Takes `scale` times what each element of `output` is beyond -limit or limit from the same element of
/// `deriv`, both in the memory of the host. Elements that are not finite count as within. Limit and scale are
/// 0 or more and finite.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn koshi_chain_penalize_out_of_range(
    limit: f32,
    scale: f32,
    output: *const f32,
    rows: usize,
    cols: usize,
    stride: usize,
    deriv: *mut f32,
    deriv_stride: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let mut matrices = Matrices::new(rows, cols);
        // SAFETY: the header's promises on arrays.
        let (scores, deriv) =
            unsafe { (matrices.scores(output, stride)?, matrices.derivative(deriv, deriv_stride, "deriv")?) };
        let mut deriv = deriv.ok_or_else(|| Error::Argument("deriv is NULL".into()))?;
        penalize_out_of_range(limit, scale, scores, &mut deriv)
    })
}
