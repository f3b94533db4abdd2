#!/bin/sh
# Installs the Debian packages of scripts/packages.txt that are missing. If none is missing, it ends at once.
set -eu
cd "$(dirname "$0")"

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "scripts/install.sh supports only Debian 12; install the packages of scripts/packages.txt by other means" >&2
  exit 1
fi

wanted=$(grep -Ev '^[[:space:]]*(#|$)' packages.txt)
# shellcheck disable=SC2086 # one word per package
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null | sed -n 's/^installed //p' || true)
missing=
for package in $wanted; do
  printf '%s\n' "$installed" | grep -qxF "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "installing$missing"
sudo=
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "not root, and no sudo: install these packages as root, then repeat" >&2; exit 1; }
  sudo=sudo
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086
{ $sudo apt-get update && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } \
  >"$log" 2>&1 || { tail -n 20 "$log" >&2; echo "apt-get could not install$missing" >&2; exit 1; }
