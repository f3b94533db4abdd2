# What `cmake --install` puts under a prefix, in components: `programs`, `runtime` (the library), `dev` (its header, and
# what CMake and pkg-config need to find it) and `python` (the package autotune). tests/api/test_install.py uses it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(AUTOTUNE_PYTHON_DIR lib/python3/dist-packages CACHE STRING "folder under the prefix for the Python package")

install(TARGETS autotune rpc_server rpc_tracker RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)

set_target_properties(autotune_runtime PROPERTIES EXPORT_NAME runtime)
target_include_directories(autotune_runtime INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS autotune_runtime EXPORT autotune
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(FILES ${CMAKE_SOURCE_DIR}/api/c_api.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/autotune COMPONENT dev)

set(config ${CMAKE_INSTALL_LIBDIR}/cmake/autotune)
install(EXPORT autotune NAMESPACE autotune:: FILE autotuneConfig.cmake DESTINATION ${config} COMPONENT dev)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/autotuneConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/autotuneConfigVersion.cmake DESTINATION ${config} COMPONENT dev)

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
install(FILES ${CMAKE_BINARY_DIR}/autotune-runtime.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/python/autotune DESTINATION ${AUTOTUNE_PYTHON_DIR} COMPONENT python
        PATTERN __pycache__ EXCLUDE)
