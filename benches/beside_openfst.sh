#!/usr/bin/env bash
# Times the loading of a graph beside OpenFst's reading of the same file, one thread each, in turn: medians and ratio. See
# README.md. Times are processor times. A vector file and a const one are made of the graph, by fstconvert.
# Usage: beside_openfst.sh GRAPH [ROUNDS]
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$here/target}
graph=$1 rounds=${2:-5}

folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
g++ -std=c++17 -O2 -o "$folder/openfst-load" "$here/benches/openfst_peer/load.cc" -lfst -ldl
cargo build --release --quiet --manifest-path "$here/Cargo.toml" --example beside

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
seconds() { sed -n 's/.*median \([0-9.]*\).*/\1/p'; }
for form in vector const; do
  fstconvert --fst_type=$form "$graph" "$folder/graph.fst"
  ours='' theirs=''
  for ((round = 0; round < rounds; round++)); do
    ours+=$("$target/release/examples/beside" load "$folder/graph.fst" 1 | seconds)$'\n'
    theirs+=$("$folder/openfst-load" "$folder/graph.fst" 1 | seconds)$'\n'
  done
  awk -v form="$form" -v k="$(median <<<"${ours%?}")" -v a="$(median <<<"${theirs%?}")" \
    'BEGIN { printf "%s, processor milliseconds: koshi %.1f, OpenFst %.1f, ratio %.2f\n", form, k * 1e3, a * 1e3, a / k }'
done
