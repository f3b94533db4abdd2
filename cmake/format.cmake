# format: formats every source. format-check: fails if a source is not formatted. Both exist only if clang-format does.
find_program(CLANG_FORMAT clang-format)
if(CLANG_FORMAT)
  set(find_sources find . -name .?* -prune -o -name build* -type d -prune -o -name node_modules -prune -o -name *.cc -print -o -name *.h -print)
  add_custom_target(format
    COMMAND ${find_sources} | xargs ${CLANG_FORMAT} -i
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} VERBATIM)
  add_custom_target(format-check
    COMMAND ${find_sources} | xargs ${CLANG_FORMAT} --dry-run -Werror
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} VERBATIM)
endif()
