//! `include/koshi.h` is what cbindgen makes of `src/ffi`, and reads like C.
//!
//! `KOSHI_BLESS=1 cargo test --test header` writes it anew.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

fn generated() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let bindings =
        cbindgen::Builder::new().with_config(config).with_src(root.join("src/ffi/mod.rs")).generate().unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_header_is_what_the_source_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/koshi.h");
    let wanted = generated();
    if std::env::var_os("KOSHI_BLESS").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let differs = wanted.lines().zip(found.lines()).position(|(wanted, found)| wanted != found);
    assert!(
        wanted == found,
        "include/koshi.h differs from src/ffi (first at line {:?}); KOSHI_BLESS=1 writes it anew",
        differs.map(|line| line + 1)
    );
}

#[test]
fn the_header_speaks_c() {
    for (number, line) in generated().lines().enumerate() {
        for rust in ["[`", "`]", "::", "Option<", "Result<", "unsafe", "Arc<", "&mut", "[u8", "Vec<"] {
            assert!(!line.contains(rust), "line {}: {rust} in: {line}", number + 1);
        }
        assert!(line.len() <= 110, "line {} is longer than 110: {line}", number + 1);
        assert_eq!(line.trim_end(), line, "line {} ends with blanks", number + 1);
    }
}

/// Functions of classes of `koshi.hpp` that have no member there: `koshi::call` reaches them.
const WITHOUT_MEMBER: &[&str] = &["koshi_error_status"];

#[test]
fn the_cpp_header_keeps_up() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (c, cpp) =
        ["koshi.h", "koshi.hpp"].map(|name| fs::read_to_string(root.join("include").join(name)).unwrap()).into();
    let word = |c: char| !c.is_alphanumeric() && c != '_';
    let named: HashSet<&str> = cpp.split(word).collect();
    let functions: HashSet<&str> =
        c.split(word).filter(|name| name.starts_with("koshi_") && c.contains(&format!("{name}("))).collect();
    assert!(functions.len() > 150, "only {} functions were found", functions.len());
    // Every kind of object is owned, and counted if it can be.
    let mut classes = Vec::new();
    for line in c.lines().filter_map(|line| line.strip_prefix("typedef struct koshi_")) {
        let (name, _) = line.split_once(' ').unwrap();
        let counted = functions.contains(&*format!("koshi_{name}_ref"));
        let macro_name = if counted { "KOSHI_HPP_COUNTED" } else { "KOSHI_HPP_OWNED" };
        assert!(cpp.contains(&format!("{macro_name}({name})")), "koshi.hpp does not know how koshi_{name} is freed");
        if cpp.contains(&format!("class {name} : public ")) {
            classes.push(format!("koshi_{name}_"));
        }
    }
    // The longest name says whose function it is: koshi_lattice_reader_next is not the lattice's.
    classes.extend(["koshi_den_graph_", "koshi_egs_", "koshi_transducer_"].map(String::from));
    for function in functions {
        let class = classes.iter().filter(|class| function.starts_with(&***class)).max_by_key(|class| class.len());
        let Some(class) = class else { continue };
        let is_class = cpp.contains(&format!("class {} : public ", &class["koshi_".len()..class.len() - 1]));
        let owning = [format!("{class}free"), format!("{class}ref")].contains(&function.to_string());
        let wrapped = named.contains(function) || owning || WITHOUT_MEMBER.contains(&function);
        assert!(!is_class || wrapped, "koshi.hpp has no member for {function}");
    }
}
