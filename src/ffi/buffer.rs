//! Bytes that the library hands out.

use std::ptr;

use super::error::koshi_status;
use super::guard;
use super::registry::{self, Kind, Opaque};

/// Bytes that the library made. Immutable and counted.
pub struct koshi_buffer {
    _opaque: (),
}

impl Opaque for koshi_buffer {
    type Object = Vec<u8>;
    const KIND: Kind = Kind::Buffer;
}

/// The bytes, koshi_buffer_size of them; NULL for a bad handle. They live as long as the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_buffer_data(buffer: *const koshi_buffer) -> *const u8 {
    guard::query(ptr::null(), || Ok(registry::get(buffer, "buffer")?.as_ptr()))
}

/// Number of bytes; -1 for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_buffer_size(buffer: *const koshi_buffer) -> i64 {
    guard::query(-1, || Ok(registry::get(buffer, "buffer")?.len() as i64))
}

/// Counts `buffer` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_buffer_ref(buffer: *const koshi_buffer) -> *mut koshi_buffer {
    guard::query(ptr::null_mut(), || registry::count(buffer, "buffer"))
}

/// Takes back one count of `buffer`; the last one frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_buffer_free(buffer: *mut koshi_buffer) -> koshi_status {
    guard::free(|| registry::free(buffer, "buffer"))
}
