//! The entries of an archive: a key, a space, an object.

use super::basic::describe_byte;
use super::holder::Holder;
use super::input::Input;
use crate::error::Result;

/// Reads the next key and object; `None` at the end of the archive.
pub(super) fn read_entry<H: Holder>(input: &mut Input) -> Result<Option<(String, H::Value)>> {
    let Some(key) = read_key(input)? else { return Ok(None) };
    match H::read(input) {
        Ok(value) => Ok(Some((key, value))),
        Err(error) => Err(error.context(format!("{}: entry {key}", input.name()))),
    }
}

/// Reads a key and the space or tab after it. A line end is left: it may be all there is of an empty text object.
fn read_key(input: &mut Input) -> Result<Option<String>> {
    input.skip_space()?;
    if input.at_end()? {
        return Ok(None);
    }
    let key = input.read_word()?;
    match input.peek()? {
        Some(byte @ (b' ' | b'\t')) => input.take(byte),
        Some(b'\n') => {}
        other => {
            let found = describe_byte(other);
            return Err(input.format_error(format!("expected a space after the key {key:?}, found {found}")));
        }
    }
    Ok(Some(key))
}
