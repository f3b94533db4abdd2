#!/usr/bin/env bash
# Checks the packages that scripts/package.sh made: lintian finds no error, and in a bare Debian 12 they install, the
# man pages and the completions of bash, zsh and fish work, Python runs ResNet-20, tunes it with 32 trials and compiles
# it, two programs in C run it, and nothing is left when they are removed. Then the wheels are installed in their place
# (scripts/package_check/steps.sh).
#   scripts/package_check.sh FOLDER
# Needs root permissions (chroot, mounts) and the network. ROOT names a folder for the Debian, which is kept.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'package_check: %s\n' "$*" >&2; exit 1; }
[ $# = 1 ] && [ -d "$1" ] || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
[ "$(id -u)" = 0 ] || fail "chroot and mount need root: run it with sudo"
packages=$(cd "$1" && pwd)
missing=
for tool in lintian debootstrap; do command -v $tool >/dev/null || missing="$missing $tool"; done
# shellcheck disable=SC2086 # one word per package
[ -z "$missing" ] || { apt-get update && apt-get install -y --no-install-recommends $missing; } >/dev/null 2>&1 ||
  fail "cannot install$missing"

lintian --tag-display-limit 0 "$packages"/*.deb 2>&1 | grep -v "running with root" || true
lintian --fail-on error "$packages"/*.deb >/dev/null 2>&1 || fail "lintian reports errors"

root=${ROOT:-$(mktemp -d)}
mkdir -p "$root"
release() {
  umount -l "$root/proc" "$root/dev/pts" "$root/dev" 2>/dev/null || true
  if [ -z "${ROOT:-}" ] && ! grep -q " $root/" /proc/mounts; then rm -rf --one-file-system "$root"; fi
}
trap release EXIT
log=$root.log
inside() { # STEP: makes a step in the Debian, prints its name, and its output if it fails
  printf '%s … ' "$1"
  env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    TERM=dumb chroot "$root" sh /tmp/check/steps.sh "$1" >"$log" 2>&1 ||
    { echo; tail -n 30 "$log" >&2; fail "failed: $1"; }
  echo ok
}

if [ ! -e "$root/etc/debian_version" ]; then
  debootstrap --variant=minbase --include=ca-certificates bookworm "$root" \
    "${MIRROR:-http://deb.debian.org/debian}" >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "debootstrap failed"; }
fi
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount --bind /dev/pts "$root/dev/pts"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/tmp/check"
cp -r "$packages"/. examples/resnet20.onnx examples/resnet20 scripts/package_check/. "$root/tmp/check"
chmod 755 "$root"

for step in update install tools man bash zsh fish compile tune python python-tune numpy cmake pkg-config size farm purge \
  pip runtime-wheel compiler-wheel compiler-wheel-python compiler-wheel-farm uninstall; do
  inside $step
done
echo "package_check: all packages work"
