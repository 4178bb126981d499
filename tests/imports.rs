//! Imports run one way: `ffi, bin → decoder, chain, transducer, egs → cpu, cuda → search →
//! lattice → graph → table`. Only `cuda` names cudarc, and nothing uses `ffi`. Every export
//! of `ffi` runs inside the guard.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms from the ground up; those of one row may not use each other.
const FLOORS: &[&[&str]] = &[
    &["error", "version", "float_env", "quiet", "prefetch", "random", "sync"],
    &["exclusive"],
    &["table"],
    &["graph"],
    &["lattice"],
    &["search"],
    &["cpu", "cuda"],
    &["decoder", "chain", "transducer", "egs"],
    &["ffi", "bin"],
];

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The text without comments, texts and character literals.
fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let skip = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(raw) = rest.strip_prefix("r#\"") {
            raw.find("\"#").map_or(rest.len(), |end| end + 5)
        } else if letter == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|letter| {
                let ends = letter == '"' && !escaped;
                escaped = letter == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("'\"'") {
            3
        } else if rest.starts_with("'\\\"'") {
            4
        } else {
            code.push(letter);
            letter.len_utf8()
        };
        rest = &rest[skip..];
    }
    code
}

fn word(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    &text[..end]
}

/// First names of the paths behind `prefix`: `crate::a::b` gives `a`, `crate::{a::b, c}` gives `a`, `c`.
fn names_behind<'t>(code: &'t str, prefix: &str) -> Vec<&'t str> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_') {
            continue;
        }
        let rest = code[at + prefix.len()..].trim_start();
        match rest.strip_prefix('{') {
            None => names.push(word(rest)),
            Some(group) => {
                let mut depth = 0;
                let mut expect = true;
                for (place, letter) in group.char_indices() {
                    match letter {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => expect = true,
                        letter if expect && letter.is_alphabetic() => {
                            names.push(word(&group[place..]));
                            expect = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    names
}

/// Rooms that a file's code uses. `super::room` counts where the own room has no such module.
fn uses<'t>(code: &'t str, own: &[String]) -> Vec<&'t str> {
    let mut used: Vec<&str> = ["crate::", "koshi::"].iter().flat_map(|prefix| names_behind(code, prefix)).collect();
    let above = names_behind(code, "super::").into_iter().filter(|name| !own.iter().any(|module| module == name));
    used.extend(above);
    used.retain(|name| floor(name).is_some());
    used
}

fn faults(room: &str, own: &[String], text: &str) -> Vec<String> {
    let code = code(text);
    let mut faults = Vec::new();
    for used in uses(&code, own) {
        let allowed = match (floor(room), floor(used)) {
            (Some(from), Some(to)) => to < from,
            _ => false,
        };
        if used != room && !allowed {
            faults.push(format!("{room} uses {used}"));
        }
        if used == "ffi" && room != "ffi" {
            faults.push(format!("{room} uses ffi"));
        }
    }
    if room != "cuda" && names_behind(&code, "cudarc").len() + names_behind(&code, "use cudarc").len() > 0 {
        faults.push(format!("{room} names cudarc"));
    }
    faults
}

/// Room of a file under src: its folder, or its own name at the root.
fn room(path: &Path) -> String {
    let inside = path.strip_prefix(common::root().join("src")).unwrap();
    let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
    first.trim_end_matches(".rs").to_string()
}

#[test]
fn no_import_runs_backwards() {
    let mut paths = Vec::new();
    sources(&common::root().join("src"), &mut paths);
    assert!(paths.len() > 10);
    let mut all = Vec::new();
    for path in &paths {
        let room = room(path);
        if room == "lib" || room == "build" {
            continue;
        }
        assert!(floor(&room).is_some(), "{}: not a room of the house", path.display());
        let own: Vec<String> = paths
            .iter()
            .filter(|other| self::room(other) == room)
            .map(|other| other.file_stem().unwrap().to_str().unwrap().to_string())
            .collect();
        let text = fs::read_to_string(path).unwrap();
        all.extend(faults(&room, &own, &text).into_iter().map(|fault| format!("{}: {fault}", path.display())));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn faults_are_seen_and_comments_are_not() {
    let none: &[String] = &[];
    assert!(faults("graph", none, "use crate::table::Transitions;\nuse crate::error::{Error, Result};").is_empty());
    assert!(faults("graph", none, "// crate::decoder::x\nlet s = \"crate::decoder\";").is_empty());
    assert_eq!(faults("table", none, "use crate::graph::Graph;"), ["table uses graph"]);
    assert_eq!(faults("table", none, "use crate::{error::Error, graph::{Graph, Header}};"), ["table uses graph"]);
    assert_eq!(faults("table", none, "fn f() { crate::search::go() }"), ["table uses search"]);
    assert_eq!(faults("cpu", none, "use super::cuda;"), ["cpu uses cuda"]);
    assert!(faults("ffi", &["cuda".into()], "use super::cuda;").is_empty());
    assert_eq!(faults("bin", none, "use koshi::ffi::koshi_version;").len(), 2);
    assert_eq!(faults("decoder", none, "use cudarc::driver;"), ["decoder names cudarc"]);
    assert!(faults("cuda", none, "use cudarc::driver;").is_empty());
}

#[test]
fn every_export_runs_inside_the_guard() {
    let mut paths = Vec::new();
    sources(&common::root().join("src/ffi"), &mut paths);
    let mut exports = 0;
    for path in paths {
        let text = code(&fs::read_to_string(&path).unwrap());
        for (at, _) in text.match_indices("#[unsafe(no_mangle)]") {
            let function = &text[at..];
            let end = function.find("\n}\n").map_or(function.len(), |end| end);
            let function = &function[..end];
            let guarded =
                ["guard::call(err,", "guard::query(", "guard::free("].map(|guard| function.matches(guard).count());
            assert_eq!(guarded.iter().sum::<usize>(), 1, "{}: {function}", path.display());
            let signature = &function[..function.find('{').unwrap()];
            for shape in ["&mut", "Box<", "Option<", "bool"] {
                assert!(!signature.contains(shape), "{}: {shape} in {signature}", path.display());
            }
            let takes_err = signature.contains("err: *mut *mut koshi_error");
            assert_eq!(guarded[0] == 1, takes_err, "{}: {signature}", path.display());
            exports += 1;
        }
    }
    assert!(exports > 10);
}
