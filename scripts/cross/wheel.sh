#!/usr/bin/env bash
# Makes the wheel of the runtime for AArch64: cross-builds libautotune_runtime.so, and packs it with the Python package.
#   scripts/cross.sh --wheel [--try] [FOLDER]
# The default folder is build/dist. --try runs ResNet-20 with the wheel under qemu-user, with python3 of Debian's
# packages for AArch64, which are kept in build/aarch64-python. It needs a built tree (build/, or BUILD=...).
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-$PWD/build}
fail() { printf 'cross: %s\n' "$*" >&2; exit 1; }
try=0
if [ "${1-}" = --try ]; then try=1 && shift; fi
[ $# -le 1 ] || { echo "usage: scripts/cross.sh --wheel [--try] [FOLDER]" >&2; exit 2; }
out=${1:-$build/dist}

scripts/cross/build.sh aarch64 "$build" autotune_runtime
mkdir -p "$out"
wheel=$(scripts/wheel.py --library "$build/aarch64/api/libautotune_runtime.so.0" --strip aarch64-linux-gnu-strip --output "$out")
echo "$wheel: $(($(stat -c %s "$wheel") >> 10)) KiB"
[ $try = 1 ] || exit 0

command -v qemu-aarch64 >/dev/null || fail "qemu-aarch64 is missing: apt-get install qemu-user"
[ -x "$build/tools/autotune" ] || fail "$build/tools/autotune is missing: cmake --build build --target autotune"
scripts/cross/sysroot.sh arm64 "$build/aarch64-python" '' python3 libstdc++6
root=$build/aarch64-python/root
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
cp -r examples/resnet20 scripts/package_check/resnet20.py "$work"
python3 -m zipfile -e "$wheel" "$work/site"
AUTOTUNE_DB=$work/records.db "$build/tools/autotune" compile --model examples/resnet20.onnx --quiet \
  --target 'llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=2' -o "$work/m.tar"
on_board() { env -i PYTHONPATH="$work/site" qemu-aarch64 -L "$root" "$root/usr/bin/python3" "$@"; }
on_board "$work/resnet20.py" "$work/m.tar" || fail "the wheel does not run ResNet-20"
# A package for this host must be refused in one line.
AUTOTUNE_DB=$work/records.db "$build/tools/autotune" compile --model examples/resnet20.onnx --quiet -o "$work/here.tar"
if on_board "$work/resnet20.py" "$work/here.tar" 2>"$work/refused"; then fail "a package for this host runs there"; fi
tail -n 1 "$work/refused"
echo "the wheel works under qemu-aarch64"
