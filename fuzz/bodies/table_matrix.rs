//! Bytes taken for a matrix or vector in any form: an error, or a value that comes back from what it is written as.

use koshi::table::{CompressedMatrixHolder, Holder, Input, MatrixHolder, Output, VectorHolder};

fn read<H: Holder>(bytes: &[u8]) -> Option<H::Value> {
    H::read(&mut Input::from_bytes("fuzz", bytes)).ok()
}

fn stored<H: Holder>(value: &H::Value, binary: bool) -> Vec<u8> {
    let mut output = Output::memory();
    H::write(&mut output, value, binary).expect("writing to memory");
    output.into_bytes()
}

/// In binary nothing changes; text keeps seven digits, which may round the largest numbers out of range.
fn check<H: Holder>(bytes: &[u8]) -> bool {
    let Some(value) = read::<H>(bytes) else { return false };
    let binary = stored::<H>(&value, true);
    let again = read::<H>(&binary).expect("own bytes are read");
    assert_eq!(stored::<H>(&again, true), binary);
    read::<H>(&stored::<H>(&value, false));
    true
}

pub fn run(bytes: &[u8]) -> bool {
    let taken = [
        check::<MatrixHolder>(bytes),
        check::<MatrixHolder<f64>>(bytes),
        check::<VectorHolder>(bytes),
        check::<VectorHolder<f64>>(bytes),
        check::<CompressedMatrixHolder>(bytes),
    ];
    if let Some(compressed) = read::<CompressedMatrixHolder>(bytes) {
        let matrix = compressed.to_matrix().expect("as many values as codes");
        assert_eq!((matrix.rows(), matrix.cols()), (compressed.rows(), compressed.cols()));
        // Any piece is either refused or has the elements of the whole.
        let (rows, cols) = (matrix.rows() / 2, matrix.cols().div_ceil(2));
        let piece = compressed.piece(rows as i64, rows, 0, cols, true);
        assert!(piece.is_ok_and(|piece| piece.rows() * piece.cols() == rows * cols) || rows < 8);
    }
    taken.contains(&true)
}
