//! What the probe says of a CUDA driver that is missing, incomplete, failing, too old, without
//! a device, or sound: on a library that stands in for libcuda, each in a process of its own.

mod common;

use std::path::Path;
use std::process::Command;

use common::c::{Language, Program, text};

/// Builds the stand-in for a driver with these defines.
fn build(library: &Path, defines: &[&str]) {
    let output = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC"])
        .args(defines)
        .arg(common::root().join("c-tests/driver/fake.c"))
        .arg("-o")
        .arg(library)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

/// What `c-tests/driver/probe.c` prints with such a stand-in.
fn probe(program: &Program, defines: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    build(&folder.path().join("libcuda.so.1"), defines);
    run(program, folder.path())
}

fn run(program: &Program, libraries: &Path) -> Vec<String> {
    let output = Command::new(program.path()).env("LD_LIBRARY_PATH", libraries).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
}

#[test]
fn each_kind_of_driver_gets_its_answer_and_no_panic() {
    let source = common::root().join("c-tests/driver/probe.c");
    let program = Program::compile(&source, Language::C99);
    assert_eq!(
        probe(&program, &[]),
        [
            "Fake 40, 9.1, 7, 40 GiB, 12080",
            "Fake 41, 9.1, 7, 41 GiB, 12080",
            "",
            "KOSHI_E_NO_DEVICE: GPU 0 cannot be used: cuDevicePrimaryCtxRetain answered 999 (unknown error)",
        ]
    );
    for (define, reason) in [
        ("-DWITHOUT_MEMORY", "the CUDA driver library lacks cuDeviceTotalMem_v2"),
        ("-DINIT=100", "cuInit answered 100 (CUDA_ERROR_NO_DEVICE)"),
        ("-DINIT=98765", "cuInit answered 98765 (unknown error)"),
        ("-DVERSION=11040", "the driver speaks CUDA 11.4; Koshi needs 12.0"),
        ("-DCOUNT=0", "the driver reports no CUDA device"),
    ] {
        assert_eq!(probe(&program, &[define]), [reason.to_string(), format!("KOSHI_E_NO_DEVICE: {reason}")]);
    }
}

/// A toolkit has a library of the plain name to link with, which finds no device (CUDA_ERROR_STUB_LIBRARY).
#[test]
fn the_driver_goes_before_a_stub_of_it() {
    let program = Program::compile(&common::root().join("c-tests/driver/probe.c"), Language::C99);
    let folder = tempfile::tempdir().unwrap();
    build(&folder.path().join("libcuda.so.1"), &[]);
    build(&folder.path().join("libcuda.so"), &["-DINIT=34"]);
    assert_eq!(run(&program, folder.path())[0], "Fake 40, 9.1, 7, 40 GiB, 12080");
}

#[test]
fn a_file_that_is_no_library_is_no_driver() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        std::fs::write(folder.path().join(name), "not a library").unwrap();
    }
    let source = common::root().join("c-tests/driver/probe.c");
    let lines = run(&Program::compile(&source, Language::C99), folder.path());
    // Where a real driver is installed the loader finds it behind the broken file.
    assert!(lines.len() >= 2, "{lines:?}");
    if lines[0].starts_with("the CUDA driver library (libcuda) could not be loaded") {
        assert_eq!(lines[1], format!("KOSHI_E_NO_DEVICE: {}", lines[0]));
    }
}
