// The jobs of a build worker as they are sent between processes, and their execution in this process. Internal to
// codegen/.
#pragma once
#include "codegen/builder.h"

namespace autotune {

enum class JobKind { kBuild, kCompile, kLink, kLinkWithData };
AUTOTUNE_ENUM(JobKind, "build", "compile", "link", "link_with_data")

// The comment of a field names the kinds of jobs that use it.
struct Job {
  JobKind kind = JobKind::kBuild;
  BuildRequest request;                  // build, compile
  std::vector<KernelObject> objects;     // link
  std::string target;                    // link
  std::vector<Json::Bytes> relocatable;  // link_with_data
  std::string data, output;              // link_with_data: paths of files
  AUTOTUNE_FIELDS(kind, request, objects, target, relocatable, data, output)
};

// The comment of a field names the kinds of jobs that set it.
struct JobAnswer {
  BuildResult result;       // build
  CompiledKernel compiled;  // compile
  LinkedKernels linked;     // link
  BuildFacts facts;         // link
  std::string error;        // link, link_with_data
  AUTOTUNE_FIELDS(result, compiled, linked, facts, error)
};

// Runs a job. Never throws: an exception becomes the status `build failed`, and its text becomes the cause and `error`.
JobAnswer RunJob(const Job& job);

}  // namespace autotune
