//! `docs/cases.md` lists every input that broke other decoders with the tests that hold it: the tests are there, none is
//! left out, and none of the inputs is.

mod common;
#[path = "support/named_tests.rs"]
mod named_tests;
#[path = "support/shared.rs"]
mod shared;

use std::collections::BTreeSet;
use std::fs;

/// A row of the page: its number, and each test with its file.
fn rows() -> Vec<(u32, Vec<(String, String)>)> {
    let page = fs::read_to_string(common::root().join("docs/cases.md")).unwrap();
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| B")?.split(" | ");
        let number = cells.next()?.parse().unwrap();
        let tests = cells.nth(1)?.trim_end_matches(" |");
        let mut found = Vec::new();
        for of_file in tests.split("; ") {
            let (file, names) = of_file.split_once(": ").unwrap_or_else(|| panic!("row {number}: {of_file}"));
            let names = names.split(", ").map(|name| name.trim_matches('`').to_string());
            found.extend(names.map(|name| (file.to_string(), name)));
        }
        Some((number, found))
    };
    page.lines().filter_map(row).collect()
}

/// The number in `case_b07_one_state` and `case_b7_one_state`.
fn number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("case_b")?;
    let end = digits.find(|c: char| !c.is_ascii_digit())?;
    digits[end..].starts_with('_').then(|| digits[..end].parse().unwrap())
}

#[test]
fn each_test_that_is_named_is_there() {
    let rows = rows();
    assert!(rows.len() >= 80 && rows.is_sorted_by(|a, b| a.0 < b.0));
    for (row, tests) in &rows {
        assert!(!tests.is_empty(), "row {row} has no test");
        for (file, name) in tests {
            assert_eq!(number(name), Some(*row), "{name} stands in row {row}");
            named_tests::runs(common::root(), file, name);
        }
    }
}

#[test]
fn each_case_that_is_tested_is_named() {
    let named: BTreeSet<(String, String)> = rows().into_iter().flat_map(|row| row.1).collect();
    let mut found = BTreeSet::new();
    for file in named_tests::sources(common::root()) {
        let text = fs::read_to_string(common::root().join(&file)).unwrap();
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        for name in words.filter(|word| number(word).is_some() && !file.ends_with("cases_page.rs")) {
            found.insert((file.clone(), name.to_string()));
        }
    }
    let missing: Vec<_> = found.difference(&named).collect();
    assert!(missing.is_empty(), "not in docs/cases.md: {missing:?}");
}

/// The list that the project began with.
#[test]
fn each_row_of_the_list_is_there() {
    let Some(path) = shared::shared("cases/cases.md") else { return };
    let list = fs::read_to_string(path).unwrap();
    let wanted: Vec<u32> =
        list.lines().filter_map(|line| line.strip_prefix("| B")?.split(' ').next()?.parse().ok()).collect();
    assert!(wanted.len() >= 80, "{wanted:?}");
    assert_eq!(rows().into_iter().map(|row| row.0).collect::<Vec<_>>(), wanted);
}
