set(EXTRA runtime_helpers)
set(EXTRA_TARGETS c_values_test c_network_test autotune) # api/tests.cmake
