//! Sets the shared library's SONAME (the ABI is `libkoshi.so.0` until 1.0), joins the kernels to one
//! text, and compiles that for the GPUs that are known if NVIDIA's compiler is at hand.
//!
//! Without the compiler only the text is built in, and the driver's run-time compiler makes code of it.
//! With `KOSHI_REQUIRE_NVCC=1` a missing or failing compiler is an error.

#[path = "build/kernels.rs"]
mod kernels;

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=src/build.rs");
    println!("cargo:rerun-if-changed=src/build/kernels.rs");
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if matches!(os.as_str(), "linux" | "android" | "freebsd") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libkoshi.so.0");
    }
    if let Err(reason) = build_kernels() {
        eprintln!("kernels: {reason}");
        std::process::exit(1);
    }
}

/// Leaves in the output folder: `kernels.cu`, the text; `kernels.fatbin`, the machine code, and `kernels.ptx`, what that
/// was made of, both empty where there is no compiler; `kernels.ptxas`, what the assembler says of each kernel.
fn build_kernels() -> Result<(), String> {
    let folder = Path::new("kernels");
    // The folder too: a file that comes or goes changes none of the others.
    println!("cargo:rerun-if-changed=kernels");
    for file in kernels::files(folder, &["cu", "cuh"])? {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    for variable in ["NVCC", "CUDA_HOME", "KOSHI_REQUIRE_NVCC"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let [text, ptx, image, said] = ["cu", "ptx", "fatbin", "ptxas"].map(|kind| out.join(format!("kernels.{kind}")));
    let write =
        |path: &Path, bytes: &[u8]| std::fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()));
    let files = kernels::files(folder, &["cu"])?;
    let joined = kernels::join(folder, &files)?;
    write(&text, joined.as_bytes())?;
    let required = std::env::var("KOSHI_REQUIRE_NVCC").is_ok_and(|value| value == "1");
    let made = match kernels::nvcc() {
        _ if files.is_empty() => Ok(None),
        Some(nvcc) => compile(&nvcc, &text, &ptx, &image).map(Some),
        None if required => Err("there is no nvcc, and KOSHI_REQUIRE_NVCC is 1".to_string()),
        None => Ok(None),
    };
    match made {
        Ok(Some(words)) => return write(&said, &words),
        Err(reason) if required => return Err(reason),
        Err(reason) => println!("cargo:warning=no GPU code is built in: {}", reason.trim().replace('\n', " | ")),
        Ok(None) => {}
    }
    [said, ptx, image].iter().try_for_each(|file| write(file, &[]))
}

/// Gives what the compiler says of registers and shared memory.
fn compile(nvcc: &Path, text: &Path, ptx: &Path, image: &Path) -> Result<Vec<u8>, String> {
    // One PTX for all, that of the oldest: nothing in the kernels asks which it is compiled for, and a front end for
    // each would take twice the time for the same machine code.
    let oldest = kernels::ARCHITECTURES[0];
    let mut front = Command::new(nvcc);
    front.args(kernels::FLAGS).args(["-ptx", &format!("-arch=compute_{oldest}")]).arg(text).arg("-o").arg(ptx);
    run(&mut front)?;
    // It is built in beside the machine code, not in it: see src/cuda/module.rs.
    let mut back = Command::new(nvcc);
    back.args(kernels::FLAGS).args(["-fatbin", "-compress-mode=size", "--threads", "0", "-Xptxas", "-v"]);
    let codes: Vec<String> = kernels::ARCHITECTURES.iter().map(|architecture| format!("sm_{architecture}")).collect();
    back.arg(format!("-gencode=arch=compute_{oldest},code=[{}]", codes.join(","))).arg(ptx).arg("-o").arg(image);
    run(&mut back)
}

/// Gives what the command says.
fn run(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| format!("{command:?} cannot be run: {error}"))?;
    let said = [output.stderr, output.stdout].concat();
    match output.status.success() {
        true => Ok(said),
        false => Err(format!("{command:?} fails: {}", String::from_utf8_lossy(&said))),
    }
}
