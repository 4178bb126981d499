//! The face of the exported functions, called as a C program calls them.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr;

use koshi::chain::{ChainBackend, ChainConfig};
use koshi::ffi::*;

use super::{Face, Fault, Found, Outcome, Scores};

pub struct C;

/// A call, with the place for its error object; tells whether all was done.
fn call(function: impl FnOnce(*mut *mut koshi_error) -> koshi_status) -> Outcome<bool> {
    use koshi_status_code::*;
    let mut err: *mut koshi_error = ptr::null_mut();
    let status = function(&mut err);
    if status == KOSHI_OK as koshi_status || status == KOSHI_OK_PARTIAL as koshi_status {
        assert!(err.is_null(), "an error object came with success");
        return Ok(status == KOSHI_OK as koshi_status);
    }
    let all = [
        KOSHI_E_ARGUMENT,
        KOSHI_E_HANDLE,
        KOSHI_E_CONFIG,
        KOSHI_E_UNSUPPORTED,
        KOSHI_E_FORMAT,
        KOSHI_E_GRAPH,
        KOSHI_E_SHAPE,
        KOSHI_E_LIMIT,
        KOSHI_E_NO_MEMORY,
        KOSHI_E_NO_DEVICE,
        KOSHI_E_DEVICE,
    ];
    let code = all.into_iter().find(|code| *code as koshi_status == status);
    // SAFETY: the object of a failed call; its text lives until it is freed.
    unsafe {
        assert_eq!(koshi_error_status(err), status);
        let message = CStr::from_ptr(koshi_error_message(err)).to_str().unwrap().to_string();
        assert_eq!(koshi_error_free(err), 0);
        Err(Fault { status: code.unwrap_or_else(|| panic!("status {status}: {message}")), message })
    }
}

/// A call that makes something.
fn make<T>(function: impl FnOnce(*mut *mut T, *mut *mut koshi_error) -> koshi_status) -> Outcome<*mut T> {
    let mut made: *mut T = ptr::null_mut();
    let outcome = call(|err| function(&mut made, err));
    assert_eq!(made.is_null(), outcome.is_err(), "a result is written exactly on success");
    outcome.map(|_| made)
}

pub struct Den(*mut koshi_den_graph);

impl Den {
    pub fn pointer(&self) -> *const koshi_den_graph {
        self.0
    }
}

impl Drop for Den {
    fn drop(&mut self) {
        // SAFETY: handles may be anything; this one is live.
        assert_eq!(unsafe { koshi_den_graph_free(self.0) }, 0);
    }
}

pub struct Said(*mut koshi_supervision);

impl Said {
    pub fn pointer(&self) -> *const koshi_supervision {
        self.0
    }
}

impl Drop for Said {
    fn drop(&mut self) {
        // SAFETY: handles may be anything; this one is live.
        assert_eq!(unsafe { koshi_supervision_free(self.0) }, 0);
    }
}

/// The struct as a C program fills it.
pub fn options(config: &ChainConfig, weights: Option<&[f32]>) -> koshi_chain_config {
    let mut made = MaybeUninit::<koshi_chain_config>::uninit();
    let size = size_of::<koshi_chain_config>();
    // SAFETY: a local of that size, which init fills.
    let mut options = unsafe {
        assert_eq!(call(|err| koshi_chain_config_init(made.as_mut_ptr(), size, err)), Ok(true));
        made.assume_init()
    };
    options.backend = match config.backend {
        ChainBackend::Auto => 0,
        ChainBackend::Cpu => 1,
        ChainBackend::Cuda => 2,
    };
    options.device = config.device;
    options.num_threads = config.num_threads;
    options.l2_regularize = config.l2_regularize;
    options.out_of_range_regularize = config.out_of_range_regularize;
    options.leaky_hmm_coefficient = config.leaky_hmm_coefficient;
    options.xent_regularize = config.xent_regularize;
    options.randomised_penalty = u32::from(config.randomised_penalty);
    options.randomised_thresholds = u32::from(config.randomised_thresholds);
    options.seed = config.seed;
    options.deriv_weights = weights.map_or(ptr::null(), <[f32]>::as_ptr);
    options.num_deriv_weights = weights.map_or(0, |weights| weights.len() as u64);
    options
}

impl Face for C {
    type Den = Den;
    type Supervision = Said;

    fn den(bytes: &[u8], num_pdfs: usize) -> Outcome<Den> {
        // SAFETY: a slice, and places of `make` and `call`.
        make(|made, err| unsafe { koshi_den_graph_from_memory(bytes.as_ptr(), bytes.len(), num_pdfs, made, err) })
            .map(Den)
    }

    fn supervision(bytes: &[u8]) -> Outcome<Said> {
        // SAFETY: as above.
        make(|made, err| unsafe { koshi_supervision_from_memory(bytes.as_ptr(), bytes.len(), made, err) }).map(Said)
    }

    fn merge(parts: &[&Said]) -> Outcome<Said> {
        let handles: Vec<*const koshi_supervision> = parts.iter().map(|part| part.0.cast_const()).collect();
        // SAFETY: as above.
        make(|made, err| unsafe { koshi_supervision_merge(handles.as_ptr(), handles.len(), made, err) }).map(Said)
    }

    fn objf(
        den: &Den,
        supervision: &Said,
        config: &ChainConfig,
        scores: &Scores,
        deriv_weights: Option<&[f32]>,
    ) -> Outcome<Found> {
        let options = options(config, deriv_weights);
        let Scores { data, rows, cols, stride } = scores;
        let (mut deriv, mut xent) = (vec![f32::NAN; rows * cols], vec![f32::NAN; rows * cols]);
        let [mut value, mut l2_term, mut weight] = [f64::NAN; 3];
        // SAFETY: slices of the sizes given, and locals.
        let done = call(|err| unsafe {
            let (to, and) = (deriv.as_mut_ptr(), xent.as_mut_ptr());
            let data = data.as_ptr();
            koshi_chain_objf(
                den.0,
                supervision.0,
                &options,
                data,
                *rows,
                *cols,
                *stride,
                &mut value,
                &mut l2_term,
                &mut weight,
                to,
                *cols,
                and,
                *cols,
                err,
            )
        });
        if done.is_err() {
            assert!(value.is_nan() && deriv.iter().chain(&xent).all(|value| value.is_nan()), "written on failure");
        }
        Ok(Found { value, l2_term, weight, ok: done?, deriv, xent })
    }

    fn denominator(
        den: &Den,
        config: &ChainConfig,
        scores: &Scores,
        num_sequences: usize,
        lengths: Option<&[u32]>,
    ) -> Outcome<Found> {
        let options = options(config, None);
        let Scores { data, rows, cols, stride } = scores;
        let mut deriv = vec![0.0; rows * cols];
        let mut value = f64::NAN;
        // SAFETY: slices of the sizes given, and locals.
        let done = call(|err| unsafe {
            let lengths = lengths.map_or(ptr::null(), <[u32]>::as_ptr);
            koshi_chain_denominator(
                den.0,
                &options,
                num_sequences,
                lengths,
                data.as_ptr(),
                *rows,
                *cols,
                *stride,
                &mut value,
                1.0,
                deriv.as_mut_ptr(),
                *cols,
                err,
            )
        })?;
        Ok(Found { value, l2_term: 0.0, weight: 0.0, ok: done, deriv, xent: Vec::new() })
    }

    fn numerator(supervision: &Said, scores: &Scores) -> Outcome<Found> {
        let Scores { data, rows, cols, stride } = scores;
        let mut deriv = vec![0.0; rows * cols];
        let mut value = f64::NAN;
        // SAFETY: slices of the sizes given, and locals.
        let done = call(|err| unsafe {
            let to = deriv.as_mut_ptr();
            koshi_chain_numerator(supervision.0, data.as_ptr(), *rows, *cols, *stride, &mut value, to, *cols, err)
        })?;
        Ok(Found { value, l2_term: 0.0, weight: 0.0, ok: done, deriv, xent: Vec::new() })
    }
}
