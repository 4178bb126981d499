//! Is there a GPU that can be used? Asked once, answered with its devices or a reason.
//!
//! Nothing of a driver is called before this probe has seen, in this order: that its library can be loaded, that each symbol
//! which Koshi calls is there, that `cuInit` succeeds.

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::CUdevice_attribute;

use super::api::Api;

/// A GPU, as its driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Name of the model.
    pub name: String,
    /// Compute capability, as 9 and 0.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of device memory.
    pub total_memory: u64,
    /// Latest CUDA version that the driver speaks, as 13000 for 13.0.
    pub driver_version: u32,
}

/// A driver that works, and its devices.
struct Found {
    api: Api,
    devices: Vec<DeviceInfo>,
}

/// The GPUs that can be used, or why there are none. The driver is asked once a process.
pub fn devices() -> Result<&'static [DeviceInfo], &'static str> {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let found = found().map(|found| found.devices.as_slice());
    // Not while the answer is being made: a log callback may ask for it too.
    if !TOLD.swap(true, Ordering::Relaxed) {
        match found {
            Ok(devices) => log::info!("{} GPUs can be used", devices.len()),
            Err(reason) => log::info!("no GPU can be used: {reason}"),
        }
    }
    found
}

/// The driver's functions, or why they are not usable.
pub(super) fn api() -> Result<&'static Api, &'static str> {
    found().map(|found| &found.api)
}

fn found() -> Result<&'static Found, &'static str> {
    static FOUND: OnceLock<Result<Found, String>> = OnceLock::new();
    FOUND.get_or_init(probe).as_ref().map_err(String::as_str)
}

fn probe() -> Result<Found, String> {
    let api = Api::load()?;
    let driver = Driver { api: &api };
    driver.init()?;
    let version = driver.version()?;
    if version < OLDEST_DRIVER {
        return Err(format!("the driver speaks CUDA {}; Koshi needs 12.0", version_text(version)));
    }
    let count = driver.count()?;
    let devices: Vec<DeviceInfo> = (0..count).map(|at| driver.device(at, version)).collect::<Result<_, _>>()?;
    if devices.is_empty() { Err("the driver reports no CUDA device".into()) } else { Ok(Found { api, devices }) }
}

/// Older ones are not tried.
const OLDEST_DRIVER: c_int = 12_000;

fn version_text(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

const MULTIPROCESSOR_COUNT: c_int = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as c_int;
const COMPUTE_CAPABILITY_MAJOR: c_int = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as c_int;
const COMPUTE_CAPABILITY_MINOR: c_int = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as c_int;
const NAME_LENGTH: usize = 256;

/// The questions that the probe asks.
struct Driver<'a> {
    api: &'a Api,
}

impl Driver<'_> {
    fn check(&self, code: c_int, call: &str) -> Result<(), String> {
        self.api.check(code, call)
    }

    fn init(&self) -> Result<(), String> {
        // SAFETY: takes a number.
        self.check(unsafe { (self.api.init)(0) }, "cuInit")
    }

    fn version(&self) -> Result<c_int, String> {
        let mut version = 0;
        // SAFETY: writes one int.
        self.check(unsafe { (self.api.driver_version)(&raw mut version) }, "cuDriverGetVersion")?;
        Ok(version)
    }

    fn count(&self) -> Result<c_int, String> {
        let mut count = 0;
        // SAFETY: writes one int.
        self.check(unsafe { (self.api.device_count)(&raw mut count) }, "cuDeviceGetCount")?;
        Ok(count)
    }

    fn attribute(&self, device: c_int, attribute: c_int) -> Result<u32, String> {
        let mut value = 0;
        // SAFETY: writes one int.
        let code = unsafe { (self.api.device_attribute)(&raw mut value, attribute, device) };
        self.check(code, "cuDeviceGetAttribute")?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    fn device(&self, ordinal: c_int, version: c_int) -> Result<DeviceInfo, String> {
        let (mut device, mut bytes, mut name) = (0, 0usize, [0 as c_char; NAME_LENGTH]);
        // SAFETY: writes one int.
        self.check(unsafe { (self.api.device_get)(&raw mut device, ordinal) }, "cuDeviceGet")?;
        // SAFETY: writes at most the given number of chars, with a NUL.
        let code = unsafe { (self.api.device_name)(name.as_mut_ptr(), NAME_LENGTH as c_int, device) };
        self.check(code, "cuDeviceGetName")?;
        // SAFETY: writes one size_t.
        self.check(unsafe { (self.api.device_memory)(&raw mut bytes, device) }, "cuDeviceTotalMem")?;
        let name: Vec<u8> = name.iter().map(|letter| *letter as u8).take_while(|letter| *letter != 0).collect();
        Ok(DeviceInfo {
            name: String::from_utf8_lossy(&name).into_owned(),
            compute_capability: (
                self.attribute(device, COMPUTE_CAPABILITY_MAJOR)?,
                self.attribute(device, COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: self.attribute(device, MULTIPROCESSOR_COUNT)?,
            total_memory: bytes as u64,
            driver_version: u32::try_from(version).unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_devices_or_a_reason_and_stays() {
        match devices() {
            Ok(devices) => assert!(!devices.is_empty() && devices.iter().all(|device| device.total_memory > 0)),
            Err(reason) => assert!(!reason.is_empty() && !reason.contains('\n')),
        }
        assert_eq!(devices().map(<[_]>::as_ptr), devices().map(<[_]>::as_ptr));
    }

    #[test]
    fn versions_read_as_people_write_them() {
        assert_eq!(version_text(13_000), "13.0");
        assert_eq!(version_text(12_040), "12.4");
    }
}
