//! Symbol tables.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::Arc;

use super::arg;
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::registry::{self, Kind, Opaque};
use crate::error::{Error, Result, try_reserve};
use crate::table::{Input, SymbolTable};

/// A table of symbols and their ids. Immutable and counted.
pub struct koshi_symbols {
    _opaque: (),
}

impl Opaque for koshi_symbols {
    type Object = SymbolTable;
    const KIND: Kind = Kind::Symbols;
}

/// The symbols of `ids` with spaces between; their numbers where there is no table.
pub(super) fn text(ids: &[i32], symbols: Option<&SymbolTable>) -> Result<Vec<u8>> {
    let mut text: Vec<u8> = Vec::new();
    for (at, &id) in ids.iter().enumerate() {
        let number = id.to_string();
        let word = match symbols {
            None => number.as_bytes(),
            Some(table) => table
                .name(id)
                .ok_or_else(|| Error::Argument(format!("word {at} of the path, {id}, is not in the symbol table")))?,
        };
        try_reserve(&mut text, word.len() + 1, "text of a path")?;
        if at > 0 {
            text.push(b' ');
        }
        text.extend_from_slice(word);
    }
    Ok(text)
}

/// Reads a symbol table, in OpenFst's text or binary form, from the file that a Kaldi rxfilename names
/// (a path, or "command |" where commands are allowed) into *symbols. KOSHI_E_IO; KOSHI_E_FORMAT names
/// file and line for a symbol or id that comes twice, a negative id or a line of another form.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_symbols_read(
    path: *const c_char,
    symbols: *mut *mut koshi_symbols,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on texts and results.
        let (path, out) = unsafe { (arg::text(path, "path")?, arg::out(symbols, "symbols")?) };
        out.set(registry::insert(SymbolTable::read_file(path)?)?);
        Ok(())
    })
}

/// As koshi_symbols_read, from `size` bytes at `data`, which are not needed afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_symbols_from_memory(
    data: *const u8,
    size: usize,
    symbols: *mut *mut koshi_symbols,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on arrays and results.
        let (bytes, out) = unsafe { (arg::array(data, size, "data")?, arg::out(symbols, "symbols")?) };
        let mut input = Input::from_bytes("memory", arg::copy(bytes, "data")?);
        out.set(registry::insert(SymbolTable::read(&mut input)?)?);
        Ok(())
    })
}

/// Id of the symbol `text`; -1 if there is none, and for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_symbols_find(symbols: *const koshi_symbols, text: *const c_char) -> i32 {
    guard::query(-1, || {
        let table = registry::get(symbols, "symbols")?;
        arg::aligned(text, "text")?;
        // SAFETY: the header's promise on texts.
        let text = unsafe { CStr::from_ptr(text) };
        Ok(table.find(text.to_bytes()).unwrap_or(-1))
    })
}

/// Symbol of `id`; NULL if there is none, and for a bad handle. It lives as long as the table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_symbols_name(symbols: *const koshi_symbols, id: i32) -> *const c_char {
    guard::query(ptr::null(), || {
        let table: Arc<SymbolTable> = registry::get(symbols, "symbols")?;
        Ok(table.name_c(id).map_or(ptr::null(), CStr::as_ptr))
    })
}

/// Number of symbols; -1 for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_symbols_size(symbols: *const koshi_symbols) -> i64 {
    guard::query(-1, || Ok(registry::get(symbols, "symbols")?.size() as i64))
}

/// Counts `symbols` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_symbols_ref(symbols: *const koshi_symbols) -> *mut koshi_symbols {
    guard::query(ptr::null_mut(), || registry::count(symbols, "symbols"))
}

/// Takes back one count of `symbols`; the last one frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_symbols_free(symbols: *mut koshi_symbols) -> koshi_status {
    guard::free(|| registry::free(symbols, "symbols"))
}
