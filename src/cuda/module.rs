//! The kernels on a device: the image that was built in, or the source text compiled for it.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::api::{CUDA_SUCCESS, Handle};
use super::context::Context;
use super::nvrtc;
use super::probe;
use crate::error::{Error, Result};

/// The kernels' text, one file.
const SOURCE: &str = concat!(include_str!(concat!(env!("OUT_DIR"), "/kernels.cu")), "\0");
/// The compiled image for the architectures that are known; empty where no compiler was at hand.
static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin"));

/// The entry points, by name.
pub(super) const NAMES: [&CStr; 9] = [
    c"koshi_k_decode",
    c"koshi_k_lattice",
    c"koshi_k_rows",
    c"koshi_k_chain_forward",
    c"koshi_k_chain_backward",
    c"koshi_k_chain_gather",
    c"koshi_k_chain_derivative",
    c"koshi_k_chain_add",
    c"koshi_k_decode_biased",
];

/// Loaded kernels.
pub(super) struct Module {
    context: Arc<Context>,
    handle: Handle,
    functions: [Handle; NAMES.len()],
}

// SAFETY: modules and functions may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above; nothing here changes.
unsafe impl Sync for Module {}

/// Loaded modules: decoders on one device share one.
static LOADED: Mutex<Vec<Weak<Module>>> = Mutex::new(Vec::new());

impl Module {
    /// The kernels of the context's device. The context is current.
    pub fn get(context: &Arc<Context>) -> Result<Arc<Module>> {
        let mut loaded = LOADED.lock();
        loaded.retain(|module| module.strong_count() > 0);
        let of_device = |module: &Arc<Module>| module.context.device == context.device;
        if let Some(module) = loaded.iter().filter_map(Weak::upgrade).find(of_device) {
            return Ok(module);
        }
        let module = Arc::new(Module::load(context)?);
        loaded.push(Arc::downgrade(&module));
        Ok(module)
    }

    fn load(context: &Arc<Context>) -> Result<Module> {
        let refused = if IMAGE.is_empty() {
            "none was built in".to_string()
        } else {
            match Module::from_image(context, IMAGE) {
                Ok(module) => return Ok(module),
                Err(error) => error.to_string(),
            }
        };
        log::info!("GPU {}: the kernels' image is not used ({refused}); compiling their source", context.device);
        let capability = probe::devices().ok().and_then(|all| all.get(context.device as usize));
        let (major, minor) = capability.map_or((7, 5), |device| device.compute_capability);
        let from_source = CStr::from_bytes_until_nul(SOURCE.as_bytes())
            .map_err(|_| Error::Device("the text does not end".into()))
            .and_then(|source| nvrtc::compile(source, major, minor))
            .and_then(|ptx| Module::from_image(context, ptx.to_bytes_with_nul()));
        from_source.map_err(|error| match error {
            Error::NoMemory { .. } => error,
            other => {
                let line = other.to_string().replace('\n', " ");
                Error::Device(format!("GPU {}: no kernels. Image: {refused}. Source: {line}", context.device))
            }
        })
    }

    /// `image` is a fatbin, or PTX that ends with NUL.
    fn from_image(context: &Arc<Context>, image: &[u8]) -> Result<Module> {
        let mut module =
            Module { context: Arc::clone(context), handle: ptr::null_mut(), functions: [ptr::null_mut(); NAMES.len()] };
        // SAFETY: an image as the driver takes it; it writes a handle.
        let code = unsafe { (context.api.module_load)(&raw mut module.handle, image.as_ptr().cast::<c_void>()) };
        context.check(code, "cuModuleLoadData")?;
        for (function, name) in module.functions.iter_mut().zip(NAMES) {
            // SAFETY: a live module and a name; it writes a handle.
            let code = unsafe { (context.api.module_function)(&raw mut *function, module.handle, name.as_ptr()) };
            if code != CUDA_SUCCESS {
                let why = context.api.text(code);
                let name = name.to_string_lossy();
                return Err(Error::Device(format!(
                    "GPU {}: cuModuleGetFunction of {name} answered {why}",
                    context.device
                )));
            }
        }
        Ok(module)
    }

    /// `koshi_k_decode`.
    pub fn decode(&self) -> Handle {
        self.functions[0]
    }

    /// `koshi_k_decode_biased`.
    pub fn decode_biased(&self) -> Handle {
        self.functions[8]
    }

    /// `koshi_k_lattice`.
    pub fn lattice(&self) -> Handle {
        self.functions[1]
    }

    /// `koshi_k_rows`.
    pub fn rows(&self) -> Handle {
        self.functions[2]
    }

    /// `koshi_k_chain_forward` and `koshi_k_chain_backward`.
    pub fn chain_passes(&self) -> [Handle; 2] {
        [self.functions[3], self.functions[4]]
    }

    /// `koshi_k_chain_gather`.
    pub fn chain_gather(&self) -> Handle {
        self.functions[5]
    }

    /// `koshi_k_chain_derivative`.
    pub fn chain_derivative(&self) -> Handle {
        self.functions[6]
    }

    /// `koshi_k_chain_add`.
    pub fn chain_add(&self) -> Handle {
        self.functions[7]
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.handle.is_null() {
            return;
        }
        let Ok(_entered) = self.context.enter() else { return };
        // SAFETY: loaded by `from_image`; nobody launches its kernels any more.
        unsafe { (self.context.api.module_unload)(self.handle) };
    }
}
