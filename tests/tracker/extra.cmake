set(EXTRA rpc runtime)
set(EXTRA_TARGETS rpc_server rpc_tracker fake_cuda fake_nvml) # built before the tests that start them
set(WAITING FarmCandidates FarmCuda FarmDeaths FarmJobs FarmTracker) # for real processes, with deadlines of seconds
set(SERIAL FarmOfTwoGpus) # since it compares times
