# The man pages of the programs, and the completion of their options in bash, zsh and fish, made from the options that
# the programs print (scripts/help_files.py). Sets help_files, the folder that has them.
set(Python3_ROOT_DIR /usr) # looked into first: Debian's packages python3-numpy and python3-onnx are for this interpreter
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
set(help_files ${CMAKE_BINARY_DIR}/help)
file(GLOB help_scripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/scripts/help/*.py)
# ASAN_OPTIONS: a program with a sanitizer may report what libraries never free, which scripts/sanitize.sh suppresses.
add_custom_command(OUTPUT ${help_files}/made
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${help_files}
  COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 ${Python3_EXECUTABLE}
          ${CMAKE_SOURCE_DIR}/scripts/help_files.py --version ${PROJECT_VERSION} --output ${help_files}
          $<TARGET_FILE:autotune> $<TARGET_FILE:rpc_server> $<TARGET_FILE:rpc_tracker>
  COMMAND ${CMAKE_COMMAND} -E touch ${help_files}/made
  DEPENDS autotune rpc_server rpc_tracker ${CMAKE_SOURCE_DIR}/scripts/help_files.py ${help_scripts}
  VERBATIM COMMENT "Making man pages and completions")
add_custom_target(help_files ALL DEPENDS ${help_files}/made)
