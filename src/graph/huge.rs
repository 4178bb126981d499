//! Large arrays that are walked in no order do better on large pages.

use crate::error::{Result, try_reserve};

/// Bytes from which on it is worth asking.
const WORTH: usize = 4 << 20;

/// An empty vector with room for `len` elements, on large pages where the system has them for it.
pub(super) fn reserve<T>(len: usize, what: &str) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    try_reserve(&mut vec, len, what)?;
    if vec.capacity() * size_of::<T>() >= WORTH {
        advise(&mut vec);
    }
    Ok(vec)
}

#[cfg(target_os = "linux")]
fn advise<T>(vec: &mut Vec<T>) {
    const PAGE: usize = 4096;
    let begin = vec.as_mut_ptr() as usize;
    let (first, end) = (begin.next_multiple_of(PAGE), begin + vec.capacity() * size_of::<T>());
    // SAFETY: the range lies inside the vector's allocation, and the advice changes nothing but
    // the size of the pages behind it. It may be refused, which does no harm.
    unsafe {
        libc::madvise(first as *mut libc::c_void, (end - first) / PAGE * PAGE, libc::MADV_HUGEPAGE);
    }
}

#[cfg(not(target_os = "linux"))]
fn advise<T>(_vec: &mut Vec<T>) {}
