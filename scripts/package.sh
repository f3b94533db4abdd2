#!/usr/bin/env bash
# Makes all packages: those of Debian (autotune, libautotune-runtime0, libautotune-dev, libautotune0,
# libautotune-compiler-dev, python3-autotune), the wheel of the runtime, and the one of the compiler. If the cross
# compiler g++-aarch64-linux-gnu is installed, also the wheel of the runtime for AArch64.
#   scripts/package.sh [--check] [FOLDER]     default: build-package/dist
# --check also runs lintian, then installs the packages in a bare Debian 12 (debootstrap) and uses them there:
# scripts/package_check.sh has the steps. It needs root permissions (chroot, mounts) and the network.
# BUILD names the folder of the build, whose prefix becomes /usr (default: build-package), JOBS its jobs, COMPRESSION
# another one than xz. Tools for the check are installed if missing.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'package: %s\n' "$*" >&2; exit 1; }
check=0
if [ "${1:-}" = --check ]; then check=1 && shift; fi
[ $# -le 1 ] || { sed -n '2,10s/^# //p' "$0" >&2; exit 2; }
build=${BUILD:-build-package}
out=${1:-$build/dist}
[ $check = 0 ] || [ "$(id -u)" = 0 ] || fail "--check needs root for chroot and mount: run it with sudo"

scripts/install.sh
# Equal sources make equal packages: their times are those of the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr \
  -DAUTOTUNE_ZSH_DIR=share/zsh/vendor-completions >/dev/null
cmake --build "$build" -j "${JOBS:-$(nproc)}" --target autotune rpc_server rpc_tracker autotune_runtime \
  autotune_compiler help_files
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
compression=(${COMPRESSION:+-D CPACK_DEBIAN_COMPRESSION_TYPE="$COMPRESSION"})
(cd "$build/packages" && rm -f ./*.deb && cpack -G DEB "${compression[@]}" >cpack.log 2>&1) ||
  { tail -n 20 "$build/packages/cpack.log" >&2; fail "cpack failed"; }
mv "$build"/packages/*.deb "$out"
scripts/wheel.py --build "$build" --output "$out" >/dev/null
scripts/wheel.py --compiler --build "$build" --output "$out" >/dev/null
if command -v aarch64-linux-gnu-g++ >/dev/null; then BUILD=$build scripts/cross.sh --wheel "$out" >/dev/null; fi
(cd "$out" && ls -l)
[ $check = 1 ] || exit 0
scripts/package_check.sh "$out"
