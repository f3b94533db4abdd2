// `autotune explain` says why a kernel takes its time.
#include <algorithm>
#include <numeric>
#include <sstream>

#include "support/json.h"
#include "support/task_id.h"
#include "support/terminal.h"
#include "support/utf8.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/explain_source.h"
#include "tools/autotune/text.h"
#include "tools/autotune/usage.h"

namespace autotune::tools {
namespace {

// Columns before the second row of a text that is too long for the terminal.
constexpr int kLineIndent = 13, kRowIndent = 28;

Json FindingJson(const Finding& finding) {
  Json json;
  json["cause"] = std::string(ToText(finding.cause));
  json["gain"] = finding.gain;
  json["sentence"] = finding.sentence;
  return json;
}

enum class CodeShown { kNone, kHot, kAll };  // how much of a kernel's code is printed: the region that runs most; all

// Returns a kernel as one object. With code, also with its schedule.
Json KernelJson(const ExplainSource& source, const ExplainedKernel& kernel, const Explained& explained,
                CodeShown shown) {
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
    const Roof roof = RoofOf(source, kernel);
    json["bytes"] = kernel.bytes;
    json["median_us"] = kernel.seconds * 1e6;
    json["all_calls_us"] = kernel.total * 1e6;
    json["roof_us"] = roof.seconds * 1e6;
    json["bound"] = roof.bound;
  }
  if (shown == CodeShown::kNone) return json;
  json["trace"] = kernel.kernel.trace;
  Json::Array code;
  const size_t hot = explained.code.empty() ? 0 : HotRegion(explained.code, explained.samples);
  for (size_t r = 0; r < explained.code.size(); ++r) {
    if (shown == CodeShown::kHot && r != hot) continue;
    for (const Instruction& i : explained.code[r].instructions) code.push_back(Json(i.text));
  }
  json["code"] = std::move(code);
  return json;
}

// Prints one line per kernel, the slowest first. A kernel that was not measured has no times.
Result<int> ExplainAll(const ExplainSource& source) {
  std::vector<size_t> order(source.kernels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return source.kernels[a].total > source.kernels[b].total; });
  double all = 0;
  for (const ExplainedKernel& kernel : source.kernels) all += kernel.total;
  Console& console = Console::Get();
  if (!console.json())
    console.Result(Row(Format("%9s %6s  %-8s  ", "us in all", "%", "task"), "kernel, and why it takes its time",
                       console.WidthOut()));
  for (size_t i : order) {
    const ExplainedKernel& kernel = source.kernels[i];
    const Result<Explained> explained = ExplainKernel(source, kernel);
    if (console.json()) {
      if (!explained.ok()) return explained.error();
      console.Result(KernelJson(source, kernel, *explained, CodeShown::kNone));
      continue;
    }
    const std::string times = kernel.total > 0 ? Format("%9.1f %6.1f", kernel.total * 1e6, 100 * kernel.total / all)
                                               : Format("%9s %6s", "-", "-");
    const std::string why = explained.ok() ? explained->explanation.main.sentence : explained.error().Text();
    console.Result(
        WrapWords(times + "  " + ShortTaskId(kernel.kernel.task) + "  " + OneLine(kernel.kernel.label) + ": " + why,
                  console.WidthOut(), kRowIndent) +
        "\n");
  }
  return kExitOk;
}

std::string CodeText(const CodeRegion& region) {
  std::string text;
  for (const Instruction& i : region.instructions) {
    text += Format("  %8llx  ", static_cast<unsigned long long>(i.address)) + i.text + (i.stack ? "    # stack" : "") +
            "\n";
  }
  return text;
}

// Returns a headline for a region: where it is, and the share of the kernel's time in which it was found running.
std::string RegionText(const Explained& explained, size_t region) {
  const CodeRegion& code = explained.code[region];
  std::string text = code.depth == 0 ? "outside of loops" : Format("a loop of depth %d", code.depth);
  text += ", " + CountText(static_cast<int64_t>(code.instructions.size()), "instruction");
  if (explained.samples.empty()) return text;
  const int64_t all = std::accumulate(explained.samples.begin(), explained.samples.end(), int64_t{0});
  return text + Format(", %.0f %% of the time",
                       100 * static_cast<double>(explained.samples[region]) / static_cast<double>(all));
}

std::string CodeText(const Explained& explained, bool all) {
  if (explained.code.empty()) return "";
  if (all) {
    std::string text = "\nmachine code:\n";
    for (size_t r = 0; r < explained.code.size(); ++r)
      text += RegionText(explained, r) + ":\n" + CodeText(explained.code[r]);
    return text;
  }
  const size_t hot = HotRegion(explained.code, explained.samples);
  return Format("\nthe code that %s (--asm shows all %zu parts): ",
                explained.samples.empty() ? "probably runs most" : "runs most", explained.code.size()) +
         RegionText(explained, hot) + "\n" + CodeText(explained.code[hot]);
}

// Returns each line of the text with two spaces before it.
std::string Indented(const std::string& text) {
  std::istringstream in(text);
  std::string indented;
  for (std::string line; std::getline(in, line);) indented += "  " + line + "\n";
  return indented;
}

// Returns the algorithms that the task has, and what became of those that were tried.
std::string AlternativesText(const PackagedKernel& kernel, const std::vector<TriedAlternative>& tried) {
  std::string text;
  for (const std::string& name : kernel.alternatives) {
    text += (text.empty() ? "" : ", ") + name;
    const auto known = std::ranges::find(tried, name, &TriedAlternative::name);
    if (known == tried.end()) continue;
    text += " (" + CountText(known->schedules, "record") + Format(", the best took %.1f us)", known->seconds * 1e6);
  }
  return text;
}

std::string TimeLine(const ExplainSource& source, const ExplainedKernel& kernel) {
  if (kernel.seconds <= 0) return "not measured: " + source.not_measured;
  std::string text = Format("%.1f us on ", kernel.seconds * 1e6) + CountText(source.threads, "thread") +
                     Format(": %.1f GFLOPS, %.1f GB/s", kernel.kernel.flops / kernel.seconds / 1e9,
                            kernel.bytes / kernel.seconds / 1e9);
  if (!source.roofline) return text;
  const Roof roof = RoofOf(source, kernel);
  return text + Format("; %.0f %% of what the machine allows (bound by ", 100 * roof.seconds / kernel.seconds) +
         roof.bound + ")";
}

Result<int> ExplainOne(const ExplainOptions& options, const ExplainSource& source, const ExplainedKernel& kernel) {
  const Explained explained = TRY(ExplainKernel(source, kernel));
  Console& console = Console::Get();
  if (console.json()) {
    console.Result(KernelJson(source, kernel, explained, options.assembly ? CodeShown::kAll : CodeShown::kHot));
    return kExitOk;
  }
  const PackagedKernel& k = kernel.kernel;
  std::string text = explained.explanation.main.sentence + "\n";
  for (const Finding& other : explained.explanation.others) text += "also " + other.sentence + "\n";
  const int width = console.WidthOut();
  text = WrapLines(text, width) + "\n";
  const auto line = [&](const char* name, const std::string& words) {
    text += WrapWords(Format("%-12s ", name) + words, width, kLineIndent) + "\n";
  };
  line("task", ShortTaskId(k.task) + " " + OneLine(k.label));
  line("kernel", k.name + ", " + k.alternative + ", " + (k.tuned ? "tuned" : "not tuned (a default schedule)"));
  line("algorithms", AlternativesText(k, TRY(TriedAlternatives(options.model.db, k.task, source.target))));
  if (!explained.explanation.winograd.empty()) line("Winograd's", explained.explanation.winograd);
  line("work", Format("%.3f MFLOP", k.flops / 1e6) +
                   (kernel.bytes > 0 ? Format(", %.3f MB read and written", kernel.bytes / 1e6) : ""));
  line("time", TimeLine(source, kernel));
  text += "\nschedule:\n" + Indented(k.trace.empty() ? "none: the program runs as it is written" : k.trace);
  console.Result(text + CodeText(explained, options.assembly));
  return kExitOk;
}

Result<int> ExplainPackage(const ExplainOptions& options) {
  const ExplainSource source = TRY(OpenExplainSource(options));
  if (!source.not_measured.empty() && !options.no_run)
    Console::Get().Note("the kernels cannot run here: " + source.not_measured);
  if (!options.task.empty() || source.kernels.size() == 1)
    return ExplainOne(options, source, source.kernels[TRY(FindKernel(source.kernels, options.task))]);
  if (options.assembly) return Err("--asm is for one kernel; there are ", source.kernels.size(), ", so name one");
  return ExplainAll(source);
}

Status CheckUsage(const ExplainOptions& options, const CLI::App& app) {
  const bool model = !options.model.model.empty() || !options.model.op.empty();
  if (model == !options.package.empty()) return Err("give a package, or --model FILE.onnx, or --op OPERATOR");
  if (options.no_run) TRY(RefuseGiven(app, {"--seconds", "--wait"}, "--no-run measures nothing"));
  if (model) return options.model.CheckSource();
  if (!options.trace.empty()) return Err("--trace needs --model or --op: a package has its schedules already");
  return RefuseGiven(options.model.OfCompilation(), "a package is compiled already");
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
      ->check(CLI::ExistingFile)
      ->option_text("FILE");
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
  app->footer(OperatorFooter("autotune explain m.tar TASK"));
  return {app, [options] { return ExplainPackage(*options); },
          [options, app]() -> Status {
            // With --model the first word is the task.
            if (!options->model.model.empty() || !options->model.op.empty()) {
              if (options->task.empty()) std::swap(options->task, options->package);
            }
            return CheckUsage(*options, *app);
          }};
}

}  // namespace autotune::tools
