#!/bin/sh
# Runs tests of the unsafe code under Miri, which ends at the first undefined behaviour: a read or write out of bounds, a
# wrong alias, a race. They do less there, as each step takes a thousand times as long: about ten minutes
# together.
#
#   rustup toolchain install nightly --component miri,rust-src
#   tests/miri.sh
#
# Not looked at: files that are mapped, other processes, the GPU; and pointers of rayon's own (crossbeam-epoch), for which
# addresses may become pointers again. Handles never do.
set -eu
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri" NVCC=none
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-deterministic-floats -Zmiri-permissive-provenance -Zmiri-tree-borrows"
if [ "$(uname -m)" = x86_64 ]; then
    export RUSTFLAGS="-Ctarget-feature=+sse4.1,+ssse3,+avx2" # so that the fast forms are looked at
fi
miri() {
    cargo +nightly miri test "$@"
}
miri --lib -- ffi:: cpu:: error:: graph::narrow --skip chunks_meet --skip epochs_wrap
miri --test search_reference
miri --test channel_sequences c::
miri --test cases_paths c::
