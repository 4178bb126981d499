//! Transducers: the networks of a caller, as callbacks.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use super::arg;
use super::callback::{UserData, koshi_drop_fn, outside};
use super::config::{self, Grows};
use super::decodable::rows;
use super::error::{self, callback_result, koshi_error, koshi_status, koshi_status_code};
use super::guard;
use super::hypotheses::koshi_hypotheses;
use super::phrases::{self, koshi_phrase};
use super::registry::{self, Kind, Opaque};
use super::transducer_config::koshi_transducer_config;
use crate::error::{Error, Result, try_reserve};
use crate::search::Rows;
use crate::transducer::{Hypotheses, Model, Part, ScoreKind, Shape, Transducer};

/// The networks of a transducer (RNN-T), to be searched. Calls that take it const may run together.
pub struct koshi_transducer {
    _opaque: (),
}

impl Opaque for koshi_transducer {
    type Object = Arc<Transducer>;
    const KIND: Kind = Kind::Transducer;
}

/// Which network a state belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum koshi_transducer_part {
    /// The prediction network.
    KOSHI_TRANSDUCER_PREDICTOR = 0,
    /// The language model.
    KOSHI_TRANSDUCER_LM = 1,
}

/// What a joint network answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum koshi_transducer_scores {
    /// Any numbers below +inf: the library takes the log-softmax over the vocabulary.
    KOSHI_TRANSDUCER_LOGITS = 0,
    /// Natural logs of probabilities, used as they are.
    KOSHI_TRANSDUCER_LOG_PROBS = 1,
}

/// The networks of a transducer. Matrices are dense, a row for each of `n`. A negative answer is a
/// koshi_status of the callback's choice: that utterance fails with KOSHI_E_CALLBACK and the others go on.
/// (When a call for several utterances fails, each is asked for again alone.)
///
/// Callbacks run on the threads that call for streams or searches of the transducer: on several at
/// once if those do. A state is a number of the callback's choice, as an index or an address. Each
/// one that a successful call has written to states_out is released once: when no hypothesis needs it any
/// more, at the latest when its stream ends, fails or is freed. A failing call has handed out nothing.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct koshi_transducer_ops {
    /// sizeof this struct.
    pub struct_size: u32,
    /// Labels, the blank included: 2 to 16777216.
    pub vocab_size: u32,
    /// The blank label, any below vocab_size.
    pub blank: i32,
    /// Columns of an encoder row: 1 to 16777216.
    pub encoder_dim: u32,
    /// Columns of an output of predict: 1 to 16777216.
    pub output_dim: u32,
    /// What join answers: a koshi_transducer_scores.
    pub scores: i32,
    /// Reads `labels[i]` after the history of `states_in[i]`; writes the state after it and its output. A
    /// history begins with the blank, read in state 0; nothing else reads the blank.
    pub predict: Option<
        unsafe extern "C" fn(
            user_data: *mut c_void,
            states_in: *const u64,
            labels: *const i32,
            n: usize,
            states_out: *mut u64,
            outputs: *mut f32,
        ) -> koshi_status,
    >,
    /// Joins row i of encoder_rows (encoder_dim wide) and of outputs (output_dim wide) into row i of scores
    /// (vocab_size wide). NaN and +inf end the utterance with KOSHI_E_SCORES; -inf is never taken.
    pub join: Option<
        unsafe extern "C" fn(
            user_data: *mut c_void,
            encoder_rows: *const f32,
            outputs: *const f32,
            n: usize,
            scores: *mut f32,
        ) -> koshi_status,
    >,
    /// Takes a state back. May be NULL where states need no release.
    pub release_state: Option<unsafe extern "C" fn(user_data: *mut c_void, part: koshi_transducer_part, state: u64)>,
    /// As predict, for a language model: writes natural logs of the probability of each next label,
    /// vocab_size wide. May be NULL.
    pub lm_predict: Option<
        unsafe extern "C" fn(
            user_data: *mut c_void,
            states_in: *const u64,
            labels: *const i32,
            n: usize,
            states_out: *mut u64,
            log_probs: *mut f32,
        ) -> koshi_status,
    >,
}

const _: () = assert!(size_of::<koshi_transducer_ops>() == koshi_transducer_ops::FIRST_SIZE);

// SAFETY: six numbers of 4 bytes, then pointers of 8; a function pointer may hold anything.
unsafe impl Grows for koshi_transducer_ops {
    const NAME: &'static str = "koshi_transducer_ops";
    const FIRST_SIZE: usize = 56;

    fn defaults() -> koshi_transducer_ops {
        koshi_transducer_ops {
            struct_size: Self::FIRST_SIZE as u32,
            vocab_size: 0,
            blank: 0,
            encoder_dim: 0,
            output_dim: 0,
            scores: koshi_transducer_scores::KOSHI_TRANSDUCER_LOGITS as i32,
            predict: None,
            join: None,
            release_state: None,
            lm_predict: None,
        }
    }
}

/// A caller's networks as a [`Model`].
struct Callbacks {
    shape: Shape,
    ops: koshi_transducer_ops,
    user_data: UserData,
}

impl Callbacks {
    fn new(ops: koshi_transducer_ops, user_data: UserData) -> Result<Callbacks> {
        let missing = |name: &str| Err(Error::Argument(format!("ops: {name} is NULL")));
        if ops.predict.is_none() {
            return missing("predict");
        }
        if ops.join.is_none() {
            return missing("join");
        }
        let scores = match ops.scores {
            value if value == koshi_transducer_scores::KOSHI_TRANSDUCER_LOGITS as i32 => ScoreKind::Logits,
            value if value == koshi_transducer_scores::KOSHI_TRANSDUCER_LOG_PROBS as i32 => ScoreKind::LogProbs,
            value => return Err(Error::Config(format!("scores is {value}; it must be a koshi_transducer_scores"))),
        };
        let shape = Shape {
            vocab_size: ops.vocab_size as usize,
            blank: ops.blank,
            encoder_dim: ops.encoder_dim as usize,
            output_dim: ops.output_dim as usize,
            scores,
            has_lm: ops.lm_predict.is_some(),
        };
        Ok(Callbacks { shape, ops, user_data })
    }
}

/// A callback that was checked to be there, and is not.
#[cold]
fn gone(name: &str) -> Error {
    Error::Internal(format!("{name} is gone"))
}

impl Model for Callbacks {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn predict(&self, states_in: &[u64], labels: &[i32], states_out: &mut [u64], outputs: &mut [f32]) -> Result<()> {
        let function = self.ops.predict.ok_or_else(|| gone("predict"))?;
        let (states_in, labels, n) = (states_in.as_ptr(), labels.as_ptr(), labels.len());
        let (states_out, outputs, user_data) =
            (states_out.as_mut_ptr(), outputs.as_mut_ptr(), self.user_data.pointer());
        // SAFETY: the caller gave this function for this data; the arrays are ours and hold `n` each.
        let status = outside(|| unsafe { function(user_data, states_in, labels, n, states_out, outputs) });
        callback_result("predict", status)
    }

    fn join(&self, encoder: &[f32], outputs: &[f32], n: usize, scores: &mut [f32]) -> Result<()> {
        let function = self.ops.join.ok_or_else(|| gone("join"))?;
        let (encoder, outputs, scores) = (encoder.as_ptr(), outputs.as_ptr(), scores.as_mut_ptr());
        let user_data = self.user_data.pointer();
        // SAFETY: the caller gave this function for this data; the arrays are ours and hold `n` rows each.
        let status = outside(|| unsafe { function(user_data, encoder, outputs, n, scores) });
        callback_result("join", status)
    }

    fn lm_predict(
        &self,
        states_in: &[u64],
        labels: &[i32],
        states_out: &mut [u64],
        log_probs: &mut [f32],
    ) -> Result<()> {
        let function = self.ops.lm_predict.ok_or_else(|| gone("lm_predict"))?;
        let (states_in, labels, n) = (states_in.as_ptr(), labels.as_ptr(), labels.len());
        let (states_out, rows, user_data) = (states_out.as_mut_ptr(), log_probs.as_mut_ptr(), self.user_data.pointer());
        // SAFETY: the caller gave this function for this data; the arrays are ours and hold `n` each.
        let status = outside(|| unsafe { function(user_data, states_in, labels, n, states_out, rows) });
        callback_result("lm_predict", status)
    }

    fn release_state(&self, part: Part, state: u64) {
        let Some(function) = self.ops.release_state else { return };
        let part = match part {
            Part::Predictor => koshi_transducer_part::KOSHI_TRANSDUCER_PREDICTOR,
            Part::LanguageModel => koshi_transducer_part::KOSHI_TRANSDUCER_LM,
        };
        // SAFETY: the caller gave this function for this data.
        outside(|| unsafe { function(self.user_data.pointer(), part, state) });
    }
}

/// Makes a transducer of callbacks, in *transducer. `ops` is copied. `drop` runs once when `user_data` is
/// no longer used: when the transducer and all its streams are freed and no call is at work any more, or when
/// this call fails. KOSHI_E_CONFIG names a size that is out of its range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transducer_new(
    ops: *const koshi_transducer_ops,
    user_data: *mut c_void,
    drop: koshi_drop_fn,
    transducer: *mut *mut koshi_transducer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let user_data = UserData::new(user_data, drop);
        // SAFETY: the header's promises on results and structs.
        let (out, ops) = unsafe { (arg::out(transducer, "transducer")?, config::read(ops, "ops")?) };
        let made = Transducer::new(Box::new(Callbacks::new(ops, user_data)?))?;
        out.set(registry::insert(made)?);
        Ok(())
    })
}

/// Makes some phrases more likely, in streams and searches that begin from now on; those of an earlier
/// call are forgotten. Greedy search does not look at them. KOSHI_E_CONFIG names a phrase without
/// labels, with the blank or what is no label, or with a bonus below 0 or out of its range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transducer_set_bias(
    transducer: *const koshi_transducer,
    phrases: *const koshi_phrase,
    num_phrases: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let transducer = registry::get(transducer, "transducer")?;
        // SAFETY: the header's promise on arrays.
        let phrases = unsafe { phrases::read(phrases, num_phrases) }?;
        transducer.set_phrases(&phrases)
    })
}

/// How often the callbacks of a transducer were called with success, and for how many rows, since it was made.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_transducer_calls {
    /// Bytes that were filled.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// Calls of predict.
    pub predict_calls: u64,
    /// Histories in them.
    pub predict_rows: u64,
    /// Calls of join.
    pub join_calls: u64,
    /// Pairs in them.
    pub join_rows: u64,
    /// Calls of lm_predict.
    pub lm_calls: u64,
    /// Histories in them.
    pub lm_rows: u64,
    /// States that were handed out and not released yet.
    pub states: u64,
}

// SAFETY: Pod says that there is no padding and that any bytes will do.
unsafe impl Grows for koshi_transducer_calls {
    const NAME: &'static str = "koshi_transducer_calls";
    const FIRST_SIZE: usize = 64;

    fn defaults() -> koshi_transducer_calls {
        bytemuck::Zeroable::zeroed()
    }
}

/// Counts of `transducer`, in *calls of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transducer_call_counts(
    transducer: *const koshi_transducer,
    calls: *mut koshi_transducer_calls,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let transducer = registry::get(transducer, "transducer")?;
        // SAFETY: the header's promise on output structs.
        let out = unsafe { config::out(calls, size, "calls") }?;
        let counts = transducer.call_counts();
        out.set(&koshi_transducer_calls {
            struct_size: 0,
            reserved: 0,
            predict_calls: counts.predict_calls,
            predict_rows: counts.predict_rows,
            join_calls: counts.join_calls,
            join_rows: counts.join_rows,
            lm_calls: counts.lm_calls,
            lm_rows: counts.lm_rows,
            states: counts.states,
        });
        Ok(())
    })
}

/// An utterance of koshi_transducer_search, and what became of it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct koshi_transducer_utterance {
    /// Its encoder rows.
    pub rows: *const f32,
    /// Number of rows, which may be 0.
    pub frames: usize,
    /// Number of columns: the encoder_dim of the transducer.
    pub dim: usize,
    /// Elements from one row to the next.
    pub stride: usize,
    /// Result: what koshi_transducer_stream_push or _finish would have answered.
    pub status: koshi_status,
    /// Must be 0.
    pub reserved: u32,
    /// Result: why it failed, to be freed by the caller; NULL if it did not.
    pub error: *mut koshi_error,
}

/// Searches `num_utterances` whole utterances together, with as few calls of the networks as if they were
/// one. `config` NULL: the defaults. `utterance_size` is `sizeof utterances[0]`. Each utterance gets its
/// own status, and in `hypotheses[i]` its result, NULL where it failed, be it that its rows cannot be read;
/// what becomes of one does not touch the others, and its result is that of a stream alone. KOSHI_OK if all
/// are KOSHI_OK, else KOSHI_OK_PARTIAL.
/// A negative status is about the call itself: then nothing was done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transducer_search(
    transducer: *const koshi_transducer,
    config: *const koshi_transducer_config,
    utterances: *mut koshi_transducer_utterance,
    num_utterances: usize,
    utterance_size: usize,
    hypotheses: *mut *mut koshi_hypotheses,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let transducer = registry::get(transducer, "transducer")?;
        // SAFETY: the header's promise on structs.
        let config = unsafe { config::read_optional(config, "config") }?.transducer_config()?;
        let what = "utterances";
        // SAFETY: the header's promise on arrays.
        let given = unsafe { arg::items(utterances, num_utterances, utterance_size, what) }?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::items(hypotheses, num_utterances, size_of::<usize>(), "hypotheses") }?;
        let nothing = Rows::new(&[], 0, 0, 0)?;
        let (mut views, mut unread) = (Vec::new(), Vec::new());
        try_reserve(&mut views, num_utterances, what)?;
        try_reserve(&mut unread, num_utterances, what)?;
        for at in 0..num_utterances {
            let utterance = given.get(at);
            config::reserved(utterance.reserved, what)?;
            // SAFETY: the header's promise on rows.
            let view = unsafe { rows(utterance.rows, utterance.frames, utterance.dim, utterance.stride) };
            let view = view.map_err(|error| error.context(format!("utterance {at}")));
            // One that cannot be read is searched as an empty one, and told about afterwards.
            views.push(view.as_ref().map_or(nothing, |view| *view));
            unread.push(view.err());
        }
        let results = transducer.search(&config, &views)?;
        let mut outcomes = Vec::new();
        try_reserve(&mut outcomes, num_utterances, what)?;
        let mut all = true;
        for (result, unread) in results.into_iter().zip(unread) {
            let result = unread.map_or(result, Err);
            let (list, outcome) = match result.and_then(handle) {
                Ok((list, status)) => (list, (status, ptr::null_mut())),
                Err(error) => (ptr::null_mut(), (error::status(&error), error::handle(&error))),
            };
            all &= outcome.0 == koshi_status_code::KOSHI_OK as koshi_status;
            outcomes.push((list, outcome));
        }
        for (at, (list, (status, error))) in outcomes.into_iter().enumerate() {
            out.change(at, |place| *place = list);
            given.change(at, |utterance| (utterance.status, utterance.error) = (status, error));
        }
        Ok(error::ok_or_partial(all))
    })
}

/// A handle for a result, and the status that goes with it.
pub(super) fn handle(hypotheses: Hypotheses) -> Result<(*mut koshi_hypotheses, koshi_status)> {
    let status = error::ok_or_partial(!hypotheses.partial);
    Ok((registry::insert::<koshi_hypotheses>(hypotheses)?, status))
}

/// Frees `transducer`. Its streams keep the callbacks and their data in use until they are freed too;
/// nobody is waited for. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transducer_free(transducer: *mut koshi_transducer) -> koshi_status {
    guard::free(|| registry::free(transducer, "transducer"))
}
