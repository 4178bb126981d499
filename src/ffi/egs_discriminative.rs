//! Examples for discriminative training.

use std::ptr;
use std::sync::Arc;

use super::arg;
use super::buffer::koshi_buffer;
use super::config::{self, Grows};
use super::egs_example::{from_memory, strided, to_memory};
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::lattice::koshi_lattice;
use super::registry::{self, Kind, Opaque};
use crate::egs::{DenominatorLattice, DiscriminativeNnetExample, DiscriminativeNnetExampleHolder};
use crate::error::{Result, try_reserve};
use crate::lattice::Lattice;
use crate::table::Matrix;

/// An example for discriminative training (Kaldi's DiscriminativeNnetExample of nnet2): an alignment, the
/// lattice that it is held against, and features for its frames and those around them. Immutable and
/// counted.
pub struct koshi_degs {
    _opaque: (),
}

impl Opaque for koshi_degs {
    type Object = DiscriminativeNnetExample;
    const KIND: Kind = Kind::Degs;
}

/// What a discriminative example is made of. Arrays are copied. An array of length 0 may be NULL.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct koshi_degs_parts {
    /// sizeof this struct.
    pub struct_size: u32,
    /// How much the example counts. Default 1.
    pub weight: f32,
    /// Rows before the first frame of the alignment. Default 0.
    pub left_context: i32,
    /// Must be 0.
    pub reserved: u32,
    /// The numerator alignment: one transition-id a frame.
    pub alignment: *const i32,
    /// Its frames.
    pub num_frames: u64,
    /// The denominator, raw or compact; NULL for a lattice without any path. It can be freed after the call.
    pub lattice: *const koshi_lattice,
    /// Features: `num_rows` rows of `dim` numbers that begin `stride` numbers apart.
    pub rows: *const f32,
    /// Rows, context included.
    pub num_rows: u64,
    /// Numbers in a row.
    pub dim: u64,
    /// Numbers from the start of a row to the next; at least `dim`.
    pub stride: u64,
    /// Speaker vector.
    pub speaker: *const f32,
    /// Its length.
    pub speaker_dim: u64,
}

const _: () = assert!(size_of::<koshi_degs_parts>() == koshi_degs_parts::FIRST_SIZE);

// SAFETY: numbers and pointers of 4 and 8 bytes whose sum is the size, so there is no padding.
unsafe impl Grows for koshi_degs_parts {
    const NAME: &'static str = "koshi_degs_parts";
    const FIRST_SIZE: usize = 88;

    fn defaults() -> koshi_degs_parts {
        koshi_degs_parts {
            struct_size: Self::FIRST_SIZE as u32,
            weight: 1.0,
            left_context: 0,
            reserved: 0,
            alignment: ptr::null(),
            num_frames: 0,
            lattice: ptr::null(),
            rows: ptr::null(),
            num_rows: 0,
            dim: 0,
            stride: 0,
            speaker: ptr::null(),
            speaker_dim: 0,
        }
    }
}

/// # Safety
/// The arrays are what the numbers say.
unsafe fn make(parts: &koshi_degs_parts) -> Result<DiscriminativeNnetExample> {
    config::reserved(parts.reserved, "parts")?;
    let length = |len| usize::try_from(len).unwrap_or(usize::MAX);
    let den_lat = match registry::get_optional(parts.lattice, "lattice")? {
        // Nothing is further from the best than infinity: a copy that may fail for lack of memory.
        Some(lattice) => lattice.prune(f32::INFINITY, lattice.acoustic_scale())?.into_compact()?.into(),
        None => DenominatorLattice::default(),
    };
    // SAFETY: by this function's own promise.
    unsafe {
        let alignment = arg::array(parts.alignment, length(parts.num_frames), "alignment")?;
        let (rows, [num_rows, dim, stride]) = strided(parts.rows, [parts.num_rows, parts.dim, parts.stride])?;
        let speaker = arg::array(parts.speaker, length(parts.speaker_dim), "speaker")?;
        Ok(DiscriminativeNnetExample {
            weight: parts.weight,
            num_ali: arg::copy(alignment, "alignment")?,
            den_lat,
            input_frames: dense(rows, num_rows, dim, stride)?.into(),
            left_context: parts.left_context,
            spk_info: arg::copy(speaker, "speaker")?,
        })
    }
}

/// A copy of strided rows.
fn dense(rows: &[f32], num_rows: usize, dim: usize, stride: usize) -> Result<Matrix> {
    let mut data = Vec::new();
    try_reserve(&mut data, num_rows.saturating_mul(dim), "rows")?;
    for row in rows.chunks(stride.max(1)).take(num_rows) {
        data.extend_from_slice(row.get(..dim).unwrap_or_default());
    }
    Matrix::from_data(num_rows, dim, data)
}

/// Fills *parts of `size` bytes with the defaults: weight 1 and nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_degs_parts_init(
    parts: *mut koshi_degs_parts,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    // SAFETY: the header's promise on config structs.
    guard::call(err, || unsafe { config::init(parts, size, "parts") })
}

/// Makes an example of its parts, in *degs. Whether they fit together is for koshi_degs_check to say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_degs_new(
    parts: *const koshi_degs_parts,
    degs: *mut *mut koshi_degs,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on config structs, arrays and results.
        let (out, made) = unsafe { (arg::out(degs, "degs")?, make(&config::read(parts, "parts")?)?) };
        out.set(registry::insert(made)?);
        Ok(())
    })
}

/// Reads an example from `size` bytes as koshi_degs_to_memory writes them, in *degs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_degs_from_memory(
    data: *const u8,
    size: usize,
    degs: *mut *mut koshi_degs,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on arrays and results.
        let (bytes, out) = unsafe { (arg::array(data, size, "data")?, arg::out(degs, "degs")?) };
        out.set(registry::insert(from_memory::<DiscriminativeNnetExampleHolder>(bytes)?)?);
        Ok(())
    })
}

/// Writes an example as Kaldi does in a file, behind the key and a space, in *buffer: binary, or text if
/// `binary` is 0. Features that were not read compressed are compressed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_degs_to_memory(
    degs: *const koshi_degs,
    binary: i32,
    buffer: *mut *mut koshi_buffer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let degs = registry::get(degs, "degs")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(buffer, "buffer") }?;
        out.set(registry::insert(to_memory::<DiscriminativeNnetExampleHolder>(&degs, binary != 0)?)?);
        Ok(())
    })
}

/// Figures of a discriminative example.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_degs_summary {
    /// Bytes that were filled.
    pub struct_size: u32,
    /// How much the example counts.
    pub weight: f32,
    /// Rows before the first frame of the alignment.
    pub left_context: i32,
    /// Always 0.
    pub reserved: u32,
    /// Frames of the numerator alignment.
    pub num_frames: u64,
    /// Rows of features.
    pub num_rows: u64,
    /// Numbers in a row.
    pub dim: u64,
    /// Length of the speaker vector.
    pub speaker_dim: u64,
}

// SAFETY: Pod says that there is no padding and that any bytes will do.
unsafe impl Grows for koshi_degs_summary {
    const NAME: &'static str = "koshi_degs_summary";
    const FIRST_SIZE: usize = 48;

    fn defaults() -> koshi_degs_summary {
        bytemuck::Zeroable::zeroed()
    }
}

/// Describes a discriminative example in *info of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_degs_info(
    degs: *const koshi_degs,
    info: *mut koshi_degs_summary,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let degs = registry::get(degs, "degs")?;
        // SAFETY: the header's promise on output structs.
        let out = unsafe { config::out(info, size, "info") }?;
        out.set(&koshi_degs_summary {
            struct_size: 0,
            weight: degs.weight,
            left_context: degs.left_context,
            reserved: 0,
            num_frames: degs.num_ali.len() as u64,
            num_rows: degs.input_frames.rows() as u64,
            dim: degs.input_frames.cols() as u64,
            speaker_dim: degs.spk_info.len() as u64,
        });
        Ok(())
    })
}

/// How much the example counts; NaN for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_degs_weight(degs: *const koshi_degs) -> f32 {
    guard::query(f32::NAN, || Ok(registry::get(degs, "degs")?.weight))
}

/// The numerator alignment, one transition-id a frame, and its length in *len, which may be NULL. NULL and
/// 0 for a bad handle. It lives as long as the example.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_degs_alignment(degs: *const koshi_degs, len: *mut usize) -> *const i32 {
    guard::query(ptr::null(), || {
        // SAFETY: the header's promise on results.
        let len = unsafe { arg::length(len) };
        Ok(len.of(&registry::get(degs, "degs")?.num_ali))
    })
}

/// The speaker vector. Otherwise as koshi_degs_alignment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_degs_speaker(degs: *const koshi_degs, len: *mut usize) -> *const f32 {
    guard::query(ptr::null(), || {
        // SAFETY: the header's promise on results.
        let len = unsafe { arg::length(len) };
        Ok(len.of(&registry::get(degs, "degs")?.spk_info))
    })
}

/// The features, row after row without gaps, and how many rows and columns there are in *rows and
/// *columns, which may be NULL. NULL and 0 for a bad handle or for want of memory. They live as long as
/// the example.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_degs_frames(
    degs: *const koshi_degs,
    rows: *mut usize,
    columns: *mut usize,
) -> *const f32 {
    guard::query(ptr::null(), || {
        // SAFETY: the header's promise on results.
        let (rows, columns) = unsafe { (arg::length(rows), arg::length(columns)) };
        let degs: Arc<DiscriminativeNnetExample> = registry::get(degs, "degs")?;
        let frames = degs.input_frames.matrix()?;
        rows.set(frames.rows());
        columns.set(frames.cols());
        Ok(frames.data().as_ptr())
    })
}

/// The denominator, compact, sorted and trimmed, to be freed, in *lattice. KOSHI_E_ARGUMENT if it has a
/// cycle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_degs_lattice(
    degs: *const koshi_degs,
    lattice: *mut *mut koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let degs = registry::get(degs, "degs")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(lattice, "lattice") }?;
        out.set(registry::insert(Lattice::Compact(degs.den_lat.lattice()?))?);
        Ok(())
    })
}

/// Says what is wrong with an example: KOSHI_E_ARGUMENT for a weight that is not above 0, an alignment
/// without frames or with an id below 1, a lattice with a cycle or with paths of different lengths to one
/// state, a speaker vector that is not finite; KOSHI_E_SHAPE for a lattice that is not as long as the
/// alignment, or fewer rows than left context and alignment need.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_degs_check(degs: *const koshi_degs, err: *mut *mut koshi_error) -> koshi_status {
    guard::call(err, || registry::get(degs, "degs")?.check())
}

/// Counts `degs` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_degs_ref(degs: *const koshi_degs) -> *mut koshi_degs {
    guard::query(ptr::null_mut(), || registry::count(degs, "degs"))
}

/// Takes back one count of `degs`; the last one frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_degs_free(degs: *mut koshi_degs) -> koshi_status {
    guard::free(|| registry::free(degs, "degs"))
}
