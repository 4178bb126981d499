//! Lattices.

use std::ptr;
use std::sync::Arc;

use super::arg;
use super::buffer::koshi_buffer;
use super::config::{self, Grows};
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::path::koshi_path;
use super::registry::{self, Kind, Opaque};
use crate::error::{Error, Result};
use crate::lattice::{Lattice, LatticeArc, LatticeWeight};

/// A lattice: state 0 is the start, every arc leads to a higher state, and every state lies on a
/// path from the start to a final state. Raw (one arc a graph arc) or compact (words with strings
/// of transition-ids). Without any path it has no states. Immutable and counted.
pub struct koshi_lattice {
    _opaque: (),
}

impl Opaque for koshi_lattice {
    type Object = Lattice;
    const KIND: Kind = Kind::Lattice;
}

/// An arc of a lattice. In a compact lattice both labels are the word.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_lattice_arc {
    /// The state that the arc leads to.
    pub next: u32,
    /// Input label: transition-id or column + 1; 0 for epsilon.
    pub ilabel: i32,
    /// Output label: word; 0 for epsilon.
    pub olabel: i32,
    /// Cost of the graph: language model, lexicon, transitions.
    pub graph_cost: f32,
    /// Acoustic cost without the acoustic scale. The scaled one is this times the lattice's
    /// acoustic_scale, rounded once.
    pub acoustic_cost: f32,
}

/// The cost of ending in a state of a lattice.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_lattice_cost {
    /// Graph cost; +inf where the state is not final.
    pub graph_cost: f32,
    /// Acoustic cost without the acoustic scale; +inf where the state is not final.
    pub acoustic_cost: f32,
}

const _: () = assert!(
    size_of::<koshi_lattice_arc>() == size_of::<LatticeArc>()
        && align_of::<koshi_lattice_arc>() == align_of::<LatticeArc>()
        && size_of::<koshi_lattice_cost>() == size_of::<LatticeWeight>()
        && align_of::<koshi_lattice_cost>() == align_of::<LatticeWeight>(),
    "arcs and costs are handed out as they lie"
);

/// Figures of a lattice.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_lattice_summary {
    /// Bytes that were filled.
    pub struct_size: u32,
    /// 1 for a compact lattice, 0 for a raw one.
    pub is_compact: u32,
    /// States.
    pub num_states: u32,
    /// Arcs.
    pub num_arcs: u32,
    /// Frames that the lattice spans.
    pub num_frames: u32,
    /// 1 if finals of the graph were reached, 0 if all last tokens counted as final.
    pub reached_final: u32,
    /// The scale that the search applied to acoustic costs; 1 for a lattice that was read.
    pub acoustic_scale: f32,
    /// Always 0.
    pub reserved: u32,
    /// Graph cost of the best path at that scale; +inf without any path.
    pub best_graph_cost: f64,
    /// Acoustic cost of the best path, without the scale; +inf without any path.
    pub best_acoustic_cost: f64,
    /// What phrases cost on the best path, as in koshi_path_bias_cost; +inf without any path.
    pub best_bias_cost: f64,
}

// SAFETY: Pod says that there is no padding and that any bytes will do.
unsafe impl Grows for koshi_lattice_summary {
    const NAME: &'static str = "koshi_lattice_summary";
    const FIRST_SIZE: usize = 48;

    fn defaults() -> koshi_lattice_summary {
        bytemuck::Zeroable::zeroed()
    }
}

/// Kaldi's two forms of a lattice in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum koshi_lattice_format {
    /// An OpenFst vector FST.
    KOSHI_LATTICE_BINARY = 0,
    /// Lines of text.
    KOSHI_LATTICE_TEXT = 1,
}

/// Whether a koshi_lattice_format is the binary one.
fn is_binary(format: i32) -> Result<bool> {
    match format {
        format if format == koshi_lattice_format::KOSHI_LATTICE_BINARY as i32 => Ok(true),
        format if format == koshi_lattice_format::KOSHI_LATTICE_TEXT as i32 => Ok(false),
        _ => Err(Error::Argument(format!("format is {format}; it must be a koshi_lattice_format"))),
    }
}

/// Describes `lattice` in *info of `size` bytes. Finds the best path, so it walks all arcs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_info(
    lattice: *const koshi_lattice,
    info: *mut koshi_lattice_summary,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        // SAFETY: the header's promise on output structs.
        let out = unsafe { config::out(info, size, "info") }?;
        let best = lattice.best_path(lattice.acoustic_scale())?;
        let cost = |cost| if lattice.is_empty() { f64::INFINITY } else { cost };
        out.set(&koshi_lattice_summary {
            struct_size: 0,
            is_compact: u32::from(lattice.is_compact()),
            num_states: lattice.num_states() as u32,
            num_arcs: lattice.arcs().len() as u32,
            num_frames: lattice.num_frames(),
            reached_final: u32::from(lattice.reached_final()),
            acoustic_scale: lattice.acoustic_scale(),
            reserved: 0,
            best_graph_cost: cost(best.graph_cost),
            best_acoustic_cost: cost(best.acoustic_cost),
            best_bias_cost: cost(best.bias_cost),
        });
        Ok(())
    })
}

/// Hands out one of the lattice's arrays.
unsafe fn array<T>(
    lattice: *const koshi_lattice,
    len: *mut usize,
    choose: impl FnOnce(&Lattice) -> Result<&[T]>,
) -> Result<*const T> {
    // SAFETY: the header's promise on results.
    let len = unsafe { arg::length(len) };
    let lattice: Arc<Lattice> = registry::get(lattice, "lattice")?;
    choose(&lattice).map(|slice| len.of(slice))
}

/// The lattice's arcs by state, and their number in *len, which may be NULL. NULL and 0 for a bad
/// handle. The array lives as long as the lattice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_arcs(
    lattice: *const koshi_lattice,
    len: *mut usize,
) -> *const koshi_lattice_arc {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(lattice, len, |lattice| Ok(bytemuck::cast_slice(lattice.arcs()))) })
}

/// Where each state's arcs are: those of state s run from `arcs[offsets[s]]` to before
/// `arcs[offsets[s + 1]]`, so there is one entry more than states. Otherwise as koshi_lattice_arcs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_arc_offsets(lattice: *const koshi_lattice, len: *mut usize) -> *const u32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(lattice, len, |lattice| Ok(lattice.offsets())) })
}

/// The cost of ending in each state. Otherwise as koshi_lattice_arcs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_final_costs(
    lattice: *const koshi_lattice,
    len: *mut usize,
) -> *const koshi_lattice_cost {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(lattice, len, |lattice| Ok(bytemuck::cast_slice(lattice.finals()))) })
}

/// What the phrases of koshi_channel_set_bias cost on each arc, in the order of koshi_lattice_arcs; not
/// part of the arcs' graph costs. Of length 0 where there were none, and in a lattice that was made of
/// another one: all that chooses between paths counts bias costs with the graph costs, and all that
/// makes a lattice adds them to its graph costs, but for koshi_lattice_prune and koshi_lattice_scale,
/// which keep them apart. Written lattices have the graph costs alone. Otherwise as koshi_lattice_arcs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_bias_costs(lattice: *const koshi_lattice, len: *mut usize) -> *const f32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(lattice, len, |lattice| Ok(lattice.bias_costs().0)) })
}

/// What the phrases cost where a path ends in each state; 0 where it is not final. Otherwise as
/// koshi_lattice_bias_costs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_final_bias_costs(lattice: *const koshi_lattice, len: *mut usize) -> *const f32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(lattice, len, |lattice| Ok(lattice.bias_costs().1)) })
}

/// The time of each state: the number of frames before it. Of length 0 where paths to one state
/// differ in frames. Otherwise as koshi_lattice_arcs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_times(lattice: *const koshi_lattice, len: *mut usize) -> *const u32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(lattice, len, |lattice| Ok(lattice.times())) })
}

/// The transition-ids on arc number `arc`: its string in a compact lattice, its input label unless
/// that is epsilon in a raw one. NULL and 0 if there is no such arc. Otherwise as koshi_lattice_arcs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_string(
    lattice: *const koshi_lattice,
    arc: usize,
    len: *mut usize,
) -> *const i32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe {
        array(lattice, len, |lattice| match arc < lattice.arcs().len() {
            true => Ok(lattice.string(arc)),
            false => Err(Error::Argument(format!("arc is {arc}; there are {}", lattice.arcs().len()))),
        })
    })
}

/// The transition-ids that follow where a path ends in `state`: none in a raw lattice. NULL and 0 if
/// there is no such state. Otherwise as koshi_lattice_arcs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_final_string(
    lattice: *const koshi_lattice,
    state: usize,
    len: *mut usize,
) -> *const i32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe {
        array(lattice, len, |lattice| match u32::try_from(state) {
            Ok(number) if state < lattice.num_states() => Ok(lattice.final_string(number)),
            _ => Err(Error::Argument(format!("state is {state}; there are {}", lattice.num_states()))),
        })
    })
}

/// The path of least graph cost + acoustic_scale * acoustic cost, in *path. Ties: the lowest final
/// state, and from there back the lowest arc number. Empty without any path.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_best_path(
    lattice: *const koshi_lattice,
    acoustic_scale: f32,
    path: *mut *mut koshi_path,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(path, "path") }?;
        out.set(registry::insert(lattice.best_path(acoustic_scale)?)?);
        Ok(())
    })
}

/// The arcs and final states on paths whose cost, at `acoustic_scale`, is at most `beam` above the
/// best one's, in *pruned. `beam` is 0 or more, +inf too. The best path always stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_prune(
    lattice: *const koshi_lattice,
    beam: f32,
    acoustic_scale: f32,
    pruned: *mut *mut koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(pruned, "pruned") }?;
        out.set(registry::insert(lattice.prune(beam, acoustic_scale)?)?);
        Ok(())
    })
}

/// The lattice with graph costs multiplied by `graph` and acoustic costs by `acoustic`, rounded once,
/// in *scaled. The scale that koshi_lattice_info tells stays. KOSHI_E_ARGUMENT if a product is not finite.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_scale(
    lattice: *const koshi_lattice,
    graph: f32,
    acoustic: f32,
    scaled: *mut *mut koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(scaled, "scaled") }?;
        // Nothing is further from the best than infinity: a copy that may fail for lack of memory.
        let mut copy = lattice.prune(f32::INFINITY, lattice.acoustic_scale())?;
        copy.scale(graph, acoustic)?;
        out.set(registry::insert(copy)?);
        Ok(())
    })
}

/// The lattice with `scale` times its bias costs added to the graph costs and none left apart, in
/// *biased: with 1 the costs that the search went by, with 0 those of a lattice that knows of no
/// phrases. KOSHI_E_ARGUMENT if the scale or a cost is not finite.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_apply_bias(
    lattice: *const koshi_lattice,
    scale: f32,
    biased: *mut *mut koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(biased, "biased") }?;
        out.set(registry::insert(lattice.with_bias(scale)?)?);
        Ok(())
    })
}

/// Writes `lattice` as Kaldi does in a file, behind the key and a space, in *buffer. `format` is a
/// koshi_lattice_format. Acoustic costs are written without the acoustic scale.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_to_memory(
    lattice: *const koshi_lattice,
    format: i32,
    buffer: *mut *mut koshi_buffer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(buffer, "buffer") }?;
        out.set(registry::insert(lattice.to_bytes(is_binary(format)?)?)?);
        Ok(())
    })
}

/// Reads a lattice of either form and format from `size` bytes at `data` into *lattice, sorts and trims
/// it. KOSHI_E_FORMAT with the byte offset for anything else, for a cycle and for bytes that follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_from_memory(
    data: *const u8,
    size: usize,
    lattice: *mut *mut koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on arrays and results.
        let (bytes, out) = unsafe { (arg::array(data, size, "data")?, arg::out(lattice, "lattice")?) };
        out.set(registry::insert(Lattice::from_bytes(bytes)?)?);
        Ok(())
    })
}

/// Counts `lattice` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_ref(lattice: *const koshi_lattice) -> *mut koshi_lattice {
    guard::query(ptr::null_mut(), || registry::count(lattice, "lattice"))
}

/// Takes back one count of `lattice`; the last one frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_free(lattice: *mut koshi_lattice) -> koshi_status {
    guard::free(|| registry::free(lattice, "lattice"))
}
