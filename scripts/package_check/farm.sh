# A tracker and a server of this machine's CPU: a tuner measures there.
set -e
rpc_tracker &
tracker=$!
trap 'kill $tracker' EXIT
sleep 1
rpc_server --key here &
server=$!
trap 'kill $server $tracker; wait' EXIT
autotune --op matmul:64,64,64 --trials 2 --key here
kill -0 $server $tracker  # the tuner has used these, and no others
