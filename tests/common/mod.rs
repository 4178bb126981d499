//! What several test files need.
#![allow(dead_code)] // each test file uses its own part

pub mod aloud;
pub mod biased;
pub mod c;
pub mod committing;
pub mod graph;
pub mod random_endpoints;
pub mod random_search;
pub mod reference;
pub mod soft;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use koshi::decoder::{BackendChoice, Decoder, DecoderConfig};

/// Root of the repository; `KOSHI_ROOT` where the tests run elsewhere than they were built.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| std::env::var_os("KOSHI_ROOT").unwrap_or(env!("CARGO_MANIFEST_DIR").into()).into())
}

/// Whether the tests are to take the driver that the machine has (`KOSHI_TEST_GPU=1`).
pub fn real_gpu() -> bool {
    std::env::var_os("KOSHI_TEST_GPU").is_some_and(|value| value == "1")
}

/// Makes a GPU be there: the software device, unless the machine's is meant.
pub fn gpu() {
    if real_gpu() {
        hold_gpu();
    } else {
        soft::load(&with_kernels(""));
    }
}

/// Keeps the GPU's context and kernels from the first test to the last: a driver takes a good part of a second to
/// make them anew for each decoder.
fn hold_gpu() {
    static HELD: OnceLock<Arc<Decoder>> = OnceLock::new();
    HELD.get_or_init(|| {
        let graph = self::graph::source(Some(0), vec![(0.0, vec![])]);
        let graph = koshi::graph::Graph::from_source(&graph, koshi::graph::Columns::Labels).unwrap();
        let config = DecoderConfig { backend: BackendChoice::Cuda, num_lanes: 1, ..DecoderConfig::default() };
        Decoder::new(Arc::new(graph), config).unwrap()
    });
}

/// Settings of the software device, and with them where the text is that the library's kernels were
/// made from: an image of machine code cannot be looked into.
pub fn with_kernels(settings: &str) -> String {
    let comma = if settings.is_empty() { "" } else { "," };
    format!("{settings}{comma}source={}/kernels.cu", env!("OUT_DIR"))
}

/// The shared library that was built with this test, in the folder of the test itself.
pub fn shared_library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let name = format!("{}koshi{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let library = test.parent().unwrap().join(name);
    assert!(library.is_file(), "{} is missing; cargo builds it with the tests", library.display());
    library
}

/// A file or folder of `shared/realdata`, if it is at hand: in the folder that `KOSHI_SHARED`
/// names, else in `shared` beside the repository. Says so when it is not; fails then when
/// `KOSHI_REQUIRE_SHARED` is 1.
#[allow(dead_code)]
pub fn realdata(path: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("KOSHI_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let found = shared.join("realdata").join(path);
    if found.exists() {
        return Some(found);
    }
    assert!(std::env::var_os("KOSHI_REQUIRE_SHARED").is_none_or(|value| value != "1"), "{path} is not at hand");
    eprintln!("not run: {path} is not at hand");
    None
}

/// A Python 3 that has `modules`: the one that `PYTHON` names, else `python3`. Says so when it is
/// not at hand; fails then when `KOSHI_REQUIRE_PYTHON` is 1.
pub fn python(modules: &str) -> Option<Command> {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let there = Command::new(&python).args(["-c", &format!("import {modules}")]).output();
    if there.is_ok_and(|output| output.status.success()) {
        return Some(Command::new(python));
    }
    let missing = format!("{} with {modules} is not at hand (PYTHON names another)", python.display());
    assert!(std::env::var_os("KOSHI_REQUIRE_PYTHON").is_none_or(|value| value != "1"), "{missing}");
    eprintln!("not run: {missing}");
    None
}

/// What a Python program prints that may import the modules of `examples/`; its argument is the library.
#[allow(dead_code)]
pub fn python_over_examples(modules: &str, program: &str) -> Option<String> {
    let mut python = python(modules)?;
    python.env("PYTHONPATH", root().join("examples")).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = python.args(["-c", program]).arg(shared_library()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}
