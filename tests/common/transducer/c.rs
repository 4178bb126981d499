//! The face of the exported functions, called as a C program calls them.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::slice;
use std::sync::Arc;

use koshi::Error;
use koshi::ffi::*;
use koshi::transducer::{Hypotheses, Hypothesis, Model, Part, Phrase, ScoreKind, SearchKind, TransducerConfig};

use super::{Face, Fault, Item, Matrix, Outcome, Status};

pub struct C;

fn code(status: koshi_status) -> Status {
    use koshi_status_code::*;
    let all = [
        KOSHI_OK,
        KOSHI_OK_PARTIAL,
        KOSHI_E_ARGUMENT,
        KOSHI_E_HANDLE,
        KOSHI_E_BUSY,
        KOSHI_E_STATE,
        KOSHI_E_CONFIG,
        KOSHI_E_UNSUPPORTED,
        KOSHI_E_SHAPE,
        KOSHI_E_SCORES,
        KOSHI_E_NO_TOKENS,
        KOSHI_E_LIMIT,
        KOSHI_E_NO_MEMORY,
        KOSHI_E_CALLBACK,
        KOSHI_E_CANCELLED,
        KOSHI_E_INTERNAL,
    ];
    all.into_iter().find(|code| *code as koshi_status == status).unwrap_or_else(|| panic!("status {status}"))
}

/// The fault of a failed call; frees its error object.
fn fault(status: Status, err: *mut koshi_error) -> Fault {
    // SAFETY: the object of a failed call; its text lives until it is freed.
    unsafe {
        assert_eq!(koshi_error_status(err), status as koshi_status);
        let message = CStr::from_ptr(koshi_error_message(err)).to_str().unwrap().to_string();
        assert_eq!(koshi_error_free(err), 0);
        Fault { status, message }
    }
}

/// A call, with the place for its error object; tells whether it was done in part.
fn call(function: impl FnOnce(*mut *mut koshi_error) -> koshi_status) -> Outcome<bool> {
    let mut err: *mut koshi_error = ptr::null_mut();
    let status = code(function(&mut err));
    match status {
        Status::KOSHI_OK | Status::KOSHI_OK_PARTIAL => {
            assert!(err.is_null(), "an error object came with success");
            Ok(status == Status::KOSHI_OK_PARTIAL)
        }
        _ => Err(fault(status, err)),
    }
}

/// A handle that is freed when it goes.
pub struct Handle<T> {
    pointer: *mut T,
    free: unsafe extern "C" fn(*mut T) -> koshi_status,
}

// SAFETY: the header says that handles may move between threads, and that calls which take a pointer to
// const may run together.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: handles may be anything; this one is live.
        assert_eq!(unsafe { (self.free)(self.pointer) }, 0);
    }
}

type Networks = Arc<dyn Model>;

/// The networks that a callback was made for.
unsafe fn networks<'a>(user_data: *mut c_void) -> &'a Networks {
    // SAFETY: registered with such a box, which lives until `drop_networks`.
    unsafe { &*user_data.cast::<Networks>() }
}

unsafe extern "C" fn drop_networks(user_data: *mut c_void) {
    // SAFETY: made by `Box::into_raw`, and dropped once.
    drop(unsafe { Box::from_raw(user_data.cast::<Networks>()) });
}

fn answer(result: koshi::Result<()>) -> koshi_status {
    match result {
        Ok(()) => 0,
        Err(Error::Callback { status, .. }) => status,
        Err(other) => panic!("{other}"),
    }
}

unsafe extern "C" fn predict(
    user_data: *mut c_void,
    states_in: *const u64,
    labels: *const i32,
    n: usize,
    states_out: *mut u64,
    outputs: *mut f32,
) -> koshi_status {
    // SAFETY: the header says what the arrays hold.
    unsafe {
        let model = networks(user_data);
        let width = model.shape().output_dim;
        answer(model.predict(
            slice::from_raw_parts(states_in, n),
            slice::from_raw_parts(labels, n),
            slice::from_raw_parts_mut(states_out, n),
            slice::from_raw_parts_mut(outputs, n * width),
        ))
    }
}

unsafe extern "C" fn lm_predict(
    user_data: *mut c_void,
    states_in: *const u64,
    labels: *const i32,
    n: usize,
    states_out: *mut u64,
    log_probs: *mut f32,
) -> koshi_status {
    // SAFETY: the header says what the arrays hold.
    unsafe {
        let model = networks(user_data);
        let width = model.shape().vocab_size;
        answer(model.lm_predict(
            slice::from_raw_parts(states_in, n),
            slice::from_raw_parts(labels, n),
            slice::from_raw_parts_mut(states_out, n),
            slice::from_raw_parts_mut(log_probs, n * width),
        ))
    }
}

unsafe extern "C" fn join(
    user_data: *mut c_void,
    encoder_rows: *const f32,
    outputs: *const f32,
    n: usize,
    scores: *mut f32,
) -> koshi_status {
    // SAFETY: the header says what the arrays hold.
    unsafe {
        let model = networks(user_data);
        let shape = model.shape();
        answer(model.join(
            slice::from_raw_parts(encoder_rows, n * shape.encoder_dim),
            slice::from_raw_parts(outputs, n * shape.output_dim),
            n,
            slice::from_raw_parts_mut(scores, n * shape.vocab_size),
        ))
    }
}

unsafe extern "C" fn release_state(user_data: *mut c_void, part: koshi_transducer_part, state: u64) {
    let part = match part {
        koshi_transducer_part::KOSHI_TRANSDUCER_PREDICTOR => Part::Predictor,
        koshi_transducer_part::KOSHI_TRANSDUCER_LM => Part::LanguageModel,
    };
    // SAFETY: as for the others.
    unsafe { networks(user_data) }.release_state(part, state);
}

fn config(config: &TransducerConfig) -> koshi_transducer_config {
    use koshi_transducer_method::*;
    let mut made = MaybeUninit::<koshi_transducer_config>::zeroed();
    // SAFETY: the struct is plain numbers and is filled by the call.
    let mut made = unsafe {
        call(|err| koshi_transducer_config_init(made.as_mut_ptr(), size_of::<koshi_transducer_config>(), err)).unwrap();
        made.assume_init()
    };
    made.search = match config.search {
        SearchKind::Greedy => KOSHI_TRANSDUCER_GREEDY,
        SearchKind::Default => KOSHI_TRANSDUCER_DEFAULT,
        SearchKind::Tsd => KOSHI_TRANSDUCER_TSD,
        SearchKind::Alsd => KOSHI_TRANSDUCER_ALSD,
        SearchKind::Nsc => KOSHI_TRANSDUCER_NSC,
    } as i32;
    made.beam = config.beam;
    made.max_symbols_per_frame = config.max_symbols_per_frame;
    made.max_expansions_per_frame = config.max_expansions_per_frame;
    made.max_sym_exp = config.max_sym_exp;
    made.u_max = config.u_max;
    made.nstep = config.nstep;
    made.prefix_alpha = config.prefix_alpha;
    made.lm_weight = config.lm_weight;
    made.score_norm = config.score_norm.into();
    made.nbest = config.nbest;
    made.max_cached = config.max_cached;
    made.commit_frames = config.commit_frames;
    made
}

/// A copy of an array that the library lends.
fn copied<T: Copy>(
    list: *const koshi_hypotheses,
    index: usize,
    function: unsafe extern "C" fn(*const koshi_hypotheses, usize, *mut usize) -> *const T,
) -> Vec<T> {
    let mut len = usize::MAX;
    // SAFETY: the array lives as long as its list, which the caller holds.
    unsafe {
        let first = function(list, index, &mut len);
        assert!(len != usize::MAX && !first.is_null());
        slice::from_raw_parts(first, len).to_vec()
    }
}

/// A list read back from its handle, which is freed.
fn list(pointer: *mut koshi_hypotheses, partial: bool) -> Hypotheses {
    let handle = Handle { pointer, free: koshi_hypotheses_free };
    // SAFETY: a live handle.
    unsafe {
        let len = koshi_hypotheses_len(pointer) as usize;
        assert_eq!(koshi_hypotheses_finished(pointer, len), -1);
        assert!(koshi_hypotheses_score(pointer, len).is_nan());
        assert!(koshi_hypotheses_labels(pointer, len, ptr::null_mut()).is_null());
        let entry = |at: usize| Hypothesis {
            labels: copied(handle.pointer, at, koshi_hypotheses_labels),
            frames: copied(handle.pointer, at, koshi_hypotheses_frames),
            log_probs: copied(handle.pointer, at, koshi_hypotheses_log_probs),
            lm_scores: copied(handle.pointer, at, koshi_hypotheses_lm_scores),
            bias_scores: copied(handle.pointer, at, koshi_hypotheses_bias_scores),
            score: koshi_hypotheses_score(handle.pointer, at),
            normalised_score: koshi_hypotheses_normalised_score(handle.pointer, at),
            full_score: koshi_hypotheses_full_score(handle.pointer, at),
            posterior: koshi_hypotheses_posterior(handle.pointer, at),
            finished: koshi_hypotheses_finished(handle.pointer, at) == 1,
        };
        Hypotheses { list: (0..len).map(entry).collect(), partial }
    }
}

impl Face for C {
    type Transducer = Handle<koshi_transducer>;
    type Stream = Handle<koshi_transducer_stream>;

    fn transducer(model: Networks) -> Outcome<Handle<koshi_transducer>> {
        let shape = model.shape();
        let scores = match shape.scores {
            ScoreKind::Logits => koshi_transducer_scores::KOSHI_TRANSDUCER_LOGITS,
            ScoreKind::LogProbs => koshi_transducer_scores::KOSHI_TRANSDUCER_LOG_PROBS,
        };
        let ops = koshi_transducer_ops {
            struct_size: size_of::<koshi_transducer_ops>() as u32,
            vocab_size: shape.vocab_size as u32,
            blank: shape.blank,
            encoder_dim: shape.encoder_dim as u32,
            output_dim: shape.output_dim as u32,
            scores: scores as i32,
            predict: Some(predict),
            join: Some(join),
            release_state: Some(release_state),
            lm_predict: if shape.has_lm { Some(lm_predict) } else { None },
        };
        let mut made = ptr::null_mut();
        let user_data = Box::into_raw(Box::new(model)).cast();
        // SAFETY: the data and functions belong together.
        call(|err| unsafe { koshi_transducer_new(&ops, user_data, Some(drop_networks), &mut made, err) })?;
        Ok(Handle { pointer: made, free: koshi_transducer_free })
    }

    fn set_bias(transducer: &Handle<koshi_transducer>, phrases: &[Phrase<'_>]) -> Outcome {
        let given = |phrase: &Phrase<'_>| koshi_phrase {
            labels: phrase.labels.as_ptr(),
            len: phrase.labels.len(),
            bonus: phrase.bonus,
            reserved: 0,
        };
        let given: Vec<koshi_phrase> = phrases.iter().map(given).collect();
        // SAFETY: the arrays live for the call.
        call(|err| unsafe { koshi_transducer_set_bias(transducer.pointer, given.as_ptr(), given.len(), err) })?;
        Ok(())
    }

    fn search(
        transducer: &Handle<koshi_transducer>,
        options: &TransducerConfig,
        utterances: &[Matrix<'_>],
    ) -> Outcome<Vec<Outcome<Hypotheses>>> {
        let given = |matrix: &Matrix<'_>| koshi_transducer_utterance {
            rows: matrix.data.as_ptr(),
            frames: matrix.frames,
            dim: matrix.dim,
            stride: matrix.stride,
            status: 77,
            reserved: 0,
            error: ptr::null_mut(),
        };
        let mut given: Vec<koshi_transducer_utterance> = utterances.iter().map(given).collect();
        let mut lists = vec![ptr::null_mut(); given.len()];
        let options = config(options);
        // SAFETY: the arrays live for the call.
        let partial = call(|err| unsafe {
            let size = size_of::<koshi_transducer_utterance>();
            let (first, lists) = (given.as_mut_ptr(), lists.as_mut_ptr());
            koshi_transducer_search(transducer.pointer, &options, first, utterances.len(), size, lists, err)
        })?;
        assert_eq!(partial, given.iter().any(|utterance| utterance.status != 0));
        let result = |(utterance, found): (&koshi_transducer_utterance, *mut koshi_hypotheses)| {
            assert_eq!(found.is_null(), utterance.status < 0);
            assert_eq!(utterance.error.is_null(), utterance.status >= 0);
            match utterance.status {
                0 | 1 => Ok(list(found, utterance.status == 1)),
                status => Err(fault(code(status), utterance.error)),
            }
        };
        Ok(given.iter().zip(lists).map(result).collect())
    }

    fn stream(
        transducer: &Handle<koshi_transducer>,
        options: &TransducerConfig,
    ) -> Outcome<Handle<koshi_transducer_stream>> {
        let mut made = ptr::null_mut();
        let options = config(options);
        // SAFETY: live handles and structs.
        call(|err| unsafe { koshi_transducer_stream_new(transducer.pointer, &options, &mut made, err) })?;
        Ok(Handle { pointer: made, free: koshi_transducer_stream_free })
    }

    fn push(stream: &mut Handle<koshi_transducer_stream>, rows: Matrix<'_>) -> Outcome {
        let Matrix { data, frames, dim, stride } = rows;
        // SAFETY: the rows live for the call.
        let done = call(|err| unsafe {
            koshi_transducer_stream_push(stream.pointer, data.as_ptr(), frames, dim, stride, err)
        })?;
        assert!(!done);
        Ok(())
    }

    fn partial(stream: &Handle<koshi_transducer_stream>) -> Outcome<(Hypotheses, usize)> {
        let (mut found, mut stable) = (ptr::null_mut(), usize::MAX);
        // SAFETY: places that live for the call.
        call(|err| unsafe { koshi_transducer_stream_partial(stream.pointer, &mut found, &mut stable, err) })?;
        // Whether a bound struck is told at the end.
        Ok((list(found, false), stable))
    }

    fn commit(stream: &mut Handle<koshi_transducer_stream>) -> Outcome<Hypothesis> {
        let mut found = ptr::null_mut();
        // SAFETY: a place that lives for the call.
        let partial = call(|err| unsafe { koshi_transducer_stream_commit(stream.pointer, &mut found, err) })?;
        assert!(!partial);
        let mut list = list(found, partial).list;
        assert_eq!(list.len(), 1);
        Ok(list.remove(0))
    }

    fn finish(stream: &mut Handle<koshi_transducer_stream>) -> Outcome<Hypotheses> {
        let mut found = ptr::null_mut();
        // SAFETY: a place that lives for the call.
        let partial = call(|err| unsafe { koshi_transducer_stream_finish(stream.pointer, &mut found, err) })?;
        Ok(list(found, partial))
    }

    fn canceller(stream: &Handle<koshi_transducer_stream>) -> Box<dyn Fn() + Send + Sync> {
        let handle = stream.pointer as usize;
        Box::new(move || {
            // SAFETY: handles may be anything, and may be used on any thread.
            call(|err| unsafe { koshi_transducer_stream_cancel(handle as *mut _, err) }).unwrap();
        })
    }

    fn advance(
        transducer: &Handle<koshi_transducer>,
        items: Vec<Item<'_, Handle<koshi_transducer_stream>>>,
    ) -> Outcome<Vec<Outcome>> {
        let given = |item: &Item<'_, Handle<koshi_transducer_stream>>| koshi_transducer_item {
            stream: item.stream.pointer,
            rows: item.rows.data.as_ptr(),
            frames: item.rows.frames,
            dim: item.rows.dim,
            stride: item.rows.stride,
            status: 77,
            last: item.last.into(),
        };
        let mut given: Vec<koshi_transducer_item> = items.iter().map(given).collect();
        // SAFETY: the array lives for the call.
        let partial = call(|err| unsafe {
            let size = size_of::<koshi_transducer_item>();
            koshi_transducer_advance(transducer.pointer, given.as_mut_ptr(), given.len(), size, err)
        })?;
        assert_eq!(partial, given.iter().any(|item| item.status < 0));
        let told = |item: &koshi_transducer_item| match item.status {
            0 => Ok(()),
            status => Err(Fault { status: code(status), message: String::new() }),
        };
        Ok(given.iter().map(told).collect())
    }
}
