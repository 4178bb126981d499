//! What Koshi is built of, by Cargo.lock and what cargo knows without a network: licences, sources, and packages that are
//! there twice. Whether a package is maintained, was yanked or has a known fault is not to be seen offline.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Licences under which a package may be used, one of those that it offers.
const ALLOWED: &[&str] =
    &["Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib", "0BSD", "Unicode-3.0", "Unlicense"];

/// Of packages that only build or test Koshi.
const ALLOWED_IN_TESTS: &[&str] = &["MPL-2.0"];

/// Packages of which Koshi itself needs two versions, and why.
const TWICE: &[(&str, &str)] = &[];

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--format-version=1", "--offline", "--locked"];
    let output = Command::new(cargo).args(arguments).current_dir(common::root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Identifiers of the packages that end up in the library: without those that build and test it.
fn shipped(metadata: &Value) -> BTreeSet<String> {
    let nodes: BTreeMap<&str, &Value> =
        metadata["resolve"]["nodes"].as_array().unwrap().iter().map(|node| (text(node, "id"), node)).collect();
    let root = text(&metadata["resolve"], "root");
    let (mut open, mut found) = (vec![root], BTreeSet::new());
    while let Some(id) = open.pop() {
        for needed in nodes[id]["deps"].as_array().unwrap() {
            let kinds = needed["dep_kinds"].as_array().unwrap();
            let normal = kinds.iter().any(|kind| kind["kind"].is_null());
            if normal && found.insert(text(needed, "pkg").to_string()) {
                open.push(text(needed, "pkg"));
            }
        }
    }
    found
}

/// Whether a licence expression can be met by `allowed`: alternatives by OR or `/`, of which each part of an AND counts.
fn met(expression: &str, allowed: &[&str]) -> bool {
    let alternatives = expression.replace('/', " OR ");
    // In `(A OR B) AND C` the parenthesis is one part.
    let parts: Vec<&str> = alternatives.split(" AND ").collect();
    parts.iter().all(|part| {
        part.trim_matches(['(', ')', ' ']).split(" OR ").any(|licence| {
            let licence = licence.trim().trim_end_matches(" WITH LLVM-exception");
            allowed.contains(&licence)
        })
    })
}

#[test]
fn expressions() {
    for good in
        ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "Apache-2.0 WITH LLVM-exception OR X", "(X OR MIT) AND Unicode-3.0"]
    {
        assert!(met(good, ALLOWED), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR X) AND Y", "MPL-2.0", "GPL-3.0 WITH LLVM-exception"] {
        assert!(!met(bad, ALLOWED), "{bad}");
    }
}

#[test]
fn licences_are_among_those_allowed() {
    let metadata = metadata();
    let shipped = shipped(&metadata);
    let packages = metadata["packages"].as_array().unwrap();
    assert!(shipped.len() > 20 && packages.len() > 100, "{} of {}", shipped.len(), packages.len());
    for package in packages {
        let licence = text(package, "license");
        let in_library = shipped.contains(text(package, "id"));
        let good = met(licence, ALLOWED) || (!in_library && ALLOWED_IN_TESTS.contains(&licence));
        assert!(good, "{} is under {licence:?}, in the library: {in_library}", text(package, "name"));
    }
}

#[test]
fn packages_come_from_the_registry_with_their_checksums() {
    let lock = std::fs::read_to_string(common::root().join("Cargo.lock")).unwrap();
    let mut count = 0;
    for package in lock.split("[[package]]").skip(1).filter(|package| !package.contains("name = \"koshi\"")) {
        let registry = package.contains("source = \"registry+https://github.com/rust-lang/crates.io-index\"");
        assert!(registry && package.contains("checksum = \""), "{package}");
        count += 1;
    }
    assert!(count > 100, "{count}");
}

#[test]
fn no_package_is_there_twice_without_need() {
    let metadata = metadata();
    let shipped = shipped(&metadata);
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        if shipped.contains(text(package, "id")) {
            versions.entry(text(package, "name")).or_default().insert(text(package, "version"));
        }
    }
    let twice: Vec<&str> = versions.iter().filter(|(_, all)| all.len() > 1).map(|(name, _)| *name).collect();
    assert_eq!(twice, TWICE.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "{versions:?}");
}
