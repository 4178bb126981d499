//! The kernels on a device: the machine code that was built in; or else, where the driver is older than the compiler or the
//! device newer, what that was made of, which the driver compiles; or else the source text, compiled at run time.
//!
//! Machine code of CUDA 13's compilers has another form than that of CUDA 12's, whose drivers so cannot load it.

use std::ffi::{CStr, CString, c_void};
use std::ptr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::api::{CUDA_SUCCESS, Handle};
use super::context::Context;
use super::nvrtc;
use super::probe;
use super::ptx;
use crate::error::{Error, Result};

/// The kernels' text, one file.
const SOURCE: &str = concat!(include_str!(concat!(env!("OUT_DIR"), "/kernels.cu")), "\0");
/// The compiled image for the architectures that are known; empty where no compiler was at hand.
static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin"));
/// What the image was made of; empty likewise.
static PTX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.ptx"));
/// The compute capability that it is for, and with it all newer ones.
const OLDEST: (u32, u32) = (7, 5);

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
        let mut refused = String::new();
        let ways: [(&str, &dyn Fn() -> Result<Module>); 3] = [
            ("machine code", &|| match IMAGE {
                [] => Err(Error::Device("none was built in".into())),
                image => Module::from_image(context, image),
            }),
            ("PTX", &|| match PTX {
                [] => Err(Error::Device("none was built in".into())),
                ptx => Module::from_image(context, ptx::for_older_drivers(ptx).to_bytes_with_nul()),
            }),
            ("source", &|| Module::from_image(context, compiled(context)?.to_bytes_with_nul())),
        ];
        for (what, way) in ways {
            match way() {
                Ok(module) => {
                    log::info!("GPU {}: the kernels are loaded from {what}{refused}", context.device);
                    return Ok(module);
                }
                Err(error @ Error::NoMemory { .. }) => return Err(error),
                Err(error) => refused += &format!("; not from {what}: {}", error.to_string().replace('\n', " ")),
            }
        }
        Err(Error::Device(format!("GPU {}: no kernels{refused}", context.device)))
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

/// What the run-time compiler makes of the source. For the oldest architecture that will do, so that neither it nor the
/// driver need know the device's.
fn compiled(context: &Context) -> Result<Arc<CString>> {
    let source =
        CStr::from_bytes_until_nul(SOURCE.as_bytes()).map_err(|_| Error::Device("the text does not end".into()));
    let device = probe::devices().ok().and_then(|all| all.get(context.device as usize));
    nvrtc::compile(source?, device.map_or(OLDEST, |device| device.compute_capability.min(OLDEST)))
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
