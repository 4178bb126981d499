//! The driver calls that Koshi makes, as a table of functions with plain integers: cudarc's own
//! wrappers panic on a missing symbol, and a driver newer than its enums may answer other codes.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use cudarc::driver::sys;

/// `CUdeviceptr`.
pub(super) type DevicePointer = u64;
/// `CUcontext`, `CUmodule`, `CUfunction`, `CUstream`, `CUevent`: opaque pointers of the driver.
pub(super) type Handle = *mut c_void;

pub(super) const CUDA_SUCCESS: c_int = 0;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub(super) const OUT_OF_MEMORY: c_int = 2;

/// A function of the driver library, which is never unloaded.
///
/// # Safety
/// `F` is the type of the C function `name`.
unsafe fn symbol<F: Copy>(name: &CStr) -> Result<F, String> {
    // SAFETY: the library is present, so this does not panic; the type is the caller's promise.
    let found = unsafe { sys::culib().get::<F>(name.to_bytes_with_nul()) };
    found.map(|function| *function).map_err(|_| format!("the CUDA driver library lacks {}", name.to_string_lossy()))
}

/// Declares the table and how it is loaded.
macro_rules! api {
    ($($field:ident = $name:literal ($($parameter:ty),*);)*) => {
        /// The driver's functions.
        pub(super) struct Api {
            $(pub $field: unsafe extern "C" fn($($parameter),*) -> c_int,)*
        }

        impl Api {
            /// Looks every function up; the library must be present.
            pub(super) fn load() -> Result<Api, String> {
                // SAFETY: types as declared in cuda.h, with enums as the ints that they are.
                unsafe { Ok(Api { $($field: symbol($name)?,)* }) }
            }
        }
    };
}

api! {
    init = c"cuInit" (c_uint);
    driver_version = c"cuDriverGetVersion" (*mut c_int);
    device_count = c"cuDeviceGetCount" (*mut c_int);
    device_get = c"cuDeviceGet" (*mut c_int, c_int);
    device_name = c"cuDeviceGetName" (*mut c_char, c_int, c_int);
    device_memory = c"cuDeviceTotalMem_v2" (*mut usize, c_int);
    device_attribute = c"cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
    error_name = c"cuGetErrorName" (c_int, *mut *const c_char);
    context_retain = c"cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
    context_release = c"cuDevicePrimaryCtxRelease_v2" (c_int);
    context_get = c"cuCtxGetCurrent" (*mut Handle);
    context_set = c"cuCtxSetCurrent" (Handle);
    memory_info = c"cuMemGetInfo_v2" (*mut usize, *mut usize);
    memory_alloc = c"cuMemAlloc_v2" (*mut DevicePointer, usize);
    memory_free = c"cuMemFree_v2" (DevicePointer);
    host_alloc = c"cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    host_free = c"cuMemFreeHost" (*mut c_void);
    copy_in = c"cuMemcpyHtoDAsync_v2" (DevicePointer, *const c_void, usize, Handle);
    copy_out = c"cuMemcpyDtoHAsync_v2" (*mut c_void, DevicePointer, usize, Handle);
    fill_bytes = c"cuMemsetD8Async" (DevicePointer, u8, usize, Handle);
    stream_create = c"cuStreamCreate" (*mut Handle, c_uint);
    stream_destroy = c"cuStreamDestroy_v2" (Handle);
    stream_synchronize = c"cuStreamSynchronize" (Handle);
    stream_wait = c"cuStreamWaitEvent" (Handle, Handle, c_uint);
    event_create = c"cuEventCreate" (*mut Handle, c_uint);
    event_destroy = c"cuEventDestroy_v2" (Handle);
    event_record = c"cuEventRecord" (Handle, Handle);
    event_elapsed = c"cuEventElapsedTime" (*mut f32, Handle, Handle);
    module_load = c"cuModuleLoadData" (*mut Handle, *const c_void);
    module_unload = c"cuModuleUnload" (Handle);
    module_function = c"cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    launch = c"cuLaunchKernel" (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
    );
}

impl Api {
    /// The code in words, for a message.
    pub(super) fn text(&self, code: c_int) -> String {
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: writes a pointer to a text of the driver's own, or null.
        let known = unsafe { (self.error_name)(code, &raw mut name) } == CUDA_SUCCESS && !name.is_null();
        // SAFETY: the driver's texts are static and end with NUL.
        let name = if known { unsafe { CStr::from_ptr(name) }.to_string_lossy() } else { "unknown error".into() };
        format!("{code} ({name})")
    }

    /// An answer as a reason.
    pub(super) fn check(&self, code: c_int, call: &str) -> Result<(), String> {
        if code == CUDA_SUCCESS { Ok(()) } else { Err(format!("{call} answered {}", self.text(code))) }
    }
}
