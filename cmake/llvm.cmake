# LLVM 19 (shared) and LLD as a library (static): the target autotune_llvm. Only codegen/ links it.
find_program(LLVM_CONFIG NAMES llvm-config-19 REQUIRED)
execute_process(COMMAND ${LLVM_CONFIG} --includedir OUTPUT_VARIABLE LLVM_INCLUDE OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${LLVM_CONFIG} --libdir OUTPUT_VARIABLE LLVM_LIBDIR OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_library(LLVM_SHARED NAMES LLVM-19 PATHS ${LLVM_LIBDIR} NO_DEFAULT_PATH REQUIRED)
find_library(LLD_ELF NAMES lldELF PATHS ${LLVM_LIBDIR} NO_DEFAULT_PATH REQUIRED)
find_library(LLD_COMMON NAMES lldCommon PATHS ${LLVM_LIBDIR} NO_DEFAULT_PATH REQUIRED)
add_library(autotune_llvm INTERFACE)
target_include_directories(autotune_llvm SYSTEM INTERFACE ${LLVM_INCLUDE})
target_link_libraries(autotune_llvm INTERFACE ${LLD_ELF} ${LLD_COMMON} ${LLVM_SHARED})
# LLD needs zlib and zstd to compress debug sections. As a static library it does not link them itself.
find_library(ZLIB_SHARED NAMES z libz.so.1 REQUIRED)
find_library(ZSTD_SHARED NAMES zstd libzstd.so.1 REQUIRED)
target_link_libraries(autotune_llvm INTERFACE ${ZLIB_SHARED} ${ZSTD_SHARED})
