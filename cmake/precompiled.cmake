# Precompiles the headers that most files include, so that they are parsed only once. This saves about a fifth of the
# build time.
# LLVM's headers are not among them: precompiled for codegen/, they save half a second for each of the ten files that
# include them, and cost the others as much together (GCC 12).
# A file still includes what it uses: preset verify precompiles nothing.
option(AUTOTUNE_PRECOMPILE "precompile common headers" ON)

set(common_headers <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <cstdint> <cstdio> <cstdlib> <cstring>
    <deque> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span>
    <sstream> <string> <string_view> <thread> <unordered_map> <unordered_set> <utility> <variant> <vector>)

# precompiled(NAME [FLAGS f ...] [LIBS l ...] HEADERS h ...): precompiles the headers, with the include folders of the
# libraries. Only targets with the same compiler flags can use the result.
function(precompiled name)
  cmake_parse_arguments(P "" "" "FLAGS;HEADERS;LIBS" ${ARGN})
  if(NOT AUTOTUNE_PRECOMPILE)
    return()
  endif()
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/precompiled/${name}.cc CONTENT "")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/precompiled/${name}.cc)
  target_compile_options(${name} PRIVATE ${P_FLAGS})
  target_link_libraries(${name} PRIVATE ${P_LIBS})
  target_precompile_headers(${name} PRIVATE ${P_HEADERS})
endfunction()

# use_precompiled(TARGET NAME): compiles the sources of the target with the headers precompiled under that name.
# Executables are then compiled with -fPIC like libraries, since their own flag -fPIE does not fit the headers.
function(use_precompiled target name)
  if(AUTOTUNE_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${name})
    target_compile_options(${target} PRIVATE -fPIC)
    if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
      # libstdc++ uses a deprecated function of its own. Clang forgets the pragma around it, which is in the header.
      target_compile_options(${target} PRIVATE -Wno-deprecated-declarations)
    endif()
  endif()
endfunction()
