# Kernels come from the operators that real tasks are made of, scheduled by the sketches that schedule/ is tested with.
# autotune_llvm: what code generators share is tested by itself.
set(EXTRA topi te autotune_llvm)
list(APPEND sources ${CMAKE_SOURCE_DIR}/tests/schedule/zoo.cc ${CMAKE_SOURCE_DIR}/tests/schedule/workload.cc
     ${CMAKE_SOURCE_DIR}/tests/schedule/case.cc)
