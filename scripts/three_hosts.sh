#!/usr/bin/env bash
# Tunes ResNet-20 on a farm of three hosts: tracker, device server and tuner in network namespaces of their own, joined by
# a router, with nothing in common but join files. First over IPv4 and IPv6, and the tuned network must run on the device
# as it does here; then over IPv6 alone. Between the two, the
# server's port is closed, its address is wrong, and the tuner does not reach it: within 6 s, the tuner's output, the
# status and the logs of tracker and server must say so. All packets are captured, and none may hold a kernel, a message,
# a name of a model or a key in plain text.
# scripts/three_hosts.sh      Needs a built tree (build/, or BUILD=...), root, and Debian's iproute2 and tcpdump.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=$PWD/${BUILD:-build}/tools model=$PWD/examples/resnet20.onnx
command -v tcpdump >/dev/null || { echo "tcpdump is missing: apt-get install tcpdump" >&2; exit 1; }
. scripts/hosts.sh

# tune SEED: returns whether the tuner finds the device, measures 24 candidates, and chooses schedules there
tune() {
  on tuner "$programs/autotune" tune --model "$model" --trials 24 --seed "$1" --join "$folder/alice.join" --key board \
    --db "$folder/tuner/records.db" >"$folder/tune.log" 2>&1 && grep -q '^24 trials' "$folder/tune.log" &&
    grep -qE 'run tuned schedules|keeps its default schedules|the schedules chosen before stay' "$folder/tune.log" &&
    ! grep -q 'could not be compared' "$folder/tune.log"
}

# runs: returns whether the tuned network answers on the device as here, bit by bit, and bench measures it there
runs() {
  local image=$PWD/examples/resnet20/test_data_set_0/input_0.pb place
  on tuner "$programs/autotune" compile --model "$model" --db "$folder/tuner/records.db" -o "$folder/tuned.tar" --quiet
  for place in here there; do
    local farm=()
    [ $place = here ] || farm=(--join "$folder/alice.join" --key board)
    on tuner "$programs/autotune" run "$folder/tuned.tar" --input "image=$image" -o "$folder/$place.npz" "${farm[@]}" \
      >"$folder/run.log" 2>&1 || return 1
  done
  cmp -s "$folder/here.npz" "$folder/there.npz" || return 1
  on tuner "$programs/autotune" bench "$folder/tuned.tar" --seconds 1 --join "$folder/alice.join" --key board
}

# serve ARGUMENTS...: starts the device server, instead of the one before
serve() {
  [ -z "${server:-}" ] || { kill "$server" && wait "$server" || true; }
  run=exec on server "$programs/rpc_server" --join - --key board "$@" <"$folder/board.join" >>"$folder/server.log" 2>&1 &
  server=$! pids+=($!)
}
# named WHAT BEGIN TEXT ARGUMENTS...: a tuner waits while a server starts with these arguments. TEXT must be everywhere
# within 6 s of the tracker's line BEGIN.
named() {
  local what=$1 begin=$2 text=$3 lines began='' now missing
  lines=$(wc -l <"$folder/tracker.log")
  kill "$server" && wait "$server" || true
  server=
  run=exec on tuner "$programs/autotune" tune --model "$model" --trials 24 --join "$folder/alice.join" --key board \
    --db "$folder/tuner/$what.db" >"$folder/$what-tuner.log" 2>&1 &
  local tuner=$!
  pids+=("$tuner")
  for ((i = 0; i < 300; ++i)); do grep -qs 'last seen' "$folder/$what-tuner.log" && break || sleep 0.1; done
  serve "${@:4}"
  for ((i = 0; i < 300; ++i)); do
    sleep 0.1
    now=$(date +%s%N)
    [ -n "$began" ] || ! tail -n "+$((lines + 1))" "$folder/tracker.log" | grep -q -- "$begin" || began=$now
    missing=
    on tracker "$programs/rpc_tracker" status >"$folder/$what-status.log" 2>&1 || true
    for file in "$what-tuner.log" "$what-status.log" tracker.log server.log; do
      grep -qsF -- "$text" "$folder/$file" || missing+=" $file"
    done
    [ -n "$missing" ] || break
  done
  kill "$tuner" && wait "$tuner" || true
  [ -z "$missing" ] && [ -n "$began" ] || fail "$what: \"$text\" is not in$missing"
  grep -q "to help: .*ssh -N -R" "$folder/tracker.log" || fail "$what: the tracker suggests nothing"
  ((now - began <= 6000000000)) || fail "$what: it took $(((now - began) / 1000000)) ms"
  echo "$what: named everywhere after $(((now - began) / 1000000)) ms"
}

on tracker "$programs/rpc_tracker" invite board --role server >"$folder/board.join"
on tracker "$programs/rpc_tracker" invite alice --role client >"$folder/alice.join"
ip netns exec $router tcpdump -i any -s 0 -U -w "$folder/packets" >/dev/null 2>&1 &
pids+=($!)
run=exec on tracker "$programs/rpc_tracker" --listen '*:9190' >"$folder/tracker.log" 2>&1 &
pids+=($!)
serve
tune 1 || fail "tuning over IPv4 and IPv6 failed"
echo "24 trials with IPv4 and IPv6"
runs || fail "the tuned network does not run on the device as here"
named closed-port 'registered at' '10.77.1.2:4711 (connection refused)' --listen 127.0.0.1:4711 --advertise 10.77.1.2:4711
named wrong-address 'registered at' "nobody answers the tracker at the server's address tcp://10.77.1.99:4711" \
  --advertise 10.77.1.99:4711
ip -n "tuner-$$" route add unreachable 10.77.1.0/24
ip -n "tuner-$$" -6 route add unreachable fd77:1::/64
named no-route 'leased to' '(no route to it)'
ip -n "tuner-$$" route del unreachable 10.77.1.0/24
ip -n "tuner-$$" -6 route del unreachable fd77:1::/64
for name in "${names[@]}"; do ip -n "$name-$$" -4 addr flush dev uplink; done
sleep 6 # until all have noticed that their connections are dead
tune 2 || fail "tuning over IPv6 alone failed"
echo "24 trials with IPv6 alone"

secrets=(.shstrtab measure_request lease_request resnet20 root@)
for file in "$folder"/*.join; do secrets+=("$(sed 's/.*"secret_key":"\([^"]*\)".*/\1/' "$file")"); done
grep -qaF CURVE "$folder/packets" || fail "no packets were captured"
for secret in "${secrets[@]}"; do
  ! grep -qaF -- "$secret" "$folder/packets" || fail "the packets hold \"$secret\" in plain text"
done
echo "$(stat -c %s "$folder/packets") bytes of packets, none of ${#secrets[@]} secrets in plain text"
