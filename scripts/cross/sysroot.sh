#!/bin/sh
# Fills a folder with the libraries of another machine that rpc_server needs, from Debian's packages. Downloads them with
# state and cache of apt in that folder, and unpacks them there: the dpkg and apt of this host stay as they are.
# scripts/cross/sysroot.sh ARCHITECTURE FOLDER       ARCHITECTURE is Debian's name: arm64, riscv64
set -eu
architecture=$1 folder=$2
packages='libzmq5 libsodium23 libfmt9 libseccomp-dev libstdc++6'
stamp="$folder/filled"
[ ! -e "$stamp" ] || exit 0
for tool in apt-get dpkg-deb; do
  command -v $tool >/dev/null || { echo "cross: $tool is missing; the libraries come from Debian's packages" >&2; exit 1; }
done
mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial" "$folder/root"
: >"$folder/state/status"
apt() {
  apt-get -qq -o APT::Architecture="$architecture" -o APT::Architectures::="$architecture" \
    -o Dir::State="$folder/state" -o Dir::State::status="$folder/state/status" -o Dir::Cache="$folder/cache" \
    -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}
# shellcheck disable=SC2086 # one word per package
{ apt update && apt install --download-only --yes --no-install-recommends $packages; } >"$folder/log" 2>&1 || {
  tail -n 5 "$folder/log" >&2
  echo "cross: apt-get could not download $packages for $architecture" >&2
  exit 1
}
for package in "$folder"/cache/archives/*.deb; do dpkg-deb -x "$package" "$folder/root"; done
# The names by which the linker looks for libraries, whose development packages depend on many others.
for library in "$folder"/root/usr/lib/*/lib*.so.*; do
  name=${library%%.so.*}.so
  [ -e "$name" ] || ln -s "$(basename "$library")" "$name"
done
: >"$stamp"
