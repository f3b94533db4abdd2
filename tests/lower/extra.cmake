# Programs to lower come from the operators that real tasks are made of, and from random schedules of them.
set(EXTRA topi te schedule)
list(APPEND sources ${CMAKE_SOURCE_DIR}/tests/schedule/zoo.cc ${CMAKE_SOURCE_DIR}/tests/schedule/workload.cc
     ${CMAKE_SOURCE_DIR}/tests/schedule/case.cc)
