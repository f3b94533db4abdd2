# A tracker and a device server with rules that twins_test.cc switches off (rpc/rules.h): the drivers of the state
# machines that tests/simulator compiles. Nothing here may link rpc or tracker.
set(drivers address calibration content_store curve_keys event_file host_load host_turn join_file memory_watch runner_pool
    dealer_socket query_tracker reach server server_identity server_listener tracker_keys transport zap zeromq)
list(TRANSFORM drivers REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/rpc/\\1.cc")
unity_sources(breakable_farm breakable_farm ${CMAKE_CURRENT_SOURCE_DIR}/hostile/breakable/main.cc ${drivers}
              ${CMAKE_SOURCE_DIR}/tracker/members.cc ${CMAKE_SOURCE_DIR}/tracker/status_answers.cc ${CMAKE_SOURCE_DIR}/tracker/tracker.cc)
add_executable(breakable_farm ${breakable_farm})
target_compile_options(breakable_farm PRIVATE ${test_flags})
target_link_libraries(breakable_farm PRIVATE breakable zmq sodium Threads::Threads)
set(EXTRA tracker rpc runtime)
set(EXTRA_TARGETS rpc_server rpc_tracker breakable_farm) # built before the tests that start them
set(WAITING HostileCandidates HostileCalls HostilePeers HostileStrangers HostileTwins StrangerTwins) # for real processes, with deadlines of seconds
