#!/usr/bin/env bash
# Builds the software CUDA device. Run as: kernels/soft/build.sh FOLDER [SYMBOL]
#
# FOLDER gets libcuda.so, libcuda.so.1 and libnvrtc.so; with SYMBOL, those of FOLDER/without-SYMBOL lack that one.
# What is newer than its sources is left as it is.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
lacks=${2:-}
out=$folder${lacks:+/without-$lacks}

exec 9> "$folder/lock"
flock 9
# Several processes may hold an old file mapped: a new one takes its place, it is not written over.
work=$(mktemp -d "$folder/build.XXXXXX")
trap 'rm -r "$work"' EXIT

library=(block compile control driver fault fiber launch memory race stream traffic)
if [ ! -e "$folder/objects/done" ] || [ -n "$(find "$here" -newer "$folder/objects/done" \( -name '*.cpp' -o -name '*.h' -o -name build.sh \))" ]; then
    flags=(-std=c++17 -O2 -g -fPIC -Wall -Wextra "-DSOFT_FOLDER=\"$here\"")
    printf '%s\n' "${library[@]}" nvrtc |
        xargs -P 2 -I '{}' "${CXX:-g++}" "${flags[@]}" -c "$here/{}.cpp" -o "$work/{}.o"
    touch "$work/done"
    rm -rf "$folder/objects" "$folder"/without-*
    mkdir "$folder/objects"
    mv "$work"/* "$folder/objects"
fi
if [ ! -e "$out/libcuda.so.1" ] || [ "$folder/objects/done" -nt "$out/libcuda.so.1" ]; then
    mkdir -p "$out"
    printf '{ local: %s; };\n' "${lacks:-none_is_left_out}" > "$work/symbols"
    (
        cd "$folder/objects"
        "${CXX:-g++}" -shared -Wl,-soname,libcuda.so "-Wl,--version-script=$work/symbols" "${library[@]/%/.o}" \
            -o "$work/libcuda.so" -ldl
        # Who asks for the driver by this name gets all of the other: so both names find one device.
        "${CXX:-g++}" -shared -Wl,-soname,libcuda.so.1 '-Wl,-rpath,$ORIGIN' -Wl,--no-as-needed "$work/libcuda.so" \
            -o "$work/libcuda.so.1"
        if [ -z "$lacks" ]; then
            "${CXX:-g++}" -shared -Wl,-soname,libnvrtc.so nvrtc.o -o "$work/libnvrtc.so" -L "$work" -lcuda
        fi
    )
    mv "$work"/*.so* "$out"
fi
