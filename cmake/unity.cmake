# Compiles several files of a target as one, since headers and templates cost more than code: everything builds in less
# than half the time. The files of a group have no private name in common (unity.awk), so that names in unnamed
# namespaces need not differ from those in other files. They must differ from the names that the component's headers
# declare.
# Preset verify compiles each file alone, which is what clang-tidy needs and how a missing #include shows.
option(AUTOTUNE_UNITY "compile several files of a target as one" ON)
set(CMAKE_UNITY_BUILD OFF) # CMake's own groups ignore names
find_program(AWK awk REQUIRED)
if(AUTOTUNE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # gcc takes every file that the main file includes for a header.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

# unity_sources(OUT TARGET source...): sets OUT to the files to compile in place of the sources. Properties of single
# sources have no effect then; set them on the target.
function(unity_sources out target)
  list(LENGTH ARGN count)
  if(NOT AUTOTUNE_UNITY OR count LESS 2)
    set(${out} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(relative)
  foreach(source ${ARGN})
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${source})
    list(APPEND relative ${path})
  endforeach()
  set(script ${CMAKE_SOURCE_DIR}/cmake/unity.awk)
  set(awk ${AWK} -v per_group=8)
  execute_process(COMMAND ${awk} -f ${script} ${relative} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                  OUTPUT_VARIABLE groups OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(dir ${CMAKE_BINARY_DIR}/unity/${target})
  file(MAKE_DIRECTORY ${dir})
  # One more than needed now: a name that becomes common to two files may need another group.
  set(files)
  foreach(i RANGE ${groups})
    list(APPEND files ${dir}/unity_${i}.cc)
  endforeach()
  math(EXPR groups "${groups} + 1")
  add_custom_command(OUTPUT ${files}
    COMMAND ${awk} -v dir=${dir} -v groups=${groups} -f ${script} ${relative}
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} DEPENDS ${ARGN} ${script} VERBATIM
    COMMENT "Grouping the files of ${target}")
  set(${out} ${files} PARENT_SCOPE)
endfunction()
