# The state machines of the farm once more, with rules that tests can switch off (rpc/rules.h). Nothing here may link rpc
# or tracker.
set(machines administration allow_list blob capability channel check_measure client_batch client_calls client_session client_timers
    content_hash farm_event from job_report message rules server_batch server_calibration server_calls server_leave server_quarantine
    server_session server_upload shared_memory upload)
list(TRANSFORM machines REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/rpc/\\1.cc")
foreach(file status_of_key tracker_dials tracker_holds tracker_jobs tracker_members tracker_requests tracker_state tracker_status tracker_timers)
  list(APPEND machines ${CMAKE_SOURCE_DIR}/tracker/${file}.cc)
endforeach()
unity_sources(breakable breakable ${machines})
add_library(breakable STATIC ${breakable})
target_compile_definitions(breakable PUBLIC AUTOTUNE_BREAKABLE)
target_include_directories(breakable PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(breakable PUBLIC support runtime sodium)
use_precompiled(breakable precompiled_common)
# The books, which tests of real processes keep, too. Nothing here may link rpc or tracker, either.
add_library(ledger STATIC simulator/ledger/ledger.cc simulator/ledger/farm_log.cc)
target_compile_options(ledger PRIVATE -O2)
target_include_directories(ledger PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(ledger PUBLIC support)
add_executable(farm_ledger simulator/keep_books/main.cc)
target_link_libraries(farm_ledger PRIVATE ledger)
set(EXTRA breakable ledger allocator)
set(SLOW InProcess FrozenTracker Holders/Frozen Rules/Twins)
# The linker takes templates such as std::string from the tests, so at -O0 they would slow down the machines, too.
set(FLAGS -O2)
set(SHARDS Seeds=2 Days=2)
