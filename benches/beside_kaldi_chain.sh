#!/usr/bin/env bash
# Times the chain denominator with its derivative beside Kaldi's own on the CPU, one thread each, in turn: 128 sequences of 50
# frames. See README.md. Times are processor times, so that other programs on the machine matter less.
# Usage: beside_kaldi_chain.sh DEN_FST NUM_PDFS [ROUNDS]
# KALDI_PEER is as for beside_kaldi.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$here/target}
peer=${KALDI_PEER:-$target/kaldi_peer}
graph=$1 pdfs=$2 rounds=${3:-5}

"$here/benches/beside_kaldi.sh" build
cargo build --release --quiet --manifest-path "$here/Cargo.toml" --example beside

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
number_after() { sed -n "s/.*$1 \\([-0-9.e+]*\\).*/\\1/p" <<<"$2"; }
ours='' theirs=''
for ((round = 0; round < rounds; round++)); do
  our_line=$("$target/release/examples/beside" denominator "$graph" "$pdfs" 5)
  their_line=$(OPENBLAS_NUM_THREADS=1 "$peer/kaldi-chain" --repeat=5 "$graph" "$pdfs")
  ours+=$(number_after median "$our_line")$'\n'
  theirs+=$(number_after median "$their_line")$'\n'
done
ours=$(median <<<"${ours%?}") theirs=$(median <<<"${theirs%?}")
for line in "koshi $our_line" "kaldi $their_line"; do
  echo "${line%%, least*}"
done
awk -v k="$ours" -v a="$theirs" \
  'BEGIN { printf "processor milliseconds: koshi %.2f, kaldi %.2f, ratio %.2f\n", k * 1e3, a * 1e3, a / k }'
