#!/usr/bin/env bash
# Puts NVIDIA's compiler and its run-time compiler (libnvrtc) into a folder, from PyPI, and prints
# the path of nvcc.
# Run as: NVCC=$(kernels/get_nvcc.sh [FOLDER])
#
# FOLDER is target/nvcc unless given. Nothing is done where it is there already. 13.0 and not newer:
# its PTX loads on drivers from 580 on. All are pinned, or pip mixes versions.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$root/target/nvcc}
packages=(nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96
    nvidia-cuda-nvrtc==13.0.88)

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
exec 9> "$folder/lock"
flock 9
if [ "$(cat "$folder/packages" 2> /dev/null)" != "${packages[*]}" ]; then
    rm -rf "$folder/new" "$folder/nvidia"
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --target "$folder/new" "${packages[@]}" >&2
    mv "$folder/new/nvidia" "$folder/nvidia"
    rm -r "$folder/new"
    "$folder/nvidia/cu13/bin/nvcc" --version >&2
    echo "${packages[*]}" > "$folder/packages"
fi
echo "$folder/nvidia/cu13/bin/nvcc"
