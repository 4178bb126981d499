#!/usr/bin/env bash
# Fetches the wheel of riva-asrlib-decoder, Kaldi's CUDA decoder, into a bundle of examples/gpu_check.sh, which then
# runs it behind Koshi's own benchmark, by beside_riva.py. Its licence is Apache 2.0; nothing of it is part of Koshi.
# Usage: beside_riva.sh BUNDLE [PYTHON]
#   PYTHON is the version of the python3 that runs where the GPU is, which needs numpy and torch: 3.10, 3.11 or 3.12 (3.12).
set -euo pipefail
bundle=$1 version=${2:-3.12}
[ -d "$bundle" ] || {
  sed -n '2,6s/^# //p' "$0" >&2
  exit 2
}
mkdir -p "$bundle/riva"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --implementation cp \
  --python-version "$version" --platform manylinux2014_x86_64 --dest "$bundle/riva" riva-asrlib-decoder==0.4.4
ls "$bundle/riva"
