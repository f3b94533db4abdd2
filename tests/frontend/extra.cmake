set(EXTRA onnx_proto protobuf runtime graph_helpers) # the tests make ONNX models through the protobuf API
set(SLOW Backend)
