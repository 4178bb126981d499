//! The shared library exports what `include/koshi.symbols` lists and nothing else, under
//! its SONAME.
//!
//! `KOSHI_BLESS=1 cargo test --test symbols` writes the list anew.

mod common;

use std::collections::BTreeSet;
use std::fs;

use object::elf;
use object::read::elf::{Dyn, ElfFile64, FileHeader, SectionHeader};
use object::{Endianness, Object, ObjectSymbol};

type File<'data> = ElfFile64<'data, Endianness>;

fn exported(file: &File<'_>) -> BTreeSet<String> {
    file.dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.is_global())
        .map(|symbol| symbol.name().unwrap().to_string())
        .collect()
}

fn soname(file: &File<'_>) -> String {
    let endian = file.endian();
    let sections = file.elf_header().sections(endian, file.data()).unwrap();
    let (entries, strings) = sections
        .iter()
        .find_map(|section| section.dynamic(endian, file.data()).unwrap())
        .expect("a shared library has a dynamic section");
    let strings = sections.strings(endian, file.data(), strings).unwrap();
    let entry = entries.iter().find(|entry| entry.tag32(endian) == Some(elf::DT_SONAME)).expect("a SONAME");
    String::from_utf8(entry.string(endian, strings).unwrap().to_vec()).unwrap()
}

/// Functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = fs::read_to_string(common::root().join("include/koshi.h")).unwrap();
    let code = header.lines().filter(|line| !line.starts_with("//")).collect::<Vec<_>>().join("\n");
    let body = &code[code.find("extern \"C\" {").unwrap()..];
    let mut names = BTreeSet::new();
    for (at, _) in body.match_indices("koshi_") {
        let name: String = body[at..].chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
        let before = body[..at].chars().next_back();
        if body[at + name.len()..].starts_with('(') && matches!(before, Some(' ' | '*')) {
            names.insert(name);
        }
    }
    names
}

#[test]
fn the_exported_symbols_are_those_listed() {
    let data = fs::read(common::shared_library()).unwrap();
    let found = exported(&File::parse(&*data).unwrap());
    let path = common::root().join("include/koshi.symbols");
    let text = found.iter().map(|name| format!("{name}\n")).collect::<String>();
    if std::env::var_os("KOSHI_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let listed = fs::read_to_string(&path).unwrap_or_default();
    let wanted: BTreeSet<String> = listed.lines().map(str::to_string).collect();
    let extra: Vec<_> = found.difference(&wanted).collect();
    let missing: Vec<_> = wanted.difference(&found).collect();
    assert!(
        text == listed,
        "include/koshi.symbols: not listed {extra:?}, not exported {missing:?}; KOSHI_BLESS=1 writes it anew"
    );
}

#[test]
fn the_header_declares_each_exported_function() {
    let data = fs::read(common::shared_library()).unwrap();
    let found = exported(&File::parse(&*data).unwrap());
    assert_eq!(declared(), found);
}

#[test]
fn the_soname_is_that_of_the_abi() {
    let data = fs::read(common::shared_library()).unwrap();
    assert_eq!(soname(&File::parse(&*data).unwrap()), "libkoshi.so.0");
}
