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

#[cfg(all(target_os = "linux", not(miri)))]
fn advise<T>(vec: &mut Vec<T>) {
    const PAGE: usize = 4096;
    let begin = vec.as_mut_ptr().cast::<u8>();
    let before = begin.addr().next_multiple_of(PAGE) - begin.addr();
    let len = (vec.capacity() * size_of::<T>()).saturating_sub(before) / PAGE * PAGE;
    // SAFETY: the range lies inside the vector's allocation, and the advice changes nothing but
    // the size of the pages behind it. It may be refused, which does no harm.
    unsafe {
        libc::madvise(begin.wrapping_add(before).cast(), len, libc::MADV_HUGEPAGE);
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise<T>(_vec: &mut Vec<T>) {}
