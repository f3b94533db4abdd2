#!/bin/sh
# Fills a folder with Debian's packages for another machine: the libraries that rpc_server needs and their headers, or
# the given packages and all that they depend on. Downloads them with state and cache of apt in that folder, and unpacks
# them there: the dpkg and apt of this host stay as they are.
# scripts/cross/sysroot.sh ARCHITECTURE FOLDER [RELEASE [PACKAGE ...]]
# ARCHITECTURE is Debian's name: arm64, riscv64. RELEASE is a release of Debian that has packages for it ("trixie"), if
# the one of this host has none. The host's keyring must know the release's keys. MIRROR names another mirror of it.
set -eu
architecture=$1 folder=$2 release=${3-}
shift $(($# < 3 ? $# : 3))
packages=$*
# Packages with headers. The libraries are in those that they depend on, under names with a version. Other dependencies,
# such as the headers of the C library, are the cross compiler's.
headers='libzmq3-dev libsodium-dev libfmt-dev libspdlog-dev libseccomp-dev'
stamp=$folder/filled
contents="$release ${packages:-$headers}"
[ ! -e "$stamp" ] || [ "$(cat "$stamp")" != "$contents" ] || exit 0
for tool in apt-get dpkg-deb; do
  command -v $tool >/dev/null || { echo "cross: $tool is missing; the libraries come from Debian's packages" >&2; exit 1; }
done
rm -rf --one-file-system "$stamp" "$folder/cache" "$folder/root" "$folder/state"
mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial" "$folder/root"
: >"$folder/state/status"
folder=$(cd "$folder" && pwd)
[ -z "$release" ] || cat >"$folder/debian.sources" <<EOT
Types: deb
URIs: ${MIRROR:-http://deb.debian.org/debian}
Suites: $release
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
EOT
# with_apt PROGRAM ...: runs a program of apt
with_apt() {
  program=$1
  shift
  [ -z "$release" ] ||
    set -- -o Dir::Etc::sourcelist="$folder/debian.sources" -o Dir::Etc::sourceparts=/dev/null "$@"
  "$program" -qq -o APT::Architecture="$architecture" -o APT::Architectures::="$architecture" \
    -o Dir::State="$folder/state" -o Dir::State::status="$folder/state/status" -o Dir::Cache="$folder/cache" \
    -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}
# shellcheck disable=SC2086 # one word per package
download() {
  with_apt apt-get update || return
  if [ -n "$packages" ]; then
    with_apt apt-get install --download-only --yes --no-install-recommends $packages
    return
  fi
  libraries=$(with_apt apt-cache depends --important $headers | sed -n '/-dev$/!s/^ *Depends: \(lib.*\)/\1/p')
  with_apt apt-get install --download-only --yes --no-install-recommends libstdc++6 $libraries || return
  (cd "$folder/cache/archives" && with_apt apt-get download $headers)
}
download >"$folder/log" 2>&1 || {
  tail -n 5 "$folder/log" >&2
  echo "cross: apt-get could not download ${packages:-$headers} for $architecture${release:+ from $release}" >&2
  exit 1
}
for package in "$folder"/cache/archives/*.deb; do dpkg-deb -x "$package" "$folder/root"; done
printf '%s\n' "$contents" >"$stamp"
