//! Tables of examples, read in order, read by key, and written.

use std::ffi::c_char;

use super::arg;
use super::egs_discriminative::koshi_degs;
use super::egs_example::koshi_example;
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::reader::Reader;
use super::registry::{self, Kind, Opaque};
use super::writer::Writer;
use crate::egs::{DiscriminativeNnetExample, DiscriminativeNnetExampleHolder, NnetExample, NnetExampleHolder};
use crate::error::{Error, Result};
use crate::exclusive::{Exclusive, Turns};
use crate::table::{Holder, RandomAccessReader};

/// What a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum koshi_egs_kind {
    /// Examples for cross-entropy training: koshi_example.
    KOSHI_EGS_NNET = 0,
    /// Examples for discriminative training: koshi_degs.
    KOSHI_EGS_DISCRIMINATIVE = 1,
}

use koshi_egs_kind::{KOSHI_EGS_DISCRIMINATIVE, KOSHI_EGS_NNET};

/// A table of one kind or the other.
pub enum Either<N, D> {
    /// Examples for cross-entropy training.
    Nnet(N),
    /// Examples for discriminative training.
    Discriminative(D),
}

impl<N, D> Either<N, D> {
    fn open(kind: i32, nnet: impl FnOnce() -> Result<N>, discriminative: impl FnOnce() -> Result<D>) -> Result<Self> {
        match kind {
            kind if kind == KOSHI_EGS_NNET as i32 => nnet().map(Either::Nnet),
            kind if kind == KOSHI_EGS_DISCRIMINATIVE as i32 => discriminative().map(Either::Discriminative),
            _ => Err(Error::Argument(format!("kind is {kind}; it must be a koshi_egs_kind"))),
        }
    }

    fn nnet(&self) -> Result<&N> {
        match self {
            Either::Nnet(table) => Ok(table),
            Either::Discriminative(_) => Err(other_kind("KOSHI_EGS_DISCRIMINATIVE")),
        }
    }

    fn discriminative(&self) -> Result<&D> {
        match self {
            Either::Discriminative(table) => Ok(table),
            Either::Nnet(_) => Err(other_kind("KOSHI_EGS_NNET")),
        }
    }
}

fn other_kind(kind: &str) -> Error {
    Error::State(format!("the table was opened as {kind}; this call is for the other kind"))
}

/// A table of examples that is read from its first entry to its last. One call at a time may use it.
pub struct koshi_egs_reader {
    _opaque: (),
}

impl Opaque for koshi_egs_reader {
    type Object = Either<Reader<NnetExampleHolder>, Reader<DiscriminativeNnetExampleHolder>>;
    const KIND: Kind = Kind::EgsReader;
}

/// Opens the table of examples that a Kaldi rspecifier names ("ark:a.ark", "scp:a.scp"), in *reader.
/// `kind`, a koshi_egs_kind, says what it holds. KOSHI_E_ARGUMENT for what is no rspecifier, KOSHI_E_IO,
/// KOSHI_E_UNSUPPORTED for a command unless commands are allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_egs_reader_open(
    rspecifier: *const c_char,
    kind: i32,
    reader: *mut *mut koshi_egs_reader,
    err: *mut *mut koshi_error,
) -> koshi_status {
    const WHAT: &str = "koshi_egs_reader";
    guard::call(err, || {
        // SAFETY: the header's promises on results and texts.
        let (out, opened) = unsafe {
            let out = arg::out(reader, "reader")?;
            (out, Either::open(kind, || Reader::open(WHAT, rspecifier), || Reader::open(WHAT, rspecifier))?)
        };
        out.set(registry::insert(opened)?);
        Ok(())
    })
}

/// Reads the next entry: its key in *key, which lives until the next call on this reader, and its example,
/// to be freed, in *example. Both become NULL after the last entry. KOSHI_E_FORMAT names file and byte,
/// KOSHI_E_STATE says that the table is one of discriminative examples.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_egs_reader_next(
    reader: *mut koshi_egs_reader,
    key: *mut *const c_char,
    example: *mut *mut koshi_example,
    err: *mut *mut koshi_error,
) -> koshi_status {
    // SAFETY: the header's promise on results.
    guard::call(err, || unsafe { registry::get(reader, "reader")?.nnet()?.next(key, example, "example") })
}

/// As koshi_egs_reader_next, for a table of discriminative examples.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_egs_reader_next_degs(
    reader: *mut koshi_egs_reader,
    key: *mut *const c_char,
    degs: *mut *mut koshi_degs,
    err: *mut *mut koshi_error,
) -> koshi_status {
    // SAFETY: the header's promise on results.
    guard::call(err, || unsafe { registry::get(reader, "reader")?.discriminative()?.next(key, degs, "degs") })
}

/// Closes and frees `reader`. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_egs_reader_free(reader: *mut koshi_egs_reader) -> koshi_status {
    guard::free(|| registry::free(reader, "reader"))
}

/// A table of examples that are asked for by their keys. One call at a time may use it.
pub struct koshi_egs_table {
    _opaque: (),
}

impl Opaque for koshi_egs_table {
    type Object = Either<Table<NnetExampleHolder>, Table<DiscriminativeNnetExampleHolder>>;
    const KIND: Kind = Kind::EgsTable;
}

/// What a table stands for.
pub struct Table<H: Holder>(Exclusive<Turns<RandomAccessReader<H>>>);

impl<H: Holder> Table<H> {
    /// # Safety
    /// `rspecifier` is null or a C text.
    unsafe fn open(rspecifier: *const c_char) -> Result<Table<H>> {
        // SAFETY: by this function's own promise.
        let table = RandomAccessReader::open(unsafe { arg::text(rspecifier, "rspecifier") }?)?;
        Ok(Table(Exclusive::new("koshi_egs_table", Turns::new(table))))
    }

    /// # Safety
    /// `key` is null or a C text, `value` null or may be written.
    unsafe fn find<T: Opaque>(
        &self,
        key: *const c_char,
        value: *mut *mut T,
        value_name: &str,
        copy: fn(&H::Value) -> Result<H::Value>,
    ) -> Result<()>
    where
        T::Object: From<H::Value>,
    {
        // SAFETY: by this function's own promise.
        let (key, out) = unsafe { (arg::text(key, "key")?, arg::out(value, value_name)?) };
        let mut turn = self.0.write()?;
        match turn.get().get(key)? {
            Some(found) => out.set(registry::insert(copy(found)?.into())?),
            None => out.set(std::ptr::null_mut()),
        }
        Ok(())
    }
}

/// Opens the table of examples that a Kaldi rspecifier names, to look them up by key, in *table. The
/// options of the rspecifier say what is kept: "s" for a sorted archive, "s,cs" if keys are asked for in
/// order too, "o" if each is asked for once. Otherwise as koshi_egs_reader_open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_egs_table_open(
    rspecifier: *const c_char,
    kind: i32,
    table: *mut *mut koshi_egs_table,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on results and texts.
        let (out, opened) = unsafe {
            let out = arg::out(table, "table")?;
            (out, Either::open(kind, || Table::open(rspecifier), || Table::open(rspecifier))?)
        };
        out.set(registry::insert(opened)?);
        Ok(())
    })
}

/// The example of `key`, to be freed, in *example; NULL there if the table does not have it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_egs_table_find(
    table: *mut koshi_egs_table,
    key: *const c_char,
    example: *mut *mut koshi_example,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let table = registry::get(table, "table")?;
        // SAFETY: the header's promises on results and texts.
        unsafe { table.nnet()?.find(key, example, "example", NnetExample::try_clone) }
    })
}

/// As koshi_egs_table_find, for a table of discriminative examples.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_egs_table_find_degs(
    table: *mut koshi_egs_table,
    key: *const c_char,
    degs: *mut *mut koshi_degs,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let table = registry::get(table, "table")?;
        // SAFETY: the header's promises on results and texts.
        unsafe { table.discriminative()?.find(key, degs, "degs", DiscriminativeNnetExample::try_clone) }
    })
}

/// Closes and frees `table`. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_egs_table_free(table: *mut koshi_egs_table) -> koshi_status {
    guard::free(|| registry::free(table, "table"))
}

/// A table of examples being written. One call at a time may use it.
pub struct koshi_egs_writer {
    _opaque: (),
}

impl Opaque for koshi_egs_writer {
    type Object = Either<Writer<NnetExampleHolder>, Writer<DiscriminativeNnetExampleHolder>>;
    const KIND: Kind = Kind::EgsWriter;
}

/// Opens the table of examples that a Kaldi wspecifier names ("ark:a.ark", "ark,t:-",
/// "ark,scp:a.ark,a.scp"; "t" is for text), in *writer. `kind`, a koshi_egs_kind, says what it will hold.
/// KOSHI_E_ARGUMENT for what is no wspecifier, KOSHI_E_IO, KOSHI_E_UNSUPPORTED for a command unless
/// commands are allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_egs_writer_open(
    wspecifier: *const c_char,
    kind: i32,
    writer: *mut *mut koshi_egs_writer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    const WHAT: &str = "koshi_egs_writer";
    guard::call(err, || {
        // SAFETY: the header's promises on results and texts.
        let (out, opened) = unsafe {
            let out = arg::out(writer, "writer")?;
            (out, Either::open(kind, || Writer::open(WHAT, wspecifier), || Writer::open(WHAT, wspecifier))?)
        };
        out.set(registry::insert(opened)?);
        Ok(())
    })
}

/// Writes `example` under `key`, a word without white space.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_egs_writer_write(
    writer: *mut koshi_egs_writer,
    key: *const c_char,
    example: *const koshi_example,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let (writer, example) = (registry::get(writer, "writer")?, registry::get(example, "example")?);
        // SAFETY: the header's promise on texts.
        example.with(|example| unsafe { writer.nnet()?.write(key, example) })
    })
}

/// As koshi_egs_writer_write, for a table of discriminative examples.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_egs_writer_write_degs(
    writer: *mut koshi_egs_writer,
    key: *const c_char,
    degs: *const koshi_degs,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let (writer, degs) = (registry::get(writer, "writer")?, registry::get(degs, "degs")?);
        // SAFETY: the header's promise on texts.
        unsafe { writer.discriminative()?.write(key, &degs) }
    })
}

/// Ends the table; only this reports a failure of its last writes. The writer is still to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_egs_writer_close(
    writer: *mut koshi_egs_writer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || match &*registry::get(writer, "writer")? {
        Either::Nnet(writer) => writer.close(),
        Either::Discriminative(writer) => writer.close(),
    })
}

/// Frees `writer`, and closes it if that was not done; a failure then only goes to the log. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_egs_writer_free(writer: *mut koshi_egs_writer) -> koshi_status {
    guard::free(|| registry::free(writer, "writer"))
}
