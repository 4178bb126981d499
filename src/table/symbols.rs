//! Symbol tables: the words (or phones) that labels stand for.

use std::ffi::CStr;

use super::input::Input;
use crate::error::{Error, Result, try_copy, try_push, try_reserve};

const WHAT: &str = "symbol table";

/// First four bytes of OpenFst's binary symbol tables.
const MAGIC: i32 = 2125658996;

/// Symbols and their ids, each of either once. Symbols are bytes without white space in text files, mostly UTF-8; no
/// symbol has a zero byte, so that each can be given to C.
#[derive(Debug, Default)]
pub struct SymbolTable {
    /// Symbols in ascending order of their ids, each with a zero byte after it.
    bytes: Vec<u8>,
    /// Where each symbol begins in `bytes`, and where one more would.
    starts: Vec<usize>,
    ids: Vec<i32>,
    /// Places of the symbols, ordered by their bytes.
    by_name: Vec<u32>,
}

/// A symbol as it was read.
struct Entry {
    id: i32,
    name: Vec<u8>,
    /// Where the file has it, for messages.
    offset: u64,
    line: u64,
}

impl SymbolTable {
    /// Reads a table from a file given by its rxfilename, in OpenFst's text or binary form.
    pub fn read_file(rxfilename: &str) -> Result<Self> {
        let mut input = Input::open(rxfilename)?;
        let table = Self::read(&mut input)?;
        input.close()?;
        Ok(table)
    }

    /// Reads a table in either form; the text form, lines of a symbol and its id, goes to the end of the input.
    ///
    /// A symbol or an id that comes twice, a negative id, one beyond 32 bits or a line of another form is an error that
    /// names the line.
    pub fn read(input: &mut Input) -> Result<Self> {
        if input.peek()? == MAGIC.to_le_bytes().first().copied() && input.peek_bytes(4)? == MAGIC.to_le_bytes() {
            return Self::read_binary(input);
        }
        let mut entries = Vec::new();
        loop {
            let (offset, line) = (input.offset(), input.line());
            let Some(text) = input.read_line_bytes()? else { break };
            let mut words = text.split(|b| b" \t\r".contains(b)).filter(|word| !word.is_empty());
            let message = match (words.next(), words.next(), words.next()) {
                (None, ..) => continue,
                (Some(name), Some(id), None) => match parse_id(id) {
                    Some(id) => {
                        let name = try_copy(name, WHAT)?;
                        try_push(&mut entries, Entry { id, name, offset, line }, WHAT)?;
                        continue;
                    }
                    None => format!("\"{}\" is not an id", id.escape_ascii()),
                },
                _ => "expected a symbol and its id".to_string(),
            };
            return Err(input.format_error_at(offset, format!("line {line}: {message}")));
        }
        Self::build(input, entries)
    }

    /// Reads OpenFst's binary form, as it stands in files of its own and inside graphs; nothing behind it is touched.
    pub fn read_binary(input: &mut Input) -> Result<Self> {
        let mut entries = Vec::new();
        for_each_binary(input, |input, offset, name, id| match i32::try_from(id) {
            Ok(id) if id >= 0 => try_push(&mut entries, Entry { id, name, offset, line: 0 }, WHAT),
            _ => Err(input.format_error_at(offset, format!("the symbol has the id {id}"))),
        })?;
        Self::build(input, entries)
    }

    /// Passes over a table in OpenFst's binary form.
    pub fn skip_binary(input: &mut Input) -> Result<()> {
        for_each_binary(input, |_, _, _, _| Ok(()))
    }

    fn build(input: &Input, mut entries: Vec<Entry>) -> Result<Self> {
        // In place: a stable sort would take memory that may not be there.
        entries.sort_unstable_by_key(|entry| (entry.id, entry.offset));
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(twice(input, pair[0].offset.max(pair[1].offset), pair, &format!("the id {}", pair[0].id)));
        }
        let mut by_name = Vec::new();
        try_reserve(&mut by_name, entries.len(), WHAT)?;
        by_name.extend(0..entries.len() as u32);
        by_name.sort_unstable_by_key(|&at| (&entries[at as usize].name, at));
        for pair in by_name.windows(2) {
            let pair = [&entries[pair[0] as usize], &entries[pair[1] as usize]];
            if pair[0].name == pair[1].name {
                let what = format!("the symbol \"{}\"", pair[0].name.escape_ascii());
                return Err(twice(input, pair[0].offset.max(pair[1].offset), &pair, &what));
            }
        }
        let mut table = SymbolTable { bytes: Vec::new(), starts: Vec::new(), ids: Vec::new(), by_name };
        try_reserve(&mut table.starts, entries.len() + 1, WHAT)?;
        try_reserve(&mut table.ids, entries.len(), WHAT)?;
        for entry in &entries {
            if entry.name.contains(&0) {
                return Err(input.format_error_at(entry.offset, "a symbol has a zero byte in it"));
            }
            try_reserve(&mut table.bytes, entry.name.len() + 1, WHAT)?;
            table.starts.push(table.bytes.len());
            table.bytes.extend_from_slice(&entry.name);
            table.bytes.push(0);
            table.ids.push(entry.id);
        }
        table.starts.push(table.bytes.len());
        Ok(table)
    }

    /// Number of symbols.
    pub fn size(&self) -> usize {
        self.ids.len()
    }

    /// Id of a symbol.
    pub fn find(&self, name: impl AsRef<[u8]>) -> Option<i32> {
        let name = name.as_ref();
        let found = self.by_name.binary_search_by(|&at| self.name_at(at as usize).unwrap_or_default().cmp(name));
        let at = self.by_name.get(found.ok()?)?;
        self.ids.get(*at as usize).copied()
    }

    /// Symbol of an id.
    pub fn name(&self, id: i32) -> Option<&[u8]> {
        self.name_at(self.place(id)?)
    }

    /// Symbol of an id, as C has strings.
    pub fn name_c(&self, id: i32) -> Option<&CStr> {
        let at = self.place(id)?;
        CStr::from_bytes_with_nul(self.bytes.get(*self.starts.get(at)?..*self.starts.get(at + 1)?)?).ok()
    }

    /// All ids and symbols, in ascending order of the ids.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (i32, &[u8])> {
        self.ids.iter().enumerate().map(|(at, &id)| (id, self.name_at(at).unwrap_or_default()))
    }

    /// Where an id is kept: at its own place if there are no gaps.
    fn place(&self, id: i32) -> Option<usize> {
        let at = usize::try_from(id).ok()?;
        if self.ids.get(at) == Some(&id) { Some(at) } else { self.ids.binary_search(&id).ok() }
    }

    fn name_at(&self, at: usize) -> Option<&[u8]> {
        self.bytes.get(*self.starts.get(at)?..self.starts.get(at + 1)?.checked_sub(1)?)
    }
}

fn parse_id(word: &[u8]) -> Option<i32> {
    let id: i32 = std::str::from_utf8(word).ok()?.parse().ok()?;
    (id >= 0).then_some(id)
}

fn twice<E: std::borrow::Borrow<Entry>>(input: &Input, offset: u64, pair: &[E], what: &str) -> Error {
    let lines: Vec<String> = pair.iter().map(|entry| entry.borrow().line.to_string()).collect();
    let where_ = if lines[0] == "0" { String::new() } else { format!(", in lines {}", lines.join(" and ")) };
    input.format_error_at(offset, format!("{what} comes twice{where_}"))
}

/// Reads a binary table and hands on each symbol with its offset and id.
fn for_each_binary(input: &mut Input, mut entry: impl FnMut(&Input, u64, Vec<u8>, i64) -> Result<()>) -> Result<()> {
    let start = input.offset();
    let magic = i32::from_le_bytes(input.read_array()?);
    if magic != MAGIC {
        return Err(input.format_error_at(start, format!("expected a symbol table ({MAGIC}), found {magic}")));
    }
    read_string(input, "name of the symbol table")?;
    let _next_free_id = i64::from_le_bytes(input.read_array()?);
    let start = input.offset();
    let size = i64::from_le_bytes(input.read_array()?);
    if size < 0 {
        return Err(input.format_error_at(start, format!("the symbol table has {size} symbols")));
    }
    for _ in 0..size {
        let offset = input.offset();
        let name = read_string(input, "symbol")?;
        let id = i64::from_le_bytes(input.read_array()?);
        entry(input, offset, name, id)?;
    }
    Ok(())
}

fn read_string(input: &mut Input, what: &str) -> Result<Vec<u8>> {
    let start = input.offset();
    let length = i32::from_le_bytes(input.read_array()?);
    match u64::try_from(length) {
        Ok(length) => input.read_bounded(length, what),
        Err(_) => Err(input.format_error_at(start, format!("{what}: the length is {length}"))),
    }
}
