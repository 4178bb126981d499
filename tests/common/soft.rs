//! The software CUDA device of `kernels/soft`, built and loaded into this process, so that whoever
//! looks for libcuda and libnvrtc afterwards finds it.

#[path = "../../src/build/kernels.rs"]
pub mod kernels;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock};

use koshi::search::SearchConfig;

/// What tests may ask the device that a driver has no call for.
pub struct Soft {
    configure: unsafe extern "C" fn(*const c_char) -> c_int,
    reset: unsafe extern "C" fn(),
    report: unsafe extern "C" fn() -> *const c_char,
    stats: unsafe extern "C" fn(*mut u64),
    traffic: unsafe extern "C" fn(*mut u64),
    thread_steps: unsafe extern "C" fn(*mut u64, usize) -> usize,
    memory_used: unsafe extern "C" fn(c_int) -> usize,
}

/// What ran since the device was loaded; `work` and `span` are of the last launch, in basic blocks,
/// and counted only with `kernels=steps`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub launches: u64,
    pub blocks: u64,
    pub switches: u64,
    pub work: u64,
    pub span: u64,
    /// Calls of the driver so far, of those that can be made to fail.
    pub calls: u64,
    /// Streams, events, modules and retained contexts that there are now.
    pub objects: u64,
    /// Copies to the host so far.
    pub copies_out: u64,
}

/// What kernels asked of a memory; counted only with `kernels=traffic`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    pub loads: u64,
    pub loaded_bytes: u64,
    pub stores: u64,
    pub stored_bytes: u64,
    pub atomics: u64,
}

/// What kernels asked of memory since the device was loaded, and what they waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub device: Accesses,
    pub shared: Accesses,
    pub barriers: u64,
    pub collectives: u64,
}

/// The folder with the driver and libnvrtc.so; or with only a driver that lacks the symbol, if one is named.
pub fn build(without: Option<&str>) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("soft");
    let script = super::root().join("kernels/soft/build.sh");
    let output = Command::new("bash").arg(script).arg(&folder).args(without).output().unwrap();
    assert!(output.status.success(), "the software device does not build: {}", super::c::text(&output));
    without.map_or(folder.clone(), |symbol| folder.join(format!("without-{symbol}")))
}

/// Loads the device, once a process, and changes its settings.
pub fn load(settings: &str) -> &'static Soft {
    static LOADED: OnceLock<Soft> = OnceLock::new();
    let soft = LOADED.get_or_init(|| {
        let folder = build(None);
        let cuda = open(&folder.join("libcuda.so"));
        open(&folder.join("libcuda.so.1"));
        open(&folder.join("libnvrtc.so"));
        // SAFETY: the types are those of the functions in kernels/soft/driver.cpp.
        unsafe {
            Soft {
                configure: symbol(cuda, c"soft_configure"),
                reset: symbol(cuda, c"soft_reset"),
                report: symbol(cuda, c"soft_report"),
                stats: symbol(cuda, c"soft_stats"),
                traffic: symbol(cuda, c"soft_traffic"),
                thread_steps: symbol(cuda, c"soft_thread_steps"),
                memory_used: symbol(cuda, c"soft_memory_used"),
            }
        }
    });
    soft.configure(settings);
    soft
}

/// Settings of a device of which nothing else is asked.
const USUAL: &str = "schedule=rr,lazy=0,poison=0xcb,devices=2,memory=4294967296,capability=75,shared=65536,\
                     kernels=plain,driver=13000,refuse_binary=0";

/// The device with these settings changed from the usual ones and nothing left over from the test before, for one test at
/// a time.
pub fn alone(settings: &str) -> (MutexGuard<'static, ()>, &'static Soft) {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let soft = load(&super::with_kernels(USUAL));
    soft.reset();
    soft.configure(settings);
    (alone, soft)
}

/// The device for a test that asks nothing of it but what a driver has: the machine's, where that is meant. One test at a
/// time.
pub fn any_alone() -> MutexGuard<'static, ()> {
    if !super::real_gpu() {
        return alone("").0;
    }
    static ALONE: Mutex<()> = Mutex::new(());
    super::gpu();
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A search that is narrow enough for a device that is played.
pub fn narrow() -> SearchConfig {
    SearchConfig {
        beam: 6.0,
        lattice_beam: 4.0,
        max_active: 20,
        min_active: 5,
        candidate_capacity: 1_000,
        token_capacity: 1_000,
        link_capacity: 1_000,
        ..SearchConfig::default()
    }
}

fn open(path: &Path) -> *mut c_void {
    let name = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: loads a library of ours; its initialisers only fill tables.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!library.is_null(), "{} cannot be loaded", path.display());
    library
}

/// # Safety
/// `F` is the type of the C function `name`.
unsafe fn symbol<F: Copy>(library: *mut c_void, name: &CStr) -> F {
    // SAFETY: the library stays loaded.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!found.is_null(), "{name:?} is missing");
    assert_eq!(size_of::<F>(), size_of_val(&found));
    // SAFETY: both are addresses; the type is the caller's promise.
    unsafe { std::mem::transmute_copy(&found) }
}

impl Soft {
    /// Changes settings, as `schedule=random:7,lazy=1`; kernels/soft/README.md lists them.
    pub fn configure(&self, settings: &str) {
        let text = CString::new(settings).unwrap();
        // SAFETY: reads a string.
        assert_eq!(unsafe { (self.configure)(text.as_ptr()) }, 0, "the device does not know {settings:?}");
    }

    /// Forgets failed kernels, injected faults, changes of copies and the report.
    pub fn reset(&self) {
        // SAFETY: takes nothing.
        unsafe { (self.reset)() }
    }

    /// What the last failure was.
    pub fn report(&self) -> String {
        // SAFETY: gives a string that is valid until the next call.
        unsafe { CStr::from_ptr((self.report)()) }.to_string_lossy().into_owned()
    }

    pub fn stats(&self) -> Stats {
        let mut all = [0; 8];
        // SAFETY: writes eight numbers.
        unsafe { (self.stats)(all.as_mut_ptr()) };
        let [launches, blocks, switches, work, span, calls, objects, copies_out] = all;
        Stats { launches, blocks, switches, work, span, calls, objects, copies_out }
    }

    pub fn traffic(&self) -> Traffic {
        let mut all = [0; 12];
        // SAFETY: writes twelve numbers.
        unsafe { (self.traffic)(all.as_mut_ptr()) };
        let of = |at: usize| Accesses {
            loads: all[at],
            loaded_bytes: all[at + 1],
            stores: all[at + 2],
            stored_bytes: all[at + 3],
            atomics: all[at + 4],
        };
        Traffic { device: of(0), shared: of(5), barriers: all[10], collectives: all[11] }
    }

    /// Basic blocks that each thread of the last launch ran (with `kernels=steps`), block after block.
    pub fn thread_steps(&self) -> Vec<u64> {
        // SAFETY: writes nothing.
        let mut steps = vec![0; unsafe { (self.thread_steps)(std::ptr::null_mut(), 0) }];
        // SAFETY: writes at most the given count.
        unsafe { (self.thread_steps)(steps.as_mut_ptr(), steps.len()) };
        steps
    }

    /// Bytes of a device's memory that are taken.
    pub fn memory_used(&self, device: usize) -> usize {
        // SAFETY: takes a number.
        unsafe { (self.memory_used)(device as c_int) }
    }

    /// Bytes of the host's page-locked memory that are taken.
    pub fn pinned_used(&self) -> usize {
        // SAFETY: takes a number.
        unsafe { (self.memory_used)(-2) }
    }
}

/// A file of kernels with what it includes, as one text.
pub fn source(path: &str) -> String {
    let root = super::root();
    kernels::join(&root.join("kernels"), &[root.join(path)]).unwrap()
}

/// Runs one test of this program again, alone, in a process of its own with these variables set.
/// Gives whether it succeeded and all that it printed.
pub fn in_a_process_of_its_own(test: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1", "--include-ignored"])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    (output.status.success(), super::c::text(&output))
}

/// Runs a test of the calling file in a process of its own; it must pass there.
pub fn pass_alone(test: &str, variables: &[(&str, String)]) {
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let (ok, text) = in_a_process_of_its_own(test, &variables);
    assert!(ok && text.contains("1 passed"), "{text}");
}

/// Variables for a process in which AddressSanitizer's build of the kernels can run.
pub fn asan_variables() -> Vec<(&'static str, String)> {
    let path = |name: &str| {
        let output = Command::new("g++").arg(format!("-print-file-name={name}")).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    };
    vec![
        ("LD_PRELOAD", format!("{} {}", path("libasan.so"), path("libubsan.so"))),
        // The Rust side is not built for it, so what it never frees cannot be told from a leak.
        ("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0:verify_asan_link_order=0".into()),
        ("UBSAN_OPTIONS", "print_stacktrace=1".into()),
    ]
}
