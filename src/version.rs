//! The library's version, in the forms that the C face hands out.

/// Major, minor and patch number of this build (SemVer).
pub const MAJOR: u32 = parse(env!("CARGO_PKG_VERSION_MAJOR"));
/// See [`MAJOR`].
pub const MINOR: u32 = parse(env!("CARGO_PKG_VERSION_MINOR"));
/// See [`MAJOR`].
pub const PATCH: u32 = parse(env!("CARGO_PKG_VERSION_PATCH"));

/// The version as one number: `major * 1_000_000 + minor * 1_000 + patch`.
pub const NUMBER: u32 = MAJOR * 1_000_000 + MINOR * 1_000 + PATCH;

/// The version as text, `"major.minor.patch"`.
pub const STRING: &str = env!("CARGO_PKG_VERSION");

/// Decimal digits to a number, at compile time.
const fn parse(text: &str) -> u32 {
    let bytes = text.as_bytes();
    let mut value = 0;
    let mut at = 0;
    while at < bytes.len() {
        value = value * 10 + (bytes[at] - b'0') as u32;
        at += 1;
    }
    value
}
