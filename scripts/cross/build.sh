#!/bin/sh
# Cross-builds what a board needs for AArch64 or 64-bit RISC-V: rpc_server, or the runtime library.
# scripts/cross/build.sh MACHINE BUILD TARGET
# MACHINE is aarch64 or riscv64. The files are then in BUILD/MACHINE. The libraries of rpc_server come from Debian's
# packages (scripts/cross/sysroot.sh), and are kept in BUILD/MACHINE-sysroot.
set -eu
cd "$(dirname "$0")/../.."
machine=$1 build=$2 target=$3
case $machine in
  aarch64) architecture=arm64 release='' ;;
  riscv64) architecture=riscv64 release=trixie ;; # Debian 12 has no packages for it
  *) echo "cross: $machine is no machine; known are aarch64 and riscv64" >&2; exit 2 ;;
esac
command -v "$machine-linux-gnu-g++" >/dev/null || {
  echo "cross: $machine-linux-gnu-g++ is missing: apt-get install g++-$machine-linux-gnu" >&2
  exit 1
}
mkdir -p "$build"
build=$(cd "$build" && pwd)
sysroot=$build/$machine-sysroot
scripts/cross/sysroot.sh "$architecture" "$sysroot" "$release"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{
  cmake -G Ninja -S . -B "$build/$machine" -DCMAKE_BUILD_TYPE=Release -DMACHINE="$machine" \
    -DSYSROOT="$sysroot/root" -DCMAKE_TOOLCHAIN_FILE="$PWD/scripts/cross/toolchain.cmake" -DAUTOTUNE_BOARD=ON &&
    cmake --build "$build/$machine" ${JOBS:+-j "$JOBS"} --target "$target"
} >"$log" 2>&1 || { tail -n 30 "$log" >&2; echo "cross: $target for $machine could not be built" >&2; exit 1; }
