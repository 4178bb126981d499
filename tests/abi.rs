//! What programs of released versions rely on stays: `c-tests/abi/` holds a table of each version, which
//! `c-tests/abi.c` holds against the header of today, in C and in C++, and runs.
//!
//! A table is made once, and is what the version was released with. `KOSHI_BLESS=1 cargo test --test abi` adds
//! what is new to the table of the version that `Cargo.toml` names, as long as `CHANGELOG.md` does not have it; it
//! neither changes nor drops a line.

#[path = "support/c_header.rs"]
mod c_header;
mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use c_header::{Declared, Function, Kind, Struct};
use common::c::{Language, Program};

const HEAD: &str = "\
/* What programs of this version rely on: made by tests/abi.rs, and frozen with the release.
 * CONSTANT(name, value)  ENUM(name, size)  ALIAS(name, type)  POINTER(name, result, parameters)
 * STRUCT(struct)  FIELD(struct, type, field, offset)  ARRAY(struct, type, field, length, offset)
 * CALLBACK(struct, result, field, parameters, offset)  FIXED, ITEM, CONFIG, OPS or OUT(struct, size): how it is given
 * DEFAULT(struct, type, field, value)  FUNCTION(result, function, parameters) */
";

fn header() -> Vec<Declared> {
    c_header::read(&fs::read_to_string(common::root().join("include/koshi.h")).unwrap())
}

fn functions(all: &[Declared]) -> impl Iterator<Item = &Function> {
    all.iter().filter_map(|declared| match declared {
        Declared::Function(function) => Some(function),
        _ => None,
    })
}

fn structs(all: &[Declared]) -> impl Iterator<Item = &Struct> {
    all.iter().filter_map(|declared| match declared {
        Declared::Struct(made) => Some(made),
        _ => None,
    })
}

/// The table of the version that is being made, and whether that is still open.
fn table_of_today() -> (PathBuf, bool) {
    let version = env!("CARGO_PKG_VERSION");
    let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    let changes = fs::read_to_string(common::root().join("CHANGELOG.md")).unwrap();
    let released = changes
        .lines()
        .any(|line| line.starts_with(&format!("## {version}")) || line.starts_with(&format!("## [{version}]")));
    (common::root().join(format!("c-tests/abi/{major}_{minor}.h")), !released)
}

/// How a program gives a struct to the library: with its size and defaults to be had (CONFIG) or without (OPS), to
/// be filled (OUT), in an array whose elements have a size (ITEM), or as it is (FIXED).
fn role(made: &Struct, all: &[Declared]) -> &'static str {
    let name = &made.name;
    let pointer = format!("{name} *");
    let takes = |function: &&Function| function.parameters.contains(&pointer);
    let sized = |function: &&Function| {
        function.names.iter().any(|name| name == "item_size" || name == "utterance_size") && takes(function)
    };
    if made.grows() {
        let init = functions(all).any(|function| function.name == format!("{name}_init"));
        let taken = functions(all).any(|function| function.parameters.contains(&format!("const {pointer}")));
        return if init {
            "CONFIG"
        } else if taken {
            "OPS"
        } else {
            "OUT"
        };
    }
    if functions(all).any(|function| sized(&function)) { "ITEM" } else { "FIXED" }
}

/// The lines that the header stands for, but for defaults.
fn lines(all: &[Declared]) -> Vec<String> {
    let sizes = c_header::sizes(all);
    let mut lines = Vec::new();
    for declared in all {
        match declared {
            // Those of the version itself change with it.
            Declared::Constant { name, .. } if name.starts_with("KOSHI_VERSION_") => {}
            Declared::Constant { name, value } => lines.push(format!("CONSTANT({name}, {value})")),
            Declared::Enum { name } => lines.push(format!("ENUM({name}, 4)")),
            Declared::Alias { name, of } => lines.push(format!("ALIAS({name}, {of})")),
            Declared::Callback { name, result, parameters } => {
                lines.push(format!("POINTER({name}, {result}, ({}))", list(parameters)));
            }
            Declared::Struct(made) => {
                let (offsets, size, _) = c_header::layout(made, &sizes);
                lines.push(format!("STRUCT({})", made.name));
                for (field, offset) in made.fields.iter().zip(offsets) {
                    let (of, name) = (&made.name, &field.name);
                    lines.push(match &field.kind {
                        Kind::Plain(kind) => format!("FIELD({of}, {kind}, {name}, {offset})"),
                        Kind::Array(kind, count) => format!("ARRAY({of}, {kind}, {name}, {count}, {offset})"),
                        Kind::Callback { result, parameters } => {
                            format!("CALLBACK({of}, {result}, {name}, ({}), {offset})", list(parameters))
                        }
                    });
                }
                lines.push(format!("{}({}, {size})", role(made, all), made.name));
            }
            Declared::Function(function) => {
                lines.push(format!(
                    "FUNCTION({}, {}, ({}))",
                    function.result,
                    function.name,
                    list(&function.parameters)
                ));
            }
        }
    }
    lines
}

fn list(parameters: &[String]) -> String {
    if parameters.is_empty() { "void".into() } else { parameters.join(", ") }
}

/// Fields that hold numbers, with arrays of structs taken apart: type and name.
fn numbers(made: &Struct, all: &[Declared]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for field in &made.fields {
        match &field.kind {
            Kind::Plain(kind) if !kind.ends_with('*') => found.push((kind.clone(), field.name.clone())),
            Kind::Array(kind, count) => {
                let element = structs(all).find(|made| made.name == *kind).unwrap();
                for at in 0..*count {
                    let inner = numbers(element, all).into_iter();
                    found.extend(inner.map(|(kind, name)| (kind, format!("{}[{at}].{name}", field.name))));
                }
            }
            _ => {}
        }
    }
    found
}

/// Defaults that depend on the machine.
const OF_THE_MACHINE: &[&str] = &["struct_size", "num_lanes", "num_threads"];

/// What today's library writes as defaults.
fn defaults(all: &[Declared]) -> Vec<String> {
    let mut body = String::new();
    for made in structs(all).filter(|made| role(made, all) == "CONFIG") {
        let name = &made.name;
        body += &format!("    {{ {name} x; {name}_init(&x, sizeof x, NULL);\n");
        for (kind, field) in numbers(made, all).iter().filter(|(_, field)| !OF_THE_MACHINE.contains(&&**field)) {
            let value = format!("x.{field}");
            body += &format!(
                "    if (isinf((double){value})) puts(\"DEFAULT({name}, {kind}, {field}, INFINITY)\");\n\
                 \x20   else printf(\"DEFAULT({name}, {kind}, {field}, %.17g)\\n\", (double){value});\n"
            );
        }
        body += "    }\n";
    }
    let text = format!(
        "#include <math.h>\n#include <stdio.h>\n#include <koshi.h>\nint main(void)\n{{\n{body}    return 0;\n}}\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("defaults.c");
    fs::write(&source, text).unwrap();
    Program::compile(&source, Language::C99).succeed(&[]).lines().map(String::from).collect()
}

/// Everything of the header and no more is in the table of today: what programs of an older version rely on
/// is held by the compiler in `c-tests/abi.c`.
#[test]
fn the_header_is_that_of_the_table() {
    let all = header();
    assert!(functions(&all).count() > 250 && structs(&all).count() > 30, "the header is not read well");
    let mut wanted = lines(&all);
    wanted.extend(defaults(&all));
    let (path, open) = table_of_today();
    let found = fs::read_to_string(&path).unwrap_or_default();
    let known: BTreeSet<&str> = found.lines().filter(|line| line.starts_with(char::is_uppercase)).collect();
    let today: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    let role_of = |line: &&&str| {
        ["FIXED", "ITEM", "CONFIG", "OPS", "OUT"].iter().any(|role| line.starts_with(&format!("{role}(")))
    };
    // A struct that grows has another size in an open table; that only fields were added is seen by their lines.
    let gone: Vec<_> =
        known.difference(&today).filter(|line| !(open && role_of(line) && !line.starts_with("FIXED"))).collect();
    assert!(gone.is_empty(), "programs rely on what is no longer so: {gone:#?}");
    if std::env::var_os("KOSHI_BLESS").is_some() && open {
        fs::write(&path, format!("{HEAD}\n{}\n", wanted.join("\n"))).unwrap();
        return;
    }
    let missing: Vec<_> = today.difference(&known).collect();
    let mend = if open { "KOSHI_BLESS=1 adds them" } else { "it is released: what is new needs another minor version" };
    assert!(missing.is_empty() && known == today, "{}: {mend}: {missing:#?}", path.display());
}

#[test]
fn each_table_is_held_against_the_header() {
    let program = fs::read_to_string(common::root().join("c-tests/abi.c")).unwrap();
    let mut tables = 0;
    for entry in fs::read_dir(common::root().join("c-tests/abi")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // Once for the compiler, once to be run.
        let uses = program.matches(&format!("#include \"abi/{name}\"")).count();
        assert_eq!(uses, 2, "c-tests/abi.c includes abi/{name} {uses} times");
        tables += 1;
    }
    assert!(tables > 0);
}

/// Structs that grow have no padding, in which a program could leave garbage, and fields of 4 or 8 bytes.
#[test]
fn structs_that_grow_have_no_padding() {
    let all = header();
    let sizes = c_header::sizes(&all);
    let mut grown = 0;
    for made in structs(&all).filter(|made| made.grows()) {
        let (offsets, size, _) = c_header::layout(made, &sizes);
        let mut end = 0;
        for (field, offset) in made.fields.iter().zip(offsets) {
            assert_eq!(offset, end, "{}: padding in front of {}", made.name, field.name);
            end += match &field.kind {
                Kind::Plain(kind) if !kind.ends_with('*') => sizes[kind].0,
                Kind::Array(kind, count) => sizes[kind].0 * count,
                _ => 8,
            };
        }
        assert_eq!(size, end, "{}: padding at the end", made.name);
        grown += 1;
    }
    assert!(grown > 20);
}
