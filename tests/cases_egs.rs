//! Cases of the list that concern matrices and examples in files, through Rust and through the C face.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr;

use koshi::egs::{NnetExample, NnetExampleHolder};
use koshi::error::{Error, Result};
use koshi::ffi::*;
use koshi::table::{CompressedMatrix, Holder, Input, Method, Output, TableWriter, set_allow_commands};

fn read(bytes: &[u8]) -> Result<NnetExample> {
    NnetExampleHolder::read(&mut Input::from_bytes("example", bytes))
}

fn written(example: &NnetExample, binary: bool) -> Vec<u8> {
    let mut output = Output::memory();
    NnetExampleHolder::write(&mut output, example, binary).unwrap();
    output.into_bytes()
}

/// Status and message of a failed call.
fn failure(status: i32, err: *mut koshi_error) -> (i32, String) {
    assert!(status < 0 && !err.is_null(), "{status}");
    // SAFETY: an error object that a call has just made.
    unsafe {
        let message = CStr::from_ptr(koshi_error_message(err)).to_str().unwrap().to_string();
        koshi_error_free(err);
        (status, message)
    }
}

/// Reads an example through the C face and writes it again in both forms.
fn through_c(bytes: &[u8]) -> Result<[Vec<u8>; 2], (i32, String)> {
    let (mut example, mut err) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: places for results, and bytes of the length told.
    let status = unsafe { koshi_example_from_memory(bytes.as_ptr(), bytes.len(), &mut example, &mut err) };
    if status < 0 {
        return Err(failure(status, err));
    }
    let forms = [1, 0].map(|binary| {
        let mut buffer = ptr::null_mut();
        // SAFETY: handles of this test; the bytes live as long as the buffer.
        unsafe {
            assert_eq!(koshi_example_to_memory(example, binary, &mut buffer, ptr::null_mut()), 0);
            let bytes = std::slice::from_raw_parts(koshi_buffer_data(buffer), koshi_buffer_size(buffer) as usize);
            let bytes = bytes.to_vec();
            koshi_buffer_free(buffer);
            bytes
        }
    });
    // SAFETY: as above.
    unsafe { koshi_example_free(example) };
    Ok(forms)
}

const TAIL: &str = "<LeftContext> 0 <SpkInfo>  [ ]\n</NnetExample> ";

#[test]
fn case_b75_a_text_matrix_with_ragged_rows_is_refused_with_its_line() {
    for (rows, line) in [(" [ 1 2\n  3 ]\n", 2), (" [\n 1 2\n 3 4\n 5 6 7 ]\n", 4), (" [ 1 2 ; 3 ]\n", 1)] {
        let text = format!("<NnetExample> <Lab1> [ 3 ] <InputFrames> {rows}{TAIL}");
        let error = read(text.as_bytes()).unwrap_err();
        let message = error.chain();
        assert!(matches!(error.root(), Error::Format { .. }), "{message}");
        assert!(message.contains(&format!("line {line}")) && message.contains("numbers where"), "{message}");
        let (status, in_c) = through_c(text.as_bytes()).unwrap_err();
        assert_eq!(status, koshi_status_code::KOSHI_E_FORMAT as i32);
        assert!(in_c.contains(&format!("line {line}")), "{in_c}");
    }
}

#[test]
fn case_b76_compression_reads_rows_by_their_stride() {
    let dense = [1.0, 2.0, 3.0, -4.0, 5.5, 6.0];
    let mut wide = [f32::NAN; 16];
    wide[..3].copy_from_slice(&dense[..3]);
    wide[8..11].copy_from_slice(&dense[3..]);
    for method in [Method::Auto, Method::SpeechFeature, Method::OneByteAuto] {
        let wanted = CompressedMatrix::compress(&dense, 2, 3, 3, method).unwrap();
        assert_eq!(CompressedMatrix::compress(&wide, 2, 3, 8, method).unwrap(), wanted);
        let bytes = |rows: &[f32], stride: u64| {
            let (mut example, mut buffer) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: structs and places of this test, which say how large they are.
            unsafe {
                let mut parts = std::mem::zeroed::<koshi_example_parts>();
                let size = size_of::<koshi_example_parts>();
                assert_eq!(koshi_example_parts_init(&mut parts, size, ptr::null_mut()), 0);
                (parts.rows, parts.num_rows, parts.dim, parts.stride) = (rows.as_ptr(), 2, 3, stride);
                parts.compression = method as i32;
                assert_eq!(koshi_example_new(&parts, &mut example, ptr::null_mut()), 0);
                assert_eq!(koshi_example_to_memory(example, 1, &mut buffer, ptr::null_mut()), 0);
                let size = koshi_buffer_size(buffer) as usize;
                let bytes = std::slice::from_raw_parts(koshi_buffer_data(buffer), size).to_vec();
                koshi_buffer_free(buffer);
                koshi_example_free(example);
                bytes
            }
        };
        // The last row ends with its last number: there is nothing behind it.
        assert_eq!(bytes(&wide[..11], 8), bytes(&dense, 3));
    }
}

/// An example of some thirty thousand bytes, more than a pipe's reader may have left behind.
fn big() -> NnetExample {
    let data: Vec<f32> = (0..40_000).map(|at| (at % 777) as f32).collect();
    let input_frames = CompressedMatrix::compress(&data, 400, 100, 100, Method::Auto).unwrap();
    NnetExample { input_frames, ..NnetExample::default() }
}

#[test]
fn case_b77_a_write_that_fails_is_a_status() {
    let mut names = vec!["ark:| true".to_string(), "ark:| exit 3".to_string()];
    if Path::new("/dev/full").exists() {
        names.push("ark:/dev/full".to_string());
    }
    set_allow_commands(true);
    let example = big();
    for name in &names {
        let mut writer = TableWriter::<NnetExampleHolder>::open(name).unwrap();
        let mut written = (0..50).try_for_each(|at| writer.write(&format!("k{at}"), &example));
        written = written.and(writer.close());
        let error = written.unwrap_err();
        assert!(matches!(error.root(), Error::Io { .. }), "{name}: {}", error.chain());
    }
    let bytes = written(&example, true);
    for name in &names {
        let (mut writer, mut held, mut err) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let name = CString::new(name.as_str()).unwrap();
        // SAFETY: places of this test, texts that end with NUL.
        unsafe {
            assert_eq!(koshi_example_from_memory(bytes.as_ptr(), bytes.len(), &mut held, ptr::null_mut()), 0);
            let kind = koshi_egs_kind::KOSHI_EGS_NNET as i32;
            assert_eq!(koshi_egs_writer_open(name.as_ptr(), kind, &mut writer, ptr::null_mut()), 0);
            let mut status = 0;
            for _ in 0..50 {
                status = koshi_egs_writer_write(writer, c"k".as_ptr(), held, &mut err);
                if status < 0 {
                    break;
                }
            }
            if status >= 0 {
                status = koshi_egs_writer_close(writer, &mut err);
            }
            assert_eq!(failure(status, err).0, koshi_status_code::KOSHI_E_IO as i32);
            koshi_egs_writer_free(writer);
            koshi_example_free(held);
        }
    }
}

/// One labelled frame in each form of labels. Kaldi itself does not write the oldest; it comes out as `<Lab2>`.
#[test]
fn case_b79_examples_of_one_frame_in_each_form_of_labels() {
    // 2 rows of 1: minimum 0, range 2, steps 0 and 65535 of 65535.
    let frames = b"<InputFrames> CM2 \0\0\0\0\0\0\0\x40\x02\0\0\0\x01\0\0\0\0\0\xff\xff";
    let tail = b"<LeftContext> \x04\x01\0\0\0<SpkInfo> FV \x04\0\0\0\0</NnetExample> ";
    let binary = |labels: &[u8]| [b"\0B<NnetExample> ", labels, frames, tail].concat();
    let text = |labels: &str| {
        format!("<NnetExample> {labels}<InputFrames>  [\n  0 \n  2 ]\n<LeftContext> 1 <SpkInfo>  [ ]\n</NnetExample> ")
    };
    let pairs: &[u8] = b"\x04\x02\0\0\0\x04\x07\0\0\0\x04\0\0\x80\x3e\x04\x09\0\0\0\x04\0\0\x40\x3f";
    let one: &[u8] = b"\x04\x01\0\0\0";
    for (labels_binary, labels_text, again_binary, again_text) in [
        (b"<Lab1> \x04\x01\0\0\0\x07\0\0\0".to_vec(), "<Lab1> [ 7 ]\n", None, None),
        ([b"<Lab2> ", one, pairs].concat(), "<Lab2> 1 2 7 0.25 9 0.75 ", None, None),
        (
            [b"<Labels> ", pairs].concat(),
            "<Labels> 2 7 0.25 9 0.75 ",
            Some([b"<Lab2> ", one, pairs].concat()),
            Some("<Lab2> 1 2 7 0.25 9 0.75 "),
        ),
    ] {
        let (stored_binary, stored_text) = (binary(&labels_binary), text(labels_text));
        let wanted_binary = binary(&again_binary.unwrap_or(labels_binary));
        let wanted_text = text(again_text.unwrap_or(labels_text));
        for stored in [&stored_binary, stored_text.as_bytes()] {
            let example = read(stored).unwrap();
            example.check().unwrap();
            assert_eq!(example.label(0).unwrap().pdf, if labels_text.contains("[ 7 ]") { 7 } else { 9 });
            assert!(written(&example, true) == wanted_binary, "{labels_text}");
            assert_eq!(String::from_utf8(written(&example, false)).unwrap(), wanted_text);
            let [again_binary, again_text] = through_c(stored).unwrap();
            assert!(again_binary == wanted_binary && again_text == wanted_text.as_bytes(), "{labels_text}");
        }
    }
    for wrong in ["<Lab3> 1 ", "<Lab2> 0 ", "<Lab2> -1 ", "<Lab2> 1 -1 ", "<Labels> -2 ", ""] {
        let text = text(wrong);
        assert!(matches!(read(text.as_bytes()).unwrap_err().root(), Error::Format { .. }), "{wrong}");
        assert_eq!(through_c(text.as_bytes()).unwrap_err().0, koshi_status_code::KOSHI_E_FORMAT as i32);
    }
}

/// What Kaldi writes and cannot read: the empty compressed matrix of 20 bytes, and `-inf` in text.
#[test]
fn what_kaldi_cannot_read_of_its_own() {
    let head = b"\0B<NnetExample> <Lab1> \x04\0\0\0\0<InputFrames> CM ";
    let tail = b"<LeftContext> \x04\0\0\0\0<SpkInfo> FV \x04\0\0\0\0</NnetExample> ";
    let stray = [&head[..], &1i32.to_le_bytes(), &[0; 16], tail].concat();
    let example = read(&stray).unwrap();
    assert_eq!((example.input_frames.rows(), example.labels.num_frames()), (0, 0));
    assert!(written(&example, true) == [&head[..], &[0; 16], tail].concat());
    let text = "<NnetExample> <Lab2> 1 1 3 -inf <InputFrames>  [\n  0 ]\n<LeftContext> 0 <SpkInfo>  [ 1 -inf inf ]\n</NnetExample> ";
    let example = read(text.as_bytes()).unwrap();
    assert_eq!(example.spk_info, [1.0, f32::NEG_INFINITY, f32::INFINITY]);
    assert_eq!(String::from_utf8(written(&example, false)).unwrap(), text);
    assert!(matches!(example.check(), Err(Error::Argument(_))));
}
