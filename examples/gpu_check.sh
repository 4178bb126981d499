#!/usr/bin/env bash
# Checks and measures the GPU half on a machine with a GPU, in at most eight minutes.
#
#   examples/gpu_check.sh bundle FOLDER    where cargo is: builds what is run, into FOLDER
#   examples/gpu_check.sh run FOLDER       where the GPU is; nothing but the driver is needed
#
# The tests are those that run on the software CUDA device elsewhere, here on the real driver: once with
# the kernels' image built in (needs nvcc when bundling: kernels/get_nvcc.sh), once with their source
# compiled by NVRTC (needs libnvrtc where they run). Then compute-sanitizer's four tools on a few cases,
# where it is found, and the benchmark. A table of what passed stands at the end.
set -euo pipefail

usage() {
    sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

tests=(cuda_reference cases_utterances cases_scores cases_life search_shapes)

bundle() {
    local folder
    mkdir -p "$1"
    folder=$(cd "$1" && pwd)
    cd "$(dirname "$0")/.."
    for kind in image source; do
        local flags=() target=target/gpu_check_$kind
        # A compiler that is not there: only the text is built in.
        [ "$kind" = image ] && export KOSHI_REQUIRE_NVCC=1 || { export NVCC=/nonexistent/nvcc; unset KOSHI_REQUIRE_NVCC; }
        for test in "${tests[@]}"; do
            flags+=(--test "$test")
        done
        mkdir -p "$folder/$kind"
        cargo test --release --target-dir "$target" "${flags[@]}" --no-run --message-format=json |
            sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | while read -r program; do
            local name
            name=$(basename "$program")
            cp "$program" "$folder/$kind/${name%-*}"
        done
    done
    unset NVCC
    export KOSHI_REQUIRE_NVCC=1
    cargo build --release --target-dir target/gpu_check_image --example koshi_bench_gpu
    cp target/gpu_check_image/release/examples/koshi_bench_gpu "$folder"
    cp -r examples/data/prompts "$folder"
    cp "$0" "$folder"
    du -sh "$folder"
}

table=""

# check NAME SECONDS COMMAND...: runs it with a limit and notes what became of it.
check() {
    local name=$1 limit=$2 since=$SECONDS status=0
    shift 2
    echo "=== $name"
    timeout "$limit" "$@" > log.txt 2>&1 || status=$?
    tail -n 12 log.txt
    local word=ok
    [ $status -eq 0 ] || word="FAILED ($status)"
    table+=$(printf '%-34s %-14s %4d s' "$name" "$word" $((SECONDS - since)))$'\n'
}

run() {
    cd "$1"
    export KOSHI_TEST_GPU=1
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || true
    for kind in image source; do
        for test in "${tests[@]}"; do
            if [ "$test" = cuda_reference ]; then
                check "$kind $test" 60 "$kind/$test"
            else
                check "$kind $test" 30 "$kind/$test" gpu::
            fi
        done
    done
    local sanitizer
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null || true)
    for tool in memcheck racecheck initcheck synccheck; do
        if [ -n "$sanitizer" ]; then
            KOSHI_TEST_CASES=20 check "$tool" 30 "$sanitizer" --tool "$tool" --error-exitcode 9 image/cuda_reference short
        else
            table+=$(printf '%-34s %s' "$tool" "no compute-sanitizer")$'\n'
        fi
    done
    check "benchmark" 150 ./koshi_bench_gpu --graph prompts/HCLG.fst --model prompts/trans.mdl \
        --likes ark:prompts/loglikes.ark --seconds 3
    cp log.txt benchmark.txt
    printf '\n%s' "$table"
    ! grep -q FAILED <<< "$table"
}

case "${1:-}" in
    bundle | run) [ $# -eq 2 ] || usage; "$1" "$2" ;;
    *) usage ;;
esac
