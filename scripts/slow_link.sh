#!/usr/bin/env bash
# Uploads batches over links between network namespaces, as scripts/three_hosts.sh tunes over them. First 64 MiB over a
# link of 5 Mbit/s that is cut ten times for 3 s: the lease must last, and at most 1.12 times as many bytes may pass.
# Then 1 GiB over the same path without a limit, in turns with a ZeroMQ pipe: the least rate is 0.7 times the pipe's.
# scripts/slow_link.sh [MIB] [CUTS]      Other numbers for the slow link (0: only the fast one). Needs a built tree
# (build/, or BUILD=...) with bench_farm_link, root, and Debian's iproute2.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$PWD/${BUILD:-build} mib=${1:-64} cuts=${2:-10}
. scripts/hosts.sh

upload() { on tuner "$build/bench/bench_farm_link" upload --join "$folder/alice.join" --key board --mib "$1" 2>&1; }
forward() { ip netns exec "$router" sysctl -qw net.ipv4.ip_forward="$1" net.ipv6.conf.all.forwarding="$1"; }
bytes() { ip netns exec "$router" cat /sys/class/net/port1/statistics/tx_bytes; } # to the server

on tracker "$build/tools/rpc_tracker" invite board --role server >"$folder/board.join"
on tracker "$build/tools/rpc_tracker" invite alice --role client >"$folder/alice.join"
run=exec on tracker "$build/tools/rpc_tracker" --listen '*:9190' >"$folder/tracker.log" 2>&1 &
pids+=($!)
# A lock of its own, since programs of this host that build or measure would let the server wait before each batch.
run=exec on server AUTOTUNE_HOST_LOCK="$folder/host.lock" "$build/tools/rpc_server" --join - --key board <"$folder/board.join" >"$folder/server.log" 2>&1 &
pids+=($!)
upload 1 >"$folder/first.log" || fail "the farm does not measure"

if [ "$mib" -gt 0 ]; then
  tc -n "$router" qdisc add dev port1 root tbf rate 5mbit burst 32k latency 400ms
  before=$(bytes)
  upload "$mib" >"$folder/upload.log" &
  uploading=$!
  for ((cut = 0; cut < cuts; ++cut)); do
    sleep $((mib * 8 / 5 / (cuts + 1)))
    forward 0
    sleep 3
    forward 1
  done
  wait $uploading || fail "the upload failed"
  cat "$folder/upload.log"
  share=$(awk "BEGIN {printf \"%.3f\", ($(bytes) - $before) / ($mib * 1048576)}")
  echo "$cuts cuts; $share bytes on the link for each byte of the upload"
  ! grep -q ' lost ' "$folder"/{tracker,server}.log || fail "a lease was lost"
  awk "BEGIN {exit !($share <= 1.12)}" || fail "too many bytes passed"
  tc -n "$router" qdisc del dev port1 root
fi

for turn in 1 2 3; do
  rm -f "$folder/pipe.log"
  on server "$build/bench/bench_farm_link" receive tcp://0.0.0.0:7000 >"$folder/pipe.log" 2>&1 &
  receiving=$!
  until [ -s "$folder/pipe.log" ]; do sleep 0.1; done
  on tuner "$build/bench/bench_farm_link" send tcp://10.77.1.2:7000 "$(head -1 "$folder/pipe.log")" --mib 1024
  wait $receiving
  upload 1024 >"$folder/upload.log" || fail "the upload failed"
  awk -v turn=$turn '/MiB\/s/ {rate[++n] = $(NF - 1); print} END {printf "turn %d: %.2f of the pipe\n", turn, rate[2] / rate[1]}' \
    "$folder"/{pipe,upload}.log
done
