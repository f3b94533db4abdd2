# Debian packages by `cpack -G DEB` in the build's folder `packages`, one of each component of cmake/install.cmake.
# scripts/package.sh makes them in a build whose prefix is /usr. A new library needs a component and `document` there, a
# list in scripts/licences.py, and `debian_package` here.

# A configuration in the build's own folder would define a target `package`, the name of one of our components.
set(CPACK_OUTPUT_CONFIG_FILE ${CMAKE_BINARY_DIR}/packages/CPackConfig.cmake)
set(CPACK_SOURCE_OUTPUT_CONFIG_FILE ${CMAKE_BINARY_DIR}/packages/CPackSourceConfig.cmake)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME autotune)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT ${AUTOTUNE_MAINTAINER})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/api) # libautotune needs the runtime there
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY >=)
set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/debian/repack.cmake)

# debian_package(COMPONENT PACKAGE SECTION section DESCRIPTION text [DEPENDS text] [RECOMMENDS text] [SUGGESTS text]
#   [LIBRARIES] [ALL])
# The first line of the description is the title. LIBRARIES: the package has libraries that others link. ALL: it is the
# same for all architectures. Programs and libraries depend on the packages of the libraries that they load.
macro(debian_package component package)
  cmake_parse_arguments(P "LIBRARIES;ALL" "SECTION;DESCRIPTION;DEPENDS;RECOMMENDS;SUGGESTS" "" ${ARGN})
  string(TOUPPER ${component} upper)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${P_SECTION})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION ${P_DESCRIPTION})
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS ${P_DEPENDS})
  set(CPACK_DEBIAN_${upper}_PACKAGE_RECOMMENDS ${P_RECOMMENDS})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SUGGESTS ${P_SUGGESTS})
  if(P_ALL)
    set(CPACK_DEBIAN_${upper}_PACKAGE_ARCHITECTURE all)
    set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS OFF)
  else()
    set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON)
  endif()
  if(P_LIBRARIES)
    set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/cmake/debian/triggers)
  endif()
endmacro()

debian_package(programs autotune SECTION devel SUGGESTS "python3-autotune, gcc, bash-completion" DESCRIPTION
"auto-tuning compiler for neural networks
autotune compiles an ONNX model to native kernels for one machine. It
measures many ways to compute each operator there, remembers the
fastest ones, and writes a small package that runs without a compiler.
.
rpc_tracker and rpc_server let several machines share their devices
for these measurements.")
debian_package(runtime libautotune-runtime${soversion} SECTION libs LIBRARIES DESCRIPTION
"runtime library for networks that autotune has compiled
This library loads and runs the packages that autotune compile
writes. It contains no compiler.")
debian_package(compiler libautotune${soversion} SECTION libs LIBRARIES
DEPENDS "libautotune-runtime${soversion} (= ${PROJECT_VERSION}), autotune (= ${PROJECT_VERSION})" DESCRIPTION
"library that tunes and compiles neural networks
This library compiles ONNX models, tunes them, reads databases of
tuning records and runs networks on the devices of a farm. It starts
the programs of the package autotune for this.")
debian_package(compiler-dev libautotune-compiler-dev SECTION libdevel
DEPENDS "libautotune${soversion} (= ${PROJECT_VERSION}), libautotune-dev (= ${PROJECT_VERSION})" DESCRIPTION
"compiler library of autotune, for programs in C
This package has the header of the library that tunes and compiles
networks, and the files by which CMake and pkg-config find it.")
debian_package(dev libautotune-dev SECTION libdevel DEPENDS "libautotune-runtime${soversion} (= ${PROJECT_VERSION})"
SUGGESTS libautotune-compiler-dev DESCRIPTION
"runtime library of autotune, for programs in C
This package has the header of the runtime library, and the files by
which CMake and pkg-config find it.")
debian_package(python python3-autotune SECTION python ALL SUGGESTS "python3-numpy"
RECOMMENDS "libautotune${soversion} (= ${PROJECT_VERSION})"
DEPENDS "python3:any (>= 3.9), libautotune-runtime${soversion} (= ${PROJECT_VERSION})" DESCRIPTION
"networks that autotune has compiled, in Python 3
This package loads and runs the packages that autotune compile
writes. It calls the runtime library by ctypes; numpy is optional.
With libautotune${soversion}, it also compiles and tunes models.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/cmake/debian/postinst ${CMAKE_SOURCE_DIR}/cmake/debian/prerm)
include(CPack)
