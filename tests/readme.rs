//! What the README shows works.

mod common;

use std::fs;
use std::process::Command;

use common::c::{Language, Program};

/// The blocks of a language in the README.
fn blocks(language: &str) -> Vec<String> {
    let readme = fs::read_to_string(common::root().join("README.md")).unwrap();
    let fence = format!("```{language}\n");
    readme.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

#[test]
fn the_program_decodes_a_prompt() {
    let [program] = &blocks("c")[..] else { panic!("one program is expected") };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("readme.c");
    fs::write(&source, program).unwrap();
    for language in [Language::C99, Language::Cpp17] {
        let program = Program::compile(&source, language);
        let output = Command::new(program.path()).current_dir(common::root().join("examples/data/prompts")).output();
        let output = output.unwrap();
        assert!(output.status.success());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "allison-conf-muted 577 32 326 310\n");
        let elsewhere = Command::new(program.path()).current_dir(folder.path()).output().unwrap();
        assert_eq!(elsewhere.status.code(), Some(1));
        assert!(String::from_utf8(elsewhere.stderr).unwrap().starts_with("trans.mdl: "));
    }
}

#[test]
fn the_first_commands_come_first() {
    let shell = blocks("sh");
    let lines: Vec<&str> = shell[0].lines().map(|line| line.split('#').next().unwrap().trim()).collect();
    assert_eq!(lines, ["cargo run --release --example decode_prompts", "cargo test"]);
}

#[test]
fn the_command_line_for_recipes_is_read() {
    let shell = blocks("sh").into_iter().find(|block| block.starts_with("koshi-latgen-faster-mapped")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_koshi-latgen-faster-mapped");
    let lattices = folder.path().join("lat.1.gz").display().to_string();
    let words = folder.path().join("words.tra").display().to_string();
    let script = shell
        .replacen("koshi-latgen-faster-mapped", program, 1)
        .replace("final.mdl", "trans.mdl")
        .replace("lat.1.gz", &lattices)
        .replace("words.tra", &words);
    let prompts = common::root().join("examples/data/prompts");
    let output = Command::new("sh").args(["-ec", &script]).current_dir(&prompts).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = fs::read_to_string(prompts.join("expected.words.int")).unwrap();
    assert_eq!(fs::read_to_string(words).unwrap(), expected);
    assert!(fs::metadata(lattices).unwrap().len() > 10_000);
}
