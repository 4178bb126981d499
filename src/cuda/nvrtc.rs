//! CUDA's run-time compiler, where its library is at hand.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::library::VendorLibrary;
use super::ptx;
use crate::error::{Error, Result};

type Program = *mut c_void;

/// The compiler's functions, with enums as the ints that they are.
struct Compiler {
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    ptx_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    ptx: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
}

/// What the library is called: plainly where CUDA's toolkit is installed, by its version alone where
/// only what programs need to run is (packages of Python, containers).
const NAMES: &[&str] = if cfg!(windows) {
    &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"]
} else {
    &["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11"]
};

impl Compiler {
    fn load() -> Result<Compiler, String> {
        let library = VendorLibrary::load(NAMES, "libnvrtc").ok_or("libnvrtc could not be loaded")?;
        // SAFETY: the functions' types in nvrtc.h.
        unsafe {
            Ok(Compiler {
                create: library.symbol(c"nvrtcCreateProgram")?,
                compile: library.symbol(c"nvrtcCompileProgram")?,
                destroy: library.symbol(c"nvrtcDestroyProgram")?,
                ptx_size: library.symbol(c"nvrtcGetPTXSize")?,
                ptx: library.symbol(c"nvrtcGetPTX")?,
                log_size: library.symbol(c"nvrtcGetProgramLogSize")?,
                log: library.symbol(c"nvrtcGetProgramLog")?,
            })
        }
    }

    /// A text that the compiler hands out in two calls, its size with the NUL first.
    fn text(
        program: Program,
        size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
        text: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    ) -> Result<Option<CString>> {
        let mut bytes = 0usize;
        // SAFETY: writes a number.
        if unsafe { size(program, &raw mut bytes) } != 0 {
            return Ok(None);
        }
        let (mut buffer, bytes) = (Vec::new(), bytes.max(1));
        let asked = bytes as u64;
        buffer.try_reserve_exact(bytes).map_err(|_| Error::NoMemory { what: "compiled kernels".into(), asked })?;
        buffer.resize(bytes, 0u8);
        // SAFETY: writes as many bytes as it said.
        if unsafe { text(program, buffer.as_mut_ptr().cast()) } != 0 {
            return Ok(None);
        }
        buffer.truncate(buffer.iter().position(|&byte| byte == 0).map_or(0, |end| end + 1));
        Ok(CString::from_vec_with_nul(buffer).ok())
    }
}

/// The PTX of `source` for a compute capability, of a version that older drivers take. Compiled once a process. [`Error::Device`] says why there is none;
/// [`Error::NoMemory`].
pub(super) fn compile(source: &'static CStr, capability: (u32, u32)) -> Result<Arc<CString>> {
    type Compiled = ((u32, u32), Arc<CString>);
    static COMPILED: Mutex<Vec<Compiled>> = Mutex::new(Vec::new());
    let mut compiled = COMPILED.lock();
    if let Some((_, ptx)) = compiled.iter().find(|(held, _)| *held == capability) {
        return Ok(Arc::clone(ptx));
    }
    let ptx = Arc::new(ptx::for_older_drivers(compile_now(source, capability)?.to_bytes()));
    compiled.push((capability, Arc::clone(&ptx)));
    Ok(ptx)
}

fn compile_now(source: &CStr, (major, minor): (u32, u32)) -> Result<CString> {
    let compiler = Compiler::load().map_err(Error::Device)?;
    let mut program: Program = ptr::null_mut();
    // SAFETY: texts end with NUL; there are no headers.
    let code = unsafe {
        (compiler.create)(&raw mut program, source.as_ptr(), c"koshi.cu".as_ptr(), 0, ptr::null(), ptr::null())
    };
    if code != 0 {
        return Err(Error::Device(format!("nvrtcCreateProgram answered {code}")));
    }
    let architecture = CString::new(format!("--gpu-architecture=compute_{major}{minor}")).unwrap_or_default();
    let options = [architecture.as_c_str(), c"--std=c++17", c"--fmad=false", c"--ftz=false"].map(CStr::as_ptr);
    // SAFETY: a live program, and texts that outlive the call.
    let code = unsafe { (compiler.compile)(program, options.len() as c_int, options.as_ptr()) };
    let made = if code == 0 {
        let ptx = Compiler::text(program, compiler.ptx_size, compiler.ptx);
        ptx.and_then(|ptx| ptx.ok_or_else(|| Error::Device("nvrtcGetPTX failed".into())))
    } else {
        let log = Compiler::text(program, compiler.log_size, compiler.log).ok().flatten().unwrap_or_default();
        Err(Error::Device(format!("nvrtcCompileProgram answered {code}: {}", log.to_string_lossy().trim())))
    };
    // SAFETY: made above, used no more.
    unsafe { (compiler.destroy)(&raw mut program) };
    made
}
