# shellcheck shell=bash
# Sourced by scripts that need a farm of several hosts: tracker, server and tuner in network namespaces of their own, whose
# interface is `uplink`, joined by the namespace router-$$, whose ports to them are port0, port1 and port2. All ends at
# the exit. Addresses: 10.77.N.2 and fd77:N::2, with N 0, 1 and 2. Needs root and Debian's iproute2.
command -v ip >/dev/null || { echo "ip is missing: apt-get install iproute2" >&2; exit 1; }
folder=$(mktemp -d) names=(tracker server tuner) spaces=() pids=() router=router-$$
for name in "${names[@]}" router; do spaces+=("$name-$$"); done

finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  for space in "${spaces[@]}"; do ip netns del "$space" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap finish EXIT
fail() { echo "$(basename "$0" .sh): $1" >&2; cat "$folder"/*.log >&2; exit 1; }

# on NAME COMMAND...: runs a command on a host, with a home of its own. In the background, `run=exec` makes it the
# process whose id is $!.
on() {
  ${run:-} ip netns exec "$1-$$" env -u AUTOTUNE_JOIN -u AUTOTUNE_TRACKER -u XDG_STATE_HOME -u XDG_CONFIG_HOME -u XDG_DATA_HOME \
    HOME="$folder/$1" XDG_RUNTIME_DIR="$folder/$1/run" "${@:2}"
}

for space in "${spaces[@]}"; do ip netns add "$space" && ip -n "$space" link set lo up; done
ip netns exec $router sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
for i in 0 1 2; do
  space=${names[i]}-$$
  ip link add uplink netns "$space" type veth peer name port$i netns $router
  ip -n $router addr add 10.77.$i.1/24 dev port$i
  ip -n $router addr add fd77:$i::1/64 dev port$i nodad
  ip -n $router link set port$i up
  ip -n "$space" addr add 10.77.$i.2/24 dev uplink
  ip -n "$space" addr add fd77:$i::2/64 dev uplink nodad
  ip -n "$space" link set uplink up
  ip -n "$space" route add default via 10.77.$i.1
  ip -n "$space" -6 route add default via fd77:$i::1
  mkdir -p -m 700 "$folder/${names[i]}/run"
done
