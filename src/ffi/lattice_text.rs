//! Lattices in forms for other programs: JSON and Graphviz.

use super::arg;
use super::buffer::koshi_buffer;
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::lattice::koshi_lattice;
use super::registry;
use super::symbols::koshi_symbols;

/// The lattice as a JSON object in *buffer: "compact", "num_frames", "acoustic_scale", "reached_final";
/// "states", each with its "time" and, if a path may end there, "final" ("graph", "acoustic",
/// "transition_ids"); "arcs", each with "from", "to", "word", "text", "graph", "acoustic", "transition_ids".
/// State 0 is the start; acoustic costs are without the acoustic scale; "text" is left out where `symbols`
/// is NULL. KOSHI_E_ARGUMENT if a word has no symbol.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_to_json(
    lattice: *const koshi_lattice,
    symbols: *const koshi_symbols,
    buffer: *mut *mut koshi_buffer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        let symbols = registry::get_optional(symbols, "symbols")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(buffer, "buffer") }?;
        out.set(registry::insert(lattice.to_json(symbols.as_deref())?)?);
        Ok(())
    })
}

/// The lattice as a graph in Graphviz's language in *buffer, to look at ("dot -Tsvg"): states with their
/// times, final ones in double circles, arcs with word, graph and acoustic cost, and frames. A word without
/// a symbol, and every word where `symbols` is NULL, is a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_to_dot(
    lattice: *const koshi_lattice,
    symbols: *const koshi_symbols,
    buffer: *mut *mut koshi_buffer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        let symbols = registry::get_optional(symbols, "symbols")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(buffer, "buffer") }?;
        out.set(registry::insert(lattice.to_dot(symbols.as_deref())?)?);
        Ok(())
    })
}
