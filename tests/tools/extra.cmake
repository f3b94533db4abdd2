# clock_test.cc loads this library before the C library, so it must not use a sanitizer.
add_library(jumping_clock MODULE ${CMAKE_CURRENT_SOURCE_DIR}/tools/jumping_clock.c)
target_compile_options(jumping_clock PRIVATE -fno-sanitize=all)
target_link_options(jumping_clock PRIVATE -fno-sanitize=all)
set(EXTRA ledger frontend_helpers codegen_helpers target_helpers tuner_helpers)
set(EXTRA_TARGETS autotune rpc_server rpc_tracker jumping_clock fake_cuda) # built before the tests that start them
# These tests have short deadlines, measure all cores, or look at all processes of the machine.
set(SERIAL Bench Doctor Faults Injection Noise OneOwner TwoTuners)
set(WAITING Clocks FarmBooks FarmNetworksTest Kill Orphans RemoteKill TrackerCommands Wait) # for processes that they start, with deadlines of seconds
set(SLOW Aot ChoiceCommand Cli CudaCommands Devices ExplainCommand Face FlippedPackage InspectCommand IntegerInjection
    Miscompiles OpenClCommands OtherDevices Output PassesOfCommands PrecisionCommand QuantizeCommand Records ReportCommand RunPackage TerminalRun
    Trace TuneOnTracker
    Verify Widths/Tmux Winners)
# Looks at the pages of `autotune report` and `autotune compare`, and at the live pages, in a browser; skipped without
# Chromium.
foreach(pages report_page live_pages)
  add_test(NAME Browser.${pages}
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tools/${pages}.py --autotune $<TARGET_FILE:autotune>)
endforeach()
set_tests_properties(Browser.report_page Browser.live_pages PROPERTIES LABELS "tools;full" TIMEOUT ${timeout}
  SKIP_REGULAR_EXPRESSION "skipped: needs ")
# It tunes, which takes ten seconds.
set_tests_properties(Python.test_json_lines PROPERTIES LABELS "tools;full" RUN_SERIAL ON
  ENVIRONMENT "AUTOTUNE_PROGRAM=$<TARGET_FILE:autotune>")
# Plug-ins of `autotune tune`, on a recorded device, and exports of records.
add_test(NAME Python.plugins
  COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/tools/plugins.py --autotune $<TARGET_FILE:autotune>)
set_tests_properties(Python.plugins PROPERTIES LABELS "tools;full" TIMEOUT ${timeout})
