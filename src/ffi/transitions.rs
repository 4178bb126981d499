//! Transition models.

use std::ffi::c_char;
use std::ptr;

use super::arg;
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::registry::{self, Kind, Opaque};
use crate::error::{Error, Result};
use crate::table::{Holder, Input, Transitions, TransitionsHolder};

/// A transition model: what the input labels of a graph stand for. Transition-ids count from 1, pdfs
/// from 0. Immutable and counted.
pub struct koshi_transitions {
    _opaque: (),
}

impl Opaque for koshi_transitions {
    type Object = Transitions;
    const KIND: Kind = Kind::Transitions;
}

/// Asks the model for something of a transition-id.
fn of_id<T>(transitions: *const koshi_transitions, id: i32, ask: impl FnOnce(&Transitions) -> Option<T>) -> Result<T> {
    let model = registry::get(transitions, "transitions")?;
    ask(&model).ok_or_else(|| Error::Argument(format!("id is {id}; the model has 1 to {}", model.num_ids())))
}

/// Reads a transition model, binary or text, from the start of the file that a Kaldi rxfilename names
/// (a path, or "command |" where commands are allowed) into *transitions. A GMM or a network may
/// follow. KOSHI_E_IO; KOSHI_E_FORMAT with file and byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transitions_read(
    path: *const c_char,
    transitions: *mut *mut koshi_transitions,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on texts and results.
        let (path, out) = unsafe { (arg::text(path, "path")?, arg::out(transitions, "transitions")?) };
        out.set(registry::insert(Transitions::read_file(path)?)?);
        Ok(())
    })
}

/// As koshi_transitions_read, from `size` bytes at `data`, which are not needed afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transitions_from_memory(
    data: *const u8,
    size: usize,
    transitions: *mut *mut koshi_transitions,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on arrays and results.
        let (bytes, out) = unsafe { (arg::array(data, size, "data")?, arg::out(transitions, "transitions")?) };
        let mut input = Input::from_bytes("memory", arg::copy(bytes, "data")?);
        out.set(registry::insert(TransitionsHolder::read(&mut input)?)?);
        Ok(())
    })
}

/// Number of transition-ids; -1 for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transitions_num_ids(transitions: *const koshi_transitions) -> i32 {
    guard::query(-1, || Ok(registry::get(transitions, "transitions")?.num_ids()))
}

/// Number of pdfs, that is, of columns that a row must have; -1 for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transitions_num_pdfs(transitions: *const koshi_transitions) -> i32 {
    guard::query(-1, || Ok(registry::get(transitions, "transitions")?.num_pdfs()))
}

/// Pdf of transition-id `id`; -1 for a bad handle or id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transitions_pdf(transitions: *const koshi_transitions, id: i32) -> i32 {
    guard::query(-1, || of_id(transitions, id, |model| i32::try_from(model.pdf(id)?).ok()))
}

/// Phone of transition-id `id`; -1 for a bad handle or id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transitions_phone(transitions: *const koshi_transitions, id: i32) -> i32 {
    guard::query(-1, || of_id(transitions, id, |model| model.phone(id)))
}

/// State of transition-id `id` within its phone's HMM, from 0; -1 for a bad handle or id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transitions_hmm_state(transitions: *const koshi_transitions, id: i32) -> i32 {
    guard::query(-1, || of_id(transitions, id, |model| model.hmm_state(id)))
}

/// 1 if transition-id `id` stays in its HMM state, 0 if not; -1 for a bad handle or id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transitions_is_self_loop(transitions: *const koshi_transitions, id: i32) -> i32 {
    guard::query(-1, || of_id(transitions, id, |model| model.pdf(id).map(|_| i32::from(model.is_self_loop(id)))))
}

/// Counts `transitions` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transitions_ref(transitions: *const koshi_transitions) -> *mut koshi_transitions {
    guard::query(ptr::null_mut(), || registry::count(transitions, "transitions"))
}

/// Takes back one count of `transitions`; the last one frees it, once no graph uses it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transitions_free(transitions: *mut koshi_transitions) -> koshi_status {
    guard::free(|| registry::free(transitions, "transitions"))
}
