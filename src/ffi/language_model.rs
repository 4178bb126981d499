//! Language models, and lattices rescored with them.

use std::ffi::c_char;
use std::ptr;

use super::arg;
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::lattice::koshi_lattice;
use super::registry::{self, Kind, Opaque};
use super::symbols::koshi_symbols;
use crate::lattice::LanguageModel;
use crate::table::Input;

/// A language model over word ids: n-grams with backoff, or a grammar FST. Immutable and counted.
pub struct koshi_language_model {
    _opaque: (),
}

impl Opaque for koshi_language_model {
    type Object = LanguageModel;
    const KIND: Kind = Kind::LanguageModel;
}

/// Reads a language model from the file that a Kaldi rxfilename names into *model. Either an ARPA
/// file, whose words get their ids from `symbols` (NULL: words are ids; n-grams with a word that has
/// none are left out; words that are not listed have the probability of `<unk>`, if there is one); or an
/// OpenFst file of type vector or const with standard arcs (Kaldi's G.fst), whose output labels are the
/// words, 0 and the id of #0 in `symbols` meaning none. KOSHI_E_IO; KOSHI_E_FORMAT names the line, or
/// the byte; KOSHI_E_GRAPH for an FST without start state, with bad costs or with a cycle without words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_language_model_read(
    path: *const c_char,
    symbols: *const koshi_symbols,
    model: *mut *mut koshi_language_model,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let table = registry::get_optional(symbols, "symbols")?;
        // SAFETY: the header's promises on texts and results.
        let (path, out) = unsafe { (arg::text(path, "path")?, arg::out(model, "model")?) };
        out.set(registry::insert(LanguageModel::read_file(path, table.as_deref())?)?);
        Ok(())
    })
}

/// As koshi_language_model_read, from `size` bytes at `data`, which are not needed afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_language_model_from_memory(
    data: *const u8,
    size: usize,
    symbols: *const koshi_symbols,
    model: *mut *mut koshi_language_model,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let table = registry::get_optional(symbols, "symbols")?;
        // SAFETY: the header's promises on arrays and results.
        let (bytes, out) = unsafe { (arg::array(data, size, "data")?, arg::out(model, "model")?) };
        let mut input = Input::from_bytes("memory", arg::copy(bytes, "data")?);
        out.set(registry::insert(LanguageModel::read(&mut input, table.as_deref())?)?);
        Ok(())
    })
}

/// The cost of the sentence of `len` words, its end included, in *cost; +inf if the model does not
/// have it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_language_model_cost(
    model: *const koshi_language_model,
    words: *const i32,
    len: usize,
    cost: *mut f64,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let model = registry::get(model, "model")?;
        // SAFETY: the header's promises on arrays and results.
        let (words, out) = unsafe { (arg::array(words, len, "words")?, arg::out(cost, "cost")?) };
        out.set(model.cost(words)?.unwrap_or(f64::INFINITY));
        Ok(())
    })
}

/// Counts `model` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_language_model_ref(model: *const koshi_language_model) -> *mut koshi_language_model {
    guard::query(ptr::null_mut(), || registry::count(model, "model"))
}

/// Takes back one count of `model`; the last one frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_language_model_free(model: *mut koshi_language_model) -> koshi_status {
    guard::free(|| registry::free(model, "model"))
}

/// The lattice whose paths cost `scale` * (new_model - old_model) more in their graph cost, where the
/// models stand for the costs that they give to a path's words and the end behind them, in *rescored.
/// Either model may be NULL, which costs nothing. Paths whose words a model does not have are dropped;
/// without any left the lattice has no states. Deterministic if `lattice` is; it has its form, raw or
/// compact. KOSHI_E_ARGUMENT if a cost is not finite.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_rescore(
    lattice: *const koshi_lattice,
    old_model: *const koshi_language_model,
    new_model: *const koshi_language_model,
    scale: f32,
    rescored: *mut *mut koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        let old = registry::get_optional(old_model, "old_model")?;
        let new = registry::get_optional(new_model, "new_model")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(rescored, "rescored") }?;
        out.set(registry::insert(lattice.rescore(old.as_deref(), new.as_deref(), scale)?)?);
        Ok(())
    })
}
