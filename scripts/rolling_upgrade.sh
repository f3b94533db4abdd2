#!/usr/bin/env bash
# Upgrades a farm in the middle of a run: tunes ResNet-20 over TCP while a device server, the tracker and another server
# are replaced by those of a later version. Once with the new tuner, once with the old one. Each run must finish all its
# trials.
# scripts/rolling_upgrade.sh OLD [NEW]      OLD and NEW (default: build) are build folders of two versions, 2.4 of the
# wire or later.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
old=$(realpath "$1")/tools new=$(realpath "${2:-$(dirname "$0")/../build}")/tools
cd "$(dirname "$0")/.."
model=$PWD/examples/resnet20.onnx trials=240
folder=$(mktemp -d)
export HOME=$folder/home XDG_RUNTIME_DIR=$folder/run
unset AUTOTUNE_JOIN AUTOTUNE_TRACKER XDG_STATE_HOME XDG_CONFIG_HOME XDG_DATA_HOME
mkdir -p -m 700 "$HOME" "$XDG_RUNTIME_DIR"
finish() {
  jobs -p | xargs -r kill 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT
fail() { echo "rolling_upgrade: $1" >&2; tail -n 20 "$folder"/*.log >&2; exit 1; }

# start WHAT VERSION: starts the tracker or a server, and remembers its process in $WHAT
start() {
  case $1 in
    tracker) "$2/rpc_tracker" --listen "127.0.0.1:$port" --state "$folder/state" >>"$folder/tracker.log" 2>&1 & ;;
    *) "$2/rpc_server" --join "$folder/$1.join" --key cpu --cores "${1#server}" --state "$folder/$1" >>"$folder/$1.log" 2>&1 & ;;
  esac
  printf -v "$1" '%s' $!
}
# replace WHAT VERSION
replace() {
  kill "${!1}"
  wait "${!1}" || true
  start "$1" "$2"
}

# upgrade TUNER SEED
upgrade() {
  rm -rf "$folder"/{state,server0,server1} "$folder"/*.{join,log,db}
  port=$((20000 + RANDOM % 10000))
  for name in server0 server1; do
    "$old/rpc_tracker" invite $name --role server --state "$folder/state" --advertise "127.0.0.1:$port" \
      >"$folder/$name.join" 2>>"$folder/invite.log"
  done
  "$old/rpc_tracker" invite alice --role client --state "$folder/state" >"$folder/alice.join" 2>>"$folder/invite.log"
  start tracker "$old"
  start server0 "$old"
  start server1 "$old"
  "$1/autotune" tune --model "$model" --trials $trials --target "llvm -num-cores=1" --seed "$2" --join "$folder/alice.join" --key cpu \
    --db "$folder/records.db" --fresh >"$folder/tune.log" 2>&1 &
  local tuner=$!
  for what in server0 tracker server1; do
    sleep 4
    kill -0 $tuner 2>/dev/null || fail "the run was over before $what was replaced"
    replace $what "$new"
  done
  wait $tuner || fail "the run failed"
  grep -q "^$trials trials" "$folder/tune.log" || fail "trials are missing"
  kill "$server0" "$server1" "$tracker"
  wait "$server0" "$server1" "$tracker" 2>/dev/null || true
}

upgrade "$new" 1
echo "$trials trials of the new tuner"
upgrade "$old" 2
echo "$trials trials of the old tuner"
