# The programs to lower are operators of real tasks, with random schedules.
set(EXTRA topi te schedule)
list(APPEND sources ${CMAKE_SOURCE_DIR}/tests/schedule/zoo.cc ${CMAKE_SOURCE_DIR}/tests/schedule/workload.cc
     ${CMAKE_SOURCE_DIR}/tests/schedule/case.cc)
