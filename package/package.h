// Package: a compiled network on disk: a tar file in Model Library Format 5 plus the linked module (docs/package.md).
// Plain value; reading and writing are stateless. Not the executor: runtime/graph_executor.h runs what is in it.
#pragma once
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
  int64_t workspace_bytes = 0, constants_bytes = 0, io_bytes = 0;
  int tasks = 0, tuned_tasks = 0;       // kernels; those of them whose schedule came from a record
  std::vector<PackagedKernel> kernels;  // one per task; empty in packages of older releases
  AUTOTUNE_FIELDS(model_name, target, inputs, outputs, workspace_bytes, constants_bytes, io_bytes, tasks, tuned_tasks,
                  kernels)
};

struct Package {
  PackageInfo info;
  std::string graph_json;  // executor-config/graph/graph.json
  std::string params;      // parameters/<model>.params, runtime/params.h
  std::string library;     // codegen/host/lib/<model>.so: all kernels, linked; empty if there are none
  std::string graph_text;  // src/relay.txt: the graph after all passes
  Json functions;          // memory.operator_functions: function -> workspace
};

// Writes to a temporary file beside `path`, then renames: an interrupted write leaves nothing half done.
Status WritePackage(const Package& package, const std::string& path);
// Errors name the file and what is missing or damaged in it.
Result<Package> ReadPackage(const std::string& path);

}  // namespace autotune
