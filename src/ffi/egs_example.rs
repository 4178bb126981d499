//! Examples for cross-entropy training.

use std::ptr;
use std::sync::OnceLock;

use super::arg;
use super::buffer::koshi_buffer;
use super::config::{self, Grows};
use super::error::{koshi_error, koshi_status, ok_or_partial};
use super::guard;
use super::registry::{self, Kind, Opaque};
use crate::egs::{Cut, Label, Labels, NnetExample, NnetExampleHolder};
use crate::error::{Error, Result};
use crate::exclusive::Exclusive;
use crate::table::{CompressedMatrix, Format, Holder, Input, Matrix, Method, Output};

/// An example for cross-entropy training (Kaldi's NnetExample of nnet2): labelled frames, and features for
/// them and the frames around them. Row left_context + f of the features belongs to labelled frame f.
pub struct koshi_example {
    _opaque: (),
}

impl Opaque for koshi_example {
    type Object = Example;
    const KIND: Kind = Kind::Example;
}

/// What a `koshi_example` stands for.
pub struct Example(Exclusive<Held>);

/// The example, and its frames expanded once somebody has asked for them.
struct Held {
    example: NnetExample,
    frames: OnceLock<Matrix>,
}

impl From<NnetExample> for Example {
    fn from(example: NnetExample) -> Example {
        Example(Exclusive::new("koshi_example", Held { example, frames: OnceLock::new() }))
    }
}

impl Example {
    /// Runs `body` with the example, together with others that only look.
    pub(super) fn with<R>(&self, body: impl FnOnce(&NnetExample) -> Result<R>) -> Result<R> {
        body(&self.0.read()?.example)
    }
}

impl Held {
    fn frames(&self) -> Result<&Matrix> {
        if self.frames.get().is_none() {
            // Another thread may have come first, with the same values.
            let _ = self.frames.set(self.example.input_frames.to_matrix()?);
        }
        self.frames.get().ok_or_else(|| Error::Internal("frames that were set are not there".into()))
    }
}

/// A pdf that a frame is to be taken for, and how much this counts.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_label {
    /// Index of the pdf.
    pub pdf: i32,
    /// Weight; 1 for a plain label.
    pub weight: f32,
}

const _: () = assert!(
    size_of::<koshi_label>() == size_of::<Label>() && align_of::<koshi_label>() == align_of::<Label>(),
    "labels are handed out as they lie"
);

/// How a matrix is compressed; the numbers are Kaldi's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum koshi_compression {
    /// A byte an element between percentiles of its column for more than 8 rows, else two bytes.
    KOSHI_COMPRESSION_AUTO = 1,
    /// A byte an element between percentiles of its column.
    KOSHI_COMPRESSION_SPEECH_FEATURE = 2,
    /// Two bytes an element between the least and the greatest.
    KOSHI_COMPRESSION_TWO_BYTE_AUTO = 3,
    /// Whole numbers from -32768 to 32767.
    KOSHI_COMPRESSION_TWO_BYTE_SIGNED = 4,
    /// A byte an element between the least and the greatest.
    KOSHI_COMPRESSION_ONE_BYTE_AUTO = 5,
    /// Whole numbers from 0 to 255.
    KOSHI_COMPRESSION_ONE_BYTE_UNSIGNED = 6,
    /// Numbers from 0 to 1 in 255 steps.
    KOSHI_COMPRESSION_ONE_BYTE_ZERO_ONE = 7,
}

fn method(number: i32) -> Result<Method> {
    const ALL: [Method; 7] = [
        Method::Auto,
        Method::SpeechFeature,
        Method::TwoByteAuto,
        Method::TwoByteSignedInteger,
        Method::OneByteAuto,
        Method::OneByteUnsignedInteger,
        Method::OneByteZeroOne,
    ];
    let found = ALL.into_iter().find(|method| *method as i32 == number);
    found.ok_or_else(|| Error::Argument(format!("compression is {number}; it must be a koshi_compression")))
}

/// What an example is made of. Arrays are copied. An array of length 0 may be NULL.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct koshi_example_parts {
    /// sizeof this struct.
    pub struct_size: u32,
    /// Rows before the first labelled frame. Default 0.
    pub left_context: i32,
    /// Labels of all labelled frames, one frame after the other.
    pub labels: *const koshi_label,
    /// How many of the labels each frame has; NULL for one each.
    pub label_counts: *const u32,
    /// Labelled frames.
    pub num_frames: u64,
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
    /// How the features are compressed: a koshi_compression. Default KOSHI_COMPRESSION_AUTO.
    pub compression: i32,
    /// Must be 0.
    pub reserved: u32,
}

const _: () = assert!(size_of::<koshi_example_parts>() == koshi_example_parts::FIRST_SIZE);

// SAFETY: numbers and pointers of 4 and 8 bytes whose sum is the size, so there is no padding.
unsafe impl Grows for koshi_example_parts {
    const NAME: &'static str = "koshi_example_parts";
    const FIRST_SIZE: usize = 88;

    fn defaults() -> koshi_example_parts {
        koshi_example_parts {
            struct_size: Self::FIRST_SIZE as u32,
            left_context: 0,
            labels: ptr::null(),
            label_counts: ptr::null(),
            num_frames: 0,
            rows: ptr::null(),
            num_rows: 0,
            dim: 0,
            stride: 0,
            speaker: ptr::null(),
            speaker_dim: 0,
            compression: koshi_compression::KOSHI_COMPRESSION_AUTO as i32,
            reserved: 0,
        }
    }
}

/// Rows of a caller as they lie: up to the end of the last one.
///
/// # Safety
/// `rows` is null or points to what the numbers say.
pub(super) unsafe fn strided<'a>(
    rows: *const f32,
    [num_rows, dim, stride]: [u64; 3],
) -> Result<(&'a [f32], [usize; 3])> {
    let shape = || Error::Shape(format!("{num_rows} rows of {dim} numbers, {stride} apart"));
    let sizes = [num_rows, dim, stride].map(usize::try_from);
    let [Ok(num_rows), Ok(dim), Ok(stride)] = sizes else { return Err(shape()) };
    if (num_rows == 0) != (dim == 0) || stride < dim {
        return Err(shape());
    }
    let len = num_rows.saturating_sub(1).checked_mul(stride).and_then(|before| before.checked_add(dim));
    // SAFETY: by this function's own promise.
    Ok((unsafe { arg::array(rows, len.ok_or_else(shape)?, "rows")? }, [num_rows, dim, stride]))
}

/// # Safety
/// The arrays are what the numbers say.
unsafe fn make(parts: &koshi_example_parts) -> Result<NnetExample> {
    config::reserved(parts.reserved, "parts")?;
    let too_long = |_| Error::Argument("parts: a length is more than memory can hold".into());
    let num_frames = usize::try_from(parts.num_frames).map_err(too_long)?;
    let mut labels = Labels::default();
    // SAFETY: by this function's own promise, also below.
    unsafe {
        if parts.label_counts.is_null() {
            let all: &[Label] = bytemuck::cast_slice(arg::array(parts.labels, num_frames, "labels")?);
            all.iter().try_for_each(|label| labels.push_frame(std::slice::from_ref(label)))?;
        } else {
            let counts = arg::array(parts.label_counts, num_frames, "label_counts")?;
            let total = counts.iter().map(|&count| u64::from(count)).sum::<u64>();
            let total = usize::try_from(total).map_err(too_long)?;
            let mut rest: &[Label] = bytemuck::cast_slice(arg::array(parts.labels, total, "labels")?);
            for &count in counts {
                let (frame, behind) = rest.split_at_checked(count as usize).unwrap_or((rest, &[]));
                labels.push_frame(frame)?;
                rest = behind;
            }
        }
        let (rows, [num_rows, dim, stride]) = strided(parts.rows, [parts.num_rows, parts.dim, parts.stride])?;
        let input_frames = CompressedMatrix::compress(rows, num_rows, dim, stride, method(parts.compression)?)?;
        let speaker_dim = usize::try_from(parts.speaker_dim).map_err(too_long)?;
        let spk_info = arg::copy(arg::array(parts.speaker, speaker_dim, "speaker")?, "speaker")?;
        Ok(NnetExample { labels, input_frames, left_context: parts.left_context, spk_info })
    }
}

/// Fills *parts of `size` bytes with the defaults: an example without anything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_example_parts_init(
    parts: *mut koshi_example_parts,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    // SAFETY: the header's promise on config structs.
    guard::call(err, || unsafe { config::init(parts, size, "parts") })
}

/// Makes an example of its parts, in *example. KOSHI_E_ARGUMENT names a number that is not finite and so
/// cannot be compressed. Whether the parts fit together is for koshi_example_check to say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_example_new(
    parts: *const koshi_example_parts,
    example: *mut *mut koshi_example,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on config structs, arrays and results.
        let (out, made) = unsafe { (arg::out(example, "example")?, make(&config::read(parts, "parts")?)?) };
        out.set(registry::insert(made.into())?);
        Ok(())
    })
}

/// Reads an example from `size` bytes as koshi_example_to_memory writes them, in *example.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_example_from_memory(
    data: *const u8,
    size: usize,
    example: *mut *mut koshi_example,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on arrays and results.
        let (bytes, out) = unsafe { (arg::array(data, size, "data")?, arg::out(example, "example")?) };
        out.set(registry::insert(from_memory::<NnetExampleHolder>(bytes)?.into())?);
        Ok(())
    })
}

/// Writes an example as Kaldi does in a file, behind the key and a space, in *buffer: binary, or text if
/// `binary` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_example_to_memory(
    example: *const koshi_example,
    binary: i32,
    buffer: *mut *mut koshi_buffer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let example = registry::get(example, "example")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(buffer, "buffer") }?;
        out.set(registry::insert(example.with(|example| to_memory::<NnetExampleHolder>(example, binary != 0))?)?);
        Ok(())
    })
}

/// One object out of bytes that hold nothing else.
pub(super) fn from_memory<H: Holder>(bytes: &[u8]) -> Result<H::Value> {
    let mut input = Input::from_bytes("memory", arg::copy(bytes, "bytes of an example")?);
    let value = H::read(&mut input)?;
    input.skip_space()?;
    if input.at_end()? { Ok(value) } else { Err(input.format_error("bytes follow the example")) }
}

pub(super) fn to_memory<H: Holder>(value: &H::Value, binary: bool) -> Result<Vec<u8>> {
    let mut output = Output::memory();
    H::write(&mut output, value, binary)?;
    Ok(output.into_bytes())
}

/// Figures of an example.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_example_summary {
    /// Bytes that were filled.
    pub struct_size: u32,
    /// Rows before the first labelled frame.
    pub left_context: i32,
    /// Rows after the last labelled frame; negative if there are too few rows.
    pub right_context: i64,
    /// Labelled frames.
    pub num_frames: u64,
    /// Labels of all frames together.
    pub num_labels: u64,
    /// Rows of features.
    pub num_rows: u64,
    /// Numbers in a row.
    pub dim: u64,
    /// Length of the speaker vector.
    pub speaker_dim: u64,
    /// How the features are stored: 1 for Kaldi's CM, 2 for CM2, 3 for CM3; 0 without rows.
    pub format: i32,
    /// Always 0.
    pub reserved: u32,
}

// SAFETY: Pod says that there is no padding and that any bytes will do.
unsafe impl Grows for koshi_example_summary {
    const NAME: &'static str = "koshi_example_summary";
    const FIRST_SIZE: usize = 64;

    fn defaults() -> koshi_example_summary {
        bytemuck::Zeroable::zeroed()
    }
}

/// Describes an example in *info of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_example_info(
    example: *const koshi_example,
    info: *mut koshi_example_summary,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let example = registry::get(example, "example")?;
        // SAFETY: the header's promise on output structs.
        let out = unsafe { config::out(info, size, "info") }?;
        let summary = example.with(|example| {
            Ok(koshi_example_summary {
                struct_size: 0,
                left_context: example.left_context,
                right_context: example.right_context(),
                num_frames: example.labels.num_frames() as u64,
                num_labels: example.labels.all().len() as u64,
                num_rows: example.input_frames.rows() as u64,
                dim: example.input_frames.cols() as u64,
                speaker_dim: example.spk_info.len() as u64,
                format: match example.input_frames.format() {
                    _ if example.input_frames.rows() == 0 => 0,
                    Format::Columns => 1,
                    Format::TwoBytes => 2,
                    Format::OneByte => 3,
                },
                reserved: 0,
            })
        })?;
        out.set(&summary);
        Ok(())
    })
}

/// Hands out one of the example's arrays.
unsafe fn array<T>(
    example: *const koshi_example,
    len: *mut usize,
    choose: impl FnOnce(&NnetExample) -> &[T],
) -> Result<*const T> {
    // SAFETY: the header's promise on results.
    let len = unsafe { arg::length(len) };
    registry::get(example, "example")?.with(|example| Ok(len.of(choose(example))))
}

/// The labels of all frames, one frame after the other, and their number in *len, which may be NULL. NULL
/// and 0 for a bad handle. The array lives as long as the example, or until koshi_example_set_label.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_example_labels(example: *const koshi_example, len: *mut usize) -> *const koshi_label {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(example, len, |e| bytemuck::cast_slice(e.labels.all())) })
}

/// Where each frame's labels are: those of frame f run from `labels[offsets[f]]` to before
/// `labels[offsets[f + 1]]`, so there is one entry more than frames. Otherwise as koshi_example_labels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_example_label_offsets(example: *const koshi_example, len: *mut usize) -> *const u32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(example, len, |e| e.labels.offsets()) })
}

/// The speaker vector, and its length in *len, which may be NULL. NULL and 0 for a bad handle. It lives as
/// long as the example.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_example_speaker(example: *const koshi_example, len: *mut usize) -> *const f32 {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(example, len, |e| e.spk_info.as_slice()) })
}

/// The features, row after row without gaps, and how many rows and columns there are in *rows and
/// *columns, which may be NULL. They are expanded when this is first called. NULL and 0 for a bad handle
/// or for want of memory. They live as long as the example.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_example_frames(
    example: *const koshi_example,
    rows: *mut usize,
    columns: *mut usize,
) -> *const f32 {
    guard::query(ptr::null(), || {
        // SAFETY: the header's promise on results.
        let (rows, columns) = unsafe { (arg::length(rows), arg::length(columns)) };
        let example = registry::get(example, "example")?;
        let held = example.0.read()?;
        let frames = held.frames()?;
        rows.set(frames.rows());
        columns.set(frames.cols());
        Ok(frames.data().as_ptr())
    })
}

/// The label of greatest weight of labelled frame `frame`, of equal ones the first: its pdf in *pdf and
/// its weight in *weight, which may be NULL. Both are -1 where the frame has no label above that weight.
/// KOSHI_E_ARGUMENT if there is no such frame.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_example_label(
    example: *const koshi_example,
    frame: usize,
    pdf: *mut i32,
    weight: *mut f32,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let example = registry::get(example, "example")?;
        // SAFETY: the header's promise on results.
        let (pdf, weight) = unsafe { (arg::out(pdf, "pdf")?, arg::out_optional(weight, "weight")?) };
        let label = example.with(|example| example.label(frame))?;
        pdf.set(label.pdf);
        if let Some(weight) = weight {
            weight.set(label.weight);
        }
        Ok(())
    })
}

/// Gives labelled frame `frame` one label in place of those that it has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_example_set_label(
    example: *mut koshi_example,
    frame: usize,
    pdf: i32,
    weight: f32,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let example = registry::get(example, "example")?;
        let mut held = example.0.write()?;
        held.example.set_label(frame, pdf, weight)
    })
}

/// Cuts a smaller example out of `example`, in *cut: `num_frames` labelled frames from `start_frame` on,
/// with `left_context` rows before them and `right_context` after them. A start below 0 is the first
/// frame; -1 for another number stands for all that there is. KOSHI_OK_PARTIAL when there was less than
/// that: *cut then has what there was. KOSHI_E_ARGUMENT if the start is past the last labelled frame,
/// KOSHI_E_SHAPE if the example has too few rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_example_extract(
    example: *const koshi_example,
    start_frame: i32,
    num_frames: i32,
    left_context: i32,
    right_context: i32,
    cut: *mut *mut koshi_example,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let example = registry::get(example, "example")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(cut, "cut") }?;
        let wish = Cut { start_frame, num_frames, left_context, right_context };
        let extracted = example.with(|example| example.extract(wish))?;
        let whole = extracted.is_whole();
        out.set(registry::insert(extracted.example.into())?);
        Ok(ok_or_partial(whole))
    })
}

/// Says what is wrong with an example: KOSHI_E_SHAPE for a left context below 0 or fewer rows than its
/// left context and labels need, KOSHI_E_ARGUMENT for a negative pdf, or a weight or an element of the
/// speaker vector that is not finite.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_example_check(
    example: *const koshi_example,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || registry::get(example, "example")?.with(NnetExample::check))
}

/// Frees an example. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_example_free(example: *mut koshi_example) -> koshi_status {
    guard::free(|| registry::free(example, "example"))
}
