//! Bytes taken for a symbol table: an error, or a table in which every symbol leads to its id and back.

use koshi::table::{Input, SymbolTable};

pub fn run(bytes: &[u8]) -> bool {
    let mut input = Input::from_bytes("fuzz", bytes);
    let read = SymbolTable::read_binary(&mut input);
    let end = input.offset();
    if read.is_ok() {
        let mut input = Input::from_bytes("fuzz", bytes);
        SymbolTable::skip_binary(&mut input).expect("what is read can be skipped");
        assert_eq!(input.offset(), end);
    }
    let Ok(table) = SymbolTable::read(&mut Input::from_bytes("fuzz", bytes)) else { return false };
    assert_eq!(table.iter().len(), table.size());
    for (id, name) in table.iter() {
        assert_eq!((table.find(name), table.name(id)), (Some(id), Some(name)));
        assert_eq!(table.name_c(id).map(|name| name.to_bytes()), Some(name));
    }
    true
}
