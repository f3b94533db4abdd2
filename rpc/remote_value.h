// Values of PackedFuncs as bytes, and the calls and replies that consist of them (blobs of Call and CallReply).
// Numbers, texts, bytes, types, devices and small tensors travel whole. Modules, functions, objects and large tensors
// stay in the process that has them; the other side gets a handle. Stateless.
//
// A value is its kind (u8), then, in the layout of runtime/byte_stream.h:
//   0 null: nothing; 1 int: i64; 2 float: f64; 3 string: text; 4 bytes: text;
//   5 type: code, bits (u8 each), lanes (u16); 6 device: type, index (i32 each);
//   7 tensor: type as above, shape (vector of i64), then its bytes;
//   8 handle: kind (u8), number (i64), type key (text); of a tensor also its type and shape.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/byte_stream.h"
#include "runtime/packed_func.h"

namespace autotune::rpc {

struct RemoteHandle {
  enum class Kind : uint8_t { kModule, kFunction, kObject, kTensor };
  Kind kind = Kind::kObject;
  int64_t number = 0;
  std::string type_key;        // of a module or object
  DLDataType dtype{};          // of a tensor
  std::vector<int64_t> shape;  // of a tensor
};

// A tensor of at most so many bytes travels whole.
inline constexpr int64_t kInlineTensorBytes = 64 << 10;  // [chosen]
// A larger tensor is read and written in pieces of so many bytes. A slow link carries such a piece in seconds.
inline constexpr int64_t kTensorPieceBytes = 256 << 10;

// Returns the handle of a module, function or object, or of a tensor that does not travel whole.
using ExportHandle = std::function<Result<RemoteHandle>(const Value& value)>;
// Returns the value that a handle of the other side stands for.
using ImportHandle = std::function<Result<Value>(const RemoteHandle& handle)>;

// Tensors of the host's memory of at most `inline_bytes` travel whole.
Status WriteValue(const Value& value, const ExportHandle& export_handle, ByteWriter& out,
                  int64_t inline_bytes = kInlineTensorBytes);
Result<Value> ReadValue(ByteReader& in, const ImportHandle& import_handle);

// What a client asks of its process.
struct RemoteCall {
  std::vector<int64_t> released;  // handles of the process that the client needs no more
  int64_t function = 0;           // handle of the function; 0: the one of this name
  std::string name;
  std::vector<Value> args;
};
Result<std::string> WriteCall(const RemoteCall& call, const ExportHandle& export_handle,
                              int64_t inline_bytes = kInlineTensorBytes);
// `release` is called for each released handle before the arguments are read.
Result<RemoteCall> ReadCall(std::string_view bytes, const std::function<void(int64_t)>& release,
                            const ImportHandle& import_handle);

// The function's result or its error.
Result<std::string> WriteReply(const Result<Value>& result, const ExportHandle& export_handle,
                               int64_t inline_bytes = kInlineTensorBytes);
// The outer error: the bytes are damaged.
Result<Result<Value>> ReadReply(std::string_view bytes, const ImportHandle& import_handle);

}  // namespace autotune::rpc
