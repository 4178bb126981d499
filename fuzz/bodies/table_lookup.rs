//! Bytes taken for an archive, or for a script of names, offsets and ranges into a good archive: read in order and looked up
//! by keys, with any options. An error, or entries that are the same either way.
//!
//! The first byte says which options, the second which of archive and script and which type.

use std::path::Path;

use koshi::table::{
    CompressedMatrixHolder, Holder, Int32VectorHolder, MatrixHolder, Output, RandomAccessReader, SequentialReader,
};

const ARCHIVE: &[u8] = include_bytes!("../seeds/table_archive/matrices");
const OPTIONS: [&str; 6] = ["o", "s", "cs", "p", "bg", "t"];

fn written<H: Holder>(value: &H::Value) -> Vec<u8> {
    let mut output = Output::memory();
    H::write(&mut output, value, true).expect("writing to memory");
    output.into_bytes()
}

/// Entries in their order, and whether that was all.
fn in_order<H: Holder>(name: &str) -> (Vec<(String, Vec<u8>)>, bool) {
    let mut entries = Vec::new();
    let Ok(mut reader) = SequentialReader::<H>::open(name) else { return (entries, false) };
    loop {
        match reader.next() {
            Ok(Some((key, value))) => entries.push((key, written::<H>(&value))),
            Ok(None) => return (entries, true),
            Err(_) => return (entries, false),
        }
    }
}

fn check<H: Holder>(kind: &str, options: u8, path: &Path) -> bool {
    let words: Vec<&str> =
        OPTIONS.iter().enumerate().filter(|(at, _)| options >> at & 1 == 1).map(|(_, w)| *w).collect();
    let is_permissive = words.contains(&"p");
    let name = format!("{}{kind}:{}", words.iter().map(|word| format!("{word},")).collect::<String>(), path.display());
    let (entries, is_whole) = in_order::<H>(&name);
    let mut keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).chain(["absent", "zz"]).collect();
    keys.sort_unstable();
    keys.dedup();
    if options >> 6 & 1 == 1 {
        keys.reverse();
    }
    let Ok(mut reader) = RandomAccessReader::<H>::open(&name) else { return !entries.is_empty() };
    for key in keys {
        let has = reader.has(key);
        let found = reader.get(key);
        // A script tells of keys before it reads their objects.
        assert!(
            kind == "scp" || has.is_err() || has.as_ref().ok() == found.as_ref().ok().map(Option::is_some).as_ref()
        );
        let mut of_key = entries.iter().filter(|(other, _)| other == key).map(|(_, data)| data);
        match found {
            Ok(Some(value)) => {
                let value = written::<H>(value);
                // Of a script, what stands behind an entry that cannot be read is not seen in order.
                assert!(of_key.any(|data| *data == value) || kind == "scp" && !is_whole, "{name} {key}");
            }
            Ok(None) => {
                // With a promise that the archive does not keep, or behind what is broken, it may be passed over.
                let first = of_key.next();
                assert!(first.is_none() || options & 0b111 != 0 || is_permissive, "{name} {key}");
            }
            Err(_) => {}
        }
    }
    let _ = reader.close();
    !entries.is_empty()
}

/// Each name of the script is made one that begins with the archive's: no other file is opened, and no pipe.
fn inside(script: &[u8], archive: &Path) -> Vec<u8> {
    let text = String::from_utf8_lossy(script);
    let is_space = |c: char| c.is_ascii_whitespace() || c == '\x0b';
    let line = |line: &str| match line.trim_ascii().split_once(is_space) {
        Some((key, name)) => format!("k{key} {}{}", archive.display(), name.trim_ascii()),
        None => line.to_string(),
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n").into_bytes()
}

pub fn run(bytes: &[u8]) -> bool {
    let Some((&[options, which], rest)) = bytes.split_first_chunk() else { return false };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("table");
    let kind = if which & 1 == 0 { "ark" } else { "scp" };
    if kind == "scp" {
        let archive = folder.path().join("archive");
        std::fs::write(&archive, ARCHIVE).expect("a file");
        std::fs::write(&path, inside(rest, &archive)).expect("a file");
    } else {
        std::fs::write(&path, rest).expect("a file");
    }
    match which >> 1 & 3 {
        0 | 1 => check::<MatrixHolder>(kind, options, &path),
        2 => check::<CompressedMatrixHolder>(kind, options, &path),
        _ => check::<Int32VectorHolder>(kind, options, &path),
    }
}
