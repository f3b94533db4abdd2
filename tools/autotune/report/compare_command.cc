// `autotune compare` shows what became faster or slower between two packages, databases or reports.
#include "support/file.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/report/collect.h"
#include "tools/autotune/report/compare.h"
#include "tools/autotune/report/load.h"
#include "tools/autotune/report/options.h"
#include "tools/autotune/report/page.h"
#include "tools/autotune/usage.h"

namespace autotune::tools {
namespace report {
namespace {

struct CompareOptions {
  ExplainOptions run;
  std::string before, after, output;
  std::string target = "cpu";
};

// Measures both packages in turns.
Result<Comparison> ComparePackages(const CompareOptions& options) {
  ExplainOptions before = options.run, after = options.run;
  before.package = options.before;
  after.package = options.after;
  const std::vector<ExplainSource> sources = TRY(OpenExplainSources({before, after}));
  if (!sources[0].not_measured.empty()) return Err("the packages cannot run here: ", sources[0].not_measured);
  Report first = TRY(ReportOfNetwork(sources[0])), second = TRY(ReportOfNetwork(sources[1]));
  first.source = options.before;
  second.source = options.after;
  Comparison comparison = TRY(Compare(std::move(first), std::move(second)));
  UseTurns(sources[0], sources[1], comparison);
  return comparison;
}

// Returns the report of one side of which the other is no package.
Result<Report> ReportOf(const CompareOptions& options, const std::string& path, Subject subject) {
  if (subject == Subject::kReport) return ReadReport(path);
  if (subject == Subject::kDatabase) return DatabaseReport(path, options.target, /*no_run=*/true);
  ExplainOptions run = options.run;
  run.package = path;
  const ExplainSource source = TRY(OpenExplainSource(run));
  if (!source.not_measured.empty()) return Err("the package cannot run here: ", source.not_measured);
  Report report = TRY(ReportOfNetwork(source));
  report.source = path;
  return report;
}

Result<Comparison> CompareSubjects(const CompareOptions& options) {
  const Subject before = TRY(SubjectOf(options.before)), after = TRY(SubjectOf(options.after));
  if (before == Subject::kModel || after == Subject::kModel)
    return Err("compare is for packages, databases and reports; compile the model first");
  if (before == Subject::kPackage && after == Subject::kPackage) return ComparePackages(options);
  Report first = TRY(ReportOf(options, options.before, before));
  return Compare(std::move(first), TRY(ReportOf(options, options.after, after)));
}

// Refuses options that have no effect on what is compared. A file that cannot be read is no wrong usage.
Status CheckUsage(const CompareOptions& options, const CLI::App& app) {
  const Result<Subject> before = SubjectOf(options.before), after = SubjectOf(options.after);
  if (!before.ok() || !after.ok()) return {};
  if (*before != Subject::kPackage && *after != Subject::kPackage)
    TRY(RefuseGiven(app, {"--threads", "--seconds", "--wait"}, "neither is a package that could run"));
  if (*before != Subject::kDatabase && *after != Subject::kDatabase)
    TRY(RefuseGiven(app, {"--target"}, "neither is a database"));
  return {};
}

Result<int> WriteComparison(const CompareOptions& options, const std::string& command) {
  for (const std::string& input : {options.before, options.after}) TRY(CheckOutputFile(options.output, input));
  Comparison comparison = TRY(CompareSubjects(options));
  comparison.command = command;
  Console& console = Console::Get();
  const Json json = ToJson(comparison);
  if (!options.output.empty()) TRY(ReplaceFile(options.output, PageOf(json)));
  console.json() ? console.Result(json) : console.Result(ComparisonTable(comparison, console.WidthOut()));
  if (!options.output.empty() && !console.json()) console.Report("wrote " + options.output + "\n");
  return kExitOk;
}

}  // namespace
}  // namespace report

Command CompareCommand(CLI::App& root) {
  auto options = std::make_shared<report::CompareOptions>();
  options->run.any_target = true;
  CLI::App* app = root.add_subcommand(
      "compare", "Shows which kernels became faster or slower for sure between two packages, databases or reports.");
  app->add_option("before", options->before,
                  "a package, a database, or a report as `autotune report` writes it (HTML or --json)")
      ->required();
  app->add_option("after", options->after, "the same of what it is compared with. Two packages are measured in turns")
      ->required();
  app->add_option("-o,--output", options->output, "also write the comparison as a page: comparison.html");
  app->add_option("--target", options->target, "of databases: the target whose records are compared")
      ->capture_default_str();
  report::AddRunOptions(*app, options->run);
  AddOutput(*app, "both reports and the changes, as one object");
  return {app, [options, app] { return report::WriteComparison(*options, report::CommandText(*app)); },
          [options, app] { return report::CheckUsage(*options, *app); }};
}

}  // namespace autotune::tools
