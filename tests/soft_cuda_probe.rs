//! What programs are told of the software CUDA device, and of drivers that lack it or a part: through the C face, each in
//! a process of its own that finds the driver by LD_LIBRARY_PATH.

mod common;

use std::path::Path;
use std::process::Command;

use common::c::{Language, Program, text};
use common::soft;

static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin"));

/// What `c-tests/driver/probe.c` prints with this driver and these settings.
fn probe(program: &Program, driver: &Path, settings: &str) -> Vec<String> {
    let output =
        Command::new(program.path()).env("LD_LIBRARY_PATH", driver).env("KOSHI_SOFT", settings).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{settings}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
}

#[test]
fn the_probe_sees_the_device_or_says_what_is_missing() {
    let program = Program::compile(&common::root().join("c-tests/driver/probe.c"), Language::C99);
    let whole = soft::build(None);
    let found = probe(&program, &whole, "devices=2,memory=3221225472,capability=86");
    assert_eq!(found[..3], ["Software device 0, 8.6, 4, 3 GiB, 13000", "Software device 1, 8.6, 4, 3 GiB, 13000", ""]);
    for (settings, reason) in [
        ("devices=0", "cuInit answered 100 (CUDA_ERROR_NO_DEVICE)"),
        ("fail=cuInit:1:999", "cuInit answered 999 (CUDA_ERROR_UNKNOWN)"),
        ("fail=cuDeviceGetCount:1:3", "cuDeviceGetCount answered 3 (CUDA_ERROR_NOT_INITIALIZED)"),
    ] {
        let found = probe(&program, &whole, settings);
        assert_eq!(found[..2], [reason.to_string(), format!("KOSHI_E_NO_DEVICE: {reason}")]);
    }
    for symbol in ["cuDeviceTotalMem_v2", "cuInit"] {
        let found = probe(&program, &soft::build(Some(symbol)), "");
        assert_eq!(found[0], format!("the CUDA driver library lacks {symbol}"));
    }
}

/// What `c-tests/driver/failures.c` prints; nothing else may be printed, and the CPU's results stay the same.
fn failures(program: &Program, driver: &Path, settings: &str, lanes: &str) -> Vec<String> {
    let mut command = Command::new(program.path());
    command.arg(lanes).env("LD_LIBRARY_PATH", driver).env("KOSHI_SOFT", common::with_kernels(settings));
    let output = command.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{settings}: {}", text(&output));
    let mut lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect();
    assert_eq!(lines.pop().as_deref(), Some("CPU: the same"), "{settings}");
    lines
}

/// A folder with some of the software device's libraries, under these names.
fn folder_with(names: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, library) in names {
        std::os::unix::fs::symlink(soft::build(None).join(library), folder.path().join(name)).unwrap();
    }
    folder
}

#[test]
fn what_fails_is_told_and_the_cpu_goes_on() {
    let program = Program::compile(&common::root().join("c-tests/driver/failures.c"), Language::C99);
    let whole = soft::build(None);
    const SAME: &str = "push 1: as on the CPU";
    assert_eq!(failures(&program, &whole, "", "2"), [SAME]);

    // The driver, or a part of it, is not there.
    let nothing = folder_with(&[]);
    for name in ["libcuda.so", "libcuda.so.1"] {
        std::fs::write(nothing.path().join(name), "not a library").unwrap();
    }
    let lines = failures(&program, nothing.path(), "", "1");
    // Where a real driver is installed the loader finds it behind the broken file.
    let no_driver = "decoder: KOSHI_E_NO_DEVICE: the CUDA driver library (libcuda) could not be loaded";
    assert!(lines[0].starts_with(no_driver) || Path::new("/dev/nvidiactl").exists(), "{lines:?}");
    let no_device = "decoder: KOSHI_E_NO_DEVICE: cuInit answered 100 (CUDA_ERROR_NO_DEVICE)";
    assert_eq!(failures(&program, &whole, "devices=0", "1"), [no_device]);
    let lacks = "decoder: KOSHI_E_NO_DEVICE: the CUDA driver library lacks cuLaunchKernel";
    assert_eq!(failures(&program, &soft::build(Some("cuLaunchKernel")), "", "1"), [lacks]);

    // The driver is older than the image, and so than our compiler at run time: what the image was made of is taken.
    let alone = folder_with(&[("libcuda.so.1", "libcuda.so")]);
    if !IMAGE.is_empty() {
        assert_eq!(failures(&program, alone.path(), "driver=12040", "1"), [SAME]);
    }
    assert_eq!(failures(&program, &whole, "driver=12040", "1"), [SAME]);

    // The image is refused: the source is compiled, by a compiler of either name, or there is none.
    assert_eq!(failures(&program, &whole, "refuse_binary=1", "1"), [SAME]);
    let versioned = folder_with(&[("libcuda.so", "libcuda.so"), ("libnvrtc.so.13", "libnvrtc.so")]);
    assert_eq!(failures(&program, versioned.path(), "refuse_binary=1", "1"), [SAME]);
    let [line] = &failures(&program, alone.path(), "refuse_binary=1", "1")[..] else { panic!() };
    assert!(line.starts_with("decoder: KOSHI_E_DEVICE: GPU 0: no kernels; not from machine code: "), "{line}");
    assert!(
        line.ends_with("not from source: libnvrtc could not be loaded") || Path::new("/usr/local/cuda").exists(),
        "{line}"
    );

    // Memory of the device, and of the host for it.
    let [line] = &failures(&program, &whole, "memory=1048576", "60000")[..] else { panic!() };
    assert!(
        line.starts_with("decoder: KOSHI_E_NO_MEMORY: ") && line.contains("60000 lanes on GPU 0, where "),
        "{line}"
    );
    let [line] = &failures(&program, &whole, "fail=cuMemHostAlloc:1:2", "1")[..] else { panic!() };
    assert!(line.starts_with("decoder: KOSHI_E_NO_MEMORY: ") && line.contains("page-locked memory"), "{line}");

    // A launch that is refused does no harm; a kernel that dies takes the context with it. The first launch of
    // each is that of time 0.
    let [line, again] = &failures(&program, &whole, "fail=cuLaunchKernel:2:701", "1")[..] else { panic!() };
    assert!(line.starts_with("push 1: KOSHI_E_DEVICE: ") && line.contains("cuLaunchKernel answered 701"), "{line}");
    assert_eq!(again, "push 2: as on the CPU");
    let [line, again] = &failures(&program, &whole, "fail=kernel:2:700", "1")[..] else { panic!() };
    assert!(
        line.starts_with("push 1: KOSHI_E_DEVICE: ") && line.contains("700 (CUDA_ERROR_ILLEGAL_ADDRESS)"),
        "{line}"
    );
    assert!(again.starts_with("push 2: KOSHI_E_DEVICE: ") && again.contains("700"), "{again}");
}
