//! Arguments from C: texts, arrays and places for results, checked before use.
//!
//! Null and misaligned pointers are refused; that what is not null points to what the
//! header says is the caller's promise, so these functions are unsafe.

use std::ffi::{CStr, c_char};
use std::ptr::NonNull;

use crate::error::{Error, Result, try_copy};

/// A text in UTF-8 that ends with NUL.
///
/// # Safety
/// `pointer` is null or points to a C string that lives for `'a`.
pub(super) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(Error::Argument(format!("{name} is NULL")));
    }
    // SAFETY: by this function's own promise.
    let bytes = unsafe { CStr::from_ptr(pointer) };
    bytes.to_str().map_err(|_| Error::Argument(format!("{name} is not valid UTF-8: {bytes:?}")))
}

/// An array of `len` elements. Null is fine where `len` is 0.
///
/// # Safety
/// `pointer` is null or points to `len` elements that live for `'a` and nobody writes to.
pub(super) unsafe fn array<'a, T>(pointer: *const T, len: usize, name: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    aligned(pointer, name)?;
    if len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Error::Argument(format!("{name}: {len} elements are more than memory can hold")));
    }
    // SAFETY: by this function's own promise; null, alignment and size were checked.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// A copy of a caller's array, whose size memory may not have room for.
pub(super) fn copy<T: Copy>(source: &[T], name: &str) -> Result<Vec<T>> {
    try_copy(source, name)
}

/// A pointer that may be read or written as `T`.
pub(super) fn aligned<T>(pointer: *const T, name: &str) -> Result<()> {
    if pointer.is_null() {
        return Err(Error::Argument(format!("{name} is NULL")));
    }
    if !pointer.is_aligned() {
        let align = align_of::<T>();
        return Err(Error::Argument(format!("{name} ({pointer:p}) is not aligned to {align} bytes")));
    }
    Ok(())
}

/// A place for a result, written last.
pub(super) struct Out<T>(NonNull<T>);

/// A place that must be there.
///
/// # Safety
/// `pointer` is null or may be written as `T` until the call returns.
pub(super) unsafe fn out<T>(pointer: *mut T, name: &str) -> Result<Out<T>> {
    aligned(pointer, name)?;
    NonNull::new(pointer).map(Out).ok_or_else(|| Error::Argument(format!("{name} is NULL")))
}

/// A place that may be missing.
///
/// # Safety
/// As for [`out`].
pub(super) unsafe fn out_optional<T>(pointer: *mut T, name: &str) -> Result<Option<Out<T>>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the same promise.
    unsafe { out(pointer, name) }.map(Some)
}

impl<T> Out<T> {
    /// Hands the result over.
    pub(super) fn set(self, value: T) {
        // SAFETY: not null, aligned, and writable by the promise of `out`.
        unsafe { self.0.write(value) };
    }
}

/// An array of structs of a caller, who may be newer than the library and have larger ones.
pub(super) struct Items<T> {
    first: *mut T,
    count: usize,
    size: usize,
}

/// Takes an array of `count` structs of `size` bytes each; what the library does not know of them must be 0.
///
/// # Safety
/// `first` is null or points to such an array, which may be read and written until the call returns.
pub(super) unsafe fn items<T: Copy>(first: *mut T, count: usize, size: usize, name: &str) -> Result<Items<T>> {
    let known = size_of::<T>();
    if size < known || !size.is_multiple_of(align_of::<T>()) {
        return Err(Error::Argument(format!("the size of one of {name} is {size}; pass sizeof (now {known})")));
    }
    if count > 0 {
        aligned(first, name)?;
    }
    if count.checked_mul(size).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(Error::Argument(format!("{name}: {count} are more than memory can hold")));
    }
    let items = Items { first, count, size };
    for at in 0..count {
        // SAFETY: within the promised array.
        let tail = unsafe { std::slice::from_raw_parts(items.place(at).cast::<u8>().add(known), size - known) };
        if tail.iter().any(|byte| *byte != 0) {
            return Err(Error::Unsupported(format!("{name}[{at}]: a field is set that this version does not know")));
        }
    }
    Ok(items)
}

impl<T: Copy> Items<T> {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    fn place(&self, at: usize) -> *mut T {
        self.first.wrapping_byte_add(at * self.size)
    }

    /// A copy of one. `at` is below [`Items::len`].
    pub(super) fn get(&self, at: usize) -> T {
        assert!(at < self.count);
        // SAFETY: by the promise of `items`.
        unsafe { self.place(at).read() }
    }

    /// Changes one where it lies. `at` is below [`Items::len`].
    pub(super) fn change(&self, at: usize, change: impl FnOnce(&mut T)) {
        let mut item = self.get(at);
        change(&mut item);
        // SAFETY: as above.
        unsafe { self.place(at).write(item) };
    }
}

/// The length that belongs to an array which a query hands out; 0 until [`Length::set`], so that
/// a caller who does not look at the pointer sees an empty array. May be missing.
pub(super) struct Length(Option<NonNull<usize>>);

/// Takes a place for a length and writes 0 there.
///
/// # Safety
/// `pointer` is null or may be written as `usize` until the call returns.
pub(super) unsafe fn length(pointer: *mut usize) -> Length {
    let place = NonNull::new(pointer).filter(|_| pointer.is_aligned());
    if let Some(place) = place {
        // SAFETY: by this function's own promise; null and alignment were checked.
        unsafe { place.write(0) };
    }
    Length(place)
}

impl Length {
    pub(super) fn set(self, len: usize) {
        if let Some(place) = self.0 {
            // SAFETY: by the promise of `length`.
            unsafe { place.write(len) };
        }
    }

    /// Hands out `slice`: its length here, its pointer as the result, which is never null.
    pub(super) fn of<T>(self, slice: &[T]) -> *const T {
        self.set(slice.len());
        slice.as_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_misaligned_and_lying_arguments_are_refused() {
        let words = [1u32, 2];
        let odd = words.as_ptr().wrapping_byte_add(1);
        // SAFETY: refused before use, or pointing to locals.
        unsafe {
            assert!(text(std::ptr::null(), "path").is_err());
            assert!(text(c"\xff".as_ptr(), "path").is_err());
            assert_eq!(text(c"gr\u{fc}n".as_ptr(), "path").unwrap(), "gr\u{fc}n");
            assert!(array::<u32>(std::ptr::null(), 1, "rows").is_err());
            assert!(array::<u32>(std::ptr::null(), 0, "rows").unwrap().is_empty());
            assert!(array(odd, 1, "rows").is_err());
            assert!(array(words.as_ptr(), usize::MAX / 2, "rows").is_err());
            assert_eq!(array(words.as_ptr(), 2, "rows").unwrap(), words);
            assert!(out(odd.cast_mut(), "info").is_err());
            assert!(out_optional::<u32>(std::ptr::null_mut(), "info").unwrap().is_none());
        }
    }
}
