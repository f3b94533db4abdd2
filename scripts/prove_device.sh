#!/usr/bin/env bash
# Proves that networks tuned on a device are faster on that device: scripts/prove_device.sh [MODEL.onnx...]
# Tunes each network (default: ResNet-20) here, then on a farm of three hosts: tracker, device server and tuner in network
# namespaces of their own, with nothing in common but join files. The device is a CPU, once by --join and once by
# --tracker, which needs tracker, server and tuner on one host; then, if this machine has PoCL, it is an OpenCL device by
# --join. Prints the device's own numbers of each network, and the gain of the same run here beside them. Fails if a run
# fails, or if a tuned network is slower on its device.
# TRIALS=16: trials for each task. DEVICES="cpu opencl": leaves the other one out. WORK=FOLDER keeps all results; a second
# call with it prints them again.
# Needs a built tree (build/, or BUILD=...), root, and Debian's iproute2.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=$PWD/${BUILD:-build}/tools models=("$@")
[ $# -gt 0 ] || models=(examples/resnet20.onnx)
. scripts/hosts.sh
work=${WORK:-$folder/work} failed=0
mkdir -p "$work"
work=$(realpath "$work")

# tune PLACE HOST ARGUMENTS...: prints the table of all networks, tuned on that host with these arguments
tune() {
  echo "== $1"
  on "$2" bench/tuning.py "${models[@]}" --trials-per-task "${TRIALS:-16}" --autotune "$programs/autotune" \
    --work "$work/$1" "${@:3}" || failed=1
}
# serve HOST ARGUMENTS...: starts a device server, and waits until the tracker lends its device
serve() {
  run=exec on "$1" "$programs/rpc_server" "${@:2}" >>"$folder/server.log" 2>&1 &
  pids+=($!)
  for ((i = 0; i < 100; ++i)); do
    on tracker "$programs/rpc_tracker" status --json | grep -q "\"key\":\"${!#}\"[^}]*\"state\":\"free\"" && return
    sleep 0.1
  done
  fail "the device ${!#} is not free"
}

on tracker "$programs/rpc_tracker" invite board --role server >"$folder/board.join" 2>/dev/null
on tracker "$programs/rpc_tracker" invite alice --role client >"$folder/alice.join" 2>/dev/null
run=exec on tracker "$programs/rpc_tracker" --listen '*:9190' >"$folder/tracker.log" 2>&1 &
pids+=($!)
for ((i = 0; i < 100; ++i)); do
  if on tracker "$programs/rpc_tracker" status >/dev/null 2>&1; then break; else sleep 0.1; fi
done

for device in ${DEVICES:-cpu opencl}; do
  if [ "$device" = opencl ] && ! "$programs/autotune" devices 2>/dev/null | grep -q '^opencl:'; then
    echo "== opencl: skipped, since this machine has no OpenCL device"
    continue
  fi
  [ "$device" = cpu ] && chosen=() || chosen=(--device "$device" --state "$folder/server/$device")
  tune "$device-here" tuner --target "$device"
  serve server --join "$folder/board.join" "${chosen[@]}" --key "$device"
  tune "$device-join" tuner --join "$folder/alice.join" --key "$device" --beside "$work/$device-here"
  [ "$device" = cpu ] || continue
  serve tracker --tracker "$folder/tracker/run/autotune/tracker" --key local
  tune cpu-tracker tracker --tracker "$folder/tracker/run/autotune/tracker" --key local --beside "$work/cpu-here"
done
exit $failed
