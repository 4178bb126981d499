//! Which GPUs there are.

use std::ffi::{CString, c_char};
use std::ptr;
use std::sync::OnceLock;

use super::config::{self, Grows};
use super::error::{koshi_error, koshi_status, line};
use super::guard;
use crate::cuda::{self, DeviceInfo};
use crate::error::{Error, Result};

/// A GPU. Filled by koshi_cuda_device_info.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct koshi_cuda_device {
    /// Bytes that were filled.
    pub struct_size: u32,
    /// Compute capability, the number before the dot.
    pub compute_major: u32,
    /// Compute capability, the number behind the dot.
    pub compute_minor: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of device memory.
    pub total_memory: u64,
    /// Name of the model. Lives as long as the library.
    pub name: *const c_char,
    /// Latest CUDA version that the driver speaks, as 13000 for 13.0.
    pub driver_version: u32,
    /// Always 0.
    pub reserved: u32,
}

// SAFETY: numbers and a pointer, of 4 and 8 bytes; the 8-byte fields stand at multiples of 8.
unsafe impl Grows for koshi_cuda_device {
    const NAME: &'static str = "koshi_cuda_device";
    const FIRST_SIZE: usize = 40;

    fn defaults() -> koshi_cuda_device {
        koshi_cuda_device {
            struct_size: size_of::<koshi_cuda_device>() as u32,
            compute_major: 0,
            compute_minor: 0,
            multiprocessors: 0,
            total_memory: 0,
            name: c"".as_ptr(),
            driver_version: 0,
            reserved: 0,
        }
    }
}

const _: () = assert!(size_of::<koshi_cuda_device>() == koshi_cuda_device::FIRST_SIZE);

/// The texts that are handed out, as C reads them.
struct Texts {
    names: Vec<CString>,
    why_not: CString,
}

fn texts() -> &'static Texts {
    static TEXTS: OnceLock<Texts> = OnceLock::new();
    // Asked before: the first answer is logged, which may come back here.
    let devices = cuda::devices();
    TEXTS.get_or_init(|| match devices {
        Ok(devices) => {
            Texts { names: devices.iter().map(|device| line(&device.name)).collect(), why_not: CString::default() }
        }
        Err(reason) => Texts { names: Vec::new(), why_not: line(reason) },
    })
}

fn device(index: i32) -> Result<(&'static DeviceInfo, &'static CString)> {
    let devices = cuda::devices().map_err(|reason| Error::NoDevice(reason.into()))?;
    let at = usize::try_from(index).ok();
    at.and_then(|at| devices.get(at).zip(texts().names.get(at)))
        .ok_or_else(|| Error::NoDevice(format!("index is {index}; there are {} GPUs, from 0", devices.len())))
}

/// Number of GPUs that can be used; 0 where there is none or no driver. The driver is asked
/// once, at the first call. Never fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_cuda_device_count() -> i32 {
    guard::query(0, || Ok(cuda::devices().map_or(0, |devices| i32::try_from(devices.len()).unwrap_or(i32::MAX))))
}

/// Why koshi_cuda_device_count is 0, in one line of UTF-8; empty where it is not. Lives as long
/// as the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_cuda_why_not() -> *const c_char {
    guard::query(ptr::null(), || Ok(texts().why_not.as_ptr()))
}

/// Describes GPU `index` (from 0) in `*info` of `size` bytes.
/// KOSHI_E_NO_DEVICE where there is no such GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_cuda_device_info(
    index: i32,
    info: *mut koshi_cuda_device,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promise on output structs.
        let out = unsafe { config::out(info, size, "info") }?;
        let (device, name) = device(index)?;
        out.set(&koshi_cuda_device {
            compute_major: device.compute_capability.0,
            compute_minor: device.compute_capability.1,
            multiprocessors: device.multiprocessors,
            total_memory: device.total_memory,
            name: name.as_ptr(),
            driver_version: device.driver_version,
            ..koshi_cuda_device::defaults()
        });
        Ok(())
    })
}
