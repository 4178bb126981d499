#!/usr/bin/env bash
# Builds Koshi and installs libraries, headers, commands, and what pkg-config and CMake find them by.
#
#   ./install.sh [options]
#
#   --prefix=FOLDER        where everything goes (/usr/local)
#   --bindir=FOLDER        commands (PREFIX/bin)
#   --libdir=FOLDER        libraries, pkgconfig/ and cmake/ (PREFIX/lib)
#   --includedir=FOLDER    headers (PREFIX/include)
#   --docdir=FOLDER        licences, pages and examples (PREFIX/share/doc/koshi)
#   --built=FOLDER         installs what cargo has built in that folder, and builds nothing
#   --uninstall            removes what this script installs
#   --help                 prints this
#
# DESTDIR in the environment stands in front of all of them, for those who make packages.
set -euo pipefail

usage() {
    sed -n '2,/^set -/p' "$1" | sed '$d' | sed 's/^# \{0,1\}//'
}

prefix=/usr/local bindir='' libdir='' includedir='' docdir='' built='' uninstall=no
script=$(realpath "$0")
for argument in "$@"; do
    case $argument in
        --prefix=* | --bindir=* | --libdir=* | --includedir=* | --docdir=* | --built=*)
            name=${argument%%=*} value=${argument#*=}
            # As of a variable that is not set: everything would go below "/".
            [ -n "$value" ] || { echo "$name: no folder" >&2; exit 2; }
            # A shell does not expand "~" behind "=".
            printf -v "${name#--}" '%s' "$(realpath -m -- "${value/#\~/$HOME}")"
            ;;
        --uninstall) uninstall=yes ;;
        --help) usage "$script"; exit 0 ;;
        *) echo "$argument: not an option" >&2; usage "$script" >&2; exit 2 ;;
    esac
done
bindir=${bindir:-$prefix/bin} libdir=${libdir:-$prefix/lib} includedir=${includedir:-$prefix/include}
docdir=${docdir:-$prefix/share/doc/koshi}

cd "$(dirname "$script")"
version=$(sed -n '/^\[package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
soversion=${version%%.*}
# What Rust's own library needs of the system: rustc --print native-static-libs.
system_libraries=(-lgcc_s -lutil -lrt -lpthread -lm -ldl)
headers=() commands=()
for header in include/*.h include/*.hpp; do
    headers+=("$(basename "$header")")
done
for source in src/bin/koshi-*.rs; do
    commands+=("$(basename "$source" .rs)")
done

# What an installation consists of.
installed() {
    local name
    for name in "${commands[@]}"; do echo "$bindir/$name"; done
    for name in "${headers[@]}"; do echo "$includedir/$name"; done
    for name in so "so.$soversion" "so.$version" a; do echo "$libdir/libkoshi.$name"; done
    echo "$libdir/pkgconfig/koshi.pc"
    echo "$libdir/cmake/koshi"
    echo "$docdir"
}

if [ $uninstall = yes ]; then
    installed | while read -r path; do rm -rf "${DESTDIR:-}$path"; done
    exit 0
fi

# Where the libraries and the commands lie: tests build libraries beside themselves.
if [ -z "$built" ]; then
    cargo build --release --locked --lib --bins
    built=${CARGO_TARGET_DIR:-target}/release
fi
libraries=$built
[ -e "$built/libkoshi.a" ] || libraries=$built/deps

# The way from a folder to another, relative where both move with the prefix.
way() {
    case $2 in
        "$prefix"/*) realpath -m --relative-to="$1" "$2" ;;
        *) echo "$2" ;;
    esac
}

# A folder as pkg-config knows it.
in_pc() {
    case $1 in
        "$prefix"/*) echo "\${prefix}/${1#"$prefix"/}" ;;
        *) echo "$1" ;;
    esac
}

# fill TEMPLATE SYSTEM_LIBRARIES: the template with this installation's folders, whatever letters are in their names.
fill() {
    local pc=$libdir/pkgconfig cmake=$libdir/cmake/koshi text
    text=$(< "include/$1")
    text=${text//@prefix@/"\${pcfiledir}/$(realpath -m --relative-to="$pc" "$prefix")"}
    text=${text//@includedir@/"$(in_pc "$includedir")"}
    text=${text//@libdir@/"$(in_pc "$libdir")"}
    text=${text//@cmake_includedir@/"$(way "$cmake" "$includedir")"}
    text=${text//@cmake_libdir@/"$(way "$cmake" "$libdir")"}
    text=${text//@version@/"$version"}
    text=${text//@soversion@/"$soversion"}
    text=${text//@system_libraries@/"$2"}
    echo "$text"
}

put() { install -D -m "$1" "$2" "${DESTDIR:-}$3"; }

for name in "${commands[@]}"; do put 755 "$built/$name" "$bindir/$name"; done
for name in "${headers[@]}"; do put 644 "include/$name" "$includedir/$name"; done
put 755 "$libraries/libkoshi.so" "$libdir/libkoshi.so.$version"
ln -sf "libkoshi.so.$version" "${DESTDIR:-}$libdir/libkoshi.so.$soversion"
ln -sf "libkoshi.so.$soversion" "${DESTDIR:-}$libdir/libkoshi.so"
put 644 "$libraries/libkoshi.a" "$libdir/libkoshi.a"

folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
fill koshi.pc.in "${system_libraries[*]}" > "$folder/koshi.pc"
# CMake's lists have semicolons, and its names of libraries no -l.
fill koshi-config.cmake.in "$(printf '%s;' "${system_libraries[@]#-l}" | sed 's/;$//')" > "$folder/koshi-config.cmake"
fill koshi-config-version.cmake.in '' > "$folder/koshi-config-version.cmake"
# Name, version, licence and home of each package that the library holds, and of Rust's own library.
cargo tree --offline --locked --edges normal --no-dedupe --prefix none --format '{p} | {l} | {r}' |
    sed 's| (/[^)]*)||; s| (proc-macro)||' | sort -u > "$folder/DEPENDENCIES"
rustc --version | sed 's#^rustc \([^ ]*\).*#std v\1 | MIT OR Apache-2.0 | https://github.com/rust-lang/rust#' >> "$folder/DEPENDENCIES"
put 644 "$folder/koshi.pc" "$libdir/pkgconfig/koshi.pc"
put 644 "$folder/koshi-config.cmake" "$libdir/cmake/koshi/koshi-config.cmake"
put 644 "$folder/koshi-config-version.cmake" "$libdir/cmake/koshi/koshi-config-version.cmake"
for name in LICENSE README.md CHANGELOG.md docs/*.md; do put 644 "$name" "$docdir/$name"; done
put 644 "$folder/DEPENDENCIES" "$docdir/DEPENDENCIES"
# What needs nothing of this repository, with the model and the prompts that it runs on.
for name in examples/*.c examples/*.cc examples/*.py examples/*.md examples/kaldi/* examples/data/prompts/*; do
    mode=644
    [ ! -x "$name" ] || mode=755
    put $mode "$name" "$docdir/$name"
done

# Where a program finds the library when it starts.
if [ -z "${DESTDIR:-}" ]; then
    echo "Koshi $version is in $prefix."
    echo "Programs that are linked with it find it where the system looks for libraries. For $libdir that is so with"
    echo "-Wl,-rpath,$libdir when they are linked, with LD_LIBRARY_PATH=$libdir when they start, or, if it is one"
    echo "of the system's folders, once ldconfig has run."
fi
