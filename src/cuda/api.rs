//! The driver's library, and the calls of it that Koshi makes, as a table of functions. Types and numbers are cudarc's
//! declarations of `cuda.h`. The loading is not: cudarc would find a stub before the driver, and its functions panic
//! where a symbol is missing. Functions answer plain integers, as a driver newer than the lists may have other codes.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use cudarc::driver::sys::{self, CUresult};

use super::library::VendorLibrary;

/// `CUdeviceptr`.
pub(super) type DevicePointer = sys::CUdeviceptr;
/// `CUcontext`, `CUmodule`, `CUfunction`, `CUstream`, `CUevent`: opaque pointers of the driver.
pub(super) type Handle = *mut c_void;

pub(super) const CUDA_SUCCESS: c_int = CUresult::CUDA_SUCCESS as c_int;
/// An argument that the driver does not take.
pub(super) const INVALID_VALUE: c_int = CUresult::CUDA_ERROR_INVALID_VALUE as c_int;
/// Too little memory, on the device or the host.
pub(super) const OUT_OF_MEMORY: c_int = CUresult::CUDA_ERROR_OUT_OF_MEMORY as c_int;

/// What the library is called. The name with a version first: it is the driver's own, and what everybody else in the
/// process has loaded, where the plain one may be a toolkit's stub for linkers, which has no devices.
const NAMES: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };

/// Declares the table and how it is loaded.
macro_rules! api {
    ($($field:ident = $name:literal ($($parameter:ty),*);)*) => {
        /// The driver's functions.
        pub(super) struct Api {
            $(pub $field: unsafe extern "C" fn($($parameter),*) -> c_int,)*
        }

        impl Api {
            /// Loads the library, and looks every function up.
            pub(super) fn load() -> Result<Api, String> {
                let missing = "the CUDA driver library (libcuda) could not be loaded; is an NVIDIA driver installed?";
                let library = VendorLibrary::load(NAMES, "the CUDA driver library").ok_or(missing)?;
                // SAFETY: types as declared in cuda.h, with enums as the ints that they are.
                unsafe { Ok(Api { $($field: library.symbol($name)?,)* }) }
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
    pointer_attribute = c"cuPointerGetAttribute" (*mut c_void, c_int, DevicePointer);
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
