#!/usr/bin/env bash
# Runs the commands of README.md on a bare Debian 12: in a chroot made by debootstrap, with a clean clone of HEAD and
# without a compiler cache. scripts/tour.sh reads them from README.md: those of its requirements, then those of its
# tour. Prints the time of each. Needs root permissions (chroot, mounts) and the network.
#   scripts/fresh_machine.sh [--no-tests] [FOLDER]
# --no-tests leaves out scripts/test.sh. FOLDER (default: a temporary one) is removed at the end unless KEEP=1. MIRROR
# names another Debian mirror.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'fresh_machine: %s\n' "$*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "chroot and mount need root: run it with sudo"
command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"

skip=()
if [ "${1:-}" = --no-tests ]; then
  skip=(--skip scripts/test.sh)
  shift
fi
root=${1:-$(mktemp -d)}
mkdir -p "$root"
[ -z "$(ls -A "$root")" ] || fail "$root is not empty"
release() {
  umount -l "$root/dev/shm" "$root/dev/pts" "$root/dev" "$root/sys" "$root/proc" 2>/dev/null || true
  if [ "${KEEP:-0}" != 1 ] && ! grep -q " $root/" /proc/mounts; then rm -rf --one-file-system "$root"; fi
}
trap release EXIT

debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "${MIRROR:-http://deb.debian.org/debian}" >"$root.log" 2>&1 ||
  { tail -n 20 "$root.log" >&2; fail "debootstrap failed; all of it: $root.log"; }
rm -f "$root.log"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys" && mount --make-rslave "$root/sys"
mount --bind /dev "$root/dev"
mount --bind /dev/pts "$root/dev/pts"
mount --bind /dev/shm "$root/dev/shm"
cp /etc/resolv.conf "$root/etc/resolv.conf"

# Clone the repository, so that the copy has no ignored files and no uncommitted changes.
git clone -q --no-hardlinks . "$root/autotune"

begin=$SECONDS
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 CCACHE_DISABLE=1 chroot "$root" \
  /autotune/scripts/tour.sh "${skip[@]}" Requirements "A first tour" || fail "a command of README.md failed"
printf 'fresh_machine: all commands of README.md work; %d s\n' $((SECONDS - begin))
