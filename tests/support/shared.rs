//! Real data that is not in the repository: tests that need it say so when it is absent.

use std::io::Read;
use std::path::{Path, PathBuf};

/// Path of a file of the shared data: below `KOSHI_SHARED`, else below `shared` next to the
/// repository. `None`, with a note on standard error, where that folder is absent; a
/// failure if `KOSHI_REQUIRE_SHARED` is 1.
pub fn shared(file: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = std::env::var_os("KOSHI_SHARED").map_or_else(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder.join(file));
    }
    let required = std::env::var("KOSHI_REQUIRE_SHARED").is_ok_and(|value| value == "1");
    assert!(!required, "{} is absent, and KOSHI_REQUIRE_SHARED is 1", folder.display());
    eprintln!("did not run: {} is absent, so {file} cannot be read", folder.display());
    None
}

/// The bytes of a file, unpacked if its name ends in `.gz`.
#[allow(dead_code)]
pub fn read(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_none_or(|extension| extension != "gz") {
        return bytes;
    }
    let mut unpacked = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked).unwrap();
    unpacked
}
