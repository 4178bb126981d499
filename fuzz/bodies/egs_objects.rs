//! Training examples of both kinds as `egs_script` makes them, mostly good ones, and all that can be asked of one.

use std::mem::MaybeUninit;
use std::ptr;

use koshi::ffi::*;

use super::face::{Bytes, call, fill, free, make};

const LATTICE: &[u8] = include_bytes!("../seeds/lattice_read/compact_text");

/// An array of the library's.
pub fn array<T: Copy>(from: impl FnOnce(&mut usize) -> *const T) -> Vec<T> {
    let mut len = 7;
    let data = from(&mut len);
    assert!(!data.is_null() || len == 0);
    // SAFETY: it lives as long as its owner, which is asked just now.
    if len == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(data, len) }.to_vec() }
}

/// The bytes of a buffer, which is freed.
pub fn taken(buffer: *mut koshi_buffer) -> Vec<u8> {
    // SAFETY: a live handle.
    let bytes = unsafe {
        let size = koshi_buffer_size(buffer) as usize;
        array(|len| {
            *len = size;
            koshi_buffer_data(buffer)
        })
    };
    free(koshi_buffer_free, buffer);
    bytes
}

/// Rows, context, speaker vector: what both kinds have.
struct Rows {
    left: i32,
    frames: usize,
    dim: usize,
    stride: usize,
    count: usize,
    data: Vec<f32>,
    speaker: Vec<f32>,
}

impl Rows {
    fn new(bytes: &mut Bytes) -> Rows {
        let (left, frames, right) = (bytes.below(3), bytes.below(4), bytes.below(3));
        let (dim, gap) = (1 + bytes.below(3), bytes.below(2));
        let count = left + frames + right;
        // Without rows there are no columns.
        let (dim, gap) = if count == 0 { (0, 0) } else { (dim, gap) };
        let step = bytes.next();
        let number = |at: usize| f32::from((at * usize::from(step) % 64) as u8) * 0.25 - 4.0;
        let data = (0..count * (dim + gap)).map(number).collect();
        let speaker = (0..bytes.below(3)).map(number).collect();
        Rows { left: left as i32, frames, dim, stride: dim + gap, count, data, speaker }
    }
}

/// An example, `None` where something is wrong with its parts.
pub fn example(bytes: &mut Bytes) -> Option<*mut koshi_example> {
    let mut rows = Rows::new(bytes);
    let counts: Vec<u32> = (0..rows.frames).map(|_| bytes.below(3) as u32).collect();
    let total: u32 = counts.iter().sum();
    let mut labels: Vec<koshi_label> = (0..total)
        .map(|_| koshi_label { pdf: bytes.below(20) as i32, weight: f32::from(bytes.next()) / 64.0 })
        .collect();
    let simple = bytes.next() & 1 == 1 && total as usize == rows.frames;
    let size = size_of::<koshi_example_parts>();
    // SAFETY: room for the struct, and one that may be all zeros behind it.
    let mut room = unsafe {
        let parts = fill(size, |out, size, err| koshi_example_parts_init(out, size, err)).expect("the defaults");
        [parts, std::mem::zeroed()]
    };
    let parts = &mut room[0];
    (parts.left_context, parts.num_frames) = (rows.left, rows.frames as u64);
    parts.label_counts = if simple { ptr::null() } else { counts.as_ptr() };
    (parts.num_rows, parts.dim, parts.stride) = (rows.count as u64, rows.dim as u64, rows.stride as u64);
    parts.compression = 1 + i32::from(bytes.next() % 7);
    let flaw = bytes.next();
    match flaw {
        255 if !rows.data.is_empty() => rows.data[0] = [f32::NAN, f32::INFINITY][bytes.below(2)],
        254 => parts.stride = parts.dim.wrapping_sub(1),
        253 => parts.num_rows = [u64::MAX, u64::MAX / 4, 1 << 61][bytes.below(3)],
        252 => parts.compression = [0, 8, -1][bytes.below(3)],
        251 => parts.reserved = 1,
        250 => parts.struct_size = [0, 3, size as u32 - 1, size as u32 + 1, 2 * size as u32][bytes.below(5)],
        249 => parts.speaker_dim = u64::MAX,
        248 => parts.num_frames = u64::MAX,
        247 if !labels.is_empty() => labels[0].pdf = -1,
        246 if !labels.is_empty() => labels[0].weight = f32::NAN,
        245 => parts.left_context = [-1, 3, i32::MIN, i32::MAX][bytes.below(4)],
        _ => {}
    }
    (parts.rows, parts.labels, parts.speaker) = (rows.data.as_ptr(), labels.as_ptr(), rows.speaker.as_ptr());
    if flaw != 249 {
        parts.speaker_dim = rows.speaker.len() as u64;
    }
    // SAFETY: arrays with their lengths, or lengths that are refused; a place for the result.
    let made = make(|out, err| unsafe { koshi_example_new(room.as_ptr(), out, err) });
    assert!(made.is_some() || flaw > 244 || room[0].compression > 1, "good parts are refused");
    if let Some(example) = made {
        // SAFETY: a live handle.
        let checked = call(|err| unsafe { koshi_example_check(example, err) });
        assert!(checked == 0 || flaw > 244);
    }
    made
}

/// The bytes of an example; `None` where it cannot be written.
pub fn example_bytes(example: *const koshi_example, binary: i32) -> Option<Vec<u8>> {
    // SAFETY: handles may be anything, a place for the result.
    make(|out, err| unsafe { koshi_example_to_memory(example, binary, out, err) }).map(taken)
}

/// All that a live example can be asked agrees, and its bytes are read and written again.
pub fn look_at_example(example: *mut koshi_example, bytes: &mut Bytes) {
    let size = size_of::<koshi_example_summary>();
    // SAFETY: a live handle, places for results.
    unsafe {
        let info = fill(size, |out, size, err| koshi_example_info(example, out, size, err)).expect("a live example");
        let labels = array(|len| koshi_example_labels(example, len));
        let offsets = array(|len| koshi_example_label_offsets(example, len));
        assert_eq!((labels.len() as u64, offsets.len() as u64), (info.num_labels, info.num_frames + 1));
        assert!(offsets.is_sorted() && offsets.last() == Some(&(labels.len() as u32)));
        assert_eq!(array(|len| koshi_example_speaker(example, len)).len() as u64, info.speaker_dim);
        let (mut rows, mut columns) = (7, 7);
        koshi_example_frames(example, &mut rows, &mut columns);
        assert_eq!((rows as u64, columns as u64), (info.num_rows, info.dim));
        for frame in 0..=info.num_frames as usize {
            let (mut pdf, mut weight) = (77, 77.0);
            let status = call(|err| koshi_example_label(example, frame, &mut pdf, &mut weight, err));
            assert_eq!(status == 0, frame < info.num_frames as usize);
            assert!(status == 0 || pdf == 77 && weight == 77.0);
        }
        let binary = i32::from(bytes.next() & 1);
        let Some(data) = example_bytes(example, binary) else { return };
        let again = make(|out, err| koshi_example_from_memory(data.as_ptr(), data.len(), out, err));
        // In text, what is compressed again may be out of range.
        assert!(again.is_some() || binary == 0, "own bytes are read");
        if let Some(again) = again {
            assert!(binary == 0 || example_bytes(again, 1) == Some(data));
            free(koshi_example_free, again);
        }
    }
}

/// A cut is whole, or says that it is not.
pub fn cut(example: *mut koshi_example, bytes: &mut Bytes) -> Option<*mut koshi_example> {
    const ODD: [i32; 6] = [-1, -2, i32::MIN, i32::MAX, 100, 0];
    let mut wanted = [bytes.below(3), 1 + bytes.below(3), bytes.below(3), bytes.below(3)].map(|number| number as i32);
    if let Some(place) = wanted.get_mut(bytes.below(12)) {
        *place = ODD[bytes.below(ODD.len())];
    }
    let [start, frames, left, right] = wanted;
    let mut status = 0;
    let size = size_of::<koshi_example_summary>();
    // SAFETY: live handles, places for results.
    unsafe {
        let made = make(|out, err| {
            status = koshi_example_extract(example, start, frames, left, right, out, err);
            status
        })?;
        let info = fill(size, |out, size, err| koshi_example_info(made, out, size, err)).expect("a live example");
        let is_whole =
            [(frames, info.num_frames as i64), (left, i64::from(info.left_context)), (right, info.right_context)]
                .iter()
                .all(|(wanted, there)| *wanted < 0 || i64::from(*wanted) == *there);
        assert!(status == 1 || is_whole, "{wanted:?}");
        Some(made)
    }
}

/// A discriminative example, `None` where something is wrong with its parts.
pub fn degs(bytes: &mut Bytes) -> Option<*mut koshi_degs> {
    let rows = Rows::new(bytes);
    let mut alignment: Vec<i32> = (0..rows.frames).map(|_| 1 + bytes.below(5) as i32).collect();
    // SAFETY: an array with its length, a place for the result; room for structs.
    unsafe {
        let lattice = (bytes.next() & 1 == 1).then(|| {
            make(|out, err| koshi_lattice_from_memory(LATTICE.as_ptr(), LATTICE.len(), out, err)).expect("a lattice")
        });
        let size = size_of::<koshi_degs_parts>();
        let parts = fill(size, |out, size, err| koshi_degs_parts_init(out, size, err)).expect("the defaults");
        let mut room = [parts, std::mem::zeroed()];
        let parts = &mut room[0];
        parts.lattice = lattice.unwrap_or(ptr::null_mut());
        (parts.left_context, parts.num_frames) = (rows.left, rows.frames as u64);
        (parts.num_rows, parts.dim, parts.stride) = (rows.count as u64, rows.dim as u64, rows.stride as u64);
        (parts.speaker, parts.speaker_dim) = (rows.speaker.as_ptr(), rows.speaker.len() as u64);
        parts.rows = rows.data.as_ptr();
        let flaw = bytes.next();
        match flaw {
            255 => parts.weight = [f32::NAN, 0.0, -1.0, f32::INFINITY][bytes.below(4)],
            254 => parts.stride = parts.dim.wrapping_sub(1),
            253 => parts.num_rows = [u64::MAX, u64::MAX / 4, 1 << 61][bytes.below(3)],
            252 => parts.lattice = ptr::without_provenance(8),
            251 => parts.reserved = 1,
            250 => parts.struct_size = [0, 3, size as u32 - 1, size as u32 + 1, 2 * size as u32][bytes.below(5)],
            249 => parts.speaker_dim = u64::MAX,
            248 => parts.num_frames = u64::MAX,
            247 if !alignment.is_empty() => alignment[0] = -1,
            246 => parts.left_context = [-1, 3, i32::MIN, i32::MAX][bytes.below(4)],
            _ => {}
        }
        parts.alignment = alignment.as_ptr();
        let made = make(|out, err| koshi_degs_new(room.as_ptr(), out, err));
        assert!(made.is_some() || flaw > 244, "good parts are refused");
        if let Some(lattice) = lattice {
            free(koshi_lattice_free, lattice);
        }
        made
    }
}

pub fn degs_bytes(degs: *const koshi_degs, binary: i32) -> Option<Vec<u8>> {
    // SAFETY: handles may be anything, a place for the result.
    make(|out, err| unsafe { koshi_degs_to_memory(degs, binary, out, err) }).map(taken)
}

pub fn look_at_degs(degs: *mut koshi_degs, bytes: &mut Bytes) {
    let size = size_of::<koshi_degs_summary>();
    // SAFETY: a live handle, places for results.
    unsafe {
        let info = fill(size, |out, size, err| koshi_degs_info(degs, out, size, err)).expect("a live example");
        assert_eq!(array(|len| koshi_degs_alignment(degs, len)).len() as u64, info.num_frames);
        assert_eq!(array(|len| koshi_degs_speaker(degs, len)).len() as u64, info.speaker_dim);
        assert_eq!(koshi_degs_weight(degs).to_bits(), info.weight.to_bits());
        let (mut rows, mut columns) = (7, 7);
        koshi_degs_frames(degs, &mut rows, &mut columns);
        assert_eq!((rows as u64, columns as u64), (info.num_rows, info.dim));
        call(|err| koshi_degs_check(degs, err));
        let lattice = make(|out, err| koshi_degs_lattice(degs, out, err)).expect("a lattice without cycles");
        let mut summary = MaybeUninit::<koshi_lattice_summary>::zeroed();
        let size = size_of::<koshi_lattice_summary>();
        assert_eq!(call(|err| koshi_lattice_info(lattice, summary.as_mut_ptr(), size, err)), 0);
        assert_eq!(summary.assume_init().is_compact, 1);
        free(koshi_lattice_free, lattice);
        let binary = i32::from(bytes.next() & 1);
        let Some(data) = degs_bytes(degs, binary) else { return };
        let again = make(|out, err| koshi_degs_from_memory(data.as_ptr(), data.len(), out, err));
        assert!(again.is_some() || binary == 0, "own bytes are read");
        if let Some(again) = again {
            assert!(binary == 0 || degs_bytes(again, 1) == Some(data));
            free(koshi_degs_free, again);
        }
    }
}
