//! Decoding graphs.

use std::ffi::c_char;
use std::ptr;

use super::arg;
use super::config::{self, Grows};
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::registry::{self, Kind, Opaque};
use super::transitions::koshi_transitions;
use crate::error::Result;
use crate::graph::{Columns, Graph};

/// A decoding graph, ready to be searched. Immutable and counted.
pub struct koshi_graph {
    _opaque: (),
}

impl Opaque for koshi_graph {
    type Object = Graph;
    const KIND: Kind = Kind::Graph;
}

/// Figures of a graph. Arcs and final costs of +inf are as good as absent; they count in
/// num_arcs, num_epsilon_arcs, num_infinite_arcs and the labels only.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_graph_summary {
    /// Bytes that were filled.
    pub struct_size: u32,
    /// States.
    pub num_states: u32,
    /// Arcs, epsilon ones included.
    pub num_arcs: u32,
    /// Arcs with ilabel 0.
    pub num_epsilon_arcs: u32,
    /// Arcs with a weight of +inf.
    pub num_infinite_arcs: u32,
    /// Final states.
    pub num_finals: u32,
    /// States that no path from the start reaches.
    pub num_unreachable: u32,
    /// States from which no path leads to a final state.
    pub num_dead_ends: u32,
    /// Arcs of the longest path of epsilon arcs.
    pub max_level: u32,
    /// The largest input label, 0 if there is none.
    pub max_ilabel: i32,
    /// The largest output label, 0 if there is none.
    pub max_olabel: i32,
    /// Least number of columns that a row of log-likelihoods must have.
    pub num_columns: u32,
    /// Bytes in memory.
    pub memory: u64,
}

// SAFETY: Pod says that there is no padding and that any bytes will do.
unsafe impl Grows for koshi_graph_summary {
    const NAME: &'static str = "koshi_graph_summary";
    const FIRST_SIZE: usize = 56;

    fn defaults() -> koshi_graph_summary {
        bytemuck::Zeroable::zeroed()
    }
}

/// The rule that gives labels their columns: a model's pdfs, or else the label less 1.
fn columns(transitions: *const koshi_transitions) -> Result<Columns> {
    let model = registry::get_optional(transitions, "transitions")?;
    Ok(model.map_or(Columns::Labels, Columns::Transitions))
}

/// Reads an OpenFst file of type vector or const, with standard arcs, into *graph. `path` is a file, or
/// what else Kaldi calls an rxfilename ("file:offset", and "command |" where commands are allowed). With
/// `transitions` an input label is a transition-id and reads the column of its pdf; with NULL, label i
/// reads column i - 1. A file is mapped while it is read: do not shorten it meanwhile. KOSHI_E_IO;
/// KOSHI_E_FORMAT for a broken file; KOSHI_E_UNSUPPORTED for other types of FST or arc; KOSHI_E_GRAPH for
/// no start state, states or labels out of range, -inf or NaN weights, epsilon cycles (states named);
/// KOSHI_E_NO_MEMORY. A file of koshi_graph_write_cache is mapped as long as the graph is in use: nobody
/// may change it, only put a new file in its place; KOSHI_E_UNSUPPORTED where another version or kind of
/// machine wrote it, KOSHI_E_GRAPH where it was written with another model or table of columns. No final
/// state, unreachable parts and +inf weights are fine: koshi_graph_info tells of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_graph_read(
    path: *const c_char,
    transitions: *const koshi_transitions,
    graph: *mut *mut koshi_graph,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on texts and results.
        let (path, out) = unsafe { (arg::text(path, "path")?, arg::out(graph, "graph")?) };
        let read = Graph::open(path, columns(transitions)?)?;
        out.set(registry::insert(read)?);
        Ok(())
    })
}

/// As koshi_graph_read, from `size` bytes at `data`, which are not needed afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_graph_from_memory(
    data: *const u8,
    size: usize,
    transitions: *const koshi_transitions,
    graph: *mut *mut koshi_graph,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on arrays and results.
        let (bytes, out) = unsafe { (arg::array(data, size, "data")?, arg::out(graph, "graph")?) };
        let read = Graph::from_memory(bytes, columns(transitions)?)?;
        out.set(registry::insert(read)?);
        Ok(())
    })
}

/// As koshi_graph_read, where label i reads column `columns[i]`. The table has `num_columns` entries;
/// entry 0 is not used, and a label without an entry, or with a negative one, is KOSHI_E_GRAPH.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_graph_read_mapped(
    path: *const c_char,
    columns: *const i32,
    num_columns: usize,
    graph: *mut *mut koshi_graph,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on texts, arrays and results.
        let (path, table, out) = unsafe {
            (arg::text(path, "path")?, arg::array(columns, num_columns, "columns")?, arg::out(graph, "graph")?)
        };
        let read = Graph::open(path, Columns::Table(arg::copy(table, "columns")?))?;
        out.set(registry::insert(read)?);
        Ok(())
    })
}

/// Writes `graph` to `path` as it lies in memory, for koshi_graph_read with the same transition model or
/// table of columns. Such a file is mapped instead of read: it is there at once, whatever its size, and
/// processes share its memory. It is made beside `path` and takes its place when it is whole. KOSHI_E_IO;
/// KOSHI_E_ARGUMENT where `path` is there and not a file; KOSHI_E_NO_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_graph_write_cache(
    graph: *const koshi_graph,
    path: *const c_char,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let graph = registry::get(graph, "graph")?;
        // SAFETY: the header's promise on texts.
        graph.write_cache(unsafe { arg::text(path, "path") }?)
    })
}

/// Waits until the file that `graph` is mapped from has been checked to its end; at once for other
/// graphs. Nobody needs to call it: koshi_channel_finish and lattices wait for that check, and pushes and
/// partial results fail once it has found a fault. KOSHI_E_FORMAT or KOSHI_E_GRAPH for a damaged file; a push
/// before that is found may fail with another status, KOSHI_E_INTERNAL too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_graph_check(graph: *const koshi_graph, err: *mut *mut koshi_error) -> koshi_status {
    guard::call(err, || registry::get(graph, "graph")?.check_whole())
}

/// As koshi_graph_read_mapped, from `size` bytes at `data`, which are not needed afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_graph_from_memory_mapped(
    data: *const u8,
    size: usize,
    columns: *const i32,
    num_columns: usize,
    graph: *mut *mut koshi_graph,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on arrays and results.
        let (bytes, table, out) = unsafe {
            (arg::array(data, size, "data")?, arg::array(columns, num_columns, "columns")?, arg::out(graph, "graph")?)
        };
        let read = Graph::from_memory(bytes, Columns::Table(arg::copy(table, "columns")?))?;
        out.set(registry::insert(read)?);
        Ok(())
    })
}

/// Describes `graph` in *info of `size` bytes. The first call on a graph walks all its arcs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_graph_info(
    graph: *const koshi_graph,
    info: *mut koshi_graph_summary,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let graph = registry::get(graph, "graph")?;
        // SAFETY: the header's promise on output structs.
        let out = unsafe { config::out(info, size, "info") }?;
        let found = graph.info()?;
        out.set(&koshi_graph_summary {
            struct_size: 0,
            num_states: found.num_states,
            num_arcs: found.num_arcs,
            num_epsilon_arcs: found.num_epsilon_arcs,
            num_infinite_arcs: found.num_infinite_arcs,
            num_finals: found.num_finals,
            num_unreachable: found.num_unreachable,
            num_dead_ends: found.num_dead_ends,
            max_level: found.max_level,
            max_ilabel: found.max_ilabel,
            max_olabel: found.max_olabel,
            num_columns: found.num_columns,
            memory: found.memory,
        });
        Ok(())
    })
}

/// Counts `graph` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_graph_ref(graph: *const koshi_graph) -> *mut koshi_graph {
    guard::query(ptr::null_mut(), || registry::count(graph, "graph"))
}

/// Takes back one count of `graph`; the last one frees it, once no decoder uses it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_graph_free(graph: *mut koshi_graph) -> koshi_status {
    guard::free(|| registry::free(graph, "graph"))
}
