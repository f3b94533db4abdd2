set(EXTRA_TARGETS autotune) # runs as build worker
# Makes models that exporters do not write.
set(EXTRA onnx_proto protobuf)
list(APPEND sources ${CMAKE_SOURCE_DIR}/tests/frontend/model_maker.cc ${CMAKE_SOURCE_DIR}/tests/frontend/mutator.cc)
list(APPEND sources ${CMAKE_SOURCE_DIR}/tests/runtime/test_device.cc)
