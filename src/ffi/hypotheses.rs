//! N-best lists of a transducer search.

use std::ptr;

use super::arg;
use super::error::koshi_status;
use super::guard;
use super::registry::{self, Kind, Opaque};
use crate::error::{Error, Result};
use crate::transducer::{Hypotheses, Hypothesis};

/// An n-best list of a transducer search, best first. Immutable and counted.
pub struct koshi_hypotheses {
    _opaque: (),
}

impl Opaque for koshi_hypotheses {
    type Object = Hypotheses;
    const KIND: Kind = Kind::Hypotheses;
}

fn with<T>(list: *const koshi_hypotheses, index: usize, body: impl FnOnce(&Hypothesis) -> T) -> Result<T> {
    let list = registry::get(list, "hypotheses")?;
    let len = list.list.len();
    let hypothesis = list.list.get(index);
    let hypothesis = hypothesis.ok_or_else(|| Error::Argument(format!("index {index} of {len} hypotheses")))?;
    Ok(body(hypothesis))
}

/// Hands out one of the arrays of a hypothesis.
unsafe fn array<T>(
    list: *const koshi_hypotheses,
    index: usize,
    len: *mut usize,
    choose: fn(&Hypothesis) -> &[T],
) -> Result<*const T> {
    // SAFETY: the header's promise on results.
    let len = unsafe { arg::length(len) };
    with(list, index, |hypothesis| len.of(choose(hypothesis)))
}

/// Number of hypotheses; -1 for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_hypotheses_len(list: *const koshi_hypotheses) -> i64 {
    guard::query(-1, || Ok(registry::get(list, "hypotheses")?.list.len() as i64))
}

/// The labels of hypothesis `index`, without start symbol and blanks, and their number in *len, which
/// may be NULL. NULL and 0 for a bad handle or index. The array lives as long as the list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_hypotheses_labels(
    list: *const koshi_hypotheses,
    index: usize,
    len: *mut usize,
) -> *const i32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(list, index, len, |hypothesis| &hypothesis.labels) })
}

/// For each label the frame at which it was taken, in the best of the alignments that were merged.
/// Otherwise as koshi_hypotheses_labels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_hypotheses_frames(
    list: *const koshi_hypotheses,
    index: usize,
    len: *mut usize,
) -> *const u32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(list, index, len, |hypothesis| &hypothesis.frames) })
}

/// For each label its log-probability by the transducer, in that alignment. Otherwise as
/// koshi_hypotheses_labels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_hypotheses_log_probs(
    list: *const koshi_hypotheses,
    index: usize,
    len: *mut usize,
) -> *const f32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(list, index, len, |hypothesis| &hypothesis.log_probs) })
}

/// For each label what the language model added, weighted. Otherwise as koshi_hypotheses_labels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_hypotheses_lm_scores(
    list: *const koshi_hypotheses,
    index: usize,
    len: *mut usize,
) -> *const f32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(list, index, len, |hypothesis| &hypothesis.lm_scores) })
}

/// For each label what phrases added or took back; what they only hold at the end is taken back
/// from the score alone. Otherwise as koshi_hypotheses_labels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_hypotheses_bias_scores(
    list: *const koshi_hypotheses,
    index: usize,
    len: *mut usize,
) -> *const f32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(list, index, len, |hypothesis| &hypothesis.bias_scores) })
}

/// The score of hypothesis `index` by its search, a natural log; NaN for a bad handle or index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_hypotheses_score(list: *const koshi_hypotheses, index: usize) -> f64 {
    guard::query(f64::NAN, || with(list, index, |hypothesis| hypothesis.score))
}

/// The score divided by the number of labels and the start symbol. Otherwise as koshi_hypotheses_score.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_hypotheses_normalised_score(list: *const koshi_hypotheses, index: usize) -> f64 {
    guard::query(f64::NAN, || with(list, index, |hypothesis| hypothesis.normalised_score))
}

/// The score with all blanks: another one than the score only after a greedy search. Otherwise as
/// koshi_hypotheses_score.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_hypotheses_full_score(list: *const koshi_hypotheses, index: usize) -> f64 {
    guard::query(f64::NAN, || with(list, index, |hypothesis| hypothesis.full_score))
}

/// Share of hypothesis `index` in the probability of the whole list, by the scores: they add up to 1.
/// Otherwise as koshi_hypotheses_score.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_hypotheses_posterior(list: *const koshi_hypotheses, index: usize) -> f64 {
    guard::query(f64::NAN, || with(list, index, |hypothesis| hypothesis.posterior))
}

/// 1 if hypothesis `index` has consumed all rows of a finished stream, else 0; -1 for a bad handle or
/// index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_hypotheses_finished(list: *const koshi_hypotheses, index: usize) -> i32 {
    guard::query(-1, || with(list, index, |hypothesis| hypothesis.finished.into()))
}

/// Counts `list` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_hypotheses_ref(list: *const koshi_hypotheses) -> *mut koshi_hypotheses {
    guard::query(ptr::null_mut(), || registry::count(list, "hypotheses"))
}

/// Takes back one count of `list`; the last one frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_hypotheses_free(list: *mut koshi_hypotheses) -> koshi_status {
    guard::free(|| registry::free(list, "hypotheses"))
}
