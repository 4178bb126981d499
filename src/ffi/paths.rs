//! Lists of the best paths of lattices.

use std::ptr;

use super::arg;
use super::buffer::koshi_buffer;
use super::error::{koshi_error, koshi_status, ok_or_partial};
use super::guard;
use super::lattice::koshi_lattice;
use super::path::koshi_path;
use super::registry::{self, Kind, Opaque};
use super::symbols::koshi_symbols;
use crate::error::{Error, Result};
use crate::lattice::NBest;

/// The best paths of a lattice, the best first, no two of the same words. Immutable and counted.
pub struct koshi_paths {
    _opaque: (),
}

impl Opaque for koshi_paths {
    type Object = NBest;
    const KIND: Kind = Kind::Paths;
}

/// Finds the `n` best paths of different words in *paths, by increasing graph cost + acoustic_scale *
/// acoustic cost; fewer where the lattice has fewer, none where it has no path. Of a word sequence's own
/// paths the best is given. Sequences of equal cost come in ascending order of their words. Works on
/// raw and compact lattices alike, determinized or not. KOSHI_OK_PARTIAL if the list ends early, where
/// it would take more than 2 GiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_nbest(
    lattice: *const koshi_lattice,
    n: usize,
    acoustic_scale: f32,
    paths: *mut *mut koshi_paths,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(paths, "paths") }?;
        let found = lattice.nbest(n, acoustic_scale)?;
        let status = ok_or_partial(!found.cut_short);
        out.set(registry::insert(found)?);
        Ok(status)
    })
}

/// Number of paths; -1 for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_paths_len(paths: *const koshi_paths) -> i64 {
    guard::query(-1, || Ok(registry::get(paths, "paths")?.paths.len() as i64))
}

/// Path number `index`, from 0, as a handle of its own, to be freed; NULL for a bad handle or index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_paths_at(paths: *const koshi_paths, index: usize) -> *mut koshi_path {
    guard::query(ptr::null_mut(), || {
        let list = registry::get(paths, "paths")?;
        registry::insert_shared(list.paths.get(index).ok_or_else(|| beyond(&list, index))?.clone())
    })
}

/// The posterior of path number `index`: the share of its words in the whole lattice at the acoustic
/// scale of the list, all paths of these words together. Those of a list sum to at most 1. NaN for a
/// bad handle or index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_paths_posterior(paths: *const koshi_paths, index: usize) -> f64 {
    guard::query(f64::NAN, || {
        let list = registry::get(paths, "paths")?;
        list.posteriors.get(index).copied().ok_or_else(|| beyond(&list, index))
    })
}

fn beyond(list: &NBest, index: usize) -> Error {
    Error::Argument(format!("index is {index}; there are {} paths", list.paths.len()))
}

/// Writes the list as JSON in *buffer: `{"paths": [...]}`, each path with `words` (each with `word`,
/// `text`, unless `symbols` is NULL, and the `frame` where it starts), `graph_cost`, `acoustic_cost`
/// (without the acoustic scale), `total_cost`, `posterior` and `transition_ids`; and `cut_short`, whether
/// the list ends early. KOSHI_E_ARGUMENT if a word has no symbol.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_paths_to_json(
    paths: *const koshi_paths,
    symbols: *const koshi_symbols,
    buffer: *mut *mut koshi_buffer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let list = registry::get(paths, "paths")?;
        let table = registry::get_optional(symbols, "symbols")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(buffer, "buffer") }?;
        out.set(registry::insert(list.to_json(table.as_deref())?)?);
        Ok(())
    })
}

/// Counts `paths` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_paths_ref(paths: *const koshi_paths) -> *mut koshi_paths {
    guard::query(ptr::null_mut(), || registry::count(paths, "paths"))
}

/// Takes back one count of `paths`; the last one frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_paths_free(paths: *mut koshi_paths) -> koshi_status {
    guard::free(|| registry::free(paths, "paths"))
}

/// The lattice of all paths of both lattices, in *united. Word sequences that both have come twice until
/// it is determinized. Compact if either lattice is; its acoustic scale is that of `lattice`. To join many,
/// join two of about equal size at a time: each call copies both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_union(
    lattice: *const koshi_lattice,
    other: *const koshi_lattice,
    united: *mut *mut koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || -> Result<()> {
        let (lattice, other) = (registry::get(lattice, "lattice")?, registry::get(other, "other")?);
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(united, "united") }?;
        out.set(registry::insert(lattice.union(&other)?)?);
        Ok(())
    })
}
