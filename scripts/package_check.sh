#!/usr/bin/env bash
# Checks the packages that scripts/package.sh made: lintian finds no error, and in a bare Debian 12 they install, the
# man pages and the completions of bash, zsh and fish work, Python and two programs in C run ResNet-20, and nothing is
# left when they are removed. A second bare Debian 12 gets the wheel alone.
#   scripts/package_check.sh FOLDER
# Needs root permissions (chroot, mounts) and the network. ROOT names a folder for the Debian, which is kept.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'package_check: %s\n' "$*" >&2; exit 1; }
[ $# = 1 ] && [ -d "$1" ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
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
inside() { # NAME COMMAND...: runs a command in the Debian, prints its name, and its output if it fails
  printf '%s … ' "$1"
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive TERM=dumb \
    chroot "$root" "${@:2}" >"$log" 2>&1 || { echo; tail -n 30 "$log" >&2; fail "failed: $1"; }
  echo ok
}
fresh() { # makes a bare Debian in $root
  umount -l "$root/proc" "$root/dev/pts" "$root/dev" 2>/dev/null || true
  if [ ! -e "$root/etc/debian_version" ]; then
    debootstrap --variant=minbase --include=ca-certificates bookworm "$root" \
      "${MIRROR:-http://deb.debian.org/debian}" >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "debootstrap failed"; }
  fi
  # What a person's Debian has and minbase leaves out: security updates, documents.
  echo "deb http://security.debian.org/debian-security bookworm-security main" >"$root/etc/apt/sources.list.d/security.list"
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  mount --bind /dev/pts "$root/dev/pts"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  mkdir -p "$root/tmp/check"
  cp -r "$packages"/. examples/resnet20.onnx examples/resnet20 scripts/package_check/. "$root/tmp/check"
  chmod 755 "$root"
}

fresh
inside "apt update" apt-get update
inside "apt install ./*.deb" sh -c 'cd /tmp/check && apt-get install -y --no-install-recommends ./*.deb'
inside "autotune --version" autotune --version
inside "man, bash-completion, zsh, fish, a C compiler, CMake, pkg-config" \
  apt-get install -y --no-install-recommends man-db bash-completion zsh fish gcc libc6-dev cmake make pkg-config
inside "man autotune" sh -c 'man autotune | grep -q SYNOPSIS && man autotune-tune | grep -q -- --trials && man rpc_server >/dev/null && whatis autotune'
inside "completion in bash" bash /tmp/check/complete.bash
inside "completion in zsh" zsh /tmp/check/complete.zsh
inside "completion in fish" fish /tmp/check/complete.fish
inside "autotune compile" autotune compile --model /tmp/check/resnet20.onnx -o /tmp/check/m.tar
inside "autotune tune" autotune --model /tmp/check/resnet20.onnx --trials 4 -o /tmp/check/tuned.tar
inside "Python" python3 /tmp/check/resnet20.py /tmp/check/m.tar
inside "Python with numpy" sh -c 'apt-get install -y --no-install-recommends python3-numpy && python3 /tmp/check/resnet20.py /tmp/check/tuned.tar'
inside "a project of CMake" sh -c 'cmake -S /tmp/check/project -B /tmp/b && cmake --build /tmp/b && /tmp/b/main /tmp/check/m.tar'
inside "pkg-config" sh -c 'cc /tmp/check/project/main.c -o /tmp/main $(pkg-config --cflags --libs autotune-runtime) && /tmp/main /tmp/check/m.tar'
inside "the runtime takes at most 3 MB" sh -c '[ $(dpkg-query -Wf "\${Installed-Size}" libautotune-runtime0) -le 3072 ]'
inside "rpc_tracker and rpc_server" sh /tmp/check/farm.sh
inside "apt remove" sh -c 'apt-get purge -y autotune libautotune-runtime0 libautotune-dev python3-autotune && ! find /usr /etc /var/lib/dpkg/info -name "*autotune*" | grep .'
inside "the wheel alone" sh -c 'apt-get install -y --no-install-recommends python3-pip && pip install --break-system-packages --no-deps --no-index /tmp/check/autotune_runtime-*.whl && python3 /tmp/check/resnet20.py /tmp/check/m.tar'
echo "package_check: all packages work"
