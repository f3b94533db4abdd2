#!/bin/sh
# ONNX's own cases on a GPU: scripts/verify_gpu.sh [--target opencl] [FOLDER of cases...]
# Each case is compiled for the target, run on this machine's device and compared with the expected outputs. Without
# folders: those of Debian's libonnx-testdata. Programs that the driver compiles are kept nowhere. With PoCL, which
# runs kernels on the CPU, its compiler takes most of the time: about a second a case.
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
