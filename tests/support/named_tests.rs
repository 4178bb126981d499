//! Tests by their names, as pages name them.
#![allow(dead_code)] // each test file uses its own part

use std::fs;
use std::path::Path;

/// Holds that `name` is a test of `file`, or a function that tests of it call.
pub fn runs(root: &Path, file: &str, name: &str) {
    let text = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let calls = text
        .match_indices(name)
        .filter(|(at, _)| {
            let word = |c: char| c.is_alphanumeric() || c == '_';
            !text[..*at].ends_with(word) && !text[at + name.len()..].starts_with(word)
        })
        .count();
    let declared = match file.rsplit('.').next() {
        Some("rs") => text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<")),
        // `main` of a program is the test of that name in tests/c_programs.rs.
        _ => text.contains(&format!(" {name}(")),
    };
    assert!(declared, "{file} has no {name}");
    // A test by itself, or one that a macro or a function makes of it.
    let at = text.find(&format!("fn {name}")).unwrap_or(0);
    let attributes = text[..at].rsplit("\n\n").next().unwrap_or_default();
    assert!(calls > 1 || attributes.contains("#[test]"), "nothing runs {name} of {file}");
}

/// Files in which tests are, by their paths in the repository.
pub fn sources(root: &Path) -> Vec<String> {
    let (mut open, mut found) = (vec!["tests".to_string(), "src".into(), "c-tests".into()], Vec::new());
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                open.push(path);
            } else if [".rs", ".c", ".cc"].iter().any(|end| path.ends_with(end)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
