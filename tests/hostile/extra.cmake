set(EXTRA tracker rpc runtime)
set(EXTRA_TARGETS rpc_server rpc_tracker) # built before the tests that start them
set(WAITING HostileCandidates HostileCalls HostileCost HostilePeers) # for real processes, with deadlines of seconds
