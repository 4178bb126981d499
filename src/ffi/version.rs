//! Which library this is.

use std::ffi::{CStr, c_char};
use std::ptr;

use super::guard;
use crate::version;

/// Major version of this header.
pub const KOSHI_VERSION_MAJOR: u32 = 0;
/// Minor version of this header.
pub const KOSHI_VERSION_MINOR: u32 = 1;
/// Patch version of this header.
pub const KOSHI_VERSION_PATCH: u32 = 0;

const _: () = assert!(
    KOSHI_VERSION_MAJOR == version::MAJOR
        && KOSHI_VERSION_MINOR == version::MINOR
        && KOSHI_VERSION_PATCH == version::PATCH,
    "the header's version is not that of Cargo.toml"
);

/// Version of the loaded library: major * 1000000 + minor * 1000 + patch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_version() -> u32 {
    guard::query(0, || Ok(version::NUMBER))
}

/// Version of the loaded library as text, "major.minor.patch". Lives as long as the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_version_string() -> *const c_char {
    const TEXT: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("the version holds a NUL"),
    };
    guard::query(ptr::null(), || Ok(TEXT.as_ptr()))
}
