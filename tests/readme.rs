//! What the README shows works.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::c::{Language, Program};

/// The blocks of a language in the README.
fn blocks(language: &str) -> Vec<String> {
    let readme = fs::read_to_string(common::root().join("README.md")).unwrap();
    let fence = format!("```{language}\n");
    readme.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

/// The README's C example of ten lines, and other fragments.
fn example_and_fragments() -> (String, Vec<String>) {
    let (mut examples, fragments): (Vec<_>, Vec<_>) =
        blocks("c").into_iter().partition(|block| block.contains("koshi_decoder_new("));
    assert_eq!(examples.len(), 1, "one example is expected");
    (examples.remove(0), fragments)
}

/// What the example leaves out: declarations, options and rows in front of it, and a look at the error behind each call.
fn program() -> String {
    let (example, _) = example_and_fragments();
    assert_eq!(example.lines().count(), 10);
    let call = |line: &str| match line.split_once(';') {
        Some((call, rest)) if call.contains("&err") => format!("try_it({call}, &err);{rest}\n"),
        _ => format!("{line}\n"),
    };
    let example: String = example.lines().map(call).collect();
    format!("{BEFORE}{example}{AFTER}")
}

const BEFORE: &str = "\
#include <stdio.h>
#include <stdlib.h>
#include <koshi.h>

static void try_it(koshi_status status, koshi_error **err)
{
    if (status < 0) {
        fprintf(stderr, \"%s\\n\", *err ? koshi_error_message(*err) : \"no memory\");
        exit(1);
    }
}

int main(void)
{
koshi_error *err = NULL;
koshi_transitions *model = NULL;
koshi_graph *graph = NULL;
koshi_decoder *decoder = NULL;
koshi_channel *channel = NULL;
koshi_path *path = NULL;
koshi_symbols *words = NULL;
koshi_matrix_reader *reader = NULL;
koshi_matrix *matrix = NULL;
koshi_decoder_config config;
const char *key;
const float *rows;
size_t frames, columns;
char text[100];
try_it(koshi_symbols_read(\"words.txt\", &words, &err), &err);
try_it(koshi_matrix_reader_open(\"ark:loglikes.ark\", &reader, &err), &err);
try_it(koshi_matrix_reader_next(reader, &key, &matrix, &err), &err);
rows = koshi_matrix_data(matrix, &frames, &columns);
try_it(koshi_decoder_config_init(&config, sizeof config, &err), &err);
config.acoustic_scale = 0.083333f;
";

const AFTER: &str = "\
koshi_symbols_free(words);
koshi_path_free(path);
koshi_matrix_free(matrix);
koshi_matrix_reader_free(reader);
koshi_channel_free(channel);
koshi_decoder_free(decoder);
koshi_graph_free(graph);
koshi_transitions_free(model);
return 0;
}
";

fn prompts() -> PathBuf {
    common::root().join("examples/data/prompts")
}

const PRINTED: &str = "you are now muted\n";

#[test]
fn the_program_decodes_a_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("readme.c");
    fs::write(&source, program()).unwrap();
    for language in [Language::C99, Language::Cpp17] {
        let program = Program::compile(&source, language);
        let output = program.run_in(&prompts(), &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), PRINTED);
        let elsewhere = program.run_in(folder.path(), &[]);
        assert_eq!(elsewhere.status.code(), Some(1));
        assert!(String::from_utf8(elsewhere.stderr).unwrap().contains("words.txt"));
    }
}

#[test]
fn fragments_are_c() {
    let (_, fragments) = example_and_fragments();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("fragment.c");
    for fragment in fragments {
        let before =
            "#include <koshi.h>\n\nint main(void)\n{\nkoshi_channel *channel = NULL;\nkoshi_error *err = NULL;\n";
        let after = "return koshi_error_free(err) != KOSHI_OK;\n}\n";
        fs::write(&source, format!("{before}{fragment}{after}")).unwrap();
        let output = Program::compile(&source, Language::C99).run_in(folder.path(), &[]);
        assert!(output.status.success(), "{fragment}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The README's C++ fragment decodes the prompts to the words that are expected.
#[test]
fn the_cpp_fragment_decodes_the_prompts() {
    let [fragment] = &blocks("cpp")[..] else { panic!("one fragment is expected") };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("readme.cc");
    let head = "#include <iostream>\n#include <koshi.hpp>\n";
    // At the beams that the expected words are of.
    let scale = "config.acoustic_scale = 0.083333f;";
    let fragment = fragment.replace(scale, &format!("{scale} config.beam = 13; config.max_active = 7000;"));
    fs::write(&source, format!("{head}int main()\n{{\n{fragment}}}\n")).unwrap();
    let output = Program::compile(&source, Language::Cpp17).run_in(&prompts(), &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = fs::read_to_string(prompts().join("expected.words.int")).unwrap();
    let expected: String = expected.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn the_commands_link_the_program_either_way() {
    let commands = blocks("sh").into_iter().find(|block| block.contains("libkoshi.a")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let release = folder.path().join("target/release");
    fs::create_dir_all(&release).unwrap();
    let library = common::shared_library();
    fs::copy(&library, release.join("libkoshi.so")).unwrap();
    fs::copy(library.with_file_name("libkoshi.a"), release.join("libkoshi.a")).unwrap();
    std::os::unix::fs::symlink(common::root().join("include"), folder.path().join("include")).unwrap();
    fs::write(folder.path().join("program.c"), program()).unwrap();
    let run = |program: &str, words: &[&str], folder: &Path| {
        let output = Command::new(program).args(words).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let mut ways = 0;
    for command in commands.lines() {
        run("sh", &["-ec", command], folder.path());
        if command.starts_with("cc ") {
            assert_eq!(run(folder.path().join("program").to_str().unwrap(), &[], &prompts()), PRINTED);
            ways += 1;
        }
    }
    assert_eq!(ways, 2);
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
    let output = Command::new("sh").args(["-ec", &script]).current_dir(prompts()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = fs::read_to_string(prompts().join("expected.words.int")).unwrap();
    assert_eq!(fs::read_to_string(words).unwrap(), expected);
    assert!(fs::metadata(lattices).unwrap().len() > 1_000);
}
