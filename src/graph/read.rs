//! Graphs from files, memory and streams.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::blocks::Graph;
use super::cache;
use super::feed::Slice;
use super::fst_bytes::FstBytes;
use super::mapped::{Behind, Mapped};
use super::openfst::{Kind, read_head};
use super::records::{ConstRecords, VectorRecords};
use super::source::Columns;
use crate::error::{Error, Result};
use crate::table::Input;

impl Graph {
    /// Reads an OpenFst file: type `vector` or `const` (aligned or not), arc type `standard`,
    /// with or without symbol tables (they are passed over). What follows the FST is ignored,
    /// as by OpenFst.
    ///
    /// A regular file is mapped while it is read, so nobody may shorten it meanwhile;
    /// anything else (a named pipe) is read to the end of the FST first.
    ///
    /// A file that [`Graph::write_cache`] wrote, with the same rule for columns, is mapped as long as the graph lives,
    /// so nobody may change it: replace it by a new file. It is there at once; that it is whole is checked meanwhile
    /// ([`Graph::check_whole`]), before results of a finished utterance are given.
    ///
    /// # Errors
    /// - [`Error::Io`]: the file cannot be opened or read.
    /// - [`Error::Format`]: the bytes are not such a file, cut short, or its counts do not fit together.
    /// - [`Error::Unsupported`]: another type of FST or arc, which the message names; a cache of another version
    ///   or kind of machine.
    /// - [`Error::Graph`]: no start state; a start or next state out of range; a negative label, or an
    ///   input label that `columns` gives no column; a weight or final cost that is `-inf` or NaN; a
    ///   cycle of epsilon arcs (some of its states are named); more than 2^31 - 1 states, 2^32 - 1 arcs
    ///   or 16 GiB of state blocks; a cache by another rule for columns.
    /// - [`Error::NoMemory`].
    ///
    /// A graph without final states, with unreachable parts, or with arcs or final costs of
    /// `+inf` (which are as good as absent) is fine; [`Graph::info`] tells.
    pub fn read(path: impl AsRef<Path>, columns: Columns) -> Result<Graph> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let io = |doing: &'static str| {
            let what = format!("{name}: {doing}");
            move |error| Error::io(what, error)
        };
        let file = File::open(path).map_err(io("opening"))?;
        let about = file.metadata().map_err(io("opening"))?;
        let graph = if !about.is_file() {
            FstBytes::read(&mut Input::from_file(&name, file)?)?.graph(columns)
        } else if about.len() == 0 {
            from_bytes(&name, &[], 0, Behind::nothing(), columns)
        } else {
            // Not out of the map: a page that is missed there may be read with megabytes around it.
            let mut begin = [0; cache::HEAD];
            let begin = &mut begin[..about.len().min(cache::HEAD as u64) as usize];
            (&file).read_exact(begin).map_err(io("reading"))?;
            if begin.starts_with(&cache::MAGIC) {
                return cache::open(&name, &file, begin, columns);
            }
            let map = Mapped::new(&name, &file)?;
            from_bytes(&name, map.bytes(), 0, Behind::of(&map), columns)
        };
        graph.map_err(|error| name_it(error, &name))
    }

    /// Reads the FST that a Kaldi "rxfilename" names, from where it names it to the end of the FST: a path as
    /// [`Graph::read`] does, else `path:offset`, `-` for standard input, or `command |` where commands are allowed.
    pub fn open(rxfilename: &str, columns: Columns) -> Result<Graph> {
        if Path::new(rxfilename).is_file() {
            return Graph::read(rxfilename, columns);
        }
        let mut input = Input::open(rxfilename)?;
        let graph = FstBytes::read(&mut input)?.graph(columns)?;
        input.close()?;
        Ok(graph)
    }

    /// Reads the bytes of a file as [`Graph::read`] does.
    pub fn from_memory(bytes: &[u8], columns: Columns) -> Result<Graph> {
        from_bytes("memory", bytes, 0, Behind::nothing(), columns)
    }
}

/// Adds the file's name where the error does not have it.
pub(super) fn name_it(error: Error, name: &str) -> Error {
    match error {
        Error::Graph(_) | Error::NoMemory { .. } | Error::Internal(_) => error.context(name),
        other => other,
    }
}

/// Reads the FST that `bytes` begin with, the first of which has offset `base` in the file `name`.
pub(super) fn from_bytes(name: &str, bytes: &[u8], base: u64, behind: Behind, columns: Columns) -> Result<Graph> {
    let mut feed = Slice::new(name, bytes, base);
    let head = read_head(&mut feed)?;
    match head.kind {
        Kind::Const { .. } => Graph::from_source(&ConstRecords::new(name, &head, feed, behind)?, columns),
        Kind::Vector => Graph::from_source(&VectorRecords::new(&head, feed, behind)?, columns),
    }
}
