set(EXTRA rpc runtime)
set(EXTRA_TARGETS rpc_server rpc_tracker fake_cuda) # built before the tests that start them
set(SERIAL FarmCandidates FarmCuda FarmDeaths FarmJobs FarmTracker) # since these tests start real processes with deadlines
set(SLOW InProcess Simulator)
