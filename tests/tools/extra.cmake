set(EXTRA_TARGETS autotune rpc_server rpc_tracker) #built before the tests that start them
