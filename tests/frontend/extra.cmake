set(EXTRA onnx_proto protobuf runtime)
set(SLOW Backend)
