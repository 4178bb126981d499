//! Memory of the device, and memory of the host that the device copies from and to directly.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use super::api::{CUDA_SUCCESS, DevicePointer, OUT_OF_MEMORY};
use super::context::Context;
use crate::error::{Error, Result};

/// A block of device memory.
pub(super) struct DeviceMemory {
    context: Arc<Context>,
    pub at: DevicePointer,
    pub bytes: u64,
}

impl DeviceMemory {
    /// `bytes` bytes, whatever they hold. [`Error::NoMemory`] names `what` and how much is free.
    pub fn new(context: &Arc<Context>, bytes: u64, what: &str) -> Result<DeviceMemory> {
        let bytes = bytes.max(16);
        let no_memory = || Error::NoMemory {
            what: format!("{what} on GPU {}, where {} bytes are free", context.device, context.free_memory()),
            asked: bytes,
        };
        let size = usize::try_from(bytes).map_err(|_| no_memory())?;
        let mut at = 0;
        // SAFETY: writes a device pointer.
        match unsafe { (context.api.memory_alloc)(&raw mut at, size) } {
            CUDA_SUCCESS => Ok(DeviceMemory { context: Arc::clone(context), at, bytes }),
            OUT_OF_MEMORY => Err(no_memory()),
            code => Err(context.check(code, "cuMemAlloc").err().unwrap_or_else(no_memory)),
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let Ok(_entered) = self.context.enter() else { return };
        // SAFETY: made by `new`; whoever used it has waited.
        unsafe { (self.context.api.memory_free)(self.at) };
    }
}

/// An array in page-locked memory of the host.
pub(super) struct Pinned<T> {
    context: Arc<Context>,
    at: *mut T,
    len: usize,
    owns: PhantomData<T>,
}

// SAFETY: plain memory, owned.
unsafe impl<T: Send> Send for Pinned<T> {}

impl<T: bytemuck::Pod> Pinned<T> {
    /// `len` items, zeroed. Cached, since the host reads most of them.
    pub fn new(context: &Arc<Context>, len: usize, what: &str) -> Result<Pinned<T>> {
        let len = len.max(1);
        let asked = (len as u64).saturating_mul(size_of::<T>() as u64);
        let no_memory = || Error::NoMemory { what: format!("{what} in page-locked memory"), asked };
        let bytes = usize::try_from(asked).map_err(|_| no_memory())?;
        let mut at: *mut c_void = ptr::null_mut();
        // SAFETY: writes a pointer.
        match unsafe { (context.api.host_alloc)(&raw mut at, bytes, 0) } {
            CUDA_SUCCESS if !at.is_null() => {}
            OUT_OF_MEMORY | CUDA_SUCCESS => return Err(no_memory()),
            code => return Err(context.check(code, "cuMemHostAlloc").err().unwrap_or_else(no_memory)),
        }
        // SAFETY: `bytes` bytes of ours; page-locked memory is aligned to pages.
        unsafe { ptr::write_bytes(at.cast::<u8>(), 0, bytes) };
        Ok(Pinned { context: Arc::clone(context), at: at.cast(), len, owns: PhantomData })
    }

    pub fn items(&self) -> &[T] {
        // SAFETY: `len` items, initialised by `new`; any bits are a T.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }

    pub fn items_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed for as long.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }
}

impl<T> Pinned<T> {
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        let Ok(_entered) = self.context.enter() else { return };
        // SAFETY: made by `new`; whoever used it has waited.
        unsafe { (self.context.api.host_free)(self.at.cast()) };
    }
}
