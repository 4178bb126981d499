//! Tables of examples and discriminative examples through the C face: written, read in order, found by key.

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr;

use koshi::ffi::koshi_status_code::*;
use koshi::ffi::*;

const NNET: i32 = koshi_egs_kind::KOSHI_EGS_NNET as i32;
const DISCRIMINATIVE: i32 = koshi_egs_kind::KOSHI_EGS_DISCRIMINATIVE as i32;

/// An example of one frame, of this pdf.
fn example(pdf: i32) -> *mut koshi_example {
    let text = format!(
        "<NnetExample> <Lab1> [ {pdf} ]\n<InputFrames>  [\n  1 2 \n  3 4 ]\n<LeftContext> 1 <SpkInfo>  [ ]\n</NnetExample> "
    );
    // SAFETY: a text of the length told, and places for results.
    made(|out, err| unsafe { koshi_example_from_memory(text.as_ptr(), text.len(), out, err) })
}

/// Two frames, whose second path is longer in words.
const DEGS: &str = "<DiscriminativeNnetExample> <Weight> 0.5 <NumAli> [ 4 5 ]\n\n0\t1\t3\t1.5,-2.25,4_5\n\
    0\t2\t9\t0.5,1,7\n1\n2\t1\t8\t0,0,8\n\n<InputFrames>  [\n  1 2 \n  3 4 \n  5 6 ]\n<LeftContext> 1 <SpkInfo>  [ 0.25 ]\n\
    </DiscriminativeNnetExample> ";

/// The handle that a call makes.
#[track_caller]
fn made<T>(call: impl FnOnce(*mut *mut T, *mut *mut koshi_error) -> koshi_status) -> *mut T {
    let (mut made, mut err) = (ptr::null_mut(), ptr::null_mut());
    assert_eq!(call(&mut made, &mut err), KOSHI_OK as i32, "{}", said(err));
    made
}

/// The message of an error, which is freed.
fn said(err: *mut koshi_error) -> String {
    if err.is_null() {
        return String::new();
    }
    // SAFETY: an error object that a call has just made.
    unsafe {
        let message = CStr::from_ptr(koshi_error_message(err)).to_str().unwrap().to_string();
        koshi_error_free(err);
        message
    }
}

#[track_caller]
fn fails(code: koshi_status_code, call: impl FnOnce(*mut *mut koshi_error) -> koshi_status) -> String {
    let mut err = ptr::null_mut();
    let status = call(&mut err);
    let message = said(err);
    assert_eq!(status, code as i32, "{message}");
    message
}

fn name(kind: &str, folder: &Path, file: &str) -> CString {
    CString::new(format!("{kind}:{}", folder.join(file).display())).unwrap()
}

/// The only label's pdf, and the example is freed.
fn pdf_of(example: *mut koshi_example) -> i32 {
    let mut pdf = -2;
    // SAFETY: a handle of this test, freed once.
    unsafe {
        assert_eq!(koshi_example_label(example, 0, &mut pdf, ptr::null_mut(), ptr::null_mut()), 0);
        assert_eq!(koshi_example_free(example), 0);
    }
    pdf
}

#[test]
fn written_and_read_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let both = CString::new(format!("ark,scp:{0}/a.ark,{0}/a.scp", folder.display())).unwrap();
    // SAFETY: texts that end with NUL, places and handles of this test.
    unsafe {
        let writer = made(|out, err| koshi_egs_writer_open(both.as_ptr(), NNET, out, err));
        let keys = [c"a", c"b", c"c"];
        for (pdf, key) in (1..).zip(keys) {
            let example = example(pdf);
            assert_eq!(koshi_egs_writer_write(writer, key.as_ptr(), example, ptr::null_mut()), 0);
            koshi_example_free(example);
        }
        let degs = made(|out, err| koshi_degs_from_memory(DEGS.as_ptr(), DEGS.len(), out, err));
        let other = fails(KOSHI_E_STATE, |err| koshi_egs_writer_write_degs(writer, c"d".as_ptr(), degs, err));
        assert!(other.contains("KOSHI_EGS_NNET"), "{other}");
        koshi_degs_free(degs);
        assert_eq!(koshi_egs_writer_close(writer, ptr::null_mut()), 0);
        fails(KOSHI_E_STATE, |err| koshi_egs_writer_close(writer, err));
        assert_eq!(koshi_egs_writer_free(writer), 0);

        for table in [name("ark", folder, "a.ark"), name("scp", folder, "a.scp"), name("s,cs,ark", folder, "a.ark")] {
            let reader = made(|out, err| koshi_egs_reader_open(table.as_ptr(), NNET, out, err));
            let mut key: *const c_char = ptr::null();
            for (pdf, wanted) in (1..).zip(keys) {
                let found = made(|out, err| koshi_egs_reader_next(reader, &mut key, out, err));
                assert_eq!((CStr::from_ptr(key), pdf_of(found)), (wanted, pdf));
            }
            for _ in 0..2 {
                let end = made(|out, err| koshi_egs_reader_next(reader, &mut key, out, err));
                assert!(end.is_null() && key.is_null());
            }
            let mut none = ptr::null_mut();
            fails(KOSHI_E_STATE, |err| koshi_egs_reader_next_degs(reader, &mut key, &mut none, err));
            assert_eq!(koshi_egs_reader_free(reader), 0);

            let table = made(|out, err| koshi_egs_table_open(table.as_ptr(), NNET, out, err));
            let find = |key: &CStr| made(|out, err| koshi_egs_table_find(table, key.as_ptr(), out, err));
            assert_eq!(pdf_of(find(c"a")), 1);
            assert!(find(c"bb").is_null());
            assert_eq!([pdf_of(find(c"c")), pdf_of(find(c"c"))], [3, 3], "each find gives one of its own");
            fails(KOSHI_E_STATE, |err| koshi_egs_table_find_degs(table, c"a".as_ptr(), &mut none, err));
            assert_eq!(koshi_egs_table_free(table), 0);
        }
        let wrong = name("ark", folder, "a.ark");
        let reader = made(|out, err| koshi_egs_reader_open(wrong.as_ptr(), DISCRIMINATIVE, out, err));
        let (mut key, mut none) = (ptr::null(), ptr::null_mut());
        let other = fails(KOSHI_E_FORMAT, |err| koshi_egs_reader_next_degs(reader, &mut key, &mut none, err));
        assert!(other.contains("expected <DiscriminativeNnetExample>"), "{other}");
        assert!(none.is_null());
        koshi_egs_reader_free(reader);
    }
}

#[test]
fn discriminative_ones_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let table = name("ark", folder.path(), "d.ark");
    // SAFETY: as above; arrays are looked at while their example lives.
    unsafe {
        let degs = made(|out, err| koshi_degs_from_memory(DEGS.as_ptr(), DEGS.len(), out, err));
        let writer = made(|out, err| koshi_egs_writer_open(table.as_ptr(), DISCRIMINATIVE, out, err));
        for key in [c"x", c"y"] {
            assert_eq!(koshi_egs_writer_write_degs(writer, key.as_ptr(), degs, ptr::null_mut()), 0);
        }
        assert_eq!(koshi_egs_writer_close(writer, ptr::null_mut()), 0);
        koshi_egs_writer_free(writer);
        koshi_degs_free(degs);

        let mut key = ptr::null();
        let reader = made(|out, err| koshi_egs_reader_open(table.as_ptr(), DISCRIMINATIVE, out, err));
        let read = made(|out, err| koshi_egs_reader_next_degs(reader, &mut key, out, err));
        assert_eq!(CStr::from_ptr(key), c"x");
        koshi_egs_reader_free(reader);
        let opened = made(|out, err| koshi_egs_table_open(table.as_ptr(), DISCRIMINATIVE, out, err));
        let found = made(|out, err| koshi_egs_table_find_degs(opened, c"y".as_ptr(), out, err));
        koshi_egs_table_free(opened);

        for degs in [read, found] {
            assert_eq!(koshi_degs_check(degs, ptr::null_mut()), 0);
            assert_eq!(koshi_degs_weight(degs), 0.5);
            let mut info = std::mem::zeroed::<koshi_degs_summary>();
            assert_eq!(koshi_degs_info(degs, &mut info, size_of::<koshi_degs_summary>(), ptr::null_mut()), 0);
            let sizes = (info.num_frames, info.num_rows, info.dim, info.speaker_dim);
            assert_eq!((info.left_context, info.weight, sizes), (1, 0.5, (2, 3, 2, 1)));
            let (mut len, mut columns) = (0, 0);
            let alignment = koshi_degs_alignment(degs, &mut len);
            assert_eq!(std::slice::from_raw_parts(alignment, len), [4, 5]);
            let speaker = koshi_degs_speaker(degs, &mut len);
            assert_eq!(std::slice::from_raw_parts(speaker, len), [0.25]);
            let frames = koshi_degs_frames(degs, &mut len, &mut columns);
            assert_eq!((len, columns), (3, 2));
            for (found, wanted) in std::slice::from_raw_parts(frames, 6).iter().zip(1u8..) {
                assert!((found - f32::from(wanted)).abs() < 1e-4, "{found} {wanted}");
            }
            // Another count of the same example, and the same arrays.
            let same = koshi_degs_ref(degs);
            assert_eq!((same, koshi_degs_free(degs)), (degs, 0));
            assert_eq!(koshi_degs_frames(same, &mut len, &mut columns), frames);
            let lattice = made(|out, err| koshi_degs_lattice(degs, out, err));
            assert_eq!(koshi_degs_free(same), 0);
            assert_eq!(koshi_degs_free(same), KOSHI_E_HANDLE as i32);

            // Made of its parts again, from a lattice that is free by itself.
            let mut parts = std::mem::zeroed::<koshi_degs_parts>();
            assert_eq!(koshi_degs_parts_init(&mut parts, size_of::<koshi_degs_parts>(), ptr::null_mut()), 0);
            let (ids, rows) = ([4, 5], [1.0, 2.0, 9.0, 3.0, 4.0, 9.0, 5.0, 6.0]);
            (parts.alignment, parts.num_frames, parts.lattice) = (ids.as_ptr(), 2, lattice);
            (parts.rows, parts.num_rows, parts.dim, parts.stride) = (rows.as_ptr(), 3, 2, 3);
            parts.left_context = 1;
            let again = made(|out, err| koshi_degs_new(&parts, out, err));
            assert_eq!(koshi_lattice_free(lattice), 0);
            assert_eq!(koshi_degs_check(again, ptr::null_mut()), 0);
            let frames = koshi_degs_frames(again, &mut len, &mut columns);
            assert_eq!(std::slice::from_raw_parts(frames, len * columns), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
            let again_lattice = made(|out, err| koshi_degs_lattice(again, out, err));
            assert_eq!(koshi_lattice_free(again_lattice), 0);
            assert_eq!(koshi_degs_free(again), 0);
        }
    }
}
