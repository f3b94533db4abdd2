set(EXTRA rpc tracker http)
set(EXTRA_TARGETS rpc_server rpc_tracker) # built before the tests that start them
set(WAITING FarmPage) # for real processes
