//! A device's primary context, streams and events, and errors of the driver.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUdevice_attribute, CUpointer_attribute, CUstream_flags};

use super::api::{Api, CUDA_SUCCESS, DevicePointer, Handle, INVALID_VALUE};
use super::probe;
use crate::error::{Error, Result};

/// The primary context of a device, shared with whoever else in the process uses the device.
pub(super) struct Context {
    pub api: &'static Api,
    pub device: u32,
    handle: Handle,
}

// SAFETY: contexts may be used from any thread; the driver locks what it must.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// The context of GPU `device`, counted from 0.
    pub fn new(device: u32) -> Result<Arc<Context>> {
        let devices = probe::devices().map_err(|reason| Error::NoDevice(reason.into()))?;
        if device as usize >= devices.len() {
            return Err(Error::NoDevice(format!("device is {device}; there are {} GPUs, from 0", devices.len())));
        }
        let api = probe::api().map_err(|reason| Error::NoDevice(reason.into()))?;
        let mut handle: Handle = ptr::null_mut();
        // SAFETY: writes a handle; device ordinals and CUdevice numbers are the same in every driver.
        let code = unsafe { (api.context_retain)(&raw mut handle, device as c_int) };
        if code != CUDA_SUCCESS {
            let why = format!("GPU {device} cannot be used: cuDevicePrimaryCtxRetain answered {}", api.text(code));
            return Err(Error::NoDevice(why));
        }
        Ok(Arc::new(Context { api, device, handle }))
    }

    /// An answer of the driver as an error that names the call.
    pub fn check(&self, code: c_int, call: &str) -> Result<()> {
        self.api.check(code, call).map_err(|reason| Error::Device(format!("GPU {}: {reason}", self.device)))
    }

    /// Makes the context the thread's current one, until the guard goes.
    pub fn enter(&self) -> Result<Entered<'_>> {
        let mut before: Handle = ptr::null_mut();
        // SAFETY: writes a handle.
        self.check(unsafe { (self.api.context_get)(&raw mut before) }, "cuCtxGetCurrent")?;
        if before != self.handle {
            // SAFETY: a live context.
            self.check(unsafe { (self.api.context_set)(self.handle) }, "cuCtxSetCurrent")?;
        }
        Ok(Entered { context: self, before })
    }

    /// Refuses a caller's rows, the first number at `at`, where the driver knows that kernels cannot reach their first or their
    /// last one: a kernel that finds nothing there takes the context with it, and with that all that the process has on the
    /// device. The context is current.
    pub fn check_rows(&self, at: DevicePointer, rows: usize, cols: usize, stride: usize) -> Result<()> {
        if rows == 0 || cols == 0 {
            return Ok(());
        }
        let last = (rows as u64 - 1).saturating_mul(stride as u64).saturating_add(cols as u64 - 1).saturating_mul(4);
        for place in [at, at.saturating_add(last).saturating_add(3)] {
            self.check_place(place)?;
        }
        Ok(())
    }

    fn check_place(&self, place: DevicePointer) -> Result<()> {
        /// The address at which kernels of the current context reach the memory.
        const REACHED_AT: c_int = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER as c_int;
        /// Whether kernels reach all memory of the process.
        const REACHES_ALL: c_int = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS as c_int;
        let mut found: DevicePointer = 0;
        // SAFETY: writes an address; any number may be asked about.
        let code = unsafe { (self.api.pointer_attribute)((&raw mut found).cast::<c_void>(), REACHED_AT, place) };
        if code != INVALID_VALUE {
            self.check(code, "cuPointerGetAttribute")?;
        }
        if code == CUDA_SUCCESS && found == place {
            return Ok(());
        }
        let mut all: c_int = 0;
        // SAFETY: writes a number.
        let code = unsafe { (self.api.device_attribute)(&raw mut all, REACHES_ALL, self.device as c_int) };
        match code == CUDA_SUCCESS && all != 0 {
            true => Ok(()),
            false => Err(Error::Argument(format!("GPU {} cannot reach {place:#x}, where rows are to be", self.device))),
        }
    }

    /// Bytes of device memory that are free now.
    pub fn free_memory(&self) -> u64 {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers.
        let code = unsafe { (self.api.memory_info)(&raw mut free, &raw mut total) };
        if code == CUDA_SUCCESS { free as u64 } else { 0 }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once by `new`. An error here can only repeat an earlier one.
        unsafe { (self.api.context_release)(self.device as c_int) };
    }
}

/// The context is current while this lives; then the caller's is again.
pub(super) struct Entered<'a> {
    context: &'a Context,
    before: Handle,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.before != self.context.handle {
            // SAFETY: what the driver told was current before, or null.
            unsafe { (self.context.api.context_set)(self.before) };
        }
    }
}

/// A queue of work on the device.
pub(super) struct Stream {
    pub context: Arc<Context>,
    handle: Handle,
}

// SAFETY: streams may be used from any thread.
unsafe impl Send for Stream {}

impl Stream {
    pub fn new(context: &Arc<Context>) -> Result<Stream> {
        /// Not ordered with the caller's default stream.
        const NON_BLOCKING: u32 = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        let mut handle: Handle = ptr::null_mut();
        // SAFETY: writes a handle.
        context.check(unsafe { (context.api.stream_create)(&raw mut handle, NON_BLOCKING) }, "cuStreamCreate")?;
        Ok(Stream { context: Arc::clone(context), handle })
    }

    /// Copies `items` to the device at `to`.
    ///
    /// # Safety
    /// The memory is there, and `items` stays as it is until the stream has been waited for.
    pub unsafe fn copy_in<T: bytemuck::Pod>(&self, to: DevicePointer, items: &[T]) -> Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        let (from, bytes) = (items.as_ptr().cast::<c_void>(), size_of_val(items));
        // SAFETY: the caller's promise.
        let code = unsafe { (self.context.api.copy_in)(to, from, bytes, self.handle) };
        self.context.check(code, "cuMemcpyHtoDAsync")
    }

    /// Copies from the device at `from` to `items`.
    ///
    /// # Safety
    /// The memory is there, and `items` is not looked at until the stream has been waited for.
    pub unsafe fn copy_out<T: bytemuck::Pod>(&self, items: &mut [T], from: DevicePointer) -> Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        let (to, bytes) = (items.as_mut_ptr().cast::<c_void>(), size_of_val(items));
        // SAFETY: the caller's promise.
        let code = unsafe { (self.context.api.copy_out)(to, from, bytes, self.handle) };
        self.context.check(code, "cuMemcpyDtoHAsync")
    }

    /// Sets `bytes` bytes from `at` on to `value`.
    ///
    /// # Safety
    /// The memory is there.
    pub unsafe fn fill(&self, at: DevicePointer, value: u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.context.api.fill_bytes)(at, value, bytes, self.handle) };
        self.context.check(code, "cuMemsetD8Async")
    }

    /// Launches `blocks` blocks of `threads` threads.
    ///
    /// # Safety
    /// `arguments` point to values of the kernel's parameter types, and what these point to is there.
    pub unsafe fn launch(
        &self,
        function: Handle,
        blocks: u32,
        threads: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        let (api, none) = (self.context.api, ptr::null_mut());
        // SAFETY: the caller's promise.
        let code = unsafe {
            (api.launch)(function, blocks, 1, 1, threads, 1, 1, 0, self.handle, arguments.as_mut_ptr(), none)
        };
        self.context.check(code, "cuLaunchKernel")
    }

    /// Waits until all work is done.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: a live stream.
        self.context.check(unsafe { (self.context.api.stream_synchronize)(self.handle) }, "cuStreamSynchronize")
    }

    /// Work that is queued from now on waits until `event` has come to pass.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        // SAFETY: live handles.
        let code = unsafe { (self.context.api.stream_wait)(self.handle, event.handle, 0) };
        self.context.check(code, "cuStreamWaitEvent")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Ok(_entered) = self.context.enter() else { return };
        // SAFETY: made by `new`; nothing of it is used any more.
        unsafe { (self.context.api.stream_destroy)(self.handle) };
    }
}

/// A point in a stream.
pub(super) struct Event {
    context: Arc<Context>,
    handle: Handle,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Event {}

impl Event {
    pub fn new(context: &Arc<Context>) -> Result<Event> {
        let mut handle: Handle = ptr::null_mut();
        // SAFETY: writes a handle.
        context.check(unsafe { (context.api.event_create)(&raw mut handle, 0) }, "cuEventCreate")?;
        Ok(Event { context: Arc::clone(context), handle })
    }

    /// Marks this point of `stream`.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: live handles.
        unsafe { self.record_raw(stream.handle) }
    }

    /// Marks this point of a caller's stream.
    ///
    /// # Safety
    /// `stream` is a live stream of this context, or null for its default one.
    pub unsafe fn record_raw(&self, stream: Handle) -> Result<()> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.context.api.event_record)(self.handle, stream) };
        self.context.check(code, "cuEventRecord")
    }

    /// Seconds from `earlier` to this one; both have come to pass.
    pub fn since(&self, earlier: &Event) -> Result<f64> {
        let mut milliseconds = 0.0;
        // SAFETY: live handles.
        let code = unsafe { (self.context.api.event_elapsed)(&raw mut milliseconds, earlier.handle, self.handle) };
        self.context.check(code, "cuEventElapsedTime")?;
        Ok(f64::from(milliseconds) / 1000.0)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let Ok(_entered) = self.context.enter() else { return };
        // SAFETY: made by `new`.
        unsafe { (self.context.api.event_destroy)(self.handle) };
    }
}
