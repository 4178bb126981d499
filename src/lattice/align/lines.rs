//! Lines of whole numbers and words, as Kaldi's tables of phones have them.

use std::collections::HashMap;
use std::hash::Hash;

use crate::error::{Error, Result, try_reserve};
use crate::table::Input;

/// Longest field shown in a message.
const SHOWN: usize = 40;

/// Calls `take` with the fields of each line that is not blank, to the end of `input`. What it says is wrong becomes
/// a format error with file, byte and line.
pub(super) fn each_line(input: &mut Input, mut take: impl FnMut(&[&str]) -> Result<Result<(), String>>) -> Result<()> {
    loop {
        let (offset, number) = (input.offset(), input.line());
        let Some(line) = input.read_line()? else { return Ok(()) };
        let mut fields = Vec::new();
        for field in line.split([' ', '\t', '\r']).filter(|field| !field.is_empty()) {
            try_reserve(&mut fields, 1, "fields of a line")?;
            fields.push(field);
        }
        if fields.is_empty() {
            continue;
        }
        if let Err(why) = take(&fields)? {
            return Err(input.format_error_at(offset, format!("line {number}: {why}")));
        }
    }
}

/// A whole number of at least `least`.
pub(super) fn number(field: &str, least: i32, what: &str) -> Result<i32, String> {
    let value: Option<i32> = field.parse().ok().filter(|&value| value >= least);
    value.ok_or_else(|| format!("{:?} is no {what}", field.chars().take(SHOWN).collect::<String>()))
}

/// Makes room for one more entry.
pub(super) fn room<K: Eq + Hash, V>(map: &mut HashMap<K, V>, what: &str) -> Result<()> {
    let asked = ((map.len() + 1) * size_of::<(K, V)>()) as u64;
    map.try_reserve(1).map_err(|_| Error::NoMemory { what: what.to_string(), asked })
}
