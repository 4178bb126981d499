//! What several test files need.
#![allow(dead_code)] // each test file uses its own part

pub mod graph;
pub mod reference;

use std::path::{Path, PathBuf};

/// Root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The shared library that was built with this test, in the folder of the test itself.
pub fn shared_library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let name = format!("{}koshi{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let library = test.parent().unwrap().join(name);
    assert!(library.is_file(), "{} is missing; cargo builds it with the tests", library.display());
    library
}
