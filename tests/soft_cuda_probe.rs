//! What programs are told of the software CUDA device, and of drivers that lack it or a part: through the C face, each in
//! a process of its own that finds the driver by LD_LIBRARY_PATH.

mod common;

use std::path::Path;
use std::process::Command;

use common::c::{Language, Program, text};
use common::soft;

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
