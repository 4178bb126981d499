#!/usr/bin/env bash
# Times Koshi beside Kaldi itself, one thread each, in turn: medians and ratios. See README.md.
# Times are processor times, so that other programs on the machine matter less.
# Usage: beside_kaldi.sh GRAPH DATA [ROUNDS [SETTING…]]
#   DATA holds trans.mdl and loglikes.ark; a SETTING is beam,lattice-beam,max-active,acoustic-scale.
#   With no settings, those of the prompts. `beside_kaldi.sh build` only builds Kaldi's programs.
# KALDI_PEER names a folder to keep the libraries and programs in (else target/kaldi_peer).
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$here/target}
peer=${KALDI_PEER:-$target/kaldi_peer}
libs=$peer/wheel/kaldi_active_grammar.libs
wheel='kaldi_active_grammar==3.2.0 --hash=sha256:12cc60bc6fba98d6564b8a343169596d949a096ad5cd273b64d72546ec5792df'

build() {
  mkdir -p "$peer"
  if [ ! -d "$libs" ]; then
    printf '%s\n' "$wheel" >"$peer/wheel.txt"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
      --require-hashes --requirement "$peer/wheel.txt" --dest "$peer"
    python3 -m zipfile --extract "$peer"/kaldi_active_grammar-*.whl "$peer/wheel"
  fi
  local objects=() name program
  for name in lat decoder chain cudamatrix hmm fstext matrix util base; do objects+=("$libs"/libkaldi-$name-*.so); done
  objects+=("$libs"/libfst-*.so.*)
  for program in latgen determinize chain; do
    g++ -std=c++17 -O2 -D_GLIBCXX_USE_CXX11_ABI=0 -o "$peer/kaldi-$program" \
      "$here/benches/kaldi_peer/$program.cc" "$here/benches/kaldi_peer/common.cc" "${objects[@]}" \
      -Wl,--disable-new-dtags,-rpath,"$libs"
  done
}

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
number_after() { sed -n "s/.*$1 \\([-0-9.e+]*\\).*/\\1/p" | tail -1; }
# Microseconds a frame: the frames, then seconds to add up.
per_frame() { awk 'BEGIN { for (i = 2; i < ARGC; i++) s += ARGV[i]; printf "%.3f\n", s / ARGV[1] * 1e6 }' "$@"; }
# Koshi over an archive of scores; its log goes to $log. Over none it ends with a failure.
run_koshi() {
  "$koshi" "${options[@]}" "$model" "$graph" "ark:$1" ark:/dev/null >"$log" 2>&1 || [ "$1" = /dev/null ]
}
processor_seconds() {
  local TIMEFORMAT='%U %S'
  { time "$@"; } 2>&1 | awk '{ print $1 + $2 }'
}

build
[ "${1:-}" = build ] && exit
graph=$1 data=$2 rounds=${3:-5}
shift $(($# < 3 ? $# : 3))
settings=("$@")
if [ ${#settings[@]} -eq 0 ]; then
  settings=(13,6,7000,0.0833333 15,8,10000,0.0666667 17,10,2147483647,0.0666667)
fi
model=$data/trans.mdl likes=$data/loglikes.ark
[ -f "$model" ] || model=$data/graph/trans.mdl
[ -f "$likes" ] || likes=$data/likes/loglikes.c8.ark
cargo build --release --quiet --manifest-path "$here/Cargo.toml" --bin koshi-latgen-faster-mapped
cargo build --release --quiet --manifest-path "$here/Cargo.toml" --example determinize_archive
koshi=$target/release/koshi-latgen-faster-mapped

log=$(mktemp) raw=$(mktemp)
trap 'rm -f "$log" "$raw"' EXIT
echo 'Microseconds a frame. Koshi: with reading scores and writing lattices; Kaldi: with them, and the search alone.'
printf '%-34s %9s %9s %9s %8s %8s   %s\n' beam,lattice-beam,max-active,scale koshi kaldi search \
  kaldi/k search/k 'log-likelihood a frame: koshi, kaldi'
for setting in "${settings[@]}"; do
  IFS=, read -r beam lattice_beam max_active scale <<<"$setting"
  options=(--beam="$beam" --lattice-beam="$lattice_beam" --max-active="$max_active" --acoustic-scale="$scale"
    --determinize-lattice=false --allow-partial=true)
  whole='' loading='' theirs='' search=''
  for ((round = 0; round < rounds; round++)); do
    # What it takes to start and load the graph is known from runs over no scores at all. It varies, by what the kernel does for
    # new memory: medians of both are compared.
    loading+=$(processor_seconds run_koshi /dev/null)$'\n'
    whole+=$(processor_seconds run_koshi "$likes")$'\n'
    frames=$(sed -n 's/.* over \([0-9]*\) frames\..*/\1/p' "$log" | tail -1)
    our_likelihood=$(number_after 'Overall log-likelihood per frame is' <"$log")
    "$peer/kaldi-latgen" "${options[@]}" "$model" "$graph" "$likes" /dev/null >"$log"
    their_likelihood=$(number_after 'log-likelihood a frame' <"$log")
    seconds=$(number_after search <"$log")
    search+=$(per_frame "$frames" "$seconds")$'\n'
    theirs+=$(per_frame "$frames" "$seconds" "$(number_after reading <"$log")" "$(number_after writing <"$log")")$'\n'
  done
  ours=$(per_frame "$frames" "$(median <<<"${whole%?}")" "-$(median <<<"${loading%?}")")
  theirs=$(median <<<"${theirs%?}") search=$(median <<<"${search%?}")
  awk -v name="$setting" -v k="$ours" -v a="$theirs" -v s="$search" -v l="$our_likelihood $their_likelihood" \
    'BEGIN { printf "%-34s %9.1f %9.1f %9.1f %8.2f %8.2f   %s\n", name, k, a, s, a / k, s / k, l }'
done

echo
echo "Determinizers alone, on Kaldi's raw lattices: processor milliseconds for the archive, ratio, arcs made."
printf '%-34s %9s %9s %8s   %s\n' lattice-beam,scale koshi kaldi kaldi/k 'arcs: koshi, kaldi'
determinize_koshi() {
  "$target/release/examples/determinize_archive" "$model" "ark:$raw" "$scale" "$lattice_beam" "$1" >"$log"
}
for setting in "${settings[@]}"; do
  IFS=, read -r beam lattice_beam max_active scale <<<"$setting"
  "$peer/kaldi-latgen" --beam="$beam" --lattice-beam="$lattice_beam" --max-active="$max_active" \
    --acoustic-scale="$scale" --allow-partial=true "$model" "$graph" "$likes" "$raw" >"$log"
  ours='' theirs=''
  for ((round = 0; round < rounds; round++)); do
    # Reading the archive drops out between one pass over it and eleven.
    one=$(processor_seconds determinize_koshi 1)
    eleven=$(processor_seconds determinize_koshi 11)
    our_arcs=$(sed -n 's/.* states, \([0-9]*\) arcs.*/\1/p' "$log")
    ours+=$(awk -v a="$one" -v b="$eleven" 'BEGIN { print (b - a) * 100 }')$'\n'
    "$peer/kaldi-determinize" --acoustic-scale="$scale" --beam="$lattice_beam" --repeat=3 \
      "$model" "$raw" /dev/null >"$log" 2>/dev/null
    their_arcs=$(sed -n 's/.* states \([0-9]*\) arcs$/\1/p' "$log")
    theirs+=$(number_after determinizer <"$log")$'\n'
  done
  awk -v name="$lattice_beam,$scale" -v k="$(median <<<"${ours%?}")" -v a="$(median <<<"${theirs%?}")" \
    -v arcs="$our_arcs $their_arcs" 'BEGIN { printf "%-34s %9.1f %9.1f %8.2f   %s\n", name, k, a * 1e3, a * 1e3 / k, arcs }'
done
