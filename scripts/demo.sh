#!/usr/bin/env bash
# The first look: installs what is missing, builds autotune, then checks, tunes, compiles, runs and measures a small
# network on this machine. Rerunning resumes. TRIALS (default 120) is how many candidates are measured.
set -euo pipefail
cd "$(dirname "$0")/.."

trials=${TRIALS:-120}
model=examples/resnet20.onnx
data=examples/resnet20/test_data_set_0
out=build/demo
db=$out/records.db
autotune=build/tools/autotune
threads=$(nproc)

step() { printf '\n== %s\n' "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }
show() { printf '$ %s\n' "$*"; "$@"; }
# The number under this name in a line of JSON.
field() { sed -n "s/.*\"$1\": *\([0-9.eE+-]*\).*/\1/p" "$2"; }

step "install and build (the first time takes minutes)"
scripts/install.sh || fail "the packages of scripts/packages.txt are needed; see the lines above"
mkdir -p "$out"
cmake --preset dev >"$out/configure.log" 2>&1 || { tail -n 20 "$out/configure.log" >&2; fail "cmake failed; all of it: $out/configure.log"; }
cmake --build build --target autotune rpc_server rpc_tracker || fail "the build failed; see the lines above"

step "untuned: compiled with default schedules, compared with the network's expected outputs"
show $autotune verify --model $model --data $data --db :memory: || fail "the untuned network is wrong"
$autotune compile --model $model --db :memory: -o "$out/untuned.tar" >/dev/null || fail "cannot compile $model"

step "tune: $trials candidates are built, measured and remembered in $db"
show $autotune tune --model $model --trials "$trials" --db "$db" -o "$out/tuned.tar" || fail "tuning did not finish; run scripts/demo.sh again to resume"

step "tuned: run, and compare again"
show $autotune run "$out/tuned.tar" --input "image=$data/input_0.pb" || fail "the package does not run"
show $autotune verify --model $model --data $data --db "$db" || fail "the tuned network is wrong"

step "before and after, $threads threads, measured in alternation"
best_untuned= best_tuned=
for _ in 1 2 3 4 5; do
  for kind in untuned tuned; do
    $autotune bench "$out/$kind.tar" --threads "$threads" --seconds 0.5 --json >"$out/$kind.json" || fail "cannot measure $out/$kind.tar"
    ms=$(field median_ms "$out/$kind.json")
    [ -n "$ms" ] || fail "autotune bench --json gave no median_ms; see $out/$kind.json"
    declare -n best=best_$kind
    best=$(awk -v a="$ms" -v b="${best:-$ms}" 'BEGIN { print (a + 0 < b + 0 ? a : b) }')
  done
done
awk -v b="$best_untuned" -v a="$best_tuned" \
  'BEGIN { printf "untuned %.3f ms, tuned %.3f ms: %.2f times as fast (the best of 5 medians each)\n", b, a, b / a }'
