//! The programs of `c-tests/`, those in C compiled as C99 and as C++17, those in C++ as C++17 and C++20, linked
//! against the built library, and run; with sanitizers or under valgrind if `KOSHI_C_TESTS` says so
//! (see `tests/common/c.rs`).

mod common;

use std::fs;

use common::c::{Language, Mode, Program, mode, text};

/// Programs of `c-tests`, one test each.
macro_rules! programs {
    ($($name:ident)*) => {
        const PROGRAMS: &[&str] = &[$(stringify!($name)),*];
        $(#[test] fn $name() { run(stringify!($name)); })*
    };
}

programs! {
    abi bias busy callbacks cases chain config determinize endpoints errors examples header_only lifecycle log paths
    prompts raii reproducible submit threads transducer words
}

#[test]
fn each_program_of_the_folder_is_run() {
    let mut found: Vec<String> = fs::read_dir(common::root().join("c-tests"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c" || extension == "cc"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_string())
        .collect();
    found.sort();
    assert_eq!(found, PROGRAMS, "list each program of c-tests in `programs!`, in order");
}

/// Compiles and runs `c-tests/<name>.c`, or `c-tests/<name>.cc`, in both of its languages.
fn run(name: &str) {
    let mut source = common::root().join("c-tests").join(format!("{name}.c"));
    let mut languages = [Language::C99, Language::Cpp17];
    if !source.exists() {
        source.set_extension("cc");
        languages = [Language::Cpp17, Language::Cpp20];
    }
    // Valgrind looks at the library, which is the same for both.
    let languages = if mode() == Mode::Valgrind { &languages[..1] } else { &languages };
    for &language in languages {
        run_silently(&Program::compile(&source, language));
    }
}

/// Runs a program, which must succeed. It prints nothing, and so does the library.
fn run_silently(program: &Program) {
    let output = program.run(&[]);
    let silent = output.stdout.is_empty() && output.stderr.is_empty();
    assert!(output.status.success() && silent, "{}: {}", program.path().display(), text(&output));
}

#[test]
fn the_static_library_will_do() {
    for name in ["header_only", "errors", "cases"] {
        let source = common::root().join("c-tests").join(format!("{name}.c"));
        run_silently(&Program::compile_static(&source, Language::C99));
    }
}
