//! Matrices and vectors that Kaldi wrote, in every form: the same bytes, the same values.

#[path = "support/shared.rs"]
mod shared;

use std::path::Path;

use koshi::table::{
    CompressedMatrix, CompressedMatrixHolder, Holder, Input, Matrix, MatrixHolder, Method, Output, Real, VectorHolder,
};

const METHODS: [Method; 7] = [
    Method::Auto,
    Method::SpeechFeature,
    Method::TwoByteAuto,
    Method::TwoByteSignedInteger,
    Method::OneByteAuto,
    Method::OneByteUnsignedInteger,
    Method::OneByteZeroOne,
];

/// A float32 array of numpy's: its shape and values.
fn npy(path: &Path) -> (Vec<usize>, Vec<f32>) {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\0");
    let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..end]).unwrap();
    assert!(header.contains("'<f4'") && header.contains("'fortran_order': False"), "{header}");
    let shape = header.split_once("'shape': (").unwrap().1.split_once(')').unwrap().0;
    let shape = shape.split(',').filter_map(|size| size.trim().parse().ok()).collect();
    (shape, bytes[end..].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect())
}

fn npy_matrix(path: &Path) -> Matrix {
    let (shape, data) = npy(path);
    Matrix::from_data(shape[0], shape[1], data).unwrap()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn load<H: Holder>(path: &Path) -> H::Value {
    let mut input = Input::open(path.to_str().unwrap()).unwrap();
    let value = H::read(&mut input).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(input.at_end().unwrap(), "{}: bytes are left", path.display());
    value
}

fn check_stored<H: Holder>(value: &H::Value, binary: bool, path: &Path) {
    let mut output = Output::memory();
    H::write(&mut output, value, binary).unwrap();
    assert!(output.into_bytes() == std::fs::read(path).unwrap(), "{}: other bytes", path.display());
}

fn widen(matrix: &Matrix) -> Matrix<f64> {
    let data = matrix.data().iter().map(|value| value.to_f64()).collect();
    Matrix::from_data(matrix.rows(), matrix.cols(), data).unwrap()
}

#[test]
fn matrices_in_every_form() {
    let Some(folder) = shared::shared("oracles/egs/matrices") else { return };
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = file.strip_suffix(".fm.bin").filter(|name| *name != "empty") else { continue };
        let at = |ending: &str| folder.join(format!("{name}.{ending}"));
        let matrix = npy_matrix(&at("npy"));
        assert_eq!(load::<MatrixHolder>(&at("fm.bin")), matrix);
        check_stored::<MatrixHolder>(&matrix, true, &at("fm.bin"));
        check_stored::<MatrixHolder>(&matrix, false, &at("txt"));
        check_stored::<MatrixHolder<f64>>(&widen(&matrix), true, &at("dm.bin"));
        assert_eq!(load::<MatrixHolder>(&at("dm.bin")), matrix);
        assert_eq!(load::<MatrixHolder>(&at("txt")), npy_matrix(&at("text_readback.npy")));
        let read_as_compressed = |form: &str| load::<CompressedMatrixHolder>(&at(form)).to_matrix().unwrap();
        assert_eq!(read_as_compressed("txt"), npy_matrix(&at("text_read_as_compressed.npy")));
        assert_eq!(read_as_compressed("fm.bin"), npy_matrix(&at("fm_read_as_compressed.npy")));
        for method in METHODS {
            let file = at(&format!("m{}.bin", method as u8));
            let compressed = CompressedMatrix::from_matrix(&matrix, method).unwrap();
            check_stored::<CompressedMatrixHolder>(&compressed, true, &file);
            assert_eq!(load::<CompressedMatrixHolder>(&file), compressed);
            let back = npy_matrix(&at(&format!("m{}.npy", method as u8)));
            assert_eq!(bits(load::<MatrixHolder>(&file).data()), bits(back.data()), "{name} {method:?}");
            count += 1;
        }
    }
    assert!(count >= 17 * 7, "only {count} compressed matrices");
}

/// The empty matrix of Kaldi's has four bytes too many; ours has not, and both are read.
#[test]
fn empty_matrices() {
    let Some(folder) = shared::shared("oracles/egs/matrices") else { return };
    assert_eq!(load::<CompressedMatrixHolder>(&folder.join("empty.cm.bin")), CompressedMatrix::default());
    for file in ["empty.cm.bin", "empty.fm.bin", "empty.txt"] {
        assert_eq!(load::<MatrixHolder>(&folder.join(file)), Matrix::default());
    }
    check_stored::<MatrixHolder>(&Matrix::default(), true, &folder.join("empty.fm.bin"));
    check_stored::<MatrixHolder>(&Matrix::default(), false, &folder.join("empty.txt"));
}

/// The value of a field of the flat object that `text` begins with.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, after) = text.split_once(&format!("\"{name}\":")).unwrap();
    after.split([',', '}']).next().unwrap().trim().trim_matches('"')
}

#[test]
fn pieces_of_compressed_matrices() {
    let Some(folder) = shared::shared("oracles/egs") else { return };
    let index = std::fs::read_to_string(folder.join("index.json")).unwrap();
    let (_, pieces) = index.split_once("\"compressed_submatrix\":").unwrap();
    let (pieces, _) = pieces.split_once(']').unwrap();
    let mut count = 0;
    for piece in pieces.split('{').skip(1) {
        let number = |name: &str| field(piece, name).parse::<i64>().unwrap();
        let size = |name: &str| number(name) as usize;
        let method = METHODS[size("method") - 1];
        let source = folder.join(format!("matrices/{}.m{}.bin", field(piece, "source"), method as u8));
        let cut = load::<CompressedMatrixHolder>(&source)
            .piece(
                number("row_offset"),
                size("num_rows"),
                size("col_offset"),
                size("num_cols"),
                field(piece, "allow_padding") == "true",
            )
            .unwrap();
        check_stored::<CompressedMatrixHolder>(&cut, true, &folder.join(field(piece, "binary")));
        let back = npy_matrix(&folder.join(field(piece, "readback")));
        assert_eq!(bits(cut.to_matrix().unwrap().data()), bits(back.data()));
        count += 1;
    }
    assert_eq!(count, 10);
}

#[test]
fn vectors_in_every_form() {
    let Some(folder) = shared::shared("oracles/egs/vectors") else { return };
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = file.strip_suffix(".fv.bin") else { continue };
        let at = |ending: &str| folder.join(format!("{name}.{ending}"));
        let (_, vector) = npy(&at("npy"));
        assert_eq!(bits(&load::<VectorHolder>(&at("fv.bin"))), bits(&vector));
        check_stored::<VectorHolder>(&vector, true, &at("fv.bin"));
        assert_eq!(load::<VectorHolder>(&at("dv.bin")).len(), vector.len());
        check_stored::<VectorHolder<f64>>(&load::<VectorHolder<f64>>(&at("dv.bin")), true, &at("dv.bin"));
        check_stored::<VectorHolder>(&vector, false, &at("txt"));
        // We read all of Kaldi's text, also the "-inf" that it cannot read itself.
        let read = load::<VectorHolder>(&at("txt"));
        assert_eq!(read.len(), vector.len());
        for (read, exact) in read.iter().zip(&vector) {
            assert!(read == exact || read.is_nan() && exact.is_nan() || (read - exact).abs() <= 1e-6 * exact.abs());
        }
        let readback = at("text_readback.npy");
        if readback.exists() {
            assert_eq!(bits(&read), bits(&npy(&readback).1), "{name}");
        }
        count += 1;
    }
    assert!(count >= 8, "only {count} vectors");
}
