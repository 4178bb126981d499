//! How dense a lattice is, and how near it comes to a reference.

use super::arg;
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::lattice::koshi_lattice;
use super::path::koshi_path;
use super::registry;

/// The average number of arcs that cross a frame of `lattice`; 1 without frames, NaN for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_depth(lattice: *const koshi_lattice) -> f64 {
    guard::query(f64::NAN, || Ok(registry::get(lattice, "lattice")?.depth()))
}

/// The least number of word errors (substitutions, insertions and deletions) between a path of
/// `lattice` and the `len` words of a reference, in *errors, and such a path in *path, which may be
/// NULL: of those with equally many errors the cheapest at the lattice's own acoustic scale.
/// KOSHI_E_ARGUMENT for a lattice without any path, and for a word of the reference that is not
/// above 0. Takes memory for the states times the words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_oracle(
    lattice: *const koshi_lattice,
    words: *const i32,
    len: usize,
    errors: *mut u32,
    path: *mut *mut koshi_path,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        // SAFETY: the header's promises on arrays and results.
        let (words, out, path) = unsafe {
            (arg::array(words, len, "words")?, arg::out(errors, "errors")?, arg::out_optional(path, "path")?)
        };
        let oracle = lattice.oracle(words)?;
        let count = oracle.errors();
        if let Some(path) = path {
            path.set(registry::insert(oracle.path)?);
        }
        out.set(count);
        Ok(())
    })
}
