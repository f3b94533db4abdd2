#include "codegen/job.h"

#include "ir/text.h"
#include "lower/miscompile.h"
#include "schedule/replay.h"
#include "support/clock.h"

namespace autotune {
namespace {

Result<PrimFunc> Scheduled(const PrimFunc& func, const std::string& text) {
  Trace trace = TRY_NOTE(ParseTrace(text), "in the trace to build");
  return TRY(Replay(func, trace)).func();
}

// Compiles the kernel of a request. Returns an error if the kernel cannot be built. Errors of lowering have the kind
// kRejected.
Result<KernelObject> CompileJob(const BuildRequest& request, const PassContext& passes) {
  double start = CpuMilliseconds();
  Target target = TRY(Target::Parse(request.target));
  PrimFunc func = TRY_NOTE(ParsePrimFunc(request.func), "in the PrimFunc to build");
  if (!request.kernel.empty()) func.name = request.kernel;
  double parsed = CpuMilliseconds();
  if (!request.trace.empty()) func = TRY(Scheduled(func, request.trace));
  double replayed = CpuMilliseconds();
  // Plans a deliberate error in some candidates, if a test asks for it by MiscompilePercent. The references with which
  // candidates are compared must stay right; they have no trace.
  std::optional<Miscompile> miscompile;
  if (!request.trace.empty()) miscompile = PlanMiscompile(func, MiscompilePercent());
  Result<LoweredKernel> lowered = Lower(func, target, passes, miscompile ? &*miscompile : nullptr);
  if (!lowered.ok()) {
    Error error = std::move(lowered).error();
    error.kind = ErrorKind::kRejected;
    return error;
  }
  double lowered_at = CpuMilliseconds();
  KernelObject object = TRY(CompileKernel(*lowered, target, request.options));
  object.facts.times_ms["parse"] = parsed - start;
  object.facts.times_ms["replay"] = replayed - parsed;
  object.facts.times_ms["lower"] = lowered_at - replayed;
  return object;
}

CompiledKernel Compile(const BuildRequest& request) {
  CompiledKernel job;
  const PassContext passes(request.passes);
  Result<KernelObject> object = CompileJob(request, passes);
  if (object.ok()) job.object = std::move(*object);
  job.object.facts.passes = passes.Times();
  if (!object.ok()) {
    const bool rejected = object.error().kind == ErrorKind::kRejected;
    job.status = rejected ? TrialStatus::kRejected : TrialStatus::kBuildFailed;
    job.text = object.error().Text();
    return job;
  }
  if (!job.object.rejected.empty()) {
    job.status = TrialStatus::kRejected;
    job.text = job.object.rejected;
  }
  return job;
}

Result<LinkedKernels> LinkJob(const Job& job, BuildFacts& facts) {
  if (job.kind == JobKind::kLinkWithData) {
    TRY(LinkWithData(job.relocatable, job.data, job.output));
    return LinkedKernels();
  }
  Target target = TRY(Target::Parse(job.target));
  std::vector<const KernelObject*> objects;
  for (const KernelObject& object : job.objects) objects.push_back(&object);
  return LinkKernels(objects, target, &facts);
}

}  // namespace

BuildResult BuildHere(const BuildRequest& request) {
  BuildResult result;
  result.id = request.id;
  CompiledKernel job = Compile(request);
  result.status = job.status;
  result.text = job.text;
  result.metadata = job.object.metadata;
  result.facts = job.object.facts;
  result.assembly = job.object.assembly;
  if (job.status != TrialStatus::kOk) return result;
  auto fail = [&](const Error& error) {
    result.status = TrialStatus::kBuildFailed;
    result.text = error.Text();
  };
  Result<Target> target = Target::Parse(request.target);
  if (!target.ok()) return fail(target.error()), result;
  Result<LinkedKernels> linked = LinkKernels({&job.object}, *target, &result.facts);
  if (!linked.ok()) return fail(linked.error()), result;
  result.artifact = std::move(linked->artifact);
  if (!request.wants_cpu_features) return result;
  Result<ArtifactMetadata> metadata = ArtifactMetadataOf({}, *target);
  if (!metadata.ok()) return fail(metadata.error()), result;
  result.cpu_features = std::move(metadata->cpu_features);
  return result;
}

JobAnswer RunJob(const Job& job) {
  JobAnswer answer;
  try {
    switch (job.kind) {
      case JobKind::kBuild:
        answer.result = BuildHere(job.request);
        break;
      case JobKind::kCompile:
        answer.compiled = Compile(job.request);
        break;
      case JobKind::kLink:
      case JobKind::kLinkWithData: {
        Result<LinkedKernels> linked = LinkJob(job, answer.facts);
        if (linked.ok()) {
          answer.linked = std::move(*linked);
        } else {
          answer.error = linked.error().Text();
        }
        break;
      }
    }
  } catch (const std::exception& e) {
    answer = JobAnswer();
    answer.error = e.what();
    answer.result.id = job.request.id;
    answer.result.status = answer.compiled.status = TrialStatus::kBuildFailed;
    answer.result.text = answer.compiled.text = e.what();
  }
  return answer;
}

}  // namespace autotune
