// Package: a compiled network on disk: a tar file in Model Library Format 5 plus the linked module (docs/package.md).
// Plain value; reading and writing are stateless. Not the executor: runtime/graph_executor.h runs what is in it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/artifact.h"
#include "support/json.h"
#include "support/result.h"

namespace autotune {

inline constexpr int kPackageFormat = 5;

// The origin of one kernel of the library. Profiles show it; its task leads to the tuning records.
struct PackagedKernel {
  std::string name;         // function in the library
  std::string task;         // the task's hash, 32 hex digits; tables show ShortTaskId of it (support/task_id.h)
  std::string label;        // operators and shapes: "conv2d_add_relu [1,16,16,32] x [3,3,32,32]"
  std::string alternative;  // the algorithm: "direct", "winograd4", ...
  bool tuned = false;       // its schedule came from a record
  double flops = 0;         // of one run, by the direct algorithm
  AUTOTUNE_FIELDS(name, task, label, alternative, tuned, flops)
};

// What of metadata.json concerns running; the rest is for people and other tools.
struct PackageInfo {
  std::string model_name;
  std::string target;              // canonical text
  std::vector<TensorSpec> inputs;  // ONNX's names, types and layout
  std::vector<TensorSpec> outputs;
  int tasks = 0, tuned_tasks = 0;       // kernels; those of them whose schedule came from a record
  std::vector<PackagedKernel> kernels;  // one per task; empty in packages of other programs
  AUTOTUNE_FIELDS(model_name, target, inputs, outputs, tasks, tuned_tasks, kernels)
};

// What the network takes on one device, in bytes.
struct MemoryEntry {
  int64_t device = 1;                // DLPack's device type
  int64_t workspace_size_bytes = 0;  // intermediate values, and scratch memory of the kernel that needs most of it
  int64_t constants_size_bytes = 0;
  int64_t io_size_bytes = 0;  // inputs and outputs
  AUTOTUNE_FIELDS(device, workspace_size_bytes, constants_size_bytes, io_size_bytes)
};

// What one kernel takes beside its parameters, on as many cores as the target has.
struct FunctionMemory {
  int64_t device = 1;
  int64_t workspace_size_bytes = 0;
  AUTOTUNE_FIELDS(device, workspace_size_bytes)
};

struct Package {
  PackageInfo info;
  std::string graph_json;            // executor-config/graph/graph.json
  std::string params;                // parameters/<model>.params, runtime/params.h
  std::string library;               // codegen/host/lib/<model>.so: all kernels, linked; empty: it is not there
  std::string graph_text;            // src/relay.txt: the graph functions after all passes
  std::vector<std::string> objects;  // codegen/host/lib/libN.o: what the library was linked from
  std::vector<std::string> sources;  // codegen/host/src/libN.c: the library as C, of the target `c`; else empty
  std::string device_blob;  // of a GPU: the modules with its code (runtime/module_blob.h); the library has them
  std::map<std::string, std::string> device_sources;             // codegen/PATH, such as cuda/KERNEL.ptx: to read
  std::vector<MemoryEntry> memory;                               // memory.main
  std::map<std::string, std::vector<FunctionMemory>> functions;  // memory.operator_functions, by function
};

// No reader sees half a package (ReplaceFile of support/file.h).
Status WritePackage(const Package& package, const std::string& path);
// Needs metadata, graph and parameters; what else a package lacks is left empty. Errors name the file and what is
// missing or damaged in it.
Result<Package> ReadPackage(const std::string& path);
// Returns true if the file begins as an ELF file does. An error if it cannot be read.
Result<bool> IsSharedObject(const std::string& path);

}  // namespace autotune
