# The farm's sources once more, with rules that tests can switch off (rpc/rules.h). Nothing here may link rpc or tracker.
file(GLOB breakable CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/rpc/*.cc ${CMAKE_SOURCE_DIR}/tracker/*.cc)
unity_sources(breakable breakable ${breakable})
add_library(breakable STATIC ${breakable})
target_compile_definitions(breakable PUBLIC AUTOTUNE_BREAKABLE)
target_include_directories(breakable PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(breakable PUBLIC support runtime PRIVATE zmq ${SECCOMP} Threads::Threads)
set(EXTRA breakable allocator)
set(SLOW InProcess FrozenTracker Holders/Frozen)
# The linker takes templates such as std::string from the tests, so at -O0 they would slow down the machines, too.
set(FLAGS -O2)
set(SHARDS Seeds=2 Days=2 Rules/Twins=2)
