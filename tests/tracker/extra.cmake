set(EXTRA rpc runtime)
add_executable(farm_client tracker/client/main.cc)
target_include_directories(farm_client PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(farm_client PRIVATE rpc)
set(EXTRA_TARGETS rpc_server rpc_tracker farm_client fake_cuda fake_nvml) # built before the tests that start them
set(WAITING FarmCandidates FarmCuda FarmDeaths FarmJobs FarmLeaving FarmMembers FarmTracker OldPeer) # for real processes, with deadlines of seconds
set(SERIAL FarmOfTwoGpus FarmOfTwoOpenClDevices) # since they compare times
