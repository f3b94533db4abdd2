// `autotune explain` says why a kernel takes its time.
#include "compiler/explain.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "support/json.h"
#include "support/task_id.h"
#include "support/utf8.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/explain_source.h"
#include "tools/autotune/text.h"
#include "tools/autotune/usage.h"

namespace autotune::tools {
namespace {

// A kernel's explanation, and the code that it is about.
struct Explained {
  Explanation explanation;
  std::vector<CodeRegion> code;
  std::vector<int64_t> samples;  // by region; empty: too few to tell
};

Result<Explained> ExplainKernel(const ExplainSource& source, const ExplainedKernel& kernel) {
  Evidence evidence = TRY(EvidenceOf(kernel.kernel, source.target, source.threads));
  Explained explained;
  if (!source.library.empty()) {
    explained.code = TRY(MachineCodeOf(source.library, kernel.kernel.name + ".raw", source.target));
    constexpr int64_t kFewestSamples = 10;
    explained.samples = CountByRegion(explained.code, source.samples);
    if (std::accumulate(explained.samples.begin(), explained.samples.end(), int64_t{0}) < kFewestSamples)
      explained.samples.clear();
    evidence.code = CodeFactsOf(explained.code, explained.samples);
  }
  if (kernel.seconds > 0 && source.roofline) {
    const Roof roof = source.roofline->Of(kernel.kernel.flops, kernel.bytes);
    evidence.time = TimeFacts{.seconds = kernel.seconds, .roof_seconds = roof.seconds, .roof_bound = roof.bound};
  }
  explained.explanation = Explain(evidence);
  return explained;
}

Json FindingJson(const Finding& finding) {
  Json json;
  json["cause"] = std::string(ToText(finding.cause));
  json["gain"] = finding.gain;
  json["sentence"] = finding.sentence;
  return json;
}

// Returns a kernel as one object; `in_full`: with its schedule and its code.
Json KernelJson(const ExplainSource& source, const ExplainedKernel& kernel, const Explained& explained, bool in_full) {
  Json json = FindingJson(explained.explanation.main);
  json["task"] = kernel.kernel.task;
  json["kernel"] = kernel.kernel.name;
  json["label"] = kernel.kernel.label;
  json["alternative"] = kernel.kernel.alternative;
  json["tuned"] = kernel.kernel.tuned;
  json["winograd"] = explained.explanation.winograd;
  Json::Array others;
  for (const Finding& other : explained.explanation.others) others.push_back(FindingJson(other));
  json["also"] = std::move(others);
  json["flops"] = kernel.kernel.flops;
  json["threads"] = source.threads;
  if (kernel.seconds > 0 && source.roofline) {
    const Roof roof = source.roofline->Of(kernel.kernel.flops, kernel.bytes);
    json["bytes"] = kernel.bytes;
    json["median_us"] = kernel.seconds * 1e6;
    json["all_calls_us"] = kernel.total * 1e6;
    json["roof_us"] = roof.seconds * 1e6;
    json["bound"] = roof.bound;
  }
  if (!in_full) return json;
  json["trace"] = kernel.kernel.trace;
  Json::Array code;
  if (!explained.code.empty()) {
    for (const Instruction& i : explained.code[HotRegion(explained.code, explained.samples)].instructions)
      code.push_back(Json(i.text));
  }
  json["code"] = std::move(code);
  return json;
}

// Prints one line per kernel, the slowest first.
Result<int> ExplainAll(const ExplainSource& source) {
  std::vector<size_t> order(source.kernels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return source.kernels[a].total > source.kernels[b].total; });
  double all = 0;
  for (const ExplainedKernel& kernel : source.kernels) all += kernel.total;
  const bool json = Console::Get().json();
  if (!json) std::printf("%9s %6s  %-8s  %s\n", "us", "%", "task", "kernel, and why it takes its time");
  for (size_t i : order) {
    const ExplainedKernel& kernel = source.kernels[i];
    Result<Explained> explained = ExplainKernel(source, kernel);
    if (json) {
      if (!explained.ok()) return explained.error();
      std::printf("%s\n", KernelJson(source, kernel, *explained, false).Dump().c_str());
      continue;
    }
    std::printf("%9.1f %6.1f  %-8s  %s: %s\n", kernel.total * 1e6, all > 0 ? 100 * kernel.total / all : 0,
                ShortTaskId(kernel.kernel.task).c_str(), OneLine(kernel.kernel.label).c_str(),
                explained.ok() ? explained->explanation.main.sentence.c_str() : explained.error().Text().c_str());
  }
  return kExitOk;
}

void PrintRegion(const CodeRegion& region) {
  for (const Instruction& i : region.instructions) {
    std::printf("  %8llx  %s%s\n", static_cast<unsigned long long>(i.address), i.text.c_str(),
                i.stack ? "    # stack" : "");
  }
}

// Returns a headline for a region: where it is, and the share of the kernel's time in which it was found running.
std::string RegionText(const Explained& explained, size_t region) {
  const CodeRegion& code = explained.code[region];
  std::string text = code.depth == 0 ? "outside of loops" : Format("a loop of depth %d", code.depth);
  text += Format(", %s", Counted(static_cast<int64_t>(code.instructions.size()), "instruction").c_str());
  if (explained.samples.empty()) return text;
  const int64_t all = std::accumulate(explained.samples.begin(), explained.samples.end(), int64_t{0});
  return text + Format(", %.0f %% of the time",
                       100 * static_cast<double>(explained.samples[region]) / static_cast<double>(all));
}

void PrintCode(const Explained& explained, bool all) {
  if (explained.code.empty()) return;
  if (all) {
    std::printf("\nmachine code:\n");
    for (size_t r = 0; r < explained.code.size(); ++r) {
      std::printf("%s:\n", RegionText(explained, r).c_str());
      PrintRegion(explained.code[r]);
    }
    return;
  }
  const size_t hot = HotRegion(explained.code, explained.samples);
  std::printf("\nthe code that %s (--asm shows all %zu parts): %s\n",
              explained.samples.empty() ? "probably runs most" : "runs most", explained.code.size(),
              RegionText(explained, hot).c_str());
  PrintRegion(explained.code[hot]);
}

void PrintIndented(const std::string& text) {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::printf("  %s\n", text.substr(begin, end - begin).c_str());
    begin = end + 1;
  }
}

// Returns the algorithms that the task has, and what became of those that were tried.
std::string AlternativesText(const PackagedKernel& kernel, const std::vector<TriedAlternative>& tried) {
  std::string text;
  for (const std::string& name : kernel.alternatives) {
    text += (text.empty() ? "" : ", ") + name;
    const auto known = std::ranges::find(tried, name, &TriedAlternative::name);
    if (known == tried.end()) continue;
    text += Format(" (%s, the fastest %.1f us)", Counted(known->schedules, "record").c_str(), known->seconds * 1e6);
  }
  return text;
}

void PrintTime(const ExplainSource& source, const ExplainedKernel& kernel) {
  if (kernel.seconds <= 0) {
    std::printf("time         not measured: %s\n", source.not_measured.c_str());
    return;
  }
  std::printf("time         %.1f us on %s: %.1f GFLOPS, %.1f GB/s", kernel.seconds * 1e6,
              Counted(source.threads, "thread").c_str(), kernel.kernel.flops / kernel.seconds / 1e9,
              kernel.bytes / kernel.seconds / 1e9);
  if (source.roofline) {
    const Roof roof = source.roofline->Of(kernel.kernel.flops, kernel.bytes);
    std::printf("; %.0f %% of what the machine allows (bound by %s)", 100 * roof.seconds / kernel.seconds,
                roof.bound.c_str());
  }
  std::printf("\n");
}

Result<int> ExplainOne(const ExplainOptions& options, const ExplainSource& source, const ExplainedKernel& kernel) {
  const Explained explained = TRY(ExplainKernel(source, kernel));
  if (Console::Get().json()) {
    std::printf("%s\n", KernelJson(source, kernel, explained, true).Dump().c_str());
    return kExitOk;
  }
  const PackagedKernel& k = kernel.kernel;
  std::printf("%s\n", explained.explanation.main.sentence.c_str());
  for (const Finding& other : explained.explanation.others) std::printf("also %s\n", other.sentence.c_str());
  std::printf("\ntask         %s %s\n", ShortTaskId(k.task).c_str(), OneLine(k.label).c_str());
  std::printf("kernel       %s, %s, %s\n", k.name.c_str(), k.alternative.c_str(),
              k.tuned ? "tuned" : "not tuned (a default schedule)");
  const std::vector<TriedAlternative> tried = TRY(TriedAlternatives(options.model.db, k.task, source.target));
  std::printf("algorithms   %s\n", AlternativesText(k, tried).c_str());
  if (!explained.explanation.winograd.empty()) std::printf("Winograd's   %s\n", explained.explanation.winograd.c_str());
  std::printf("work         %.3f MFLOP", k.flops / 1e6);
  if (kernel.bytes > 0) std::printf(", %.3f MB read and written", kernel.bytes / 1e6);
  std::printf("\n");
  PrintTime(source, kernel);
  std::printf("\nschedule:\n");
  PrintIndented(k.trace.empty() ? "none: the program runs as it is written\n" : k.trace);
  PrintCode(explained, options.assembly);
  return kExitOk;
}

Result<int> ExplainPackage(const ExplainOptions& options) {
  const ExplainSource source = TRY(OpenExplainSource(options));
  if (source.target.IsGpu()) return Err("explain is about kernels of CPUs; this package is for ", source.target.Text());
  if (!source.not_measured.empty() && !options.no_run)
    Console::Get().Note("the kernels cannot run here: " + source.not_measured);
  if (options.task.empty() && source.kernels.size() > 1) return ExplainAll(source);
  const size_t index = options.task.empty() ? 0 : TRY(FindKernel(source, options.task));
  return ExplainOne(options, source, source.kernels[index]);
}

Status CheckUsage(const ExplainOptions& options) {
  const bool model = !options.model.model.empty() || !options.model.op.empty();
  if (model == !options.package.empty()) return Err("give a package, or --model FILE.onnx, or --op OPERATOR");
  if (model) return options.model.CheckSource();
  if (!options.trace.empty()) return Err("--trace needs --model or --op: a package has its schedules already");
  return {};
}

}  // namespace

Command ExplainCommand(CLI::App& root) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* app = root.add_subcommand(
      "explain", "Says in one sentence why a kernel takes its time, with its schedule and machine code.");
  app->add_option("package", options->package, "a compiled network, M.tar or M.so, as `autotune compile -o` writes it");
  app->add_option("task", options->task,
                  "the id of a task, as `bench --profile` prints it, or a beginning of it; or the name of a kernel. "
                  "Without it: one line for each kernel");
  options->model.AddWithOperator(*app);
  app->add_option("--trace", options->trace, "with --model or --op: explain the task with the schedule in this file")
      ->check(CLI::ExistingFile);
  app->add_option("--threads", options->threads, "threads of the kernels; 0: one per CPU")
      ->check(Threads())
      ->capture_default_str();
  app->add_option("--seconds", options->seconds, "seconds to measure")->check(Seconds())->capture_default_str();
  app->add_option("--wait", options->wait, "longest wait, in seconds, for other builds and measurements on this host")
      ->check(Seconds())
      ->capture_default_str();
  app->add_flag("--no-run", options->no_run, "do not measure: explain by schedule and code alone");
  AddOutput(*app, "the cause, the task, times and code of each kernel");
  app->add_flag("--asm", options->assembly, "print all of the kernel's machine code");
  app->footer(OperatorFooter("autotune explain m.tar 3f2a1b2c"));
  return {app, [options] { return ExplainPackage(*options); },
          [options]() -> Status {
            // With --model the first word is the task.
            if (!options->model.model.empty() || !options->model.op.empty()) {
              if (options->task.empty()) std::swap(options->task, options->package);
            }
            return CheckUsage(*options);
          }};
}

}  // namespace autotune::tools
