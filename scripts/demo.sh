#!/usr/bin/env bash
# A demo: installs missing packages, builds autotune, then checks, tunes, compiles, runs and measures a small network on
# this machine. A second run resumes the first. TRIALS (default 120) is the number of candidates to measure. At its end,
# `autotune tune` compares the whole network before and after tuning. The profile at the end of the demo shows how far
# each kernel is from the limit of the machine, and so the possible gain.
set -euo pipefail
cd "$(dirname "$0")/.."

trials=${TRIALS:-120}
model=examples/resnet20.onnx
data=examples/resnet20/test_data_set_0
out=build/demo
db=$out/records.db
autotune=build/tools/autotune

step() { printf '\n== %s\n' "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }
show() { printf '$ %s\n' "$*"; "$@"; }

step "install and build (the first time takes minutes)"
scripts/install.sh || fail "the packages of scripts/packages.txt are needed; see the lines above"
mkdir -p "$out"
cmake --preset dev >"$out/configure.log" 2>&1 || { tail -n 20 "$out/configure.log" >&2; fail "cmake failed; all of it: $out/configure.log"; }
cmake --build build --target autotune rpc_server rpc_tracker || fail "the build failed; see the lines above"

step "untuned: compiled with default schedules, compared with the network's expected outputs"
show $autotune verify --model $model --data $data --db :memory: || fail "the untuned network is wrong"

step "tune: $trials candidates are built, measured and remembered in $db"
show $autotune tune --model $model --trials "$trials" --db "$db" -o "$out/tuned.tar" || fail "tuning did not finish; run scripts/demo.sh again to resume"

step "tuned: run, and compare again"
show $autotune run "$out/tuned.tar" --input "image=$data/input_0.pb" || fail "the package does not run"
show $autotune verify --model $model --data $data --db "$db" || fail "the tuned network is wrong"

step "each kernel: its time, and its distance to what this machine allows"
show $autotune bench "$out/tuned.tar" --profile --seconds 2 || fail "cannot measure $out/tuned.tar"
