//! Tables that are written.

use std::ffi::c_char;

use super::arg;
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::lattice::koshi_lattice;
use super::registry::{self, Kind, Opaque};
use crate::error::{Error, Result};
use crate::exclusive::{Exclusive, Turns};
use crate::lattice::LatticeHolder;
use crate::table::{Holder, Int32VectorHolder, TableWriter};

/// A table of lattices being written. One call at a time may use it.
pub struct koshi_lattice_writer {
    _opaque: (),
}

impl Opaque for koshi_lattice_writer {
    type Object = Writer<LatticeHolder>;
    const KIND: Kind = Kind::LatticeWriter;
}

/// A table of lists of 32-bit integers (words, alignments) being written. One call at a time may use
/// it.
pub struct koshi_int_writer {
    _opaque: (),
}

impl Opaque for koshi_int_writer {
    type Object = Writer<Int32VectorHolder>;
    const KIND: Kind = Kind::IntWriter;
}

/// What a writer stands for.
pub struct Writer<H: Holder>(Exclusive<Turns<Table<H>>>);

/// The table, until it is closed.
struct Table<H: Holder>(Option<TableWriter<H>>);

impl<H: Holder> Drop for Table<H> {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.0.take().map(TableWriter::close) {
            log::error!("a table that was freed without being closed: {}", error.chain());
        }
    }
}

impl<H: Holder> Writer<H> {
    /// # Safety
    /// `wspecifier` is null or a C text.
    pub(super) unsafe fn open(what: &'static str, wspecifier: *const c_char) -> Result<Writer<H>> {
        // SAFETY: by this function's own promise.
        let table = TableWriter::open(unsafe { arg::text(wspecifier, "wspecifier") }?)?;
        Ok(Writer(Exclusive::new(what, Turns::new(Table(Some(table))))))
    }

    /// # Safety
    /// `key` is null or a C text.
    pub(super) unsafe fn write(&self, key: *const c_char, value: &H::Value) -> Result<()> {
        // SAFETY: by this function's own promise.
        let key = unsafe { arg::text(key, "key") }?;
        let mut turn = self.0.write()?;
        turn.get().0.as_mut().ok_or_else(closed)?.write(key, value)
    }

    pub(super) fn close(&self) -> Result<()> {
        let mut turn = self.0.write()?;
        turn.get().0.take().ok_or_else(closed)?.close()
    }
}

fn closed() -> Error {
    Error::State("the table is closed".into())
}

/// Opens the table of lattices that a Kaldi wspecifier names ("ark:a.ark", "ark,t:-",
/// "ark,scp:a.ark,a.scp"), in *writer. KOSHI_E_ARGUMENT for what is no wspecifier, KOSHI_E_IO,
/// KOSHI_E_UNSUPPORTED for a command unless commands are allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_writer_open(
    wspecifier: *const c_char,
    writer: *mut *mut koshi_lattice_writer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on results and texts.
        let (out, opened) = unsafe { (arg::out(writer, "writer")?, Writer::open("koshi_lattice_writer", wspecifier)?) };
        out.set(registry::insert(opened)?);
        Ok(())
    })
}

/// Writes `lattice` under `key`, a word without white space, in the lattice's own form.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_writer_write(
    writer: *mut koshi_lattice_writer,
    key: *const c_char,
    lattice: *const koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let (writer, lattice) = (registry::get(writer, "writer")?, registry::get(lattice, "lattice")?);
        // SAFETY: the header's promise on texts.
        unsafe { writer.write(key, &lattice) }
    })
}

/// Ends the table; only this reports a failure of its last writes. The writer is still to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_writer_close(
    writer: *mut koshi_lattice_writer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || registry::get(writer, "writer")?.close())
}

/// Frees `writer`, and closes it if that was not done; a failure then only goes to the log. NULL is
/// fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_writer_free(writer: *mut koshi_lattice_writer) -> koshi_status {
    guard::free(|| registry::free(writer, "writer"))
}

/// Opens a table of lists of integers, in *writer. Otherwise as koshi_lattice_writer_open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_int_writer_open(
    wspecifier: *const c_char,
    writer: *mut *mut koshi_int_writer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on results and texts.
        let (out, opened) = unsafe { (arg::out(writer, "writer")?, Writer::open("koshi_int_writer", wspecifier)?) };
        out.set(registry::insert(opened)?);
        Ok(())
    })
}

/// Writes the `len` integers at `values` under `key`, a word without white space.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_int_writer_write(
    writer: *mut koshi_int_writer,
    key: *const c_char,
    values: *const i32,
    len: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let writer = registry::get(writer, "writer")?;
        // SAFETY: the header's promises on arrays and texts.
        unsafe { writer.write(key, &arg::copy(arg::array(values, len, "values")?, "values")?) }
    })
}

/// Ends the table; only this reports a failure of its last writes. The writer is still to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_int_writer_close(
    writer: *mut koshi_int_writer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || registry::get(writer, "writer")?.close())
}

/// Frees `writer`, and closes it if that was not done; a failure then only goes to the log. NULL is
/// fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_int_writer_free(writer: *mut koshi_int_writer) -> koshi_status {
    guard::free(|| registry::free(writer, "writer"))
}
