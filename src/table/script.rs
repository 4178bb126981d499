//! The lines of a script: a key and the name of a file that holds its object.

use std::collections::HashMap;

use super::holder::Holder;
use super::input::Input;
use super::specifier::split_range;
use crate::error::{Error, Result};

/// The next key and file name; `None` at the end of the script.
pub(super) fn read_line(input: &mut Input) -> Result<Option<(String, String)>> {
    let start = input.offset();
    if input.peek()? == Some(0) {
        return Err(input.format_error("this is a binary file, not a script"));
    }
    let Some(line) = input.read_line()? else { return Ok(None) };
    let line = line.trim_ascii();
    match line.split_once(|c: char| c.is_ascii_whitespace() || c == '\x0b') {
        Some((key, name)) => Ok(Some((key.to_string(), name.trim_ascii().to_string()))),
        None => {
            let message = format!("line {}: expected a key and a file name", input.line() - 1);
            Err(input.format_error_at(start, message))
        }
    }
}

/// Reads a whole script; each key may stand there once, and in ascending order if `sorted`.
pub(super) fn read_all(rxfilename: &str, sorted: bool) -> Result<HashMap<String, String>> {
    let mut input = Input::open(rxfilename)?;
    let mut names = HashMap::new();
    let mut last: Option<String> = None;
    loop {
        let start = input.offset();
        let Some((key, name)) = read_line(&mut input)? else { break };
        if let Some(last) = last.as_ref().filter(|last| sorted && key < **last) {
            let message = format!("the option s is given, but the key {key} comes after {last}");
            return Err(input.format_error_at(start, message));
        }
        let asked = 2 * (names.len() * size_of::<(String, String)>()) as u64;
        names.try_reserve(1).map_err(|_| Error::NoMemory { what: "script".into(), asked })?;
        if names.insert(key.clone(), name).is_some() {
            return Err(input.format_error_at(start, format!("the key {key} is given twice")));
        }
        last = Some(key);
    }
    input.close()?;
    Ok(names)
}

/// Loads the objects that a script names.
pub(super) struct Loader<H: Holder> {
    /// The last whole object of which a range was asked: the next line is likely to ask for another range of it.
    whole: Option<(String, H::Value)>,
}

impl<H: Holder> Loader<H> {
    pub(super) fn new() -> Self {
        Loader { whole: None }
    }

    /// Reads the object that a line of a script names.
    pub(super) fn load(&mut self, key: &str, name: &str) -> Result<H::Value> {
        self.load_part(name).map_err(|e| e.context(format!("entry {key}")))
    }

    fn load_part(&mut self, name: &str) -> Result<H::Value> {
        let (file, range) = split_range(name)?;
        let Some(range) = range else { return read_object::<H>(file) };
        let whole = match self.whole.take() {
            Some((of, value)) if of == file => value,
            _ => read_object::<H>(file)?,
        };
        let part = H::range(&whole, range).map_err(|e| match e {
            Error::Argument(why) => Error::Argument(format!("{name}: {why}")),
            other => other,
        });
        self.whole = Some((file.to_string(), whole));
        part
    }
}

fn read_object<H: Holder>(file: &str) -> Result<H::Value> {
    let mut input = Input::open(file)?;
    let value = H::read(&mut input)?;
    input.close()?;
    Ok(value)
}
