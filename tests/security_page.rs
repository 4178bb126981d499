//! `docs/security.md`: each promise names tests, and they are there.

mod common;
#[path = "support/named_tests.rs"]
mod named_tests;

use std::fs;

#[test]
fn each_promise_has_its_tests() {
    let page = fs::read_to_string(common::root().join("docs/security.md")).unwrap();
    let (promises, rest) = page.split_once("\n## What is not promised").unwrap();
    assert!(rest.matches("\n- **").count() > 8);
    let mut count = 0;
    // A name in code, and a file in parentheses.
    let mut check = |text: &str| {
        let joined = text.replace('\n', " ");
        for part in joined.split("` (").skip(1) {
            let file = part.split(')').next().unwrap();
            let before = &joined[..joined.find(&format!("` ({part}")).unwrap()];
            let name = before.rsplit('`').next().unwrap();
            named_tests::runs(common::root(), file, name);
            count += 1;
        }
    };
    for promise in promises.split("\n\n").filter(|paragraph| paragraph.starts_with("**")) {
        let title = promise.lines().next().unwrap();
        if title.starts_with("**Work.**") {
            continue;
        }
        let (_, tests) = promise.split_once("\nTests: ").unwrap_or_else(|| panic!("no tests behind: {title}"));
        check(tests);
    }
    let table = promises.split("\n\n").find(|paragraph| paragraph.starts_with("| what")).unwrap();
    for row in table.lines().skip(2) {
        assert!(row.contains("` (tests/"), "no test in {row}");
        check(row);
    }
    assert!(count > 35, "only {count} tests are named");
}
