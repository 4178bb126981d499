//! NVIDIA's libraries, which are there or not: looked for when they are first needed, never linked.

use std::ffi::CStr;
use std::mem::ManuallyDrop;

use libloading::Library;

/// A library that is never unloaded: its functions are called at any time.
pub(super) struct VendorLibrary {
    library: ManuallyDrop<Library>,
    /// What messages call it.
    what: &'static str,
}

impl VendorLibrary {
    /// The first of `names` that can be loaded.
    pub fn load(names: &[&str], what: &'static str) -> Option<VendorLibrary> {
        // SAFETY: loads a library of NVIDIA's, whose initialisers are the vendor's; nothing is called.
        let library = names.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
        Some(VendorLibrary { library: ManuallyDrop::new(library), what })
    }

    /// # Safety
    /// `F` is the type of the C function `name`.
    pub unsafe fn symbol<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        // SAFETY: the caller's promise; the library stays loaded.
        let found = unsafe { self.library.get::<F>(name.to_bytes_with_nul()) };
        found.map(|function| *function).map_err(|_| format!("{} lacks {}", self.what, name.to_string_lossy()))
    }
}
