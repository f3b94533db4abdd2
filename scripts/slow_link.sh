#!/usr/bin/env bash
# Uploads batches over links between network namespaces, as scripts/three_hosts.sh tunes over them. First 64 MiB over a
# link of 5 Mbit/s that is cut ten times for 3 s: the lease must last, and at most 1.12 times as many bytes may pass.
# Then 1 GiB over the same path without a limit, in turns with a ZeroMQ pipe: the least rate is 0.7 times the pipe's.
# scripts/slow_link.sh [MIB] [CUTS]      Other numbers for the slow link (0: only the fast one). Needs a built tree
# (build/, or BUILD=...) with bench_farm_link, root, and Debian's iproute2.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$PWD/${BUILD:-build} mib=${1:-64} cuts=${2:-10}
folder=$(mktemp -d) names=(tracker server tuner) spaces=() pids=()
for name in "${names[@]}" router; do spaces+=("$name-$$"); done

finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  for space in "${spaces[@]}"; do ip netns del "$space" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap finish EXIT
fail() { echo "slow_link: $1" >&2; cat "$folder"/*.log >&2; exit 1; }

# on NAME COMMAND...: runs a command on a host, with a home of its own
on() {
  ip netns exec "$1-$$" env -u AUTOTUNE_JOIN -u AUTOTUNE_TRACKER -u XDG_STATE_HOME -u XDG_CONFIG_HOME -u XDG_DATA_HOME \
    HOME="$folder/$1" XDG_RUNTIME_DIR="$folder/$1/run" "${@:2}"
}
upload() { on tuner "$build/bench/bench_farm_link" upload --join "$folder/alice.join" --key board --mib "$1" 2>&1; }
forward() { ip netns exec "router-$$" sysctl -qw net.ipv4.ip_forward="$1"; }
bytes() { ip netns exec "router-$$" cat /sys/class/net/port1/statistics/tx_bytes; } # to the server

for space in "${spaces[@]}"; do ip netns add "$space" && ip -n "$space" link set lo up; done
forward 1
for i in 0 1 2; do
  space=${names[i]}-$$
  ip link add uplink netns "$space" type veth peer name port$i netns "router-$$"
  ip -n "router-$$" addr add 10.77.$i.1/24 dev port$i
  ip -n "router-$$" link set port$i up
  ip -n "$space" addr add 10.77.$i.2/24 dev uplink
  ip -n "$space" link set uplink up
  ip -n "$space" route add default via 10.77.$i.1
  mkdir -p -m 700 "$folder/${names[i]}/run"
done
on tracker "$build/tools/rpc_tracker" invite board --role server >"$folder/board.join"
on tracker "$build/tools/rpc_tracker" invite alice --role client >"$folder/alice.join"
on tracker "$build/tools/rpc_tracker" --listen '*:9190' >"$folder/tracker.log" 2>&1 &
pids+=($!)
on server "$build/tools/rpc_server" --join - --key board <"$folder/board.join" >"$folder/server.log" 2>&1 &
pids+=($!)
upload 1 >"$folder/first.log" || fail "the farm does not measure"

if [ "$mib" -gt 0 ]; then
  tc -n "router-$$" qdisc add dev port1 root tbf rate 5mbit burst 32k latency 400ms
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
  tc -n "router-$$" qdisc del dev port1 root
fi

for turn in 1 2 3; do
  on server "$build/bench/bench_farm_link" receive tcp://0.0.0.0:7000 >"$folder/pipe.log" 2>&1 &
  receiving=$!
  until [ -s "$folder/pipe.log" ]; do sleep 0.1; done
  on tuner "$build/bench/bench_farm_link" send tcp://10.77.1.2:7000 "$(head -1 "$folder/pipe.log")" --mib 1024
  wait $receiving
  upload 1024 >"$folder/upload.log" || fail "the upload failed"
  awk -v turn=$turn '/MiB\/s/ {rate[++n] = $(NF - 1); print} END {printf "turn %d: %.2f of the pipe\n", turn, rate[2] / rate[1]}' \
    "$folder"/{pipe,upload}.log
done
