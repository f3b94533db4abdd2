# Compiles several files of a target as one. Headers and templates take most of the compile time, so everything builds
# in less than half the time. The files of a group have no private name (of an unnamed namespace) in common (unity.awk).
# So two files may declare the same private name, but a private name must differ from all names that the component's
# headers declare.
# A group has about 16 files. With 8, the compiler takes an eighth longer. It needs up to 1.6 GB for a group of 16, and
# more with a sanitizer.
# The preset verify compiles each file alone, so that a missing #include is an error. clang-tidy needs such a build,
# too.
option(AUTOTUNE_UNITY "compile several files of a target as one" ON)
set(CMAKE_UNITY_BUILD OFF) # CMake's own grouping does not look at private names
find_program(AWK awk REQUIRED)
if(AUTOTUNE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # gcc regards the .cc files of a group as headers.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

# unity_sources(OUT TARGET source...): sets OUT to the files to compile in place of the sources. Properties of single
# source files then have no effect; set them on the target instead.
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
  set(per_group 8)
  if(memory_mib_per_cpu GREATER 3000 AND NOT AUTOTUNE_SANITIZE)
    set(per_group 16)
  endif()
  set(awk ${AWK} -v per_group=${per_group})
  execute_process(COMMAND ${awk} -f ${script} ${relative} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                  OUTPUT_VARIABLE groups OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(dir ${CMAKE_BINARY_DIR}/unity/${target})
  file(MAKE_DIRECTORY ${dir})
  # Make one group more than needed now. If an edit gives two files of a group a common name, one of them moves there.
  # Reading the precompiled headers would be most of the work on an empty group.
  set(files)
  foreach(i RANGE ${groups})
    list(APPEND files ${dir}/unity_${i}.cc)
  endforeach()
  set_source_files_properties(${dir}/unity_${groups}.cc PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  math(EXPR groups "${groups} + 1")
  add_custom_command(OUTPUT ${files}
    COMMAND ${awk} -v dir=${dir} -v groups=${groups} -f ${script} ${relative}
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} DEPENDS ${ARGN} ${script} VERBATIM
    COMMENT "Grouping the files of ${target}")
  set(${out} ${files} PARENT_SCOPE)
endfunction()
