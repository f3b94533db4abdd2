// Package: the content of a compiled network's file, a tar in Model Library Format 5 plus the linked library
// (docs/package.md).
// Plain value; reading and writing are stateless. The executor (runtime/graph_executor.h) runs the network.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/artifact.h"
#include "support/json.h"
#include "support/result.h"

namespace autotune {

inline constexpr int kPackageFormat = 5;

// The value of PackagedKernel::winograd for a kernel that Winograd's algorithm can compute.
inline constexpr char kWinogradApplies[] = "applies";

// The origin of one kernel of the library. Profiles show it; its task leads to the tuning records.
struct PackagedKernel {
  std::string name;         // function in the library
  std::string task;         // the task's hash, 32 hex digits; tables show its ShortTaskId (support/task_id.h)
  std::string label;        // operators and shapes: "conv2d_add_relu [1,16,16,32] x [3,3,32,32]"
  std::string alternative;  // the algorithm: "direct", "winograd4", ...
  bool tuned = false;       // true: its schedule came from a record
  double flops = 0;         // arithmetic operations of one run of the direct algorithm
  std::vector<std::string> alternatives;  // all algorithms that were offered to the search
  // Why Winograd's algorithm cannot compute the kernel, or kWinogradApplies; empty if the kernel is no convolution.
  std::string winograd;
  std::string program;  // text of the unscheduled program (docs/ir.md)
  std::string trace;    // text of its schedule (docs/trace.md)
  AUTOTUNE_FIELDS(name, task, label, alternative, tuned, flops, alternatives, winograd, program, trace)
};

// The field `autotune` of metadata.json (docs/package.md): the name, target, inputs and outputs of the network, and the
// origin of its kernels. Packages of other programs lack this field.
struct PackageInfo {
  std::string model_name;
  std::string target;              // canonical text of the target
  std::vector<TensorSpec> inputs;  // with the names, types and layouts of the ONNX model
  std::vector<TensorSpec> outputs;
  int tasks = 0, tuned_tasks = 0;       // number of kernels; number of kernels whose schedule came from a record
  std::vector<PackagedKernel> kernels;  // one per task; empty in packages of other programs
  AUTOTUNE_FIELDS(model_name, target, inputs, outputs, tasks, tuned_tasks, kernels)
};

// The memory of the network on one device, in bytes.
struct MemoryEntry {
  int64_t device = 1;                // DLPack's device type
  int64_t workspace_size_bytes = 0;  // intermediate values, and scratch memory of the kernel that needs most of it
  int64_t constants_size_bytes = 0;
  int64_t io_size_bytes = 0;  // inputs and outputs
  AUTOTUNE_FIELDS(device, workspace_size_bytes, constants_size_bytes, io_size_bytes)
};

// The memory of one kernel besides its parameters, if it runs on all cores of the target.
struct FunctionMemory {
  int64_t device = 1;
  int64_t workspace_size_bytes = 0;
  AUTOTUNE_FIELDS(device, workspace_size_bytes)
};

struct Package {
  PackageInfo info;
  std::string graph_json;            // executor-config/graph/graph.json
  std::string params;                // parameters/<model>.params, runtime/params.h
  std::string library;               // codegen/host/lib/<model>.so: all kernels, linked; empty if the file is missing
  std::string graph_text;            // src/relay.txt: the graph functions after all passes
  std::vector<std::string> objects;  // codegen/host/lib/libN.o: the objects of which the library was linked
  std::vector<std::string> sources;  // codegen/host/src/libN.c: the library in C; only for targets of kind c
  std::string device_blob;  // modules with the code for a GPU (runtime/module_blob.h); the library holds them, too
  std::map<std::string, std::string> device_sources;  // codegen/PATH, such as cuda/KERNEL.ptx: code for people to read
  std::vector<MemoryEntry> memory;                    // memory.main
  std::map<std::string, std::vector<FunctionMemory>> functions;  // memory.operator_functions, by function
};

// Writes a package. The file gets its name only when it is complete (ReplaceFile of support/file.h).
Status WritePackage(const Package& package, const std::string& path);
// Reads a package. It must have metadata, graph and parameters; other members stay empty if the file lacks them. Errors
// name the file and its missing or damaged part.
Result<Package> ReadPackage(const std::string& path);
// Returns true if the file begins like an ELF file. Errors: it cannot be read; it is a relocatable object or an
// archive, which are for linkers.
Result<bool> IsSharedObject(const std::string& path);

}  // namespace autotune
