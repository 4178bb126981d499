//! Words as commands print them.

use koshi::table::SymbolTable;
use koshi::{Error, Result};

/// The table that an option names; none for an empty name.
pub fn table(rxfilename: &str) -> Result<Option<SymbolTable>> {
    if rxfilename.is_empty() { Ok(None) } else { SymbolTable::read_file(rxfilename).map(Some) }
}

/// A line of an utterance's key and words.
pub fn line(symbols: &SymbolTable, key: &str, words: &[i32]) -> Result<String> {
    let mut line = format!("{key} ");
    for &word in words {
        let name = symbols.name(word).ok_or_else(|| Error::Argument(format!("Word-id {word} not in symbol table.")))?;
        line.push_str(&String::from_utf8_lossy(name));
        line.push(' ');
    }
    line.push('\n');
    Ok(line)
}
