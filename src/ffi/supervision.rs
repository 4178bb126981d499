//! Supervisions of chain training.

use std::ffi::c_char;
use std::ptr;

use super::arg;
use super::buffer::koshi_buffer;
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::registry::{self, Kind, Opaque};
use crate::chain::{Supervision, SupervisionHolder};
use crate::error::{Result, try_reserve};
use crate::table::{Holder, Output};

/// A supervision object of chain training: for a batch of sequences, the pdfs that may stand in each frame.
/// Immutable and counted.
pub struct koshi_supervision {
    _opaque: (),
}

impl Opaque for koshi_supervision {
    type Object = Supervision;
    const KIND: Kind = Kind::Supervision;
}

/// Reads one supervision of Kaldi's, binary or text, end-to-end or not, into *supervision. `path` is a file,
/// or what else Kaldi calls an rxfilename. KOSHI_E_IO; KOSHI_E_FORMAT; KOSHI_E_GRAPH for an FST that cannot
/// be one of a supervision (epsilons, labels beyond the pdfs, no final state, a start state other than 0,
/// and, unless end-to-end, paths of different length to one state or beyond the final ones); KOSHI_E_SHAPE
/// where its frames are not as many as said; KOSHI_E_NO_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_supervision_read(
    path: *const c_char,
    supervision: *mut *mut koshi_supervision,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on texts and results.
        let (path, out) = unsafe { (arg::text(path, "path")?, arg::out(supervision, "supervision")?) };
        out.set(registry::insert(Supervision::open(path)?)?);
        Ok(())
    })
}

/// As koshi_supervision_read, from `size` bytes at `data`, which are not needed afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_supervision_from_memory(
    data: *const u8,
    size: usize,
    supervision: *mut *mut koshi_supervision,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on arrays and results.
        let (bytes, out) = unsafe { (arg::array(data, size, "data")?, arg::out(supervision, "supervision")?) };
        out.set(registry::insert(Supervision::from_memory(bytes)?)?);
        Ok(())
    })
}

/// The bytes of a file that Kaldi and koshi_supervision_read read, binary or (binary 0) text, in *buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_supervision_to_memory(
    supervision: *const koshi_supervision,
    binary: i32,
    buffer: *mut *mut koshi_buffer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let supervision = registry::get(supervision, "supervision")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(buffer, "buffer") }?;
        let mut output = Output::memory();
        SupervisionHolder::write(&mut output, &supervision, binary != 0)?;
        out.set(registry::insert(output.into_bytes())?);
        Ok(())
    })
}

/// Joins `n` supervisions into a minibatch of all their sequences, in order, in *merged. One alone stays as
/// it is. KOSHI_E_SHAPE unless pdfs, weights and frames per sequence are equal and all are end-to-end or
/// none; KOSHI_E_UNSUPPORTED for pdfs of alignments, unless end-to-end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_supervision_merge(
    supervisions: *const *const koshi_supervision,
    n: usize,
    merged: *mut *mut koshi_supervision,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on arrays and results.
        let (handles, out) = unsafe { (arg::array(supervisions, n, "supervisions")?, arg::out(merged, "merged")?) };
        let mut parts = Vec::new();
        try_reserve(&mut parts, n, "supervisions")?;
        for (at, &handle) in handles.iter().enumerate() {
            parts.push(registry::get(handle, &format!("supervisions[{at}]"))?);
        }
        out.set(registry::insert(Supervision::merge(&parts)?)?);
        Ok(())
    })
}

fn number(supervision: *const koshi_supervision, of: impl FnOnce(&Supervision) -> usize) -> i64 {
    let found = registry::get(supervision, "supervision");
    found.map_or(-1, |supervision| i64::try_from(of(&supervision)).unwrap_or(i64::MAX))
}

/// Number of sequences; -1 for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_supervision_num_sequences(supervision: *const koshi_supervision) -> i64 {
    guard::query(-1, || Ok(number(supervision, Supervision::num_sequences)))
}

/// Frames of each sequence; -1 for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_supervision_frames_per_sequence(supervision: *const koshi_supervision) -> i64 {
    guard::query(-1, || Ok(number(supervision, Supervision::frames_per_sequence)))
}

/// Number of pdfs, which is that of the columns of the network output; -1 for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_supervision_num_pdfs(supervision: *const koshi_supervision) -> i64 {
    guard::query(-1, || Ok(number(supervision, Supervision::num_pdfs)))
}

/// 1 if each sequence has an FST of its own, with cycles, 0 if not; -1 for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_supervision_is_end_to_end(supervision: *const koshi_supervision) -> i32 {
    guard::query(-1, || Ok(i32::from(registry::get(supervision, "supervision")?.is_end_to_end())))
}

/// How much the batch counts; NaN for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_supervision_weight(supervision: *const koshi_supervision) -> f32 {
    guard::query(f32::NAN, || Ok(registry::get(supervision, "supervision")?.weight()))
}

/// Counts `supervision` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_supervision_ref(supervision: *const koshi_supervision) -> *mut koshi_supervision {
    guard::query(ptr::null_mut(), || registry::count(supervision, "supervision"))
}

/// Takes back one count of `supervision`; the last one frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_supervision_free(supervision: *mut koshi_supervision) -> koshi_status {
    guard::free(|| registry::free(supervision, "supervision"))
}

/// For other files of this room.
pub(super) fn get(supervision: *const koshi_supervision) -> Result<std::sync::Arc<Supervision>> {
    registry::get(supervision, "supervision")
}
