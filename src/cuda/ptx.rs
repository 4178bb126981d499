//! PTX that a driver takes which is older than the compiler.
//!
//! A compiler names the latest version of the language that it knows, and a driver refuses those that it does not. The
//! kernels use nothing of the latest versions but remarks for the optimiser, so an older version can be named.

use std::ffi::CString;

/// The version that is named: that of CUDA 11.0, which all drivers that Koshi takes know. Kernels for compute capability
/// 7.5, what is compiled at most, need 6.3.
const VERSION: &str = "7.0";

/// `ptx` with the older version named, without remarks that this has not. Up to the first NUL, if there is one.
pub(super) fn for_older_drivers(ptx: &[u8]) -> CString {
    let end = ptx.iter().position(|&byte| byte == 0).unwrap_or(ptx.len());
    let mut older = Vec::with_capacity(end);
    for line in ptx[..end].split_inclusive(|&byte| byte == b'\n') {
        if line.starts_with(b".version ") {
            older.extend_from_slice(format!(".version {VERSION}\n").as_bytes());
        } else if !line.trim_ascii_start().starts_with(b".pragma \"used_bytes_mask") {
            older.extend_from_slice(line);
        }
    }
    CString::new(older).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_version_and_remarks_change() {
        let ptx = "// .version 9.0\n.version 9.0\n.target sm_75\n\n{\n\t.pragma \"used_bytes_mask 0xff\";\n\tld.global.u32 \
                   \t%r1, [%rd1];\n\t.pragma \"nounroll\";\n}\n\0";
        let older = "// .version 9.0\n.version 7.0\n.target sm_75\n\n{\n\tld.global.u32 \t%r1, [%rd1];\n\t.pragma \
                     \"nounroll\";\n}\n";
        assert_eq!(for_older_drivers(ptx.as_bytes()).to_str().unwrap(), older);
        assert_eq!(for_older_drivers(b"").to_str().unwrap(), "");
    }
}
