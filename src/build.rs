//! Sets the shared library's SONAME: the ABI is `libkoshi.so.0` until 1.0.

fn main() {
    println!("cargo:rerun-if-changed=src/build.rs");
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if matches!(os.as_str(), "linux" | "android" | "freebsd") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libkoshi.so.0");
    }
}
