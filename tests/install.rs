//! `install.sh`: what it installs can be moved, and programs find it by pkg-config and by CMake, shared and static.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a shell script in a folder; it must succeed. Gives what it printed.
fn shell(script: &str, folder: &Path) -> String {
    let output = Command::new("sh").args(["-euc", script]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{script}: {}", common::c::text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `install.sh` with what this test was built with, and more options.
fn install(options: &str, before: &str) {
    // Beside the folder of the libraries lie the commands.
    let built = common::shared_library().parent().unwrap().parent().unwrap().display().to_string();
    shell(&format!("{before} ./install.sh --built='{built}' {options}"), common::root());
}

/// Whether a tool is at hand. Says so when it is not; fails then when `KOSHI_REQUIRE_CMAKE` is 1.
fn has(tool: &str) -> bool {
    if Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success()) {
        return true;
    }
    assert!(std::env::var_os("KOSHI_REQUIRE_CMAKE").is_none_or(|value| value != "1"), "{tool} is not at hand");
    eprintln!("not run: {tool} is not at hand");
    false
}

/// Files and links below a folder.
fn files(folder: &Path) -> BTreeSet<String> {
    let found = shell("find . ! -type d | sed 's|^./||'", folder);
    found.lines().map(String::from).collect()
}

/// The headers of `include/`.
fn headers() -> BTreeSet<String> {
    let names = fs::read_dir(common::root().join("include")).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    names.filter(|name| name.ends_with(".h") || name.ends_with(".hpp")).collect()
}

/// An installation in a folder that it was not made for: it must do wherever it lies.
fn moved() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (made, moved) = (folder.path().join("made"), folder.path().join("moved to here"));
    install(&format!("--prefix='{}'", made.display()), "");
    fs::rename(made, &moved).unwrap();
    (folder, moved)
}

const PROGRAM: &str = "examples/decode.c";

/// What the program says of the prompts, wherever it was built.
fn decode(program: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(program)
        .args(["trans.mdl", "HCLG.fst", "words.txt", "ark:loglikes.ark"])
        .arg(format!("ark:{}", folder.path().join("lattices.ark").display()))
        .current_dir(common::root().join("examples/data/prompts"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", common::c::text(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let expected = fs::read_to_string(common::root().join("examples/data/prompts/expected.words.int")).unwrap();
    assert_eq!(printed.lines().count(), expected.lines().count(), "{printed}");
    assert!(printed.to_lowercase().contains("you are now muted"), "{printed}");
}

/// What cargo reads in `Cargo.toml`.
fn manifest() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(common::root())
        .output()
        .unwrap();
    let mut metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"][0].take()
}

/// Packages of `Cargo.lock` that the library may hold: those that are reached from `[dependencies]`.
fn locked() -> BTreeSet<String> {
    let lock = fs::read_to_string(common::root().join("Cargo.lock")).unwrap();
    let package = |text: &str| -> (String, Vec<String>) {
        let name = text.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().trim_matches('"').into();
        let quoted = |line: &str| line.split_once('"')?.1.split(['"', ' ']).next().map(String::from);
        let needs = text.split_once("dependencies = [").map_or("", |(_, list)| list);
        (name, needs.lines().filter_map(quoted).collect())
    };
    let packages: Vec<_> = lock.split("[[package]]").skip(1).map(package).collect();
    let manifest = manifest();
    let direct = manifest["dependencies"].as_array().unwrap().iter();
    let mut open: Vec<String> =
        direct.filter(|one| one["kind"].is_null()).map(|one| one["name"].as_str().unwrap().to_string()).collect();
    assert!(open.len() > 5, "{open:?}");
    let mut reached = BTreeSet::new();
    while let Some(name) = open.pop() {
        if reached.insert(name.clone()) {
            let needs = packages.iter().filter(|(package, _)| *package == name).flat_map(|(_, needs)| needs);
            open.extend(needs.cloned());
        }
    }
    reached
}

/// What only other systems need.
const NOT_ON_THIS_SYSTEM: &[&str] = &["bitflags", "redox_syscall", "windows-link"];

#[test]
fn everything_is_there_and_goes_again() {
    let folder = tempfile::tempdir().unwrap();
    let stage = folder.path().display();
    let options = "--prefix=/opt/koshi --libdir=/usr/lib/x --docdir=/opt/doc";
    install(options, &format!("DESTDIR='{stage}'"));
    let found = files(folder.path());
    let version = env!("CARGO_PKG_VERSION");
    let mut wanted: BTreeSet<String> = headers().iter().map(|name| format!("opt/koshi/include/{name}")).collect();
    for source in fs::read_dir(common::root().join("src/bin")).unwrap() {
        let path = source.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            wanted.insert(format!("opt/koshi/bin/{}", path.file_stem().unwrap().display()));
        }
    }
    let libraries = ["a", "so", "so.0", &format!("so.{version}")].map(|end| format!("libkoshi.{end}"));
    let found_by = ["pkgconfig/koshi.pc", "cmake/koshi/koshi-config.cmake", "cmake/koshi/koshi-config-version.cmake"];
    wanted.extend(libraries.into_iter().chain(found_by.map(String::from)).map(|name| format!("usr/lib/x/{name}")));
    wanted.extend(["LICENSE", "README.md", "CHANGELOG.md", "DEPENDENCIES"].map(|name| format!("opt/doc/{name}")));
    let pages = shell(
        "ls docs/*.md examples/*.c examples/*.cc examples/*.py examples/*.md examples/kaldi/* examples/data/prompts/*",
        common::root(),
    );
    wanted.extend(pages.lines().map(|name| format!("opt/doc/{name}")));
    assert_eq!(found, wanted);

    // Nothing was built for the staging folder.
    for name in found_by {
        let text = fs::read_to_string(folder.path().join("usr/lib/x").join(name)).unwrap();
        assert!(!text.contains(&stage.to_string()) && !text.contains('@'), "{name}: {text}");
    }
    let licences = fs::read_to_string(folder.path().join("opt/doc/DEPENDENCIES")).unwrap();
    assert!(licences.contains("libloading v0.9"), "{licences}");
    assert!(!licences.contains("criterion") && !licences.contains("(/"), "{licences}");
    let listed: BTreeSet<&str> = licences.lines().map(|line| line.split(" v").next().unwrap()).collect();
    let missing: Vec<String> = locked().into_iter().filter(|name| !listed.contains(&**name)).collect();
    assert_eq!(missing, NOT_ON_THIS_SYSTEM, "packages without a licence in {licences}");
    for line in licences.lines() {
        let fields: Vec<&str> = line.split(" | ").collect();
        assert!(fields.len() == 3 && !fields[1].is_empty(), "no licence: {line}");
    }
    let mode = shell("stat -c %a opt/koshi/bin/* usr/lib/x/*.so.*.*", folder.path());
    assert!(mode.lines().all(|mode| mode == "755"), "{mode}");

    install(&format!("{options} --uninstall"), &format!("DESTDIR='{stage}'"));
    assert_eq!(files(folder.path()), BTreeSet::new());
}

/// What `cargo cinstall` makes of `Cargo.toml` is what the script installs, but for commands, CMake's package and
/// licences.
#[test]
fn cargo_c_is_told_the_same() {
    let package = manifest();
    assert!(package["features"]["capi"].is_array(), "cargo-c asks for this feature");
    let capi = &package["metadata"]["capi"];
    assert!(capi["header"]["generation"] == false && capi["header"]["subdirectory"] == false, "{capi}");
    // As many parts of the version as the SONAME of src/build.rs has: libkoshi.so.0.
    assert_eq!(capi["library"]["version_suffix_components"], 1);
    let assets = capi["install"]["include"]["asset"].as_array().unwrap();
    let patterns: Vec<&str> = assets.iter().map(|asset| asset["from"].as_str().unwrap()).collect();
    let listed = shell(&format!("ls -d {}", patterns.join(" ")), common::root());
    let installed: BTreeSet<String> = listed.lines().map(|path| path.trim_start_matches("include/").into()).collect();
    assert_eq!(installed, headers());
}

/// What the static library needs of the system is what the compiler says.
#[test]
fn private_libraries_are_those_of_rust() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("empty.rs"), "").unwrap();
    let output = Command::new("rustc")
        .args(["--crate-type=staticlib", "--print=native-static-libs", "empty.rs"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let said = said.lines().find_map(|line| line.split_once("native-static-libs: ")).unwrap().1;
    let script = fs::read_to_string(common::root().join("install.sh")).unwrap();
    let listed = script.lines().find_map(|line| line.strip_prefix("system_libraries=(")).unwrap();
    // Every linker has the C library.
    let wanted: BTreeSet<&str> = said.split_whitespace().filter(|name| *name != "-lc").collect();
    assert_eq!(listed.trim_end_matches(')').split_whitespace().collect::<BTreeSet<_>>(), wanted);
}

/// Letters that mean something to a shell, to sed, or to pkg-config's callers.
#[test]
fn names_of_folders_are_taken_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (lib, include) = (place("lib & more | \\1"), place("R&D/include"));
    install(&format!("--prefix='{}' --libdir='{lib}' --includedir='{include}'", place("prefix")), "");
    let read = |name: &str| fs::read_to_string(Path::new(&lib).join(name)).unwrap();
    let pc = read("pkgconfig/koshi.pc");
    assert!(pc.contains(&format!("\nincludedir={include}\nlibdir={lib}\n")), "{pc}");
    let cmake = read("cmake/koshi/koshi-config.cmake");
    assert!(
        cmake.contains(&format!("\"{include}\" ABSOLUTE")) && cmake.contains(&format!("\"{lib}\" ABSOLUTE")),
        "{cmake}"
    );
    if has("pkg-config") {
        let found =
            shell(&format!("PKG_CONFIG_PATH='{lib}/pkgconfig' pkg-config --variable=includedir koshi"), folder.path());
        assert_eq!(found.trim_end().replace('\\', ""), include);
    }
}

#[test]
fn a_wrong_option_is_refused_and_help_is_given() {
    let run = |option: &str| Command::new("./install.sh").arg(option).current_dir(common::root()).output().unwrap();
    for empty in ["--prefix=", "--libdir="] {
        let mut command = Command::new("./install.sh");
        command.args([empty, "--uninstall"]).env("DESTDIR", "/nonexistent").current_dir(common::root());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", common::c::text(&output));
    }
    let wrong = run("--prefx=/tmp");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8(wrong.stderr).unwrap().starts_with("--prefx=/tmp: not an option\n"));
    let help = run("--help");
    assert!(help.status.success() && String::from_utf8(help.stdout).unwrap().contains("--libdir=FOLDER"));
}

#[test]
fn pkg_config_finds_it() {
    if !has("pkg-config") {
        return;
    }
    let (folder, prefix) = moved();
    let root = common::root().display();
    let script = format!(
        "export PKG_CONFIG_PATH='{prefix}/lib/pkgconfig'
        test \"$(pkg-config --modversion koshi)\" = {version}
        eval cc -std=c99 '{root}/{PROGRAM}' $(pkg-config --cflags --libs koshi) -o shared
        eval cc -std=c99 '{root}/{PROGRAM}' $(pkg-config --cflags koshi) \
            $(pkg-config --variable=libdir koshi)/libkoshi.a \
            $(pkg-config --static --libs-only-l koshi | sed 's/-lkoshi//') -o static
        eval c++ -std=c++17 '{root}/c-tests/raii.cc' $(pkg-config --cflags --libs koshi) -o cpp",
        prefix = prefix.display(),
        version = env!("CARGO_PKG_VERSION"),
    );
    shell(&script, folder.path());
    let libraries = |program: &str| shell(&format!("ldd {program}"), folder.path());
    assert!(libraries("shared").contains("libkoshi.so.0") && !libraries("static").contains("libkoshi"));
    decode(&folder.path().join("static"));
    let cpp = folder.path().join("cpp");
    shell(&format!("LD_LIBRARY_PATH='{}/lib' '{}'", prefix.display(), cpp.display()), common::root());
}

#[test]
fn cmake_finds_it() {
    if !has("cmake") {
        return;
    }
    let (folder, prefix) = moved();
    let root = common::root().display();
    let lists = format!(
        "cmake_minimum_required(VERSION 3.13)
        project(program C CXX)
        find_package(koshi 0.1 REQUIRED)
        find_package(koshi REQUIRED) # twice is fine
        find_package(koshi 99 QUIET)
        if(koshi_FOUND)
            message(FATAL_ERROR \"version 99 is not this one\")
        endif()
        add_executable(shared {root}/{PROGRAM})
        target_link_libraries(shared PRIVATE koshi::koshi)
        add_executable(static {root}/{PROGRAM})
        target_link_libraries(static PRIVATE koshi::static)
        add_executable(cpp {root}/c-tests/raii.cc)
        set_target_properties(cpp PROPERTIES CXX_STANDARD 17)
        target_link_libraries(cpp PRIVATE koshi::koshi)\n"
    );
    fs::write(folder.path().join("CMakeLists.txt"), lists).unwrap();
    let configure = format!("cmake -S . -B build -DCMAKE_PREFIX_PATH='{}'", prefix.display());
    shell(&format!("{configure} && cmake --build build"), folder.path());
    let build = folder.path().join("build");
    let libraries = |program: &str| shell(&format!("ldd {program}"), &build);
    assert!(libraries("shared").contains("libkoshi.so.0 => /") && !libraries("static").contains("libkoshi"));
    for program in ["shared", "static"] {
        decode(&build.join(program));
    }
    let cpp = Command::new(build.join("cpp")).current_dir(common::root()).output().unwrap();
    assert!(cpp.status.success(), "{}", common::c::text(&cpp));

    fs::remove_file(prefix.join("lib/libkoshi.a")).unwrap();
    let output = Command::new("cmake")
        .args(["-S", ".", "-B", "again"])
        .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()))
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("libkoshi.a is not there"));
}
