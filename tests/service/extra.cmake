set(EXTRA_TARGETS autotune rpc_server) # build workers and the device server of the runs
set(SERIAL TuneRuns)
