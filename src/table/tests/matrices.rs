//! Plain matrices and vectors.

use proptest::prelude::*;

use super::{format_offset, loaded, stored};
use crate::error::{Error, Result};
use crate::table::{Matrix, MatrixHolder, VectorHolder};

fn text(text: &str) -> Result<Matrix> {
    loaded::<MatrixHolder>(text.as_bytes())
}

#[test]
fn bytes_as_kaldi_writes_them() {
    let matrix = Matrix::from_data(2, 2, vec![1.0, 2.0, 0.1, f32::NEG_INFINITY]).unwrap();
    let mut expected = b"\0BFM \x04\x02\0\0\0\x04\x02\0\0\0".to_vec();
    matrix.data().iter().for_each(|value| expected.extend(value.to_le_bytes()));
    assert_eq!(stored::<MatrixHolder>(&matrix, true), expected);
    assert_eq!(stored::<MatrixHolder>(&matrix, false), b" [\n  1 2 \n  0.1 -inf ]\n");
    let empty = Matrix::default();
    assert_eq!(stored::<MatrixHolder>(&empty, true), b"\0BFM \x04\0\0\0\0\x04\0\0\0\0");
    assert_eq!(stored::<MatrixHolder>(&empty, false), b" [ ]\n");

    let vector = vec![1.5f32, -2.0];
    let mut expected = b"\0BFV \x04\x02\0\0\0".to_vec();
    vector.iter().for_each(|value| expected.extend(value.to_le_bytes()));
    assert_eq!(stored::<VectorHolder>(&vector, true), expected);
    assert_eq!(stored::<VectorHolder>(&vector, false), b" [ 1.5 -2 ]\n");
    assert_eq!(stored::<VectorHolder>(&Vec::new(), false), b" [ ]\n");
    assert_eq!(&stored::<VectorHolder<f64>>(&vec![1.0], true)[..10], b"\0BDV \x04\x01\0\0\0");
}

#[test]
fn text_forms() {
    let expected = Matrix::from_data(2, 2, vec![1.0, 2.0, 3.0, 4.0]).unwrap();
    for form in [" [\n  1 2 \n  3 4 ]\n", "[1 2;3 4]", "[ 1 2\r\n3\t4\n\n;\n]\r\n", "\n[\n\n1 2\n3 4\n]"] {
        assert_eq!(text(form).unwrap(), expected, "{form:?}");
    }
    for form in [" [ ]\n", "[]", "[\n;\n]\n"] {
        assert_eq!(text(form).unwrap(), Matrix::default(), "{form:?}");
    }
    let special = text("[ -inf INF nan 1e-45 ]").unwrap();
    assert_eq!(special.data()[..2], [f32::NEG_INFINITY, f32::INFINITY]);
    assert!(special.data()[2].is_nan());
    assert_eq!(special.data()[3], f32::from_bits(1));
    assert_eq!(loaded::<VectorHolder>(b"[1 -2.5\t3 ]").unwrap(), [1.0, -2.5, 3.0]);
    assert!(loaded::<VectorHolder>(b" []\n").unwrap().is_empty());
    for bad in ["", "[", "[ 1", "1 2 ]", "[ x ]", "[ 1 2\n", "[ 1,2 ]", "[ 1 2 ) "] {
        assert!(text(bad).is_err(), "{bad:?}");
        assert!(loaded::<VectorHolder>(bad.as_bytes()).is_err(), "{bad:?}");
    }
    assert!(loaded::<VectorHolder>(b"[ 1\n2 ]").is_err(), "a matrix is not a vector");
}

#[test]
fn case_b75_ragged_rows() {
    let error = text("[ 1 2\n 3 ]").unwrap_err();
    assert_eq!(error.to_string(), "test: byte 9: line 2: row 1 has 1 numbers where the rows before it have 2");
    assert!(text("[ 1 2\n 3 4 5\n]").unwrap_err().to_string().contains("line 2"));
}

#[test]
fn either_type_is_read_as_the_other() {
    let wide = Matrix::from_data(1, 3, vec![0.1f64, 1e300, -2.0]).unwrap();
    let bytes = stored::<MatrixHolder<f64>>(&wide, true);
    assert_eq!(&bytes[..5], b"\0BDM ");
    assert_eq!(loaded::<MatrixHolder<f64>>(&bytes).unwrap(), wide);
    assert_eq!(loaded::<MatrixHolder>(&bytes).unwrap().data(), [0.1, f32::INFINITY, -2.0]);
    let narrow = Matrix::from_data(1, 2, vec![0.1f32, 3.0]).unwrap();
    let bytes = stored::<MatrixHolder>(&narrow, true);
    assert_eq!(loaded::<MatrixHolder<f64>>(&bytes).unwrap().data(), [f64::from(0.1f32), 3.0]);
    let bytes = stored::<VectorHolder<f64>>(&vec![0.1, 2.0], true);
    assert_eq!(loaded::<VectorHolder>(&bytes).unwrap(), [0.1, 2.0]);
    let bytes = stored::<VectorHolder>(&vec![0.1, 2.0], true);
    assert_eq!(loaded::<VectorHolder<f64>>(&bytes).unwrap(), [f64::from(0.1f32), 2.0]);
}

#[test]
fn sizes_must_make_sense() {
    let form = |rows: i32, cols: i32| {
        [b"\0BFM \x04", &rows.to_le_bytes()[..], b"\x04", &cols.to_le_bytes(), &[0; 16]].concat()
    };
    for (rows, cols) in [(-1, 1), (1, -1), (0, 1), (i32::MAX, 0)] {
        assert_eq!(format_offset(&loaded::<MatrixHolder>(&form(rows, cols)).unwrap_err()), 5, "{rows} {cols}");
    }
    for (rows, cols) in [(i32::MAX, i32::MAX), (5, 1), (1 << 20, 1 << 12)] {
        assert_eq!(format_offset(&loaded::<MatrixHolder>(&form(rows, cols)).unwrap_err()), 31, "{rows} {cols}");
    }
    assert_eq!(format_offset(&loaded::<VectorHolder>(b"\0BFV \x04\xff\xff\xff\xff").unwrap_err()), 5);
    assert_eq!(format_offset(&loaded::<VectorHolder>(b"\0BDV \x04\xff\xff\xff\x7f1234").unwrap_err()), 14);
    assert_eq!(format_offset(&loaded::<MatrixHolder>(b"\0BFV \x04").unwrap_err()), 2);
    assert_eq!(format_offset(&loaded::<MatrixHolder>(b"\0BSM \x04").unwrap_err()), 2);
    assert_eq!(format_offset(&loaded::<MatrixHolder>(b"\0BCM4 \x04").unwrap_err()), 2);
    for (rows, cols, values) in [(2, 2, 3), (0, 3, 0), (3, 0, 0), (usize::MAX, 2, 2)] {
        assert!(matches!(Matrix::from_data(rows, cols, vec![0f32; values]), Err(Error::Shape(_))));
    }
}

#[test]
fn rows_and_ranges() {
    let matrix = Matrix::from_data(3, 2, vec![0.0f32, 1.0, 10.0, 11.0, 20.0, 21.0]).unwrap();
    assert_eq!(matrix.row(2), Some(&[20.0f32, 21.0][..]));
    assert_eq!(matrix.row(3), None);
    assert_eq!(matrix.row(usize::MAX), None);
    assert_eq!(matrix.iter_rows().len(), 3);
    assert_eq!(matrix.range("1:2").unwrap().data(), [10.0, 11.0, 20.0, 21.0]);
    assert_eq!(matrix.range("0:1,1:1").unwrap(), Matrix::from_data(2, 1, vec![1.0, 11.0]).unwrap());
    assert_eq!(matrix.range(":,0:0").unwrap().data(), [0.0, 10.0, 20.0]);
    assert!(matches!(matrix.range("0:3"), Err(Error::Argument(_))));
    let empty = Matrix::<f32>::default();
    assert_eq!((empty.iter_rows().len(), empty.row(0)), (0, None));
    assert!(empty.range("0:0").is_err());
}

/// Bits, so that NaN equals itself.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

proptest! {
    #[test]
    fn matrices_survive(rows in 1usize..12, cols in 1usize..12, seed in prop::collection::vec(any::<f32>(), 144)) {
        let matrix = Matrix::from_data(rows, cols, seed[..rows * cols].to_vec()).unwrap();
        let back = loaded::<MatrixHolder>(&stored::<MatrixHolder>(&matrix, true)).unwrap();
        prop_assert_eq!((back.rows(), back.cols()), (rows, cols));
        prop_assert_eq!(bits(back.data()), bits(matrix.data()));
        // In text, values of seven digits survive.
        let short: Vec<f32> = matrix.data().iter().map(|v| (v.to_bits() % 20_000_000) as f32 / 1000.0 - 9999.0).collect();
        let short: Vec<f32> = short.iter().map(|v| format!("{v:.2}").parse().unwrap()).collect();
        let matrix = Matrix::from_data(rows, cols, short).unwrap();
        prop_assert_eq!(loaded::<MatrixHolder>(&stored::<MatrixHolder>(&matrix, false)).unwrap(), matrix);
    }

    #[test]
    fn vectors_survive(values in prop::collection::vec(any::<f64>(), 0..50)) {
        let back = loaded::<VectorHolder<f64>>(&stored::<VectorHolder<f64>>(&values, true)).unwrap();
        prop_assert!(back.iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits()) && back.len() == values.len());
        let floats: Vec<f32> = values.iter().map(|&v| v as f32).collect();
        let back = loaded::<VectorHolder>(&stored::<VectorHolder>(&floats, true)).unwrap();
        prop_assert_eq!(bits(&back), bits(&floats));
    }
}
