#!/bin/sh
# Runs the C programs that use threads under ThreadSanitizer. The library itself is built with -Zsanitizer=thread, which a
# stable compiler does if told to (RUSTC_BOOTSTRAP); the standard library stays as it is, so what only its locks order (rayon's sleeping workers, the start and end of Rust threads) is left out of the
# reports by thread_sanitizer.supp. Threads of the C programs are seen in full.
#
#   c-tests/thread_sanitizer.sh [PROGRAM ...]
set -eu
cd "$(dirname "$0")/.."
target=x86_64-unknown-linux-gnu
out=${CARGO_TARGET_DIR:-target}/thread-sanitizer
RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
    cargo build --lib --target "$target" --target-dir "$out"
runtime=$(echo "$(rustc --print sysroot)/lib/rustlib/$target/lib/"*_rt.tsan.a)
failed=0
for program in "${@:-threads submit callbacks endpoints bias log reproducible examples}"; do
    for name in $program; do
        ${CC:-cc} -std=c99 -D_POSIX_C_SOURCE=200809L -O1 -g -fsanitize=thread -Iinclude -c "c-tests/$name.c" -o "$out/$name.o"
        ${CXX:-c++} "$out/$name.o" -o "$out/$name" "$out/$target/debug/libkoshi.a" \
            -Wl,--whole-archive "$runtime" -Wl,--no-whole-archive -Wl,--export-dynamic -lpthread -lm -ldl -lrt -lresolv
        if TSAN_OPTIONS="suppressions=c-tests/thread_sanitizer.supp ${TSAN_OPTIONS:-}" "$out/$name"; then
            echo "$name: no data race"
        else
            echo "$name: failed"
            failed=1
        fi
    done
done
exit $failed
