# A tracker and a server of this machine's CPU: a tuner measures there.
set -e
rpc_tracker &
tracker=$!
sleep 1
rpc_server --key here &
server=$!
autotune --op matmul:64,64,64 --trials 2 --key here
kill $server $tracker
wait
