//! Matrices that were read.

use std::ptr;

use super::arg;
use super::error::koshi_status;
use super::guard;
use super::registry::{self, Kind, Opaque};
use crate::table::Matrix;

/// A matrix of binary32 numbers. Immutable and counted.
pub struct koshi_matrix {
    _opaque: (),
}

impl Opaque for koshi_matrix {
    type Object = Matrix;
    const KIND: Kind = Kind::Matrix;
}

/// The numbers of `matrix`, row after row without gaps, and how many rows and columns there are in
/// *rows and *columns, which may be NULL. NULL and 0 for a bad handle. They live as long as the matrix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_matrix_data(
    matrix: *const koshi_matrix,
    rows: *mut usize,
    columns: *mut usize,
) -> *const f32 {
    guard::query(ptr::null(), || {
        // SAFETY: the header's promise on results.
        let (rows, columns) = unsafe { (arg::length(rows), arg::length(columns)) };
        let matrix = registry::get(matrix, "matrix")?;
        rows.set(matrix.rows());
        columns.set(matrix.cols());
        Ok(matrix.data().as_ptr())
    })
}

/// Counts `matrix` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_matrix_ref(matrix: *const koshi_matrix) -> *mut koshi_matrix {
    guard::query(ptr::null_mut(), || registry::count(matrix, "matrix"))
}

/// Takes back one count of `matrix`; the last one frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_matrix_free(matrix: *mut koshi_matrix) -> koshi_status {
    guard::free(|| registry::free(matrix, "matrix"))
}
