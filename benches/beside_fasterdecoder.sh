#!/usr/bin/env bash
# Times koshi-latgen-faster-mapped (lattices, one thread) and kaldi-decoder's FasterDecoder
# (1-best only) in turn, and prints medians and ratios. See README.md beside this file.
# Usage: beside_fasterdecoder.sh GRAPH PDF_GRAPH DATA SHARED [ROUNDS [SETTING…]]
#   DATA holds trans.mdl and loglikes.ark; a SETTING is beam,lattice-beam,max-active,acoustic-scale.
set -euo pipefail
graph=$1 pdf_graph=$2 data=$3 shared=$4 rounds=${5:-5}
shift $(($# < 5 ? $# : 5))
settings=("$@")
if [ ${#settings[@]} -eq 0 ]; then
  settings=(13,6,7000,0.0833333 15,8,10000,0.0666667 17,10,2147483647,0.0666667)
fi
here=$(cd "$(dirname "$0")/.." && pwd)
model=$data/trans.mdl likes=$data/loglikes.ark
[ -f "$model" ] || model=$data/graph/trans.mdl
[ -f "$likes" ] || likes=$data/likes/loglikes.c8.ark
cargo build --release --quiet --manifest-path "$here/Cargo.toml" --bin koshi-latgen-faster-mapped
koshi=${CARGO_TARGET_DIR:-$here/target}/release/koshi-latgen-faster-mapped

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

printf '%-34s %12s %14s %7s\n' 'beam,lattice-beam,max-active,scale' 'koshi us' 'FasterDecoder' 'ratio'
for setting in "${settings[@]}"; do
  IFS=, read -r beam lattice_beam max_active scale <<<"$setting"
  ours='' theirs=''
  for ((round = 0; round < rounds; round++)); do
    log=$("$koshi" --beam="$beam" --lattice-beam="$lattice_beam" --max-active="$max_active" \
      --acoustic-scale="$scale" --determinize-lattice=false --allow-partial=true \
      "$model" "$graph" "ark:$likes" ark:/dev/null 2>&1)
    seconds=$(sed -n 's/.*Time taken \([0-9.e+-]*\)s.*/\1/p' <<<"$log")
    frames=$(sed -n 's/.* over \([0-9]*\) frames\..*/\1/p' <<<"$log" | tail -1)
    ours+=$(awk -v s="$seconds" -v f="$frames" 'BEGIN { printf "%.3f", s / f * 1e6 }')$'\n'
    theirs+=$(python3 "$shared/peers/fasterdecoder.py" "$pdf_graph" "$likes" "$scale" "$beam" "$max_active" |
      sed -n 's/.*, \([0-9.]*\) us.frame/\1/p')$'\n'
  done
  ours=$(printf '%s' "$ours" | median)
  theirs=$(printf '%s' "$theirs" | median)
  awk -v name="$setting" -v a="$ours" -v b="$theirs" \
    'BEGIN { printf "%-34s %12.1f %14.1f %7.2f\n", name, a, b, b / a }'
done
