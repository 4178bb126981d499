#!/usr/bin/env bash
# Builds the software CUDA device. Run as: kernels/soft/build.sh FOLDER [SYMBOL]
#
# FOLDER gets libcuda.so and libnvrtc.so; with SYMBOL, libcuda.so lacks that one. Nothing is done if
# they are newer than their sources.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
lacks=${2:-}

exec 9> "$out/lock"
flock 9
if [ -e "$out/libnvrtc.so" ] && [ -z "$(find "$here" -newer "$out/libnvrtc.so" \( -name '*.cpp' -o -name '*.h' -o -name build.sh \))" ]; then
    exit
fi

# Several processes may hold the old file mapped: the new one takes its place, it is not written over.
work=$(mktemp -d "$out/build.XXXXXX")
trap 'rm -r "$work"' EXIT
flags=(-std=c++17 -O2 -g -fPIC -Wall -Wextra "-DSOFT_FOLDER=\"$here\"")
printf '{ local: %s; };\n' "${lacks:-none_is_left_out}" > "$work/symbols"
library=(block compile control driver fiber memory race stream)
printf '%s\n' "${library[@]}" nvrtc |
    xargs -P 2 -I '{}' "${CXX:-g++}" "${flags[@]}" -c "$here/{}.cpp" -o "$work/{}.o"
"${CXX:-g++}" -shared -Wl,-soname,libcuda.so "-Wl,--version-script=$work/symbols" \
    $(printf "$work/%s.o " "${library[@]}") -o "$work/libcuda.so" -ldl
"${CXX:-g++}" -shared -Wl,-soname,libnvrtc.so "$work/nvrtc.o" -o "$work/libnvrtc.so" -L "$work" -lcuda
mv "$work/libcuda.so" "$work/libnvrtc.so" "$out"
touch "$out/libnvrtc.so"
