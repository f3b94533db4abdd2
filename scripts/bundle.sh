#!/usr/bin/env bash
# Packs autotune, rpc_server and rpc_tracker into one archive, with every shared library that they load except glibc.
# The unpacked programs run on any x86-64 Linux with this machine's glibc or a newer one, without further installation.
#   scripts/bundle.sh [--check] [FILE.tar.xz]     default: build/autotune.tar.xz
# --check also fails for an archive above 56 MiB, since uploads may be limited. Then it unpacks the archive into a root
# that holds only glibc, and tunes, compiles and runs a network there. Needs root permissions for that (chroot).
# Needs patchelf and xz-utils (installed if missing); the three programs must be built.
set -euo pipefail
cd "$(dirname "$0")/.."

check=0
if [ "${1:-}" = --check ]; then check=1 && shift; fi
[ $# -le 1 ] || { echo "usage: scripts/bundle.sh [--check] [FILE.tar.xz]" >&2; exit 2; }
out=${1:-build/autotune.tar.xz}
most_bytes=$((56 << 20))
programs=(autotune rpc_server rpc_tracker)
fail() { printf 'bundle: %s\n' "$*" >&2; exit 1; }

for program in "${programs[@]}"; do
  [ -x "build/tools/$program" ] || fail "build/tools/$program is missing: cmake --build build --target ${programs[*]}"
done
{ command -v patchelf && command -v xz; } >/dev/null || apt-get install -y --no-install-recommends patchelf xz-utils >/dev/null ||
  fail "patchelf or xz is missing, and installing them failed: apt-get install patchelf xz-utils"

work=$(mktemp -d)
release() {
  umount "$work/root/proc" "$work/root/dev" 2>/dev/null || true
  if ! grep -q " $work/root/" /proc/mounts; then rm -rf --one-file-system "$work"; fi
}
trap release EXIT
mkdir -p "$work/autotune/bin" "$work/autotune/lib"

# libraries PROGRAM...: prints the libraries that the programs load, by name and path. glibc's libraries are not packed,
# since they must match the loader of the machine.
libraries() { ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u; }
is_glibc() { [[ $1 =~ ^lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|nsl)\.so\. ]]; }
for program in "${programs[@]}"; do
  cp "build/tools/$program" "$work/autotune/bin/"
  patchelf --set-rpath '$ORIGIN/../lib' "$work/autotune/bin/$program"
done
if missing=$(ldd "${programs[@]/#/build/tools/}" | grep 'not found'); then fail "a library is missing: $missing"; fi
libraries "${programs[@]/#/build/tools/}" | while read -r name path; do
  if is_glibc "$name"; then continue; fi
  cp -L "$path" "$work/autotune/lib/$name"
  patchelf --set-rpath '$ORIGIN' "$work/autotune/lib/$name"
done
cp -r examples/resnet20.onnx examples/resnet20 "$work/autotune/"
cp LICENSE* "$work/autotune/" 2>/dev/null || true
strip --strip-unneeded "$work"/autotune/bin/* "$work"/autotune/lib/*

mkdir -p "$(dirname "$out")"
tar -C "$work" --sort=name --owner=0 --group=0 -cf - autotune |
  xz --x86 --lzma2=preset=9 >"$out.part"
mv "$out.part" "$out"
bytes=$(stat -c %s "$out")
printf '%s: %d programs, %d libraries, %d.%d MiB (%d MiB unpacked)\n' "$out" ${#programs[@]} \
  "$(ls "$work/autotune/lib" | wc -l)" $((bytes >> 20)) $((bytes % (1 << 20) * 10 >> 20)) \
  "$(du -sm "$work/autotune" | cut -f1)"
[ $check = 1 ] || exit 0

[ "$bytes" -le "$most_bytes" ] || fail "$out is above $((most_bytes >> 20)) MiB"
[ "$(id -u)" = 0 ] || fail "--check needs root for chroot and mount: run it with sudo"
root=$work/root
mkdir -p "$root"/{proc,dev,tmp,lib64,lib/x86_64-linux-gnu}
cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
for path in /lib/x86_64-linux-gnu/*.so.*; do
  if is_glibc "$(basename "$path")"; then cp -L "$path" "$root/lib/x86_64-linux-gnu/"; fi
done
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
xz -dc "$out" | tar -C "$root" -xf -
inside() {
  printf '+ %s\n' "$*"
  env -i HOME=/tmp AUTOTUNE_DB=/tmp/records.db "$(command -v chroot)" "$root" "$@" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; fail "failed in a root with nothing but glibc: $*"; }
}
inside /autotune/bin/autotune verify --model /autotune/resnet20.onnx --data /autotune/resnet20/test_data_set_0
inside /autotune/bin/autotune tune --op matmul:64,64,64 --trials 4 -o /tmp/mm.tar
inside /autotune/bin/autotune compile --model /autotune/resnet20.onnx --target 'cuda -arch=sm_90' -o /tmp/cuda.tar
inside /autotune/bin/autotune run /tmp/mm.tar
inside /autotune/bin/rpc_server --help
inside /autotune/bin/rpc_tracker --help
echo "runs in a root with nothing but glibc"
