//! The byte layer: tokens and basic types, read and written.

use proptest::prelude::*;

use super::{format_offset, written};
use crate::error::Error;
use crate::table::{Input, Output};

#[test]
fn bytes_as_kaldi_writes_them() {
    assert_eq!(written(|o| o.write_i32(true, -2)), b"\x04\xfe\xff\xff\xff");
    assert_eq!(written(|o| o.write_u32(true, 2)), b"\xfc\x02\0\0\0");
    assert_eq!(written(|o| o.write_i64(true, 2)), b"\x08\x02\0\0\0\0\0\0\0");
    assert_eq!(written(|o| o.write_u64(true, 2)), b"\xf8\x02\0\0\0\0\0\0\0");
    assert_eq!(written(|o| o.write_f32(true, 1.0)), b"\x04\0\0\x80\x3f");
    assert_eq!(written(|o| o.write_f64(true, 1.0)), b"\x08\0\0\0\0\0\0\xf0\x3f");
    assert_eq!(written(|o| o.write_bool(true, true)), b"T");
    assert_eq!(written(|o| o.write_bool(false, false)), b"F ");
    assert_eq!(written(|o| o.write_i32(false, -2)), b"-2 ");
    assert_eq!(written(|o| o.write_f32(false, 0.1)), b"0.1 ");
    assert_eq!(written(|o| o.write_f32(false, f32::NEG_INFINITY)), b"-inf ");
    assert_eq!(written(|o| o.write_f64(false, 123456789.0)), b"1.234568e+08 ");
    assert_eq!(written(|o| o.write_token("<A>")), b"<A> ");
    assert_eq!(written(|o| o.write_header(true)), b"\0B");
    assert_eq!(written(|o| o.write_header(false)), b"");
    assert_eq!(written(|o| o.write_i32_vector(true, &[1, -1])), b"\x04\x02\0\0\0\x01\0\0\0\xff\xff\xff\xff");
    assert_eq!(written(|o| o.write_i32_vector(false, &[1, -1])), b"[ 1 -1 ]\n");
    assert_eq!(written(|o| o.write_i32_vector(false, &[])), b"[ ]\n");
}

#[test]
fn tokens_are_words() {
    for bad in ["", "a b", "a\n"] {
        assert!(matches!(Output::memory().write_token(bad), Err(Error::Argument(_))));
    }
    let mut input = Input::from_bytes("t", &b" <A>\n<B>  x"[..]);
    assert_eq!(input.peek_token(false).unwrap().as_deref(), Some("<A>"));
    assert_eq!(input.token(false).unwrap(), "<A>");
    assert_eq!(format_offset(&input.expect_token(false, "<C>").unwrap_err()), 5);
    let mut input = Input::from_bytes("t", &b"<A> <B> \x04"[..]);
    input.expect_token(true, "<A>").unwrap();
    assert_eq!(input.peek_token(true).unwrap().as_deref(), Some("<B>"));
    input.expect_token(true, "<B>").unwrap();
    assert_eq!(input.peek().unwrap(), Some(4));
    let mut input = Input::from_bytes("t", &b"<A>"[..]);
    assert_eq!(format_offset(&input.token(true).unwrap_err()), 3);
    assert_eq!(Input::from_bytes("t", &b"<A>"[..]).token(false).unwrap(), "<A>");
    assert_eq!(format_offset(&Input::from_bytes("t", &b" \n"[..]).token(false).unwrap_err()), 2);
    assert_eq!(format_offset(&Input::from_bytes("t", &b" ab\xffc "[..]).token(false).unwrap_err()), 3);
    assert_eq!(Input::from_bytes("t", vec![b'a'; 1000]).peek_token(false).unwrap(), None);
    assert_eq!(Input::from_bytes("t", Vec::new()).peek_token(false).unwrap(), None);
}

#[test]
fn numbers_in_text() {
    let float = |text: &str| Input::from_bytes("t", text).read_f32(false);
    assert_eq!(float(" 1.5 ").unwrap(), 1.5);
    assert_eq!(float("-1e-3]").unwrap(), -1e-3);
    assert_eq!(float("+.5").unwrap(), 0.5);
    assert_eq!(float("inf").unwrap(), f32::INFINITY);
    assert_eq!(float("-INFINITY").unwrap(), f32::NEG_INFINITY);
    assert!(float("-NaN").unwrap().is_nan());
    for bad in ["", "x", "1e999", "1e39", "0x10", "1.2.3", "--1", "]", "nano"] {
        assert!(matches!(float(bad), Err(Error::Format { .. })), "{bad}");
    }
    let mut input = Input::from_bytes("t", "7\n x");
    assert_eq!(input.read_i32(false).unwrap(), 7);
    let error = input.read_i32(false).unwrap_err();
    assert_eq!(error.to_string(), "t: byte 3: line 2: expected an integer, found \"x\"");
    for bad in ["2147483648", "1.0", "-", ""] {
        assert!(Input::from_bytes("t", bad).read_i32(false).is_err(), "{bad}");
    }
    assert!(Input::from_bytes("t", "-1").read_u32(false).is_err());
    assert_eq!(Input::from_bytes("t", "[ 1\n2]").read_i32_vector(false).unwrap(), [1, 2]);
    assert!(Input::from_bytes("t", " []").read_i32_vector(false).unwrap().is_empty());
    for bad in ["", "1", "[ 1", "[ x ]"] {
        assert!(Input::from_bytes("t", bad).read_i32_vector(false).is_err(), "{bad}");
    }
    assert!(!Input::from_bytes("t", " F").read_bool(false).unwrap());
    assert!(Input::from_bytes("t", " F").read_bool(true).is_err());
}

#[test]
fn floats_of_either_size() {
    let bytes = written(|o| o.write_f64(true, 0.1));
    assert_eq!(Input::from_bytes("t", bytes).read_f32(true).unwrap(), 0.1);
    let bytes = written(|o| o.write_f32(true, 0.1));
    assert_eq!(Input::from_bytes("t", bytes).read_f64(true).unwrap(), f64::from(0.1f32));
    // Size bytes of other types are refused, at their own offset.
    let mut input = Input::from_bytes("t", &b"T\xfc\0\0\0\0"[..]);
    assert!(input.read_bool(true).unwrap());
    assert_eq!(format_offset(&input.read_f32(true).unwrap_err()), 1);
    assert_eq!(format_offset(&input.read_i32(true).unwrap_err()), 1);
    assert_eq!(input.read_u32(true).unwrap(), 0);
}

#[test]
fn lying_lengths() {
    // An int32 vector that claims two thousand million values and holds one.
    let error = Input::from_bytes("lie", &b"\x04\xff\xff\xff\x7f\x01\0\0\0"[..]).read_i32_vector(true).unwrap_err();
    assert_eq!(format_offset(&error), 9);
    let error = Input::from_bytes("lie", &b"\x04\xff\xff\xff\xff"[..]).read_i32_vector(true).unwrap_err();
    assert_eq!(format_offset(&error), 0);
    let mut input = Input::from_bytes("lie", &b"abc"[..]);
    assert_eq!(format_offset(&input.read_bounded(u64::MAX, "string").unwrap_err()), 3);
    assert_eq!(format_offset(&input.skip(u64::MAX, "string").unwrap_err()), 3);
    assert_eq!(format_offset(&Input::from_bytes("t", &b"ab"[..]).read_exact(&mut [0; 3]).unwrap_err()), 2);
}

#[test]
fn headers() {
    let mut input = Input::from_bytes("t", &b"\0Bx"[..]);
    assert!(input.binary_header().unwrap());
    assert!(!input.binary_header().unwrap());
    assert_eq!(input.offset(), 2);
    for bad in [&b"\0"[..], b"\0C"] {
        assert_eq!(format_offset(&Input::from_bytes("t", bad).binary_header().unwrap_err()), 0);
    }
    assert!(!Input::from_bytes("t", Vec::new()).binary_header().unwrap());
}

#[test]
fn lines() {
    let mut input = Input::from_bytes("t", "one\n\nlast");
    assert_eq!(input.read_line().unwrap().as_deref(), Some("one"));
    assert_eq!(input.read_line().unwrap().as_deref(), Some(""));
    assert_eq!(input.read_line().unwrap().as_deref(), Some("last"));
    assert_eq!(input.read_line().unwrap(), None);
    assert_eq!(format_offset(&Input::from_bytes("t", &b"a\xe9b\n"[..]).read_line().unwrap_err()), 1);
}

#[test]
fn files_are_read_across_buffers_and_from_offsets() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let name = path.to_str().unwrap();

    let mut input = Input::open(name).unwrap();
    assert_eq!(input.read_bounded(100_001, "bytes").unwrap(), bytes[..100_001]);
    assert_eq!(input.read_byte().unwrap(), bytes[100_001]);
    assert_eq!(input.peek_bytes(65_536).unwrap(), &bytes[100_002..165_538]);
    input.skip(50_000, "bytes").unwrap();
    assert_eq!(input.offset(), 150_002);
    let mut rest = vec![0; 149_998];
    input.read_exact(&mut rest).unwrap();
    assert_eq!(rest, bytes[150_002..]);
    assert!(input.at_end().unwrap());
    input.close().unwrap();

    let mut input = Input::open(&format!("{name}:250000")).unwrap();
    assert_eq!(input.offset(), 250_000);
    let error = input.read_bounded(50_001, "bytes").unwrap_err();
    assert_eq!(format_offset(&error), 300_000);
    assert!(error.to_string().starts_with(&format!("{name}: byte 300000: bytes: ")), "{error}");
    assert!(Input::open(&format!("{name}:400000")).unwrap().at_end().unwrap());

    assert!(matches!(Input::open(directory.path().to_str().unwrap()).unwrap().peek(), Err(Error::Io { .. })));
    assert!(matches!(Input::open(&format!("{name}.not")), Err(Error::Io { .. })));
    assert!(matches!(Output::create(&format!("{name}/x")), Err(Error::Io { .. })));
}

#[test]
fn commands_are_off_unless_allowed() {
    assert!(matches!(Input::open("echo x |"), Err(Error::Unsupported(_))));
    assert!(matches!(Output::create("| cat"), Err(Error::Unsupported(_))));
}

#[test]
fn files_are_written_through_the_buffer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let mut output = Output::create(path.to_str().unwrap()).unwrap();
    let mut expected = Vec::new();
    for length in [1, 10, 65_535, 3, 65_536, 200_000, 7, 65_530] {
        let bytes: Vec<u8> = (0..length).map(|i| (i + length) as u8).collect();
        output.write_all(&bytes).unwrap();
        expected.extend(bytes);
        assert_eq!(output.offset(), expected.len() as u64);
    }
    output.flush().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), expected);
    output.write_all(b"x").unwrap();
    output.close().unwrap();
    expected.push(b'x');
    assert_eq!(std::fs::read(&path).unwrap(), expected);
}

/// A full disk: the error comes from the write, and from everything after it.
#[cfg(target_os = "linux")]
#[test]
fn case_b77_full_disk() {
    let mut output = Output::create("/dev/full").unwrap();
    output.write_all(b"little").unwrap();
    assert!(matches!(output.flush(), Err(Error::Io { .. })));
    assert!(matches!(output.write_all(b"more"), Err(Error::Io { .. })));
    assert!(matches!(output.close(), Err(Error::Io { .. })));
    let mut output = Output::create("/dev/full").unwrap();
    output.write_all(b"little").unwrap();
    assert!(matches!(output.close(), Err(Error::Io { .. })));
}

proptest! {
    #[test]
    fn numbers_survive(i in any::<i32>(), u in any::<u32>(), l in any::<i64>(), m in any::<u64>(), f in any::<f32>(),
                       d in any::<f64>(), b in any::<bool>(), v in prop::collection::vec(any::<i32>(), 0..40)) {
        for binary in [true, false] {
            let bytes = written(|o| {
                o.write_token("<T>")?;
                o.write_i32(binary, i)?;
                o.write_u32(binary, u)?;
                o.write_i64(binary, l)?;
                o.write_u64(binary, m)?;
                o.write_bool(binary, b)?;
                o.write_i32_vector(binary, &v)?;
                o.write_f32(binary, f)?;
                o.write_f64(binary, d)
            });
            let mut input = Input::from_bytes("t", bytes);
            input.expect_token(binary, "<T>").unwrap();
            prop_assert_eq!(input.read_i32(binary).unwrap(), i);
            prop_assert_eq!(input.read_u32(binary).unwrap(), u);
            prop_assert_eq!(input.read_i64(binary).unwrap(), l);
            prop_assert_eq!(input.read_u64(binary).unwrap(), m);
            prop_assert_eq!(input.read_bool(binary).unwrap(), b);
            prop_assert_eq!(&input.read_i32_vector(binary).unwrap(), &v);
            if binary {
                prop_assert_eq!(input.read_f32(true).unwrap().to_bits(), f.to_bits());
                prop_assert_eq!(input.read_f64(true).unwrap().to_bits(), d.to_bits());
            } else {
                // Seven digits may round the largest numbers out of range, which reading refuses.
                if let Ok(back) = input.read_f32(false) {
                    prop_assert!(back == f || back.is_nan() && f.is_nan() || (back - f).abs() <= 1e-6 * f.abs());
                } else {
                    prop_assert!(f.abs() > 3.4e38);
                }
            }
        }
    }
}
