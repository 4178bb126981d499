//! Arrays of a graph: vectors of its own, or parts of a file that is mapped.

use std::ops::Deref;
use std::sync::Arc;

use bytemuck::Pod;

use super::mapped::Mapped;
use crate::error::{Error, Result};

/// An array that is in memory, or stands in a mapped file and is brought in as it is touched.
#[derive(Debug)]
pub enum Array<T> {
    /// In a vector.
    Own(Vec<T>),
    /// In a file.
    Mapped(View<T>),
}

/// Elements of a mapped file.
#[derive(Debug)]
pub struct View<T> {
    first: *const T,
    len: usize,
    /// Keeps the map.
    _map: Arc<Mapped>,
}

// SAFETY: the elements are only read, and the map that holds them may be held and dropped by any thread.
unsafe impl<T: Pod + Sync> Send for View<T> {}
// SAFETY: as above.
unsafe impl<T: Pod + Sync> Sync for View<T> {}

impl<T: Pod> Array<T> {
    /// The elements that fill `len` bytes of `map` from byte `at` on.
    pub(super) fn mapped(map: &Arc<Mapped>, at: u64, len: u64) -> Result<Array<T>> {
        let range = usize::try_from(at).ok().zip(at.checked_add(len).and_then(|end| usize::try_from(end).ok()));
        let bytes = range.and_then(|(begin, end)| map.bytes().get(begin..end));
        let elements = bytes.and_then(|bytes| bytemuck::try_cast_slice::<u8, T>(bytes).ok());
        let elements = elements.ok_or_else(|| Error::Internal(format!("no array of {len} bytes at byte {at}")))?;
        Ok(Array::Mapped(View { first: elements.as_ptr(), len: elements.len(), _map: Arc::clone(map) }))
    }

    /// The vector, while the array is filled.
    #[inline(always)]
    pub(super) fn own(&mut self) -> &mut [T] {
        match self {
            Array::Own(vec) => vec,
            Array::Mapped(_) => &mut [],
        }
    }
}

impl<T> Default for Array<T> {
    fn default() -> Array<T> {
        Array::Own(Vec::new())
    }
}

impl<T> Deref for Array<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        match self {
            Array::Own(vec) => vec,
            // SAFETY: `first` and `len` are those of a slice of the map's bytes, which were cast with their length
            // and alignment checked; the map is held. That nobody changes or shortens the file is the caller's
            // promise at `Graph::read`.
            Array::Mapped(view) => unsafe { std::slice::from_raw_parts(view.first, view.len) },
        }
    }
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(vec: Vec<T>) -> Array<T> {
        Array::Own(vec)
    }
}
