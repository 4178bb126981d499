//! `include/koshi.h` is what cbindgen makes of `src/ffi`, and reads like C.
//!
//! `KOSHI_BLESS=1 cargo test --test header` writes it anew.

use std::fs;
use std::path::Path;

fn generated() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let bindings =
        cbindgen::Builder::new().with_config(config).with_src(root.join("src/ffi/mod.rs")).generate().unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_header_is_what_the_source_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/koshi.h");
    let wanted = generated();
    if std::env::var_os("KOSHI_BLESS").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let differs = wanted.lines().zip(found.lines()).position(|(wanted, found)| wanted != found);
    assert!(
        wanted == found,
        "include/koshi.h differs from src/ffi (first at line {:?}); KOSHI_BLESS=1 writes it anew",
        differs.map(|line| line + 1)
    );
}

#[test]
fn the_header_speaks_c() {
    for (number, line) in generated().lines().enumerate() {
        for rust in ["[`", "`]", "::", "Option<", "Result<", "unsafe", "Arc<", "&mut", "[u8", "Vec<"] {
            assert!(!line.contains(rust), "line {}: {rust} in: {line}", number + 1);
        }
        assert!(line.len() <= 110, "line {} is longer than 110: {line}", number + 1);
        assert_eq!(line.trim_end(), line, "line {} ends with blanks", number + 1);
    }
}
