//! NVIDIA's compilers take the kernels: nvcc for every GPU without warnings or spills, the run-time compiler
//! from the built-in text; and the entry points are those that the host code looks for.
//!
//! Where the build script found no nvcc these do not run, and say so; with `KOSHI_REQUIRE_NVCC=1` they fail
//! then. `kernels/get_nvcc.sh` brings both compilers. `KOSHI_BLESS=1` writes `kernels/resources.md` anew.

mod common;
#[path = "../src/cuda/ptx.rs"]
mod ptx;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt::Write;
use std::process::Command;
use std::ptr;

use common::soft::kernels;

const TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.cu"));
const IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin"));
const PTX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.ptx"));
const SAID: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.ptxas"));

fn required() -> bool {
    std::env::var("KOSHI_REQUIRE_NVCC").is_ok_and(|value| value == "1")
}

/// What the assembler says of one kernel for one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Resources {
    registers: u32,
    shared: u32,
    stack: u32,
    spilled: u32,
}

/// The number before a word.
fn number_before(line: &str, word: &str) -> u32 {
    let before = line.find(word).map_or("", |at| line[..at].trim_end());
    before.rsplit(|letter: char| !letter.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// By kernel and architecture.
fn resources(said: &str) -> BTreeMap<String, BTreeMap<u32, Resources>> {
    let mut all: BTreeMap<String, BTreeMap<u32, Resources>> = BTreeMap::new();
    let mut current: Option<(String, u32)> = None;
    for line in said.lines() {
        if line.contains("Compiling entry function") {
            let words: Vec<&str> = line.split('\'').collect();
            current = Some((words[1].to_string(), words[3].trim_start_matches("sm_").parse().unwrap()));
        }
        let Some((name, architecture)) = &current else { continue };
        let of = all.entry(name.clone()).or_default().entry(*architecture).or_default();
        if line.contains("bytes stack frame") {
            of.stack = number_before(line, " bytes stack frame");
            of.spilled = number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
        } else if line.contains("Used ") {
            of.registers = number_before(line, " registers");
            of.shared = number_before(line, " bytes smem");
        }
    }
    all
}

#[test]
fn what_the_assembler_says_is_read() {
    let said = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'koshi_k_a' for 'sm_75'
ptxas info    : Function properties for koshi_k_a
    48 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 121 registers, used 1 barriers, 48 bytes cumulative stack size, 1288 bytes smem, 488 bytes cmem[0]
ptxas info    : Compiling entry function 'koshi_k_a' for 'sm_120'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 9 registers, used 0 barriers
";
    let of_a = &resources(said)["koshi_k_a"];
    assert_eq!(of_a[&75], Resources { registers: 121, shared: 1288, stack: 48, spilled: 32 });
    assert_eq!(of_a[&120], Resources { registers: 9, ..Resources::default() });
}

/// The page that lists them.
fn page(all: &BTreeMap<String, BTreeMap<u32, Resources>>) -> String {
    let mut text = "# What the kernels need\n\nRegisters of a thread and bytes of static shared memory of a block, by \
                    compute capability, as nvcc 13.0.88\nreports them. Written by `tests/kernels_compile.rs`.\n\n| \
                    kernel |"
        .to_string();
    kernels::ARCHITECTURES.iter().for_each(|architecture| write!(text, " sm_{architecture} |").unwrap());
    text += "\n| --- |";
    kernels::ARCHITECTURES.iter().for_each(|_| text += " --- |");
    for (name, by_architecture) in all {
        write!(text, "\n| `{name}` |").unwrap();
        for of in by_architecture.values() {
            write!(text, " {}, {} |", of.registers, of.shared).unwrap();
        }
    }
    text + "\n"
}

/// The kernels' names in the host code: C strings of `src/cuda`.
fn looked_for() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in kernels::files(&common::root().join("src/cuda"), &["rs"]).unwrap() {
        let text = std::fs::read_to_string(file).unwrap();
        let quoted = text.split("c\"koshi_k_").skip(1);
        names.extend(quoted.map(|rest| format!("koshi_k_{}", rest.split('"').next().unwrap())));
    }
    names
}

/// The entry points of the text, found as the software device finds them.
fn entries() -> BTreeSet<String> {
    let lines = TEXT.lines().filter(|line| line.contains("__global__"));
    lines
        .map(|line| {
            let line = line.strip_prefix("extern \"C\" __global__ void __launch_bounds__(");
            let line = line.unwrap_or_else(|| panic!("an entry point is not on one line as the rules ask: {line:?}"));
            let name = line.split(") ").nth(1).unwrap();
            name[..name.find('(').unwrap()].to_string()
        })
        .collect()
}

#[test]
fn the_host_looks_for_the_kernels_that_there_are() {
    assert_eq!(looked_for(), entries());
}

#[test]
fn all_gpus_are_built_for_without_spills() {
    if IMAGE.is_empty() {
        assert!(!required() || entries().is_empty(), "KOSHI_REQUIRE_NVCC is 1, and no image was built in");
        eprintln!("not run: no nvcc was found");
        return;
    }
    let all = resources(SAID);
    assert_eq!(all.keys().cloned().collect::<BTreeSet<String>>(), entries());
    for (name, by_architecture) in &all {
        assert_eq!(by_architecture.keys().copied().collect::<Vec<u32>>(), kernels::ARCHITECTURES, "{name}");
        for (architecture, of) in by_architecture {
            assert_eq!((of.stack, of.spilled), (0, 0), "{name} for sm_{architecture}");
            assert!(of.registers > 0);
        }
    }
    let path = common::root().join("kernels/resources.md");
    let fresh = page(&all);
    if std::env::var("KOSHI_BLESS").is_ok_and(|value| value == "1") {
        std::fs::write(&path, &fresh).unwrap();
    }
    let stands = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(stands, fresh, "KOSHI_BLESS=1 and NVCC=$(kernels/get_nvcc.sh) write kernels/resources.md anew");
}

/// The PTX that is built in, as an older driver is given it: the assembler takes it under the version that is named.
#[test]
fn older_drivers_are_given_what_they_know() {
    let Some(nvcc) = kernels::nvcc().filter(|_| !PTX.is_empty()) else {
        assert!(!required(), "KOSHI_REQUIRE_NVCC is 1, and no PTX was built in");
        eprintln!("not run: no nvcc was found");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("older.ptx");
    let assemble = |ptx: &[u8]| {
        std::fs::write(&file, ptx).unwrap();
        let mut assembler = Command::new(nvcc.with_file_name("ptxas"));
        assembler.args(["-O0", "-arch=sm_75", "-o", "/dev/null"]).arg(&file).output().unwrap()
    };
    let older = ptx::for_older_drivers(PTX);
    assert!(older.to_str().unwrap().contains("\n.version 7.0\n") && older.as_bytes().len() > PTX.len() / 2);
    let output = assemble(older.as_bytes());
    assert!(output.status.success(), "{}", common::c::text(&output));
    // And that tells: what the compiler wrote is not of that version.
    let text = String::from_utf8_lossy(PTX);
    let renamed: String = text
        .split_inclusive('\n')
        .map(|line| if line.starts_with(".version ") { ".version 7.0\n" } else { line })
        .collect();
    let output = assemble(renamed.trim_end_matches('\0').as_bytes());
    assert!(!output.status.success(), "{}", common::c::text(&output));
}

/// The run-time compiler beside nvcc, where get_nvcc.sh puts it. It looks for its built-in headers by name, so
/// these are loaded first.
fn run_time_compiler() -> Option<*mut c_void> {
    let folder = kernels::nvcc()?.parent()?.parent()?.join("lib");
    let mut library = None;
    for name in ["libnvrtc-builtins.so.13.0", "libnvrtc.so.13"] {
        let path = CString::new(folder.join(name).to_str()?).ok()?;
        // SAFETY: loads NVIDIA's libraries, which stay loaded.
        let found = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        library = (!found.is_null()).then_some(found);
    }
    library
}

type Create = unsafe extern "C" fn(
    *mut *mut c_void,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(*mut c_void, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int;
type Text = unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int;

#[test]
fn the_run_time_compiler_takes_the_text() {
    let Some(library) = run_time_compiler() else {
        assert!(!required(), "KOSHI_REQUIRE_NVCC is 1, and no libnvrtc lies beside nvcc");
        eprintln!("not run: no libnvrtc beside nvcc");
        return;
    };
    let symbol = |name: &std::ffi::CStr| {
        // SAFETY: the library stays loaded.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
        found
    };
    // SAFETY: the functions' types in nvrtc.h; each call as that header asks.
    unsafe {
        let create = std::mem::transmute::<*mut c_void, Create>(symbol(c"nvrtcCreateProgram"));
        let compile = std::mem::transmute::<*mut c_void, Compile>(symbol(c"nvrtcCompileProgram"));
        let get = |program, size, text| {
            let size = std::mem::transmute::<*mut c_void, Size>(symbol(size));
            let text = std::mem::transmute::<*mut c_void, Text>(symbol(text));
            let mut bytes = 0;
            assert_eq!(size(program, &raw mut bytes), 0);
            let mut out = vec![0u8; bytes];
            assert_eq!(text(program, out.as_mut_ptr().cast()), 0);
            String::from_utf8_lossy(&out).into_owned()
        };
        let source = CString::new(TEXT).unwrap();
        // That for which the host compiles.
        for capability in [75] {
            let mut program = ptr::null_mut();
            let made = create(&raw mut program, source.as_ptr(), ptr::null(), 0, ptr::null(), ptr::null());
            assert_eq!(made, 0);
            let architecture = CString::new(format!("--gpu-architecture=compute_{capability}")).unwrap();
            let options =
                [&architecture, c"--std=c++17", c"--fmad=false", c"--ftz=false"].map(|option| option.as_ptr());
            let answer = compile(program, options.len() as c_int, options.as_ptr());
            let log = get(program, c"nvrtcGetProgramLogSize", c"nvrtcGetProgramLog");
            assert_eq!((answer, log.trim_end_matches(['\0', '\n'])), (0, ""));
            let ptx = get(program, c"nvrtcGetPTXSize", c"nvrtcGetPTX");
            for name in entries() {
                assert!(ptx.contains(&format!(".entry {name}(")), "{name}");
            }
        }
    }
}
