#!/bin/sh
# Keeps books of a farm: scripts/ledger.sh FOLDER
# FOLDER holds the files that trackers, servers and tuners have written with AUTOTUNE_FARM_EVENTS=FOLDER, all of them.
# Prints each broken promise (docs/testing.md) and what the farm did. The exit status is 0 if no promise is broken.
set -eu
[ $# -eq 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
build=${BUILD:-$(dirname "$0")/../build}
exec "$build/tests/farm_ledger" "$1"
