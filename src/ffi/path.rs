//! Paths: words, transition-ids, times and costs of one way through a graph or lattice.

use std::ffi::c_char;
use std::ptr;

use super::arg;
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::registry::{self, Kind, Opaque};
use super::symbols::{self, koshi_symbols};
use crate::error::{Error, Result};
use crate::lattice::Path;

/// One path through a graph or lattice. Immutable and counted.
pub struct koshi_path {
    _opaque: (),
}

impl Opaque for koshi_path {
    type Object = Path;
    const KIND: Kind = Kind::Path;
}

/// Hands out one of the path's arrays.
unsafe fn array<T>(path: *const koshi_path, len: *mut usize, choose: fn(&Path) -> &[T]) -> Result<*const T> {
    // SAFETY: the header's promise on results.
    let len = unsafe { arg::length(len) };
    let path = registry::get(path, "path")?;
    Ok(len.of(choose(&path)))
}

/// The path's output labels (words) that are not epsilon, and their number in *len, which may be
/// NULL. NULL and 0 for a bad handle. The array lives as long as the path.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_path_olabels(path: *const koshi_path, len: *mut usize) -> *const i32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(path, len, |path| &path.olabels) })
}

/// The path's input labels (transition-ids) that are not epsilon: one a frame, behind those frames that the
/// channel has committed. Otherwise as koshi_path_olabels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_path_ilabels(path: *const koshi_path, len: *mut usize) -> *const i32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(path, len, |path| &path.ilabels) })
}

/// For each output label of the path the frame at which its arc starts: the number of frames
/// before it. Otherwise as koshi_path_olabels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_path_frames(path: *const koshi_path, len: *mut usize) -> *const u32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(path, len, |path| &path.frames) })
}

/// Sum of the path's graph costs, final cost included; NaN for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_path_graph_cost(path: *const koshi_path) -> f64 {
    guard::query(f64::NAN, || Ok(registry::get(path, "path")?.graph_cost))
}

/// Sum of what the phrases of koshi_channel_set_bias cost on the path: below 0 where they made it more
/// likely, 0 without phrases. Not part of the graph cost. NaN for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_path_bias_cost(path: *const koshi_path) -> f64 {
    guard::query(f64::NAN, || Ok(registry::get(path, "path")?.bias_cost))
}

/// Sum of the path's acoustic costs without the acoustic scale; NaN for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_path_acoustic_cost(path: *const koshi_path) -> f64 {
    guard::query(f64::NAN, || Ok(registry::get(path, "path")?.acoustic_cost))
}

/// Writes the path's words, one space between two, to `buffer` of `capacity` bytes with a NUL
/// behind them, and their length without it to *len, which may be NULL. `symbols` NULL: words are
/// written as numbers. With a capacity of 0 only the length is written, and `buffer` may be NULL.
/// KOSHI_E_ARGUMENT if the text does not fit or a word has no symbol, which the message names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_path_text(
    path: *const koshi_path,
    symbols: *const koshi_symbols,
    buffer: *mut c_char,
    capacity: usize,
    len: *mut usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let path = registry::get(path, "path")?;
        // SAFETY: the header's promise on results.
        let len = unsafe { arg::out_optional(len, "len") }?;
        let table = registry::get_optional(symbols, "symbols")?;
        let text = symbols::text(&path.olabels, table.as_deref())?;
        if capacity > 0 {
            arg::aligned(buffer, "buffer")?;
            if capacity <= text.len() {
                return Err(Error::Argument(format!("capacity is {capacity}; the text takes {}", text.len() + 1)));
            }
            // SAFETY: `capacity` bytes can be written by the header's promise; text and NUL fit.
            unsafe {
                ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast::<u8>(), text.len());
                buffer.add(text.len()).write(0);
            }
        }
        if let Some(len) = len {
            len.set(text.len());
        }
        Ok(())
    })
}

/// Counts `path` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_path_ref(path: *const koshi_path) -> *mut koshi_path {
    guard::query(ptr::null_mut(), || registry::count(path, "path"))
}

/// Takes back one count of `path`; the last one frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_path_free(path: *mut koshi_path) -> koshi_status {
    guard::free(|| registry::free(path, "path"))
}
