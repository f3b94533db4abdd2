#!/bin/sh
# old_peer.sh COMMIT FOLDER: builds the farm's programs as of an earlier commit in FOLDER, unless they are there. Exits
# with 77 if the history does not reach that far.
set -eu
commit=$1 folder=$2 root=$(dirname "$0")/../..
[ -e "$folder/done" ] && exit 0
git -C "$root" cat-file -e "$commit^{commit}" 2>/dev/null || exit 77
rm -rf "$folder"
mkdir -p "$folder/source"
git -C "$root" archive "$commit" | tar -x -C "$folder/source"
# Without optimisation: these programs are built quickly, and need not be fast.
cmake -S "$folder/source" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O0 >"$folder/log" 2>&1
cmake --build "$folder/build" --target rpc_server rpc_tracker farm_client >>"$folder/log" 2>&1
touch "$folder/done"
