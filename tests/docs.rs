//! The pages: links lead somewhere, names are those of the header, programs run and print what is said.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::c::{Language, Program};

fn read(path: &str) -> String {
    fs::read_to_string(common::root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every page, by its path in the repository.
fn pages() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for folder in
        ["", "docs", "examples", "examples/data/prompts", "examples/kaldi", "benches", "kernels", "kernels/soft"]
    {
        let Ok(entries) = fs::read_dir(common::root().join(folder)) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.strip_prefix(common::root()).unwrap().to_str().unwrap();
                found.insert(name.to_string(), read(name));
            }
        }
    }
    assert!(found.len() > 6 && found.contains_key("docs/tuning.md"), "{:?}", found.keys());
    found
}

/// Blocks of a language, in order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("\n```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

/// A page without its blocks of code.
fn prose(page: &str) -> String {
    page.split("\n```").step_by(2).collect::<Vec<_>>().join("\n")
}

/// What GitHub makes of a heading in an address.
fn anchors(page: &str) -> BTreeSet<String> {
    let heading = |line: &str| {
        let kept = line.trim_start_matches('#').trim().to_lowercase();
        kept.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c)).collect::<String>().replace(' ', "-")
    };
    prose(page).lines().filter(|line| line.starts_with('#')).map(heading).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut followed = 0;
    for (name, page) in &pages() {
        let folder = Path::new(name).parent().unwrap();
        for rest in prose(page).split("](").skip(1) {
            let target = rest.split(')').next().unwrap();
            if target.contains("://") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let wanted = if path.is_empty() { PathBuf::from(name) } else { folder.join(path) };
            let there = common::root().join(&wanted);
            assert!(there.exists(), "{name}: {target} leads nowhere");
            if !anchor.is_empty() {
                let headings = anchors(&fs::read_to_string(there).unwrap());
                assert!(headings.contains(anchor), "{name}: {target}: there are {headings:?}");
            }
            followed += 1;
        }
    }
    assert!(followed > 15, "only {followed} links were found");
}

/// Letters, digits and underscores that stand together.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

/// What is not of the header: programs, CMake's names, and variables of tests and builds.
fn of_elsewhere(name: &str) -> bool {
    let examples = ["koshi_bench_gpu", "koshi_kaldi", "koshi_path_", "koshi_x"];
    let variables = ["SHARED", "BLESS", "REQUIRE", "C_TESTS", "TEST_GPU", "SOFT", "FUZZ"];
    let variable =
        name.strip_prefix("KOSHI_").is_some_and(|name| variables.iter().any(|start| name.starts_with(start)));
    examples.contains(&name) || variable
}

#[test]
fn names_are_those_of_the_header() {
    let header = read("include/koshi.h");
    let known: BTreeSet<&str> = words(&header).collect();
    let mut seen = 0;
    for (name, page) in pages().iter().filter(|(name, _)| !name.starts_with("kernels/")) {
        for word in words(page).filter(|word| word.starts_with("koshi_") || word.starts_with("KOSHI_")) {
            // `koshi_<type>_free`, and `KOSHI_E_` for all of them.
            let stem = word.ends_with('_') && header.contains(word);
            assert!(known.contains(word) || stem || of_elsewhere(word), "{name}: the header has no {word}");
            seen += 1;
        }
    }
    assert!(seen > 150, "only {seen} names were found");
}

/// What stands between back quotes with an underscore is a field, a parameter or a function.
#[test]
fn options_are_those_of_the_header() {
    let header = read("include/koshi.h");
    let known: BTreeSet<&str> = words(&header).collect();
    let mut seen = BTreeSet::new();
    for name in ["docs/tuning.md", "docs/embedding.md"] {
        let page = prose(&read(name));
        for quoted in page.split('`').skip(1).step_by(2).filter(|quoted| words(quoted).eq([*quoted])) {
            // `_MINOR` stands behind a whole name.
            if quoted.contains('_') && !quoted.starts_with('_') {
                assert!(known.contains(quoted), "{name}: the header has no {quoted}");
            }
            seen.insert(quoted.to_string());
        }
    }
    // Every option of a decoder is on one of the pages.
    let config = header.split("} koshi_decoder_config;").next().unwrap().rsplit("typedef struct {").next().unwrap();
    for line in config.lines().map(str::trim).filter(|line| line.ends_with(';')) {
        let field = line.trim_end_matches(';').rsplit(' ').next().unwrap();
        let left_out = ["struct_size", "reserved", "backend", "device", "frame_shift"].contains(&field);
        assert!(left_out || seen.contains(field), "no page tells of {field}");
    }
}

/// Commands that pages name are there, and their options too.
#[test]
fn commands_are_there() {
    let mut seen = 0;
    for (name, page) in &pages() {
        for rest in page.split("`koshi-").skip(1) {
            let command: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '-').collect();
            let source = common::root().join(format!("src/bin/koshi-{command}.rs"));
            let other = ["config"].contains(&&*command);
            assert!(source.exists() || other, "{name}: there is no koshi-{command}");
            seen += 1;
        }
    }
    assert!(seen > 10, "only {seen} commands were found");
}

fn prompts() -> PathBuf {
    common::root().join("examples/data/prompts")
}

/// The C of the page, in its order: what begins with `static` or includes stands outside of `main`.
#[test]
fn the_program_of_embedding_runs() {
    let page = read("docs/embedding.md");
    let (outside, inside): (Vec<_>, Vec<_>) =
        blocks(&page, "c").into_iter().partition(|block| block.starts_with("static") || block.starts_with("#include"));
    assert!(outside.len() >= 3 && inside.len() >= 7);
    let [printed] = &blocks(&page, "text")[..] else { panic!("one block of output is expected") };
    let text = format!("{}int main(void)\n{{\n{}return 0;\n}}\n", outside.concat(), inside.concat());
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("embedding.c");
    fs::write(&source, text).unwrap();
    for language in [Language::C99, Language::Cpp17] {
        let output = Program::compile(&source, language).run_in(&prompts(), &[]);
        assert!(output.status.success(), "{}", common::c::text(&output));
        assert_eq!(&String::from_utf8(output.stdout).unwrap(), printed);
    }
    let elsewhere = Program::compile(&source, Language::C99).run_in(folder.path(), &[]);
    let said = String::from_utf8(elsewhere.stderr).unwrap();
    assert!(
        elsewhere.status.code() == Some(1) && said.starts_with("KOSHI_E_IO: ") && said.contains("trans.mdl"),
        "{said}"
    );
}

/// Rows of a Markdown table that begins with `head`, as cells.
fn table(text: &str, head: &str) -> Vec<Vec<String>> {
    let lines = text.lines().skip_while(|line| !line.starts_with(head)).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect();
    let rows: Vec<Vec<String>> = lines.skip(2).map(cells).collect();
    assert!(!rows.is_empty(), "no table {head}");
    rows
}

/// The tables of the page are what `examples/tune.c` prints, but for times; memory is what its formula says.
#[test]
fn tuning_tells_what_is_measured() {
    let page = read("docs/tuning.md");
    let [commands] = &blocks(&page, "sh")[..] else { panic!("one block of commands is expected") };
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("target/release")).unwrap();
    for name in ["libkoshi.so", "libkoshi.so.0"] {
        symlink(common::shared_library(), folder.path().join("target/release").join(name)).unwrap();
    }
    symlink(common::root().join("include"), folder.path().join("include")).unwrap();
    fs::create_dir_all(folder.path().join("examples/data/prompts")).unwrap();
    for file in [
        "tune.c",
        "data/prompts/trans.mdl",
        "data/prompts/HCLG.fst",
        "data/prompts/words.txt",
        "data/prompts/text",
        "data/prompts/loglikes.ark",
    ] {
        fs::copy(common::root().join("examples").join(file), folder.path().join("examples").join(file)).unwrap();
    }
    // One run in place of five.
    let commands = format!("{} 1\n", commands.trim_end());
    let output = Command::new("sh").args(["-ec", &commands]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", common::c::text(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut rows = 0;
    // How many columns in front do not depend on the machine.
    for (head, same) in
        [("| beam | lattice_beam", 7), ("| rows a push", 1), ("| beam | link_budget", 5), ("| states", 3)]
    {
        let (told, found) = (table(&page, head), table(&printed, head));
        assert_eq!(told.len(), found.len(), "{head}");
        for (told, found) in told.iter().zip(&found) {
            assert!(told.len() == found.len() && told[..same] == found[..same], "{head}: {told:?}, not {found:?}");
            rows += 1;
        }
    }
    assert!(rows > 30);
    let number = |cell: &String| cell.parse::<f64>().unwrap();
    for row in table(&printed, "| beam | link_budget") {
        let share = number(&row[2]) / number(&row[3]);
        assert!((0.15..=1.0).contains(&share), "{row:?}: {share}");
    }
    let [graph] = &table(&printed, "| states")[..] else { panic!("one graph") };
    let formula = (11.0 * number(&graph[0]) + 13.0 * number(&graph[1])) / 1024.0;
    assert!((number(&graph[2]) / formula - 1.0).abs() < 0.05, "{graph:?}: {formula}");
}

/// Defaults that the page names are those of the header.
#[test]
fn tuning_names_the_defaults() {
    let page = read("docs/tuning.md");
    let header = read("include/koshi.h");
    let config = header.split("} koshi_decoder_config;").next().unwrap().rsplit("typedef struct {").next().unwrap();
    let mut comment = String::new();
    let mut defaults = BTreeMap::new();
    for line in config.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("//") {
            comment += words;
        } else {
            let field = line.trim_end_matches(';').rsplit(' ').next().unwrap().to_string();
            if let Some((_, value)) = comment.split_once("Default ") {
                defaults.insert(field, value.trim_end_matches('.').to_string());
            }
            comment.clear();
        }
    }
    let mut checked = 0;
    let tables =
        page.split("| option | default |").skip(1).flat_map(|rest| table(&format!("| option |{rest}"), "| option |"));
    for row in tables {
        let (field, told) = (row[0].trim_matches('`'), &row[1]);
        let wanted = &defaults[field];
        let same = told == wanted
            || told.starts_with(&format!("{wanted},"))
            || (wanted.starts_with("by the machine") && told == "by the machine");
        assert!(same, "{field}: {told}, not {wanted}");
        checked += 1;
    }
    assert!(checked >= 12);
}
