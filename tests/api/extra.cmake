set(EXTRA runtime_helpers)
set(EXTRA_TARGETS c_calls_test fake_cuda c_values_test c_network_test c_tune_test devices_example autotune autotune_compiler rpc_server rpc_tracker) # api/tests.cmake
