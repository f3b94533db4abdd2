# Compiles for the machine MACHINE (aarch64 or riscv64) with Debian's cross compiler. SYSROOT is a folder with the
# machine's libraries and their headers, as scripts/cross/sysroot.sh fills it. Headers of packages without a library are
# this host's.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MACHINE SYSROOT)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${MACHINE})
set(CMAKE_C_COMPILER ${MACHINE}-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER ${MACHINE}-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE ${MACHINE}-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
# The headers of libraries must be those of SYSROOT, which may have other versions than this host. Debian's cross
# compilers search /usr/include in any case, after their own headers.
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_INIT "-isystem ${SYSROOT}/usr/include -idirafter /usr/include")
endforeach()
set(libraries ${SYSROOT}/usr/lib/${MACHINE}-linux-gnu)
# The libraries may need a newer C library than the one of the cross compiler. The bundle has the libraries' own.
set(CMAKE_EXE_LINKER_FLAGS_INIT
    "-L${libraries} -Wl,-rpath-link,${libraries}:${SYSROOT}/lib/${MACHINE}-linux-gnu -Wl,--allow-shlib-undefined")
