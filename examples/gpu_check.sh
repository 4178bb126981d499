#!/usr/bin/env bash
# Checks and measures the GPU half on a machine with a GPU, in at most eight minutes.
#
#   examples/gpu_check.sh bundle FOLDER [GRAPH MODEL LIKES [OPTION...]]
#       where cargo is: builds what is run, into FOLDER. A larger graph (.fst or .fst.gz, its transition model,
#       an archive of log-likelihoods) is measured too, with these options of koshi_bench_gpu.
#   FOLDER/gpu_check.sh run FOLDER [RESULTS]
#       where the GPU is; bash and the driver are needed, nothing is written into FOLDER. RESULTS gets
#       table.txt, log.txt and the benchmark's files (a new folder in /tmp unless given), each as soon as it is known, and
#       running.txt, what the check under way has printed so far.
#   examples/gpu_check.sh limits
#       the seconds that each check may take
#
# The tests are those that run on the software CUDA device elsewhere, here on the real driver: with the kernels' image
# built in (needs nvcc when bundling: NVCC=$(kernels/get_nvcc.sh)), and with their source compiled by NVRTC (needs
# libnvrtc where they run). Then the benchmark, Kaldi's decoder beside it where benches/beside_riva.sh has put its
# wheel into FOLDER/riva, and compute-sanitizer's four tools on a few cases, where it is found. A table stands at the end;
# the exit status is 0 when no check failed.
#
# Environment: KOSHI_CHECK_SECONDS, that all checks together may take; KOSHI_CHECK_KINDS, `image source` unless set;
# KOSHI_CHECK_TESTS, programs and what is run of each. The last two also say what is bundled.
set -euo pipefail

usage() {
    sed -n '2,22s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

read -r -a kinds <<< "${KOSHI_CHECK_KINDS:-image source}"

# Program, seconds with the image, seconds with the source (0: not run), and which of its tests.
tests=${KOSHI_CHECK_TESTS:-"
cuda_reference 35 25
cases_utterances 10 20 gpu::
cases_scores 10 0 gpu::
cases_life 10 0 gpu::
search_shapes 15 0 gpu::
cuda_lanes 25 0 on_any_gpu::
cuda_chain 15 10 on_any_gpu::
"}

# ---- where cargo is ----

bundle() {
    local folder names="" programs=() kind name
    mkdir -p "$1"
    folder=$(cd "$1" && pwd)
    shift
    if [ $# -gt 0 ]; then
        mkdir -p "$folder/larger"
        case "$1" in *.gz) cp "$1" "$folder/larger/HCLG.fst.gz" ;; *) cp "$1" "$folder/larger/HCLG.fst" ;; esac
        cp "$2" "$folder/larger/trans.mdl"
        cp "$3" "$folder/larger/loglikes.ark"
        if [ $# -gt 3 ]; then printf '%s\n' "${@:4}" > "$folder/larger/options"; fi
    fi
    cd "$(dirname "$0")/.."
    while read -r name _; do
        if [ -n "$name" ]; then programs+=(--test "$name") names+=" $name"; fi
    done <<< "$tests"
    # The benchmark with all its optimisations; the tests as `cargo test` builds them.
    if [ "${KOSHI_CHECK_BENCH:-release}" = release ]; then
        take "$folder" koshi_bench_gpu env CARGO_PROFILE_RELEASE_DEBUG=0 cargo build --release --example koshi_bench_gpu
    else
        take "$folder" koshi_bench_gpu cargo build --example koshi_bench_gpu
    fi
    for kind in "${kinds[@]}"; do
        mkdir -p "$folder/$kind"
        if [ "$kind" = image ]; then
            take "$folder/$kind" "$names" cargo test --no-run "${programs[@]}"
        else
            # A compiler that is not there: only the text is built in.
            take "$folder/$kind" "$names" env NVCC=/nonexistent/nvcc KOSHI_REQUIRE_NVCC=0 CARGO_PROFILE_DEV_DEBUG=0 \
                cargo test --no-run --target-dir target/gpu_check_source "${programs[@]}"
        fi
    done
    # A fatbin begins with these bytes.
    for name in "$folder"/image/* "$folder/koshi_bench_gpu"; do
        if [ -e "$name" ] && ! LC_ALL=C grep -qaP '\x50\xed\x55\xba\x01\x00' "$name"; then
            echo "$name has no kernels built in: nvcc was not found, or failed" >&2
            exit 1
        fi
    done
    mkdir -p "$folder/examples/data" "$folder/benches"
    cp -r examples/data/prompts "$folder/examples/data"
    cp benches/beside_riva.py "$folder/benches"
    cp examples/gpu_check.sh "$folder"
    du -sh "$folder"
}

# take FOLDER NAMES COMMAND...: builds, and copies those of the programs that cargo names, without the hashes of
# their names.
take() {
    local to=$1 names=$2 built program name
    shift 2
    built=$("$@" --message-format=json-render-diagnostics)
    while read -r program; do
        name=$(basename "$program")
        if [[ $name =~ ^(.*)-[0-9a-f]{16}$ ]]; then name=${BASH_REMATCH[1]}; fi
        if [[ " $names " == *" $name "* ]]; then
            cp "$program" "$to/$name"
            strip "$to/$name" 2> /dev/null || true
        fi
    done < <(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' <<< "$built")
    for name in $names; do
        if [ ! -e "$to/$name" ]; then
            echo "$name was not built" >&2
            exit 1
        fi
    done
}

# ---- where the GPU is ----

failed=0 passed=0 missed=0

# Written at once: what is known stays known when the rest is cut off.
row() {
    printf '%-34s %s\n' "$1" "$2" >> "$results/table.txt"
}

# missing NAME WHY: a check that cannot be made here.
missing() {
    row "$1" "not run: $2"
    missed=$((missed + 1))
}

# check NAME SECONDS COMMAND...: runs it with a limit and notes what became of it.
check() {
    local name=$1 limit=$2 since=$SECONDS status=0 word=ok left
    shift 2
    if [ "$dry" = 1 ]; then
        echo "$limit $name"
        return
    fi
    left=$((whole - SECONDS))
    if [ $left -lt 2 ]; then
        row "$name" "FAILED (no time left)"
        failed=$((failed + 1))
        return
    fi
    [ "$limit" -le $left ] || limit=$left
    echo "=== $name"
    timeout -k 3 "$limit" "$@" > "$running" 2>&1 < /dev/null || status=$?
    {
        echo "=== $name: $*"
        cat "$running"
    } >> "$results/log.txt"
    case $status in
        0) ;;
        124 | 137) word="FAILED (not done in $limit s)" ;;
        *) word="FAILED (status $status)" ;;
    esac
    # A filter that fits nothing is no success.
    if [ "$word" = ok ] && [ "$tested" = 1 ] && ! grep -q '^test result: ok\. [1-9]' "$running"; then
        word="FAILED (no test ran)"
    fi
    tail -n "$([ "$word" = ok ] && echo 3 || echo 40)" "$running"
    if [ "$word" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    row "$name" "$(printf '%-28s %4d s' "$word" $((SECONDS - since)))"
}

# The program, where it can be run: copies lose the right to be.
program() {
    if [ "$dry" = 1 ] || [ -x "$folder/$1" ]; then
        echo "$folder/$1"
    else
        mkdir -p "$work/$(dirname "$1")"
        cp "$folder/$1" "$work/$1"
        chmod +x "$work/$1"
        echo "$work/$1"
    fi
}

run_tests() {
    local kind=$1 name with_image with_source filters seconds
    while read -r name with_image with_source filters; do
        seconds=$with_image
        [ "$kind" = image ] || seconds=${with_source:-0}
        if [ -z "$name" ] || [ "$seconds" = 0 ]; then continue; fi
        # shellcheck disable=SC2086 # filters are words
        tested=1 check "$kind $name" "$seconds" "$(program "$kind/$name")" $filters
    done <<< "$tests"
}

# A folder with NVIDIA's run-time compiler, for the loader: of a toolkit or of a Python package.
nvrtc_folder() {
    local path paths=() found
    IFS=: read -r -a paths <<< "${LD_LIBRARY_PATH:-}"
    while read -r path; do paths+=("$path"); done < <(python3 - 2> /dev/null << 'PYTHON'
import glob, sys
for folder in sys.path:
    print(*glob.glob(folder + "/nvidia/*/lib"), sep="\n")
PYTHON
    )
    for path in ${paths[@]+"${paths[@]}"} /usr/local/cuda*/lib64 /usr/local/cuda*/targets/*/lib /usr/lib/x86_64-linux-gnu; do
        [ -n "$path" ] || continue
        for found in "$path"/libnvrtc.so "$path"/libnvrtc.so.1[123]; do
            if [ -e "$found" ]; then
                echo "$path"
                return
            fi
        done
    done
}

first_of() {
    local found
    for found in "$@"; do
        if [ -x "$found" ]; then
            echo "$found"
            return
        fi
    done
}

# All that is checked, in order of worth.
plan() {
    local kind tool sanitizer="" bench graph compiler="" options=()
    if [ "$dry" = 0 ]; then
        compiler=$(nvrtc_folder)
        sanitizer=$(command -v compute-sanitizer || first_of /usr/local/cuda*/bin/compute-sanitizer \
            /usr/local/cuda*/compute-sanitizer/compute-sanitizer)
    fi
    [[ " ${kinds[*]} " != *" image "* ]] || run_tests image

    bench=$(program koshi_bench_gpu)
    # shellcheck disable=SC2086 # options are words
    check "benchmark, prompts" 95 "$bench" --graph "$data/HCLG.fst" --model "$data/trans.mdl" \
        --likes "ark:$data/loglikes.ark" --budget 85 --csv "$results/prompts.csv" --export "$work/export" ${KOSHI_CHECK_BENCH_OPTIONS:-}
    keep prompts.txt
    if [ "$dry" = 1 ] || [ -e "$folder/larger" ]; then
        graph=$folder/larger/HCLG.fst
        if [ "$dry" = 0 ] && [ ! -e "$graph" ]; then
            graph=$work/larger.fst
            gunzip -c "$folder/larger/HCLG.fst.gz" > "$graph"
        fi
        if [ -e "$folder/larger/options" ]; then mapfile -t options < "$folder/larger/options"; fi
        # shellcheck disable=SC2086
        check "benchmark, larger graph" 70 "$bench" --graph "$graph" --model "$folder/larger/trans.mdl" \
            --likes "ark:$folder/larger/loglikes.ark" --budget 60 --csv "$results/larger.csv" \
            ${options[@]+"${options[@]}"} ${KOSHI_CHECK_BENCH_OPTIONS:-}
        keep larger.txt
    fi
    if [ "$dry" = 0 ] && [ ! -e "$folder/riva" ]; then
        missing "Kaldi beside it" "its wheel is not in the bundle (benches/beside_riva.sh)"
    elif [ "$dry" = 0 ] && ! python3 -c 'import numpy, torch' 2> /dev/null; then
        missing "Kaldi beside it" "no python3 with numpy and torch"
    else
        check "Kaldi beside it" 55 python3 "$folder/benches/beside_riva.py" --wheels "$folder/riva" --export "$work/export" \
            --graph "$data/HCLG.fst" --words "$data/words.txt" --budget 48
        keep riva.txt
    fi

    for kind in ${kinds[@]+"${kinds[@]}"}; do
        if [ "$kind" = image ]; then continue; fi
        if [ "$dry" = 0 ] && [ -z "$compiler" ]; then
            missing "tests with kernels from $kind" "no libnvrtc"
        else
            LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$compiler KOSHI_TEST_CASES=${KOSHI_TEST_CASES:-40} run_tests "$kind"
        fi
    done

    for tool in memcheck racecheck initcheck synccheck; do
        if [ "$dry" = 0 ] && [ -z "$sanitizer" ]; then
            missing "$tool" "no compute-sanitizer"
        elif [[ " ${kinds[*]} " == *" image "* ]]; then
            KOSHI_TEST_CASES=5 tested=1 check "$tool" 20 "$sanitizer" --tool "$tool" --error-exitcode 9 \
                "$(program image/cuda_reference)"
        fi
    done
}

# What a check has printed, as a file of its own.
keep() {
    [ "$dry" = 1 ] || cp "$running" "$results/$1"
}

run() {
    folder=$(cd "$1" && pwd)
    data=$folder/examples/data/prompts
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    results=${2:-$(mktemp -d)}
    mkdir -p "$results"
    results=$(cd "$results" && pwd)
    running=$results/running.txt
    : > "$results/log.txt"
    : > "$results/table.txt"
    cd "$work"
    export KOSHI_TEST_GPU=1 KOSHI_ROOT=$folder CUDA_CACHE_PATH=$work/cache RUST_BACKTRACE=1
    unset KOSHI_REQUIRE_SHARED KOSHI_REQUIRE_NVCC KOSHI_SHARED
    row "GPU" "$(timeout -k 3 20 nvidia-smi --query-gpu=name,driver_version,memory.total,compute_mode,mig.mode.current \
        --format=csv,noheader 2> /dev/null | paste -sd '|' || true)"
    plan
    rm -f "$running"
    echo "$passed ok, $failed failed, $missed not run; $SECONDS s" >> "$results/table.txt"
    echo
    cat "$results/table.txt"
    echo "log, tables and figures are in $results"
    [ $failed -eq 0 ] && [ $passed -gt 0 ]
}

limits() {
    dry=1 folder=. data=. work=. results=.
    plan
}

dry=0 tested=0 whole=${KOSHI_CHECK_SECONDS:-475}
case "${1:-}" in
    bundle) [ $# -eq 2 ] || [ $# -ge 5 ] || usage ;;
    run) [ $# -eq 2 ] || [ $# -eq 3 ] || usage ;;
    limits) [ $# -eq 1 ] || usage ;;
    *) usage ;;
esac
"$@"
