// What a caller asks for: a network (a model or one operator), its target and the database, as texts. Opens what the
// work on it needs. The commands of `autotune`, the C library and the Python package use it. Thread-safe.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/builder.h"
#include "compiler/network.h"
#include "records/open.h"
#include "records/store.h"
#include "service/precisions.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune {

namespace rpc {
struct DeviceInfo;  // rpc/device_info.h
}

// Everything that is needed to load a network: the parsed values of a ModelRequest, build workers, and the database.
struct ModelSetup {
  std::unique_ptr<Builder> builder;
  Target target;
  NetworkOptions network;
  std::unique_ptr<RecordStore> store;
};

// The members have the forms of the options of `autotune` with their names. Messages name these options.
struct ModelRequest {
  std::string model;  // path of an ONNX model; for `bytes`, the network's name
  std::string bytes;  // the model itself, if it is no file
  std::string op;     // one operator instead of a model: "matmul:512,512,512"
  std::vector<std::string> shapes, dims, bind;
  std::string target = "cpu";
  std::string device;  // number, UUID or name of the GPU; empty: the first one
  std::string db;      // path of the database; empty: DefaultStorePath()
  bool no_winograd = false;
  // Of the operands of products with constant weights: "model", "bf16", or "auto" (service/precision_choice.h), which
  // needs the two members behind it.
  std::string precision = "model";
  PrecisionBound bound;
  std::string calibrate;  // where inputs are (service/calibration_data.h)
  bool allow_tf32 = false;
  bool lenient = false;
  std::string programs;  // folder of `autotune` and rpc_server, which build and measure; empty: FindOwnExecutable

  // Returns an error if members are missing or exclude each other, or if `precision` is "auto", which is for a tuning
  // run.
  Status CheckSource() const;
  Status CheckToTune() const;     // the same, but `precision` may be "auto"
  Status CheckPrecision() const;  // a part of CheckToTune
  // Returns an error if `device` has no effect. `runs`: the caller also runs code on a device of this machine.
  Status CheckDevice(bool runs) const;
  // Parses `target`, `device` and `allow_tf32`. Returns an error also if LLVM does not know the target, or if code for
  // it cannot run on `farm_device`, the device of a farm that it is for; null: on this machine. Target::note may have a
  // remark for the user.
  Result<Target> ParseTarget(Builder& builder, const rpc::DeviceInfo* farm_device = nullptr) const;
  // Parses the options of the network.
  // Error: `precision` is "auto", so that the network depends on a choice (service/precision_choice.h).
  Result<NetworkOptions> ParseNetwork() const;
  Result<Network> Load(const NetworkOptions& options, const Target& target, Builder& builder,
                       const PassContext& passes = {}) const;
  // Starts build workers with BuildWorkersOptions::stop, parses the request, and opens the database by `open_store`.
  using OpenDatabase = std::function<Result<std::unique_ptr<RecordStore>>(const std::string& db)>;
  static Result<std::unique_ptr<RecordStore>> OpenAny(const std::string& db) { return OpenStore(db); }
  Result<ModelSetup> Open(const std::atomic<bool>* stop = nullptr, const OpenDatabase& open_store = OpenAny,
                          const rpc::DeviceInfo* farm_device = nullptr) const;
};

// Returns the options that identify this network, target and database, as on a command line, with a leading space.
std::string ModelLine(const ModelRequest& request);

}  // namespace autotune
