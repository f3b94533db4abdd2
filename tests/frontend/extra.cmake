set(EXTRA onnx_proto protobuf)
set(SLOW Backend)
