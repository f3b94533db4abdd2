set(EXTRA_TARGETS autotune) # runs as build worker
# The tests make ONNX models through the protobuf API.
set(EXTRA onnx_proto protobuf)
list(APPEND sources ${CMAKE_SOURCE_DIR}/tests/frontend/model_maker.cc ${CMAKE_SOURCE_DIR}/tests/frontend/mutator.cc)
list(APPEND sources ${CMAKE_SOURCE_DIR}/tests/runtime/test_device.cc)
set(SLOW ChoiceHost CompiledNumbers MutatedModels NetworkPasses)
set(SHARDS CompileTest=3 FormsTest=2)
