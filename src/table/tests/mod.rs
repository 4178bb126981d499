//! Tests of the table room; what needs whole programs or real files is in `tests/table*.rs`.

mod bytes;
mod compressed;
mod matrices;
mod symbols;
mod tables;
mod transitions;

use crate::error::{Error, Result};
use crate::table::{Holder, Input, Output};

/// The bytes that a function writes.
fn written(write: impl FnOnce(&mut Output) -> Result<()>) -> Vec<u8> {
    let mut output = Output::memory();
    write(&mut output).unwrap();
    output.into_bytes()
}

/// One object as it stands in a table.
fn stored<H: Holder>(value: &H::Value, binary: bool) -> Vec<u8> {
    written(|output| H::write(output, value, binary))
}

/// Reads one object and expects nothing but white space after it.
fn loaded<H: Holder>(bytes: &[u8]) -> Result<H::Value> {
    let mut input = Input::from_bytes("test", bytes);
    let value = H::read(&mut input)?;
    input.skip_space().unwrap();
    assert!(input.at_end().unwrap(), "bytes are left after the object");
    Ok(value)
}

/// The offset that a format error names.
fn format_offset(error: &Error) -> u64 {
    match error.root() {
        Error::Format { offset, .. } => *offset,
        other => panic!("not a format error: {other}"),
    }
}
