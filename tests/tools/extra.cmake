set(EXTRA_TARGETS autotune rpc_server rpc_tracker) #built before the tests that start them
set(SERIAL TRUE) # real processes with deadlines
