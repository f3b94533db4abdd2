set(EXTRA onnx_proto protobuf)
