# The tests lower operators of real tasks (topi, te) with random schedules.
set(EXTRA topi te schedule runtime)
list(APPEND sources ${CMAKE_SOURCE_DIR}/tests/schedule/zoo.cc ${CMAKE_SOURCE_DIR}/tests/schedule/workload.cc
     ${CMAKE_SOURCE_DIR}/tests/schedule/case.cc)
set(SLOW GpuLowering Idempotent)
