//! Compressed matrices against a plain reference, which is written as the format is described.
#![allow(clippy::excessive_precision, clippy::manual_clamp)]

use proptest::prelude::*;

use super::{format_offset, loaded, stored};
use crate::error::Error;
use crate::table::compressed::COLUMN_HEADER;
use crate::table::{CompressedMatrix, CompressedMatrixHolder, Format, Matrix, MatrixHolder, Method};

const METHODS: [Method; 7] = [
    Method::Auto,
    Method::SpeechFeature,
    Method::TwoByteAuto,
    Method::TwoByteSignedInteger,
    Method::OneByteAuto,
    Method::OneByteUnsignedInteger,
    Method::OneByteZeroOne,
];

/// Reads elements one by one, as the format is defined.
fn element(matrix: &CompressedMatrix, row: usize, col: usize) -> f32 {
    let bytes = &matrix.bytes;
    let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    match matrix.format {
        Format::OneByte => {
            let step = (f64::from(matrix.range) * (1.0 / 255.0)) as f32;
            matrix.min + f32::from(bytes[row * matrix.cols + col]) * step
        }
        Format::TwoBytes => {
            let step = (f64::from(matrix.range) * (1.0 / 65535.0)) as f32;
            matrix.min + f32::from(short(2 * (row * matrix.cols + col))) * step
        }
        Format::Columns => {
            let percentile =
                |k: usize| matrix.min + (matrix.range * 1.52590218966964e-05f32) * f32::from(short(col * 8 + 2 * k));
            let [p0, p25, p75, p100] = [0, 1, 2, 3].map(percentile);
            let code = bytes[matrix.cols * COLUMN_HEADER + col * matrix.rows + row];
            let between = |low: f32, high: f32, steps: f32, unit: f64| {
                (f64::from(low) + f64::from((high - low) * steps) * unit) as f32
            };
            match code {
                0..=64 => between(p0, p25, f32::from(code), 1.0 / 64.0),
                65..=192 => between(p25, p75, f32::from(code) - 64.0, 1.0 / 128.0),
                193.. => between(p75, p100, f32::from(code) - 192.0, 1.0 / 63.0),
            }
        }
    }
}

fn check_elements(matrix: &CompressedMatrix) {
    let full = matrix.to_matrix().unwrap();
    for r in 0..matrix.rows {
        for (c, value) in full.row(r).unwrap().iter().enumerate() {
            assert_eq!(value.to_bits(), element(matrix, r, c).to_bits(), "row {r}, column {c}");
        }
    }
}

/// Pseudo-random bytes, the same each time.
fn noise(count: usize, mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// All codes, few rows and many, whole blocks of columns and parts of them.
#[test]
fn expansion_is_exact() {
    for (seed, format) in [Format::Columns, Format::TwoBytes, Format::OneByte].into_iter().enumerate() {
        for (rows, cols) in
            [(1, 1), (3, 16), (7, 17), (99, 5), (100, 33), (127, 2), (128, 16), (129, 18), (300, 40), (1000, 3)]
        {
            let bytes = noise(format.size(rows, cols).unwrap(), (rows * cols + seed) as u64);
            check_elements(&CompressedMatrix { format, min: -17.3, range: 91.7, rows, cols, bytes });
        }
    }
}

#[test]
fn methods_choose_formats_and_ranges() {
    let of = |rows: usize, method| {
        let data: Vec<f32> = (0..rows).map(|i| i as f32).collect();
        let matrix = CompressedMatrix::compress(&data, rows, 1, 1, method).unwrap();
        (matrix.format(), matrix.min, matrix.range)
    };
    assert_eq!(of(9, Method::Auto), (Format::Columns, 0.0, 8.0));
    assert_eq!(of(8, Method::Auto), (Format::TwoBytes, 0.0, 7.0));
    assert_eq!(of(3, Method::SpeechFeature), (Format::Columns, 0.0, 2.0));
    assert_eq!(of(9, Method::TwoByteAuto), (Format::TwoBytes, 0.0, 8.0));
    assert_eq!(of(9, Method::TwoByteSignedInteger), (Format::TwoBytes, -32768.0, 65535.0));
    assert_eq!(of(9, Method::OneByteAuto), (Format::OneByte, 0.0, 8.0));
    assert_eq!(of(9, Method::OneByteUnsignedInteger), (Format::OneByte, 0.0, 255.0));
    assert_eq!(of(9, Method::OneByteZeroOne), (Format::OneByte, 0.0, 1.0));
    // All elements equal: a range of one more than their size.
    let matrix = CompressedMatrix::compress(&[-3.0; 4], 2, 2, 2, Method::OneByteAuto).unwrap();
    assert_eq!((matrix.min, matrix.range), (-3.0, 4.0));
    assert_eq!(matrix.to_matrix().unwrap().data(), [-3.0; 4]);
    // That sum is rounded once; Kaldi's own code gave these.
    for (value, range) in [(0.053_930_704, 1.053_930_6), (0.000_958_757_6, 1.000_958_7)] {
        let matrix = CompressedMatrix::compress(&[value], 1, 1, 1, Method::OneByteAuto).unwrap();
        assert_eq!((matrix.min, matrix.range), (value, range));
    }
}

#[test]
fn whole_numbers_are_kept() {
    let data: Vec<f32> = vec![-32768.0, -1.0, 0.0, 1.0, 77.0, 32767.0];
    let matrix = CompressedMatrix::compress(&data, 2, 3, 3, Method::TwoByteSignedInteger).unwrap();
    assert_eq!(matrix.to_matrix().unwrap().data(), data);
    let data: Vec<f32> = (0..256).map(|i| i as f32).collect();
    let matrix = CompressedMatrix::compress(&data, 16, 16, 16, Method::OneByteUnsignedInteger).unwrap();
    assert_eq!(matrix.to_matrix().unwrap().data(), data);
}

/// A column of five known elements, by hand.
#[test]
fn a_column_by_hand() {
    let matrix = CompressedMatrix::compress(&[0.0, 4.0, 1.0, 3.0, 2.0], 5, 1, 1, Method::SpeechFeature).unwrap();
    // Ranks 0, 1, 3 and 4 of the five: 0, 1, 3 and 4 of a range of 4.
    let expected: Vec<u8> = [0u16, 16384, 49151, 65535].iter().flat_map(|p| p.to_le_bytes()).collect();
    assert_eq!(matrix.bytes[..8], expected);
    assert_eq!(matrix.bytes[8..], [0, 255, 64, 192, 128]);
    // Fewer than five: the missing percentiles follow on.
    let matrix = CompressedMatrix::compress(&[1.0, 0.0], 2, 1, 1, Method::SpeechFeature).unwrap();
    let expected: Vec<u8> = [0u16, 65533, 65534, 65535].iter().flat_map(|p| p.to_le_bytes()).collect();
    assert_eq!(matrix.bytes[..8], expected);
}

#[test]
fn case_b76_stride() {
    let dense = [1.0, 2.0, 3.0, 4.0, 5.0, 6.5];
    let mut wide = [f32::NAN; 11];
    wide[..3].copy_from_slice(&dense[..3]);
    wide[8..].copy_from_slice(&dense[3..]);
    for method in METHODS {
        let expected = CompressedMatrix::compress(&dense, 2, 3, 3, method).unwrap();
        assert_eq!(CompressedMatrix::compress(&wide, 2, 3, 8, method).unwrap(), expected);
    }
    for (data, stride) in [(&wide[..10], 8), (&wide[..], 2), (&dense[..5], 3), (&wide[..], usize::MAX)] {
        assert!(matches!(CompressedMatrix::compress(data, 2, 3, stride, Method::Auto), Err(Error::Shape(_))));
    }
}

#[test]
fn what_cannot_be_compressed() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for method in METHODS {
            let refused = CompressedMatrix::compress(&[1.0, bad], 1, 2, 2, method);
            assert!(matches!(refused, Err(Error::Argument(_))), "{bad}");
        }
    }
    let refused = CompressedMatrix::compress(&[f32::MAX, -f32::MAX], 1, 2, 2, Method::Auto);
    assert!(matches!(refused, Err(Error::Argument(_))));
    let error = loaded::<CompressedMatrixHolder>(b"[ 1 nan ]\n").unwrap_err();
    assert_eq!(format_offset(&error), 0);
}

#[test]
fn empty_matrices() {
    let empty = CompressedMatrix::default();
    let bytes = stored::<CompressedMatrixHolder>(&empty, true);
    assert_eq!(bytes, [&b"\0BCM "[..], &[0; 16]].concat());
    assert_eq!(stored::<CompressedMatrixHolder>(&empty, false), b" [ ]\n");
    assert_eq!(loaded::<CompressedMatrixHolder>(&bytes).unwrap(), empty);
    assert_eq!(loaded::<MatrixHolder>(&bytes).unwrap(), Matrix::default());
    assert_eq!(loaded::<CompressedMatrixHolder>(b" [ ]\n").unwrap(), empty);
    assert_eq!(CompressedMatrix::compress(&[], 0, 0, 0, Method::Auto).unwrap(), empty);
    // Kaldi's own has a stray number in front and so four bytes too many.
    let kaldi = [&b"\0BCM \x02"[..], &[0; 19]].concat();
    assert_eq!(loaded::<CompressedMatrixHolder>(&kaldi).unwrap(), empty);
}

#[test]
fn sizes_must_make_sense() {
    let form = |token: &str, rows: i32, cols: i32| {
        [b"\0B", token.as_bytes(), b" ", &[0; 8], &rows.to_le_bytes(), &cols.to_le_bytes(), &[1; 7]].concat()
    };
    for token in ["CM", "CM2", "CM3"] {
        let at = 2 + token.len() as u64 + 1 + 8;
        for (rows, cols) in [(-1, 1), (1, -1), (0, 1), (5, 0)] {
            let error = loaded::<CompressedMatrixHolder>(&form(token, rows, cols)).unwrap_err();
            assert_eq!(format_offset(&error), at, "{token} {rows} {cols}");
        }
        for (rows, cols) in [(i32::MAX, i32::MAX), (8, 1), (1, 100_000_000)] {
            let error = loaded::<CompressedMatrixHolder>(&form(token, rows, cols)).unwrap_err();
            assert_eq!(format_offset(&error), at + 8 + 7, "{token} {rows} {cols}");
        }
    }
}

#[test]
fn pieces() {
    let data: Vec<f32> = (0..60).map(|i| (i * i % 37) as f32).collect();
    for method in METHODS {
        let whole = CompressedMatrix::compress(&data, 12, 5, 5, method).unwrap();
        let full = whole.to_matrix().unwrap();
        for (row, rows, col, cols) in
            [(0, 12, 0, 5), (2, 8, 1, 3), (4, 8, 4, 1), (11, 1, 0, 5), (-3, 9, 0, 2), (8, 20, 3, 2)]
        {
            let piece = whole.piece(row, rows, col, cols, true).unwrap();
            let fits = row >= 0 && row + rows as i64 <= 12;
            assert_eq!(whole.piece(row, rows, col, cols, false).is_ok(), fits);
            let expected: Vec<f32> = (0..rows)
                .flat_map(|r| {
                    let source = (row + r as i64).clamp(0, 11) as usize;
                    full.row(source).unwrap()[col..col + cols].to_vec()
                })
                .collect();
            if whole.format() == Format::Columns && rows < 8 {
                let again = CompressedMatrix::compress(&expected, rows, cols, cols, Method::TwoByteAuto).unwrap();
                assert_eq!(piece, again);
            } else {
                assert_eq!((piece.format(), piece.min, piece.range), (whole.format(), whole.min, whole.range));
                assert_eq!(piece.to_matrix().unwrap().data(), expected);
            }
        }
        assert_eq!(whole.piece(3, 0, 0, 5, false).unwrap(), CompressedMatrix::default());
        assert_eq!(whole.piece(3, 2, 0, 0, false).unwrap(), CompressedMatrix::default());
        for (row, rows, col, cols) in [(12, 1, 0, 1), (0, 1, 5, 1), (0, 1, usize::MAX, 2), (0, usize::MAX, 0, 1)] {
            assert!(matches!(whole.piece(row, rows, col, cols, false), Err(Error::Shape(_))));
        }
        assert!(whole.piece(12, 1, 0, 1, true).is_err());
        assert!(whole.piece(i64::MAX, 2, 0, 1, true).is_err());
    }
    assert!(CompressedMatrix::default().piece(0, 1, 0, 1, true).is_err());
}

/// C's conversion of a double to an int, on x86: out of range it gives the least int.
fn c_int(value: f64) -> i64 {
    if value > -2147483649.0 && value < 2147483648.0 { value as i64 } else { -2147483648 }
}

/// A column whose percentiles differ by less than its elements can tell: quotients by zero.
#[test]
fn percentiles_that_fall_together() {
    let data: Vec<f32> = [0.0, 8.0, 0.0, 16.0, 8.0, 8.0, 0.0, 16.0, 8.0, 8.0].map(|v| 1e8 + v).to_vec();
    let matrix = CompressedMatrix::compress(&data, 10, 1, 1, Method::SpeechFeature).unwrap();
    assert_eq!(matrix, reference(&data, 10, 1, Method::SpeechFeature));
}

/// Slow compression as section by section of the format's description.
fn reference(data: &[f32], rows: usize, cols: usize, method: Method) -> CompressedMatrix {
    let least = data.iter().copied().fold(f32::INFINITY, f32::min);
    let mut most = data.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if least == most {
        most = (least as f64 + (1.0 + least.abs() as f64)) as f32;
    }
    let number = match method as u8 {
        1 => 3 - u8::from(rows > 8),
        other => other,
    };
    let (min, range) = match number {
        4 => (-32768.0, 65535.0),
        6 => (0.0, 255.0),
        7 => (0.0, 1.0),
        _ => (least, most - least),
    };
    let whole = |v: f32, count: f32| -> i64 {
        let f = (v - min) / range;
        let f = if f > 1.0 {
            1.0
        } else if f < 0.0 {
            0.0
        } else {
            f
        };
        ((f * count) as f64 + 0.499) as i64
    };
    let mut bytes = Vec::new();
    let format = match number {
        2 => Format::Columns,
        3 | 4 => Format::TwoBytes,
        _ => Format::OneByte,
    };
    match format {
        Format::OneByte => data.iter().for_each(|&v| bytes.push(whole(v, 255.0) as u8)),
        Format::TwoBytes => data.iter().for_each(|&v| bytes.extend((whole(v, 65535.0) as u16).to_le_bytes())),
        Format::Columns => {
            let mut codes = Vec::new();
            for c in 0..cols {
                let column: Vec<f32> = (0..rows).map(|r| data[r * cols + c]).collect();
                let mut sorted = column.clone();
                sorted.sort_by(|a, b| a.partial_cmp(b).unwrap());
                let at = |rank: usize| whole(sorted[rank], 65535.0);
                let q = rows / 4;
                let [r0, r1, r2, r3] = if rows >= 5 { [0, q, 3 * q, rows - 1] } else { [0, 1, 2, 3] };
                let p0 = at(r0).min(65532);
                let p25 = if r1 < rows { at(r1).max(p0 + 1).min(65533) } else { p0 + 1 };
                let p75 = if r2 < rows { at(r2).max(p25 + 1).min(65534) } else { p25 + 1 };
                let p100 = if r3 < rows { at(r3).max(p75 + 1) } else { p75 + 1 };
                for p in [p0, p25, p75, p100] {
                    bytes.extend((p as u16).to_le_bytes());
                }
                let [f0, f25, f75, f100] =
                    [p0, p25, p75, p100].map(|p| min + (range * 1.52590218966964e-05f32) * p as f32);
                for &v in &column {
                    let code = if v < f25 {
                        c_int(((v - f0) / (f25 - f0) * 64.0) as f64 + 0.5)
                    } else if v < f75 {
                        64 + c_int(((v - f25) / (f75 - f25) * 128.0) as f64 + 0.5)
                    } else {
                        192 + c_int(((v - f75) / (f100 - f75) * 63.0) as f64 + 0.5)
                    };
                    let (low, high) = if v < f25 {
                        (0, 64)
                    } else if v < f75 {
                        (64, 192)
                    } else {
                        (192, 255)
                    };
                    codes.push(code.clamp(low, high) as u8);
                }
            }
            bytes.extend(codes);
        }
    }
    CompressedMatrix { format, min, range, rows, cols, bytes }
}

proptest! {
    #[test]
    fn compression_agrees_with_the_reference(
        rows in 1usize..40, cols in 1usize..20, method in 0usize..7, kind in 0u8..6,
        seed in prop::collection::vec(any::<u32>(), 800)
    ) {
        let data: Vec<f32> = seed[..rows * cols].iter().map(|&bits| match kind {
            0 => bits as f32 / 1e6 - 1000.0,
            1 => (bits % 5) as f32,
            4 => 1e8 + (bits % 4) as f32 * 8.0,
            5 => if bits % 40 == 0 { 1e30 } else { (bits % 7) as f32 },
            2 => f32::from_bits(bits & 0x7fff_ffff).min(1e30),
            _ => -((bits as f32) / 4e9).ln(),
        }).map(|v| if v.is_finite() { v } else { 0.5 }).collect();
        let method = METHODS[method];
        let compressed = CompressedMatrix::compress(&data, rows, cols, cols, method).unwrap();
        prop_assert_eq!(&compressed, &reference(&data, rows, cols, method));
        check_elements(&compressed);
        // What is read is what was written, codes and all.
        let bytes = stored::<CompressedMatrixHolder>(&compressed, true);
        prop_assert_eq!(&loaded::<CompressedMatrixHolder>(&bytes).unwrap(), &compressed);
        prop_assert_eq!(loaded::<MatrixHolder>(&bytes).unwrap(), compressed.to_matrix().unwrap());
        let text = stored::<CompressedMatrixHolder>(&compressed, false);
        prop_assert_eq!(text, stored::<MatrixHolder>(&compressed.to_matrix().unwrap(), false));
    }
}
