//! C and C++ programs, compiled against `include/` and the built library, and run.
//!
//! `KOSHI_C_TESTS` says how: `plain` (the default); `asan`, with the address and undefined
//! behaviour sanitizers in the program, while the library, built by a stable compiler,
//! only shares their allocator (so that what it leaks or frees twice is seen); `valgrind`,
//! which sees what both do. `CC` and `CXX` name other compilers. A tool that is not there
//! is a failure.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const STRICT: &[&str] = &["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g"];
const SANITIZERS: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];
const VALGRIND: &[&str] = &["valgrind", "--quiet", "--leak-check=full", "--show-leak-kinds=definite,indirect"];
const VALGRIND_ERRORS: &[&str] = &["--errors-for-leak-kinds=definite,indirect", "--error-exitcode=9"];

/// How programs are compiled and run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    Plain,
    Asan,
    Valgrind,
}

/// What `KOSHI_C_TESTS` asks for.
pub fn mode() -> Mode {
    match std::env::var("KOSHI_C_TESTS").unwrap_or_default().as_str() {
        "" | "plain" => Mode::Plain,
        "asan" => Mode::Asan,
        "valgrind" => Mode::Valgrind,
        other => panic!("KOSHI_C_TESTS is {other:?}; it can be plain, asan or valgrind"),
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Language {
    C99,
    Cpp17,
    Cpp20,
}

/// A program ready to run.
pub struct Program {
    folder: TempDir,
    name: String,
}

impl Program {
    /// Compiles one file, which has no warnings in it, for the shared library.
    pub fn compile(source: &Path, language: Language) -> Program {
        Program::compile_with(source, language, &[], &[])
    }

    /// As [`Program::compile`], with more flags, and with libraries that the program needs besides.
    pub fn compile_with(source: &Path, language: Language, flags: &[&str], libraries: &[&str]) -> Program {
        Program::link(source, language, flags, &[&["-lkoshi", "-lpthread", "-lm"], libraries].concat())
    }

    /// As [`Program::compile`], with the static library, and the system's libraries that Rust's own needs.
    pub fn compile_static(source: &Path, language: Language) -> Program {
        let library = super::shared_library().with_extension("a");
        let library = library.to_str().unwrap();
        Program::link(source, language, &[], &[library, "-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"])
    }

    fn link(source: &Path, language: Language, flags: &[&str], libraries: &[&str]) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let library = super::shared_library();
        for link in ["libkoshi.so", "libkoshi.so.0"] {
            symlink(&library, folder.path().join(link)).unwrap();
        }
        let (variable, otherwise, standard) = match language {
            Language::C99 => ("CC", "cc", ["-x", "c", "-std=c99"]),
            Language::Cpp17 => ("CXX", "c++", ["-x", "c++", "-std=c++17"]),
            Language::Cpp20 => ("CXX", "c++", ["-x", "c++", "-std=c++20"]),
        };
        let compiler = std::env::var(variable).unwrap_or_default();
        let mut compiler = compiler.split_whitespace();
        let output = Command::new(compiler.next().unwrap_or(otherwise))
            .args(compiler)
            .args(standard)
            .args(STRICT)
            .args(if mode() == Mode::Asan { SANITIZERS } else { &[] })
            .arg("-D_POSIX_C_SOURCE=200809L")
            .arg("-I")
            .arg(super::root().join("include"))
            .args(flags)
            .arg(source)
            .arg("-o")
            .arg(folder.path().join("program"))
            .arg("-L")
            .arg(folder.path())
            .arg(format!("-Wl,-rpath,{}", folder.path().display()))
            .args(["-x", "none"]) // what follows is no longer in the language named above
            .args(libraries)
            .output()
            .unwrap_or_else(|error| panic!("the compiler {otherwise} cannot be run: {error}"));
        let name = format!("{} as {language:?}", source.display());
        assert!(output.status.success(), "{name} does not compile: {}", text(&output));
        Program { folder, name }
    }

    /// Where the program lies.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    /// Runs the program at the root of the repository.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.run_in(super::root(), arguments)
    }

    /// Runs the program in a folder.
    pub fn run_in(&self, folder: &Path, arguments: &[&str]) -> Output {
        let mut words: Vec<&str> = Vec::new();
        if mode() == Mode::Valgrind {
            words.extend(VALGRIND.iter().chain(VALGRIND_ERRORS));
        }
        let path = self.path();
        words.push(path.to_str().unwrap());
        words.extend(arguments);
        let output = Command::new(words[0])
            .args(&words[1..])
            .current_dir(folder)
            .env("ASAN_OPTIONS", "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1")
            .env("UBSAN_OPTIONS", "print_stacktrace=1")
            .output();
        output.unwrap_or_else(|error| panic!("{} cannot be run: {error}", words[0]))
    }

    /// Runs the program, which must succeed; gives what it printed.
    pub fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{} failed: {}", self.name, text(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Whether OpenFst's headers are at hand. Says so when they are not; fails then when `KOSHI_REQUIRE_OPENFST` is 1.
pub fn has_openfst() -> bool {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let mut words = compiler.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("c++"));
    command.args(words).args(["-x", "c++", "-std=c++17", "-E", "-include", "fst/fst-decl.h", "/dev/null"]);
    let there = command.output().is_ok_and(|output| output.status.success());
    at_hand(there, "OpenFst's headers (Debian: libfst-dev)")
}

/// Says loudly that something is not there; fails then when `KOSHI_REQUIRE_OPENFST` is 1.
pub fn at_hand(there: bool, what: &str) -> bool {
    if !there {
        let required = std::env::var_os("KOSHI_REQUIRE_OPENFST").is_some_and(|value| value == "1");
        assert!(!required, "not at hand: {what}");
        eprintln!("NOT RUN: not at hand: {what}");
    }
    there
}

/// Everything about a run.
pub fn text(output: &Output) -> String {
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
