//! Tables that are read from their first entry to their last.

use std::ffi::{CString, c_char};
use std::ptr;

use super::arg;
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::lattice::koshi_lattice;
use super::matrix::koshi_matrix;
use super::registry::{self, Kind, Opaque};
use crate::error::{Error, Result};
use crate::exclusive::{Exclusive, Turns};
use crate::lattice::LatticeHolder;
use crate::table::{Holder, MatrixHolder, SequentialReader};

/// A table of matrices, compressed ones too. One call at a time may use it.
pub struct koshi_matrix_reader {
    _opaque: (),
}

impl Opaque for koshi_matrix_reader {
    type Object = Reader<MatrixHolder>;
    const KIND: Kind = Kind::MatrixReader;
}

/// A table of lattices, raw or compact. One call at a time may use it.
pub struct koshi_lattice_reader {
    _opaque: (),
}

impl Opaque for koshi_lattice_reader {
    type Object = Reader<LatticeHolder>;
    const KIND: Kind = Kind::LatticeReader;
}

/// What a reader stands for.
pub struct Reader<H: Holder>(Exclusive<Turns<Open<H>>>);

/// A table and the key of its last entry, which was handed out.
struct Open<H: Holder> {
    table: SequentialReader<H>,
    key: CString,
}

impl<H: Holder> Reader<H> {
    /// # Safety
    /// `rspecifier` is null or a C text.
    pub(super) unsafe fn open(what: &'static str, rspecifier: *const c_char) -> Result<Reader<H>> {
        // SAFETY: by this function's own promise.
        let table = SequentialReader::open(unsafe { arg::text(rspecifier, "rspecifier") }?)?;
        Ok(Reader(Exclusive::new(what, Turns::new(Open { table, key: CString::default() }))))
    }

    /// Hands out the next entry, its value as a handle; null and null after the last.
    ///
    /// # Safety
    /// `key` and `value` are null or may be written.
    pub(super) unsafe fn next<T: Opaque>(
        &self,
        key: *mut *const c_char,
        value: *mut *mut T,
        value_name: &str,
    ) -> Result<()>
    where
        T::Object: From<H::Value>,
    {
        // SAFETY: by this function's own promise.
        let (key, out) = unsafe { (arg::out(key, "key")?, arg::out(value, value_name)?) };
        let mut turn = self.0.write()?;
        let open = turn.get();
        let Some((name, entry)) = open.table.next()? else {
            key.set(ptr::null());
            out.set(ptr::null_mut());
            return Ok(());
        };
        let name = CString::new(name).map_err(|_| Error::Unsupported("a key holds a NUL byte".into()))?;
        out.set(registry::insert(entry.into())?);
        open.key = name;
        key.set(open.key.as_ptr());
        Ok(())
    }
}

/// Opens the table of matrices that a Kaldi rspecifier names ("ark:a.ark", "scp:a.scp"), in *reader.
/// Its entries may be compressed, of binary32 or binary64, binary or text. KOSHI_E_ARGUMENT for what is
/// no rspecifier, KOSHI_E_IO, KOSHI_E_UNSUPPORTED for a command unless commands are allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_matrix_reader_open(
    rspecifier: *const c_char,
    reader: *mut *mut koshi_matrix_reader,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on results and texts.
        let (out, opened) = unsafe { (arg::out(reader, "reader")?, Reader::open("koshi_matrix_reader", rspecifier)?) };
        out.set(registry::insert(opened)?);
        Ok(())
    })
}

/// Reads the next entry: its key in *key, which lives until the next call on this reader, and its
/// matrix, to be freed, in *matrix. Both become NULL after the last entry. KOSHI_E_FORMAT names file
/// and byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_matrix_reader_next(
    reader: *mut koshi_matrix_reader,
    key: *mut *const c_char,
    matrix: *mut *mut koshi_matrix,
    err: *mut *mut koshi_error,
) -> koshi_status {
    // SAFETY: the header's promise on results.
    guard::call(err, || unsafe { registry::get(reader, "reader")?.next(key, matrix, "matrix") })
}

/// Closes and frees `reader`. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_matrix_reader_free(reader: *mut koshi_matrix_reader) -> koshi_status {
    guard::free(|| registry::free(reader, "reader"))
}

/// Opens the table of lattices that a Kaldi rspecifier names, in *reader. Otherwise as
/// koshi_matrix_reader_open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_reader_open(
    rspecifier: *const c_char,
    reader: *mut *mut koshi_lattice_reader,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on results and texts.
        let (out, opened) = unsafe { (arg::out(reader, "reader")?, Reader::open("koshi_lattice_reader", rspecifier)?) };
        out.set(registry::insert(opened)?);
        Ok(())
    })
}

/// Reads the next entry: its key in *key, which lives until the next call on this reader, and its
/// lattice, sorted and to be freed, in *lattice. Both become NULL after the last entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_reader_next(
    reader: *mut koshi_lattice_reader,
    key: *mut *const c_char,
    lattice: *mut *mut koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    // SAFETY: the header's promise on results.
    guard::call(err, || unsafe { registry::get(reader, "reader")?.next(key, lattice, "lattice") })
}

/// Closes and frees `reader`. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_reader_free(reader: *mut koshi_lattice_reader) -> koshi_status {
    guard::free(|| registry::free(reader, "reader"))
}
