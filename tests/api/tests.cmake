# Tests of the library for programs of others. They run examples/resnet20.onnx, which the test Api.compile_* compiles to
# net.tar and net.so. tests/CMakeLists.txt includes this file after it has added the tests Python.*.
set(api_folder ${CMAKE_CURRENT_BINARY_DIR}/api_network)
file(MAKE_DIRECTORY ${api_folder})
foreach(form tar so)
  add_test(NAME Api.compile_${form} COMMAND autotune compile --model ${CMAKE_SOURCE_DIR}/examples/resnet20.onnx
           -o ${api_folder}/net.${form} --quiet)
  set_tests_properties(Api.compile_${form} PROPERTIES LABELS "api;full;fast" TIMEOUT ${timeout} FIXTURES_SETUP api_network
    ENVIRONMENT "AUTOTUNE_DB=${api_folder}/none.db;XDG_STATE_HOME=${api_folder}")
endforeach()

foreach(name c_values c_network c_calls)
  add_executable(${name}_test ${CMAKE_CURRENT_SOURCE_DIR}/api/${name}_test.c)
  set_target_properties(${name}_test PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_compile_options(${name}_test PRIVATE -Werror -pedantic)
  target_compile_definitions(${name}_test PRIVATE _POSIX_C_SOURCE=200809L AUTOTUNE_EXPECTED_VERSION="${PROJECT_VERSION}")
  target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name}_test PRIVATE autotune_runtime Threads::Threads)
endforeach()
add_test(NAME Api.c_values COMMAND c_values_test ${CMAKE_CURRENT_BINARY_DIR}/fake_cuda/libcuda.so.1)
set_tests_properties(Api.c_values PROPERTIES LABELS "api;full;fast" TIMEOUT ${timeout}
  ENVIRONMENT "POCL_CACHE_DIR=${api_folder}/pocl")
add_test(NAME Api.c_network COMMAND c_network_test ${api_folder} ${CMAKE_SOURCE_DIR}/examples/resnet20/test_data_set_0)
set_tests_properties(Api.c_network PROPERTIES LABELS "api;full;fast" TIMEOUT ${timeout} FIXTURES_REQUIRED api_network)

# A million calls on a small network; fewer under valgrind, which knows no AVX-512. Sanitizers keep freed memory.
set(most_kib 256)
if(AUTOTUNE_SANITIZE)
  set(most_kib 0)
endif()
find_program(VALGRIND valgrind)
set(cpus host)
if(VALGRIND AND NOT AUTOTUNE_SANITIZE AND CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  list(APPEND cpus x86-64-v3)
endif()
foreach(cpu ${cpus})
  add_test(NAME Api.compile_softmax_${cpu} COMMAND autotune compile --op softmax:16,16 --quiet
           --target "llvm -mcpu=${cpu} -num-cores=2" -o ${api_folder}/softmax_${cpu}.tar)
  set_tests_properties(Api.compile_softmax_${cpu} PROPERTIES LABELS "api;full;fast" TIMEOUT ${timeout}
    FIXTURES_SETUP api_softmax ENVIRONMENT "AUTOTUNE_DB=:memory:;XDG_STATE_HOME=${api_folder}")
endforeach()
add_test(NAME Api.c_calls COMMAND c_calls_test ${api_folder}/softmax_host.tar 100000 ${most_kib})
set_tests_properties(Api.c_calls PROPERTIES LABELS "api;full;fast" TIMEOUT ${timeout} FIXTURES_REQUIRED api_softmax)
if(NOT AUTOTUNE_SANITIZE)
  add_test(NAME Api.c_calls_leak COMMAND c_calls_test ${api_folder}/softmax_host.tar 20000 ${most_kib} leak)
  set_tests_properties(Api.c_calls_leak PROPERTIES LABELS "api;full;fast" TIMEOUT ${timeout} WILL_FAIL ON
    FIXTURES_REQUIRED api_softmax)
endif()
if("x86-64-v3" IN_LIST cpus)
  add_test(NAME Api.c_calls_valgrind COMMAND ${VALGRIND} --quiet --error-exitcode=9 --leak-check=full
           $<TARGET_FILE:c_calls_test> ${api_folder}/softmax_x86-64-v3.tar 2000 0)
  set_tests_properties(Api.c_calls_valgrind PROPERTIES LABELS "api;full" TIMEOUT ${timeout}
    FIXTURES_REQUIRED api_softmax)
endif()

# Programs on the library that tunes and compiles.
set(compiler_folder ${CMAKE_CURRENT_BINARY_DIR}/api_compiler)
set(compiler_environment "XDG_CACHE_HOME=${compiler_folder}/cache;XDG_STATE_HOME=${compiler_folder};XDG_DATA_HOME=${compiler_folder};AUTOTUNE_DB=${compiler_folder}/default.db")
add_executable(c_tune_test ${CMAKE_CURRENT_SOURCE_DIR}/api/c_tune_test.c)
set_target_properties(c_tune_test PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_compile_options(c_tune_test PRIVATE -Werror -pedantic)
target_include_directories(c_tune_test PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/include)
target_link_libraries(c_tune_test PRIVATE autotune_compiler)
add_test(NAME Api.empty_folder COMMAND sh -c "rm -rf ${compiler_folder} && mkdir ${compiler_folder}")
set_tests_properties(Api.empty_folder PROPERTIES LABELS "api;full" FIXTURES_SETUP api_compiler)
add_test(NAME Api.c_tune COMMAND c_tune_test ${CMAKE_SOURCE_DIR}/examples/resnet20.onnx ${compiler_folder}
         $<TARGET_FILE_DIR:autotune>)
set_tests_properties(Api.c_tune PROPERTIES LABELS "api;full" TIMEOUT ${timeout} RUN_SERIAL ON
  FIXTURES_REQUIRED api_compiler ENVIRONMENT "${compiler_environment}")

# The example of a network here and on a device of a farm, which test_devices.py runs.
add_executable(devices_example ${CMAKE_SOURCE_DIR}/examples/devices.cc)
target_include_directories(devices_example PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(devices_example PRIVATE service)

# These take seconds.
set(slow_programs test_devices test_packages test_prepared test_rpc test_wheel)

# A sanitizer's library must be loaded before python3, so these tests need another build.
foreach(program ${api_programs})
  get_filename_component(test ${program} NAME_WE)
  set_tests_properties(Python.${test} PROPERTIES FIXTURES_REQUIRED api_network
    ENVIRONMENT "AUTOTUNE_DEVICES_EXAMPLE=$<TARGET_FILE:devices_example>;AUTOTUNE_COMPILER_LIBRARY=$<TARGET_FILE:autotune_compiler>;AUTOTUNE_LIBEXEC=$<TARGET_FILE_DIR:autotune>;AUTOTUNE_RUNTIME_LIBRARY=$<TARGET_FILE:autotune_runtime>;AUTOTUNE_TEST_NETWORK=${api_folder};AUTOTUNE_TEST_BUILD=${CMAKE_BINARY_DIR};PYTHONPATH=${CMAKE_SOURCE_DIR}/python")
  if(test IN_LIST slow_programs)
    set_tests_properties(Python.${test} PROPERTIES LABELS "api;full")
  endif()
  if(AUTOTUNE_SANITIZE)
    set_tests_properties(Python.${test} PROPERTIES DISABLED TRUE)
  endif()
endforeach()
# These tune, which takes half a minute.
set_tests_properties(Python.test_tune Python.test_tune_documents PROPERTIES LABELS "api;full" RUN_SERIAL ON)
