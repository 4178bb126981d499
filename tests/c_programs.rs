//! The programs of `c-tests/`, each compiled as C99 and as C++17, linked against the built
//! library, and run.
//!
//! `CC` and `CXX` name other compilers, `KOSHI_C_FLAGS` adds flags (sanitizers), and
//! `KOSHI_C_RUNNER` is put before the program (`valgrind -q --error-exitcode=9`).
//! A compiler that is not there is a failure.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

const STRICT: &[&str] = &["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g"];

/// Programs of `c-tests`, one test each.
macro_rules! programs {
    ($($name:ident)*) => {
        const PROGRAMS: &[&str] = &[$(stringify!($name)),*];
        $(#[test] fn $name() { run(stringify!($name)); })*
    };
}

programs! { callbacks cases config errors header_only lifecycle log prompts reproducible threads }

#[test]
fn each_program_of_the_folder_is_run() {
    let mut found: Vec<String> = fs::read_dir(common::root().join("c-tests"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_string())
        .collect();
    found.sort();
    assert_eq!(found, PROGRAMS, "list each program of c-tests in `programs!`, in order");
}

fn variable(name: &str, otherwise: &str) -> Vec<String> {
    let text = std::env::var(name).unwrap_or_default();
    let text = if text.trim().is_empty() { otherwise.to_string() } else { text };
    text.split_whitespace().map(str::to_string).collect()
}

fn text(output: &Output) -> String {
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Compiles and runs `c-tests/<name>.c` in both languages.
fn run(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let library = common::shared_library();
    for link in ["libkoshi.so", "libkoshi.so.0"] {
        symlink(&library, folder.path().join(link)).unwrap();
    }
    let languages = [("CC", "cc", &["-x", "c", "-std=c99"]), ("CXX", "c++", &["-x", "c++", "-std=c++17"])];
    for (variable, otherwise, flags) in languages {
        let program = folder.path().join(format!("{name}-{otherwise}"));
        compile(&self::variable(variable, otherwise), flags, name, folder.path(), &program);
        execute(&program);
    }
}

fn compile(compiler: &[String], language: &[&str], name: &str, folder: &Path, program: &Path) {
    let root = common::root();
    let output = Command::new(&compiler[0])
        .args(&compiler[1..])
        .args(language)
        .args(STRICT)
        .args(variable("KOSHI_C_FLAGS", ""))
        .arg("-D_POSIX_C_SOURCE=200809L")
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join("c-tests").join(format!("{name}.c")))
        .arg("-o")
        .arg(program)
        .arg("-L")
        .arg(folder)
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .args(["-lkoshi", "-lpthread", "-lm"])
        .output()
        .unwrap_or_else(|error| panic!("the compiler {} cannot be run: {error}", compiler[0]));
    assert!(output.status.success(), "{name}.c does not compile: {}", text(&output));
}

fn execute(program: &Path) {
    let mut command = variable("KOSHI_C_RUNNER", "");
    command.push(program.to_str().unwrap().to_string());
    let output = Command::new(&command[0]).args(&command[1..]).current_dir(common::root()).output().unwrap();
    assert!(output.status.success(), "{} failed: {}", program.display(), text(&output));
}
