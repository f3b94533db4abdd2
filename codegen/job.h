// The jobs of a build worker, as they cross the wire, and their execution in this process. Internal to codegen/.
#pragma once
#include "codegen/builder.h"

namespace autotune {

enum class JobKind { kBuild, kCompile, kLink };
AUTOTUNE_ENUM(JobKind, "build", "compile", "link")

struct Job {
  JobKind kind = JobKind::kBuild;
  BuildRequest request;               // build, compile
  std::vector<KernelObject> objects;  // link
  std::string target;                 // link
  AUTOTUNE_FIELDS(kind, request, objects, target)
};

struct JobAnswer {
  BuildResult result;       // build
  CompiledKernel compiled;  // compile
  Json::Bytes artifact;     // link
  BuildFacts facts;         // link
  std::string error;        // link
  AUTOTUNE_FIELDS(result, compiled, artifact, facts, error)
};

// Never throws: our own bugs come back as `build failed`.
JobAnswer RunJob(const Job& job);

}  // namespace autotune
