#!/bin/sh
# Runs ONNX's test cases on a GPU: scripts/verify_gpu.sh [--target opencl] [FOLDER of cases...]
# Compiles each case for the target, runs it on this machine's device and compares the outputs with the expected ones.
# The default folders are those of Debian's libonnx-testdata. PoCL, which runs kernels on the CPU, takes about a second
# per case, most of it to compile the kernels. Its cache of compiled programs is a temporary folder.
set -eu
cd "$(dirname "$0")/.."
target=opencl
if [ "${1:-}" = --target ]; then
  target="$2"
  shift 2
fi
data=/usr/share/libonnx-testdata/data
[ $# -gt 0 ] || set -- "$data/node" "$data/simple" "$data/pytorch-operator" "$data/pytorch-converted"
POCL_CACHE_DIR="$(mktemp -d)"
export POCL_CACHE_DIR
trap 'rm -rf "$POCL_CACHE_DIR"' EXIT
build/tools/autotune verify --db :memory: --target "$target" --data "$@"
