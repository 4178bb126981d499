//! Symbol tables by hand; real ones are in `tests/table_real.rs`.

use super::format_offset;
use crate::error::Result;
use crate::table::{Input, SymbolTable};

fn table(bytes: impl Into<Vec<u8>>) -> Result<SymbolTable> {
    SymbolTable::read(&mut Input::from_bytes("words.txt", bytes))
}

/// OpenFst's binary form.
fn binary(symbols: &[(&str, i64)]) -> Vec<u8> {
    let string = |text: &str| [&(text.len() as i32).to_le_bytes(), text.as_bytes()].concat();
    let mut bytes = 2125658996i32.to_le_bytes().to_vec();
    bytes.extend(string("words"));
    bytes.extend(99i64.to_le_bytes());
    bytes.extend((symbols.len() as i64).to_le_bytes());
    for (name, id) in symbols {
        bytes.extend(string(name));
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn text_by_hand() {
    let words = table("<eps> 0\nb\t2\n\n  a   1 \r\n물 7").unwrap();
    assert_eq!(words.size(), 4);
    assert_eq!(words.find("a"), Some(1));
    assert_eq!(words.find("<eps>"), Some(0));
    assert_eq!(words.find("물"), Some(7));
    assert_eq!((words.find("c"), words.find("")), (None, None));
    assert_eq!(words.name(2), Some(&b"b"[..]));
    assert_eq!(words.name(7), Some("물".as_bytes()));
    assert_eq!(words.name_c(1), Some(c"a"));
    for id in [3, -1, 8, i32::MAX] {
        assert_eq!((words.name(id), words.name_c(id)), (None, None));
    }
    let all: Vec<(i32, &[u8])> = words.iter().collect();
    assert_eq!(all, [(0, &b"<eps>"[..]), (1, b"a"), (2, b"b"), (7, "물".as_bytes())]);
    assert_eq!(table("").unwrap().size(), 0);
    // Older systems have other encodings than UTF-8.
    assert_eq!(table(&b"\xb9\xb0 1\n"[..]).unwrap().find(b"\xb9\xb0"), Some(1));
}

#[test]
fn wrong_lines() {
    for (text, message) in [
        ("a 1\nb\n", "words.txt: byte 4: line 2: expected a symbol and its id"),
        ("a 1 2\n", "words.txt: byte 0: line 1: expected a symbol and its id"),
        ("a 1\n\nb x\n", "words.txt: byte 5: line 3: \"x\" is not an id"),
        ("a -1\n", "words.txt: byte 0: line 1: \"-1\" is not an id"),
        ("a 2147483648\n", "words.txt: byte 0: line 1: \"2147483648\" is not an id"),
        ("a 1\nb 2\na 3\n", "words.txt: byte 8: the symbol \"a\" comes twice, in lines 1 and 3"),
        ("a 1\nb 1\n", "words.txt: byte 4: the id 1 comes twice, in lines 1 and 2"),
        ("a\0b 1\n", "words.txt: byte 0: a symbol has a zero byte in it"),
    ] {
        assert_eq!(table(text).unwrap_err().to_string(), message);
    }
}

#[test]
fn binary_by_hand() {
    let bytes = binary(&[("<eps>", 0), ("b", 5), ("a", 2), ("two words", 3)]);
    let words = table(bytes.clone()).unwrap();
    assert_eq!(words.iter().map(|(id, _)| id).collect::<Vec<_>>(), [0, 2, 3, 5]);
    assert_eq!((words.find("b"), words.find("two words"), words.name(2)), (Some(5), Some(3), Some(&b"a"[..])));
    // Behind the table nothing is touched, whether it is read or skipped.
    let embedded = [&bytes[..], b"rest"].concat();
    for skip in [false, true] {
        let mut input = Input::from_bytes("graph", embedded.clone());
        match skip {
            true => SymbolTable::skip_binary(&mut input).unwrap(),
            false => drop(SymbolTable::read_binary(&mut input).unwrap()),
        }
        assert_eq!(input.offset(), bytes.len() as u64);
    }
    assert!(SymbolTable::read_binary(&mut Input::from_bytes("graph", "a 1\n")).is_err());
}

#[test]
fn wrong_binary_tables() {
    for symbols in [&[("a", 1), ("a", 2)][..], &[("a", 1), ("b", 1)], &[("a", -1)], &[("a", 1 << 31)], &[("a\0", 1)]] {
        assert!(table(binary(symbols)).is_err(), "{symbols:?}");
    }
    let good = binary(&[("a", 1)]);
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        table(changed).unwrap_err()
    };
    // The name's length, the number of symbols, a symbol's length: negative and far too long.
    for at in [4, 29] {
        assert_eq!(format_offset(&with(at, &(-1i32).to_le_bytes())), at as u64);
        assert_eq!(format_offset(&with(at, &i32::MAX.to_le_bytes())), good.len() as u64);
    }
    assert_eq!(format_offset(&with(21, &(-1i64).to_le_bytes())), 21);
    assert_eq!(format_offset(&with(21, &i64::MAX.to_le_bytes())), good.len() as u64);
}
