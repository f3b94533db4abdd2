# What `cmake --install` puts under a prefix, in components: `programs`, `runtime` (the library that runs networks), `dev`
# (its header, and what CMake and pkg-config need to find it), `compiler` and `compiler-dev` (the same of the library that
# tunes and compiles, which needs `runtime` and `programs`) and `python` (the package autotune).
# tests/api/test_install.py uses it. cmake/package.cmake makes Debian packages of components.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(AUTOTUNE_PYTHON_DIR lib/python3/dist-packages CACHE STRING "folder under the prefix for the Python package")
set(AUTOTUNE_ZSH_DIR share/zsh/site-functions CACHE STRING "folder under the prefix for the completion in zsh")
set(AUTOTUNE_MAINTAINER "autotune maintainers <autotune@lists.example.org>" CACHE STRING "whom Debian's packages name")

install(TARGETS autotune rpc_server rpc_tracker RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
install(DIRECTORY ${help_files}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT programs)
install(DIRECTORY ${help_files}/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT programs)
install(DIRECTORY ${help_files}/zsh/ DESTINATION ${AUTOTUNE_ZSH_DIR} COMPONENT programs)
install(DIRECTORY ${help_files}/fish/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT programs)

set_target_properties(autotune_runtime PROPERTIES EXPORT_NAME runtime)
target_include_directories(autotune_runtime INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS autotune_runtime EXPORT autotune
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
set_target_properties(autotune_compiler PROPERTIES EXPORT_NAME autotune)
target_include_directories(autotune_compiler INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS autotune_compiler EXPORT autotune_compiler
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT compiler NAMELINK_COMPONENT compiler-dev)
# Under /usr the loader finds the runtime library by itself, and Debian's packages must not say where to look.
install(CODE "if(CMAKE_INSTALL_PREFIX STREQUAL /usr)
  file(RPATH_REMOVE FILE \"\$ENV{DESTDIR}/usr/${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:autotune_compiler>\")
endif()" COMPONENT compiler)
set(headers ${CMAKE_INSTALL_INCLUDEDIR}/autotune)
install(FILES ${CMAKE_SOURCE_DIR}/api/c_api.h DESTINATION ${headers} COMPONENT dev)
install(FILES ${CMAKE_SOURCE_DIR}/service/compiler_c_api.h DESTINATION ${headers} COMPONENT compiler-dev)

set(config ${CMAKE_INSTALL_LIBDIR}/cmake/autotune)
install(EXPORT autotune NAMESPACE autotune:: FILE autotuneRuntime.cmake DESTINATION ${config} COMPONENT dev)
install(EXPORT autotune_compiler NAMESPACE autotune:: FILE autotuneCompiler.cmake DESTINATION ${config}
        COMPONENT compiler-dev)
file(WRITE ${CMAKE_BINARY_DIR}/autotuneConfig.cmake [[
include(${CMAKE_CURRENT_LIST_DIR}/autotuneRuntime.cmake)                # autotune::runtime
include(${CMAKE_CURRENT_LIST_DIR}/autotuneCompiler.cmake OPTIONAL)      # autotune::autotune
]])
write_basic_package_version_file(${CMAKE_BINARY_DIR}/autotuneConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/autotuneConfig.cmake ${CMAKE_BINARY_DIR}/autotuneConfigVersion.cmake DESTINATION ${config} COMPONENT dev)

# The prefix is where the file lies, so that the installed folder may be moved.
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/autotune-runtime.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@up@
Name: autotune-runtime
Description: Runs neural networks that autotune has compiled
Version: @PROJECT_VERSION@
Cflags: -I${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
Libs: -L${prefix}/@CMAKE_INSTALL_LIBDIR@ -lautotune_runtime
]])
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/autotune.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@up@
Name: autotune
Description: Tunes and compiles neural networks
Version: @PROJECT_VERSION@
Requires: autotune-runtime = @PROJECT_VERSION@
Libs: -L${prefix}/@CMAKE_INSTALL_LIBDIR@ -lautotune
]])
install(FILES ${CMAKE_BINARY_DIR}/autotune-runtime.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
install(FILES ${CMAKE_BINARY_DIR}/autotune.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT compiler-dev)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/python/autotune DESTINATION ${AUTOTUNE_PYTHON_DIR} COMPONENT python
        PATTERN __pycache__ EXCLUDE)

# document(COMPONENT PACKAGE): installs the licences of what the component contains, and its changelog, into the folder
# of its Debian package.
function(document component package)
  install(CODE "execute_process(COMMAND \"${Python3_EXECUTABLE}\" \"${CMAKE_SOURCE_DIR}/scripts/licences.py\" install
    ${component} ${package} ${PROJECT_VERSION} \"${AUTOTUNE_MAINTAINER}\"
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/doc/${package}\" COMMAND_ERROR_IS_FATAL ANY)"
    COMPONENT ${component})
endfunction()
get_target_property(soversion autotune_runtime SOVERSION)
document(programs autotune)
document(runtime libautotune-runtime${soversion})
document(dev libautotune-dev)
document(compiler libautotune${soversion})
document(compiler-dev libautotune-compiler-dev)
document(python python3-autotune)
