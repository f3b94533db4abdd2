// `autotune report` draws where the time of a network goes, how far its kernels are from the machine, and what tuning
// found.
#include "tools/autotune/command.h"

#include <filesystem>
#include <set>

#include "records/open.h"
#include "support/file.h"
#include "support/hint.h"
#include "support/shell.h"
#include "support/terminal.h"
#include "tools/autotune/console.h"
#include "tools/autotune/explain_source.h"
#include "tools/autotune/records/records.h"
#include "tools/autotune/report/collect.h"
#include "tools/autotune/report/history.h"
#include "tools/autotune/report/load.h"
#include "tools/autotune/report/options.h"
#include "tools/autotune/report/page.h"
#include "tools/autotune/text.h"
#include "tools/autotune/usage.h"

namespace autotune::tools {
namespace report {
namespace {

struct ReportOptions {
  ExplainOptions source;
  std::string subject;  // the first word: a package, a model or a database
  std::string output;
};

// Adds what a database knows about the network's tasks. Without --db, there need not be one.
Status AddRecords(const std::string& db, Report& report) {
  if (db.empty() && !std::filesystem::exists(TRY(DefaultStorePath()))) return {};
  const std::unique_ptr<RecordStore> store = TRY(OpenExistingStore(db));
  TRY(AddHistories(*store, report.target_text, report));
  return AddChoices(*store, report.target_text, report);
}

Result<Report> NetworkReport(const ReportOptions& options) {
  const ExplainSource source = TRY(OpenExplainSource(options.source));
  if (!source.not_measured.empty() && !options.source.no_run)
    Console::Get().Note("the kernels cannot run here: " + source.not_measured);
  Report report = TRY(ReportOfNetwork(source));
  report.source = options.subject.empty() ? options.source.model.op : options.subject;
  TRY(AddRecords(options.source.model.db, report));
  return report;
}

// Sorts out what was named.
Result<Report> Collect(ReportOptions options) {
  ModelOptions& model = options.source.model;
  if (options.subject.empty()) options.subject = model.model;
  if (options.subject.empty() && model.op.empty()) return DatabaseReport(model.db, model.target, options.source.no_run);
  if (!model.op.empty()) return NetworkReport(options);
  switch (TRY(SubjectOf(options.subject))) {
    case Subject::kDatabase:
      return DatabaseReport(options.subject, model.target, options.source.no_run);
    case Subject::kReport:
      return ReadReport(options.subject);
    case Subject::kModel:
      model.model = options.subject;
      break;
    case Subject::kPackage:
      options.source.package = options.subject;
      break;
  }
  return NetworkReport(options);
}

std::string Summary(const Report& report, const std::string& output, size_t bytes) {
  std::string text = "wrote " + output + Format(" (%.0f KB): ", static_cast<double>(bytes) / 1e3) + report.name;
  if (report.time)
    text += ", " + TimeText(report.time->median_us / 1e6) + " on " + PlaceText(static_cast<int>(report.threads));
  text += ", " + CountText(static_cast<int64_t>(report.kernels.size()), report.kind == "database" ? "task" : "kernel");
  if (report.kernels.empty() || !report.kernels[0].share) return text + "\n";
  return text + Format("; the slowest takes %.1f %% of the time: ", 100 * *report.kernels[0].share) +
         report.kernels[0].label + "\n";
}

Result<int> WriteReport(const ReportOptions& options, const std::string& command) {
  const std::string db = options.source.model.db.empty() ? TRY(DefaultStorePath()) : options.source.model.db;
  for (const std::string& input : {options.subject, options.source.model.model, db})
    TRY(CheckOutputFile(options.output, input));
  Report report = TRY(Collect(options));
  if (report.command.empty()) report.command = command;
  Console& console = Console::Get();
  if (console.json()) console.Result(ToJson(report));
  if (options.output.empty()) return kExitOk;
  LimitSchedules(report);
  const std::string page = PageOf(ToJson(report));
  TRY(ReplaceFile(options.output, page));
  if (!console.json()) console.Report(WrapLines(Summary(report, options.output, page.size()), console.WidthOut()));
  return kExitOk;
}

// Refuses options that have no effect on what was named. A file that cannot be read is no wrong usage.
Status RefuseWithoutEffect(const ReportOptions& options, const CLI::App& app, Subject subject) {
  std::vector<const CLI::Option*> compilation = options.source.model.OfCompilation();
  if (subject == Subject::kPackage) return RefuseGiven(compilation, "a package is compiled already");
  if (subject == Subject::kModel) return {};
  if (subject == Subject::kReport) {
    TRY(RefuseGiven(compilation, "a report is drawn as it is"));
    return RefuseGiven(app, {"--db", "--threads", "--seconds", "--wait", "--no-run"}, "a report is drawn as it is");
  }
  std::erase(compilation, app.get_option("--target"));
  TRY(RefuseGiven(compilation, "the records of a database are compiled already"));
  return RefuseGiven(app, {"--threads", "--seconds", "--wait"}, "the records of a database are not measured again");
}

Status CheckUsage(const ReportOptions& options, const CLI::App& app) {
  const ModelOptions& model = options.source.model;
  if (options.source.no_run) TRY(RefuseGiven(app, {"--seconds", "--wait"}, "--no-run measures nothing"));
  if (options.output.empty() && !Console::Get().json()) return Err("give -o FILE.html, or --json, or both");
  const int named = !options.subject.empty() + !model.model.empty() + !model.op.empty();
  if (named > 1) return Err("give one of PACKAGE, MODEL, --model and --op");
  if (named == 0 && model.db.empty()) return Err("give a package, a model, or --db FILE");
  if (!model.op.empty()) return model.CheckSource();
  if (named == 0) return RefuseWithoutEffect(options, app, Subject::kDatabase);
  const Result<Subject> subject = SubjectOf(options.subject + model.model);
  if (!subject.ok()) return {};
  if (*subject == Subject::kDatabase) TRY(RefuseGiven(app, {"--db"}, "the database is named already"));
  return RefuseWithoutEffect(options, app, *subject);
}

}  // namespace

Result<Target> TargetOfRecords(RecordStore& store, const std::string& target) {
  std::set<std::string> targets;
  for (const TaskSummary& task : TRY(store.Tasks())) targets.insert(task.target);
  if (targets.empty()) return Err("the database has no records");
  const Target wanted = TRY(Target::Parse(target));
  if (targets.contains(wanted.Text())) return wanted;
  if (targets.size() == 1 && target == "cpu") return Target::Parse(*targets.begin());
  std::string all;
  for (const std::string& known : targets) all += (all.empty() ? "" : "; ") + known;
  return WithHint(Err("the database has no record for ", MachineText(wanted)),
                  "name one of its targets with --target: " + all);
}

Result<Report> DatabaseReport(const std::string& db, const std::string& target, bool no_run) {
  const std::unique_ptr<RecordStore> store = TRY(OpenExistingStore(db));
  const Target chosen = TRY_NOTE(TargetOfRecords(*store, target), "in " + db);
  std::optional<Roofline> roofline;
  // The ceilings are those of this machine, so they suit its own records only.
  if (!no_run && chosen.Text() == TRY(Target::Parse("cpu")).Text()) roofline = TRY(RooflineHere(chosen.num_cores));
  Report report = TRY_NOTE(ReportOfDatabase(*store, chosen, roofline), "in " + db);
  report.name = std::filesystem::path(db).filename().string();
  report.source = db;
  return report;
}

void AddRunOptions(CLI::App& app, ExplainOptions& options) {
  app.add_option("--threads", options.threads, "threads of the kernels; 0: one per CPU")
      ->check(Threads())
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "seconds to measure")->check(Seconds())->capture_default_str();
  app.add_option("--wait", options.wait, "longest wait, in seconds, for other builds and measurements on this host")
      ->check(Seconds())
      ->capture_default_str();
}

std::string CommandText(const CLI::App& app) {
  std::string text = "autotune " + app.get_name();
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    const bool positional = option->get_lnames().empty() && option->get_snames().empty();
    const bool flag = option->get_items_expected_max() == 0;
    for (const std::string& value : option->results()) {
      if (!positional) text += " " + option->get_name();
      if (!flag) text += " " + ShellWord(value);
    }
  }
  return text;
}

}  // namespace report

Command ReportCommand(CLI::App& root) {
  auto options = std::make_shared<report::ReportOptions>();
  options->source.any_target = true;
  CLI::App* app = root.add_subcommand(
      "report",
      "Writes one file of HTML that shows where the time goes, how far kernels are from the machine, and what "
      "tuning found.");
  app->add_option("subject", options->subject,
                  "a package, M.tar or M.so, or an ONNX model, which is compiled; without it, --db alone: the tasks of "
                  "a database")
      ->option_text("PACKAGE|MODEL");
  options->source.model.AddWithOperator(*app);
  app->add_option("-o,--output", options->output, "the file to write: report.html");
  report::AddRunOptions(*app, options->source);
  app->add_flag("--no-run", options->source.no_run, "do not measure: schedules and records alone");
  AddOutput(*app, "the numbers of the page, as one object");
  return {app, [options, app] { return report::WriteReport(*options, report::CommandText(*app)); },
          [options, app] { return report::CheckUsage(*options, *app); }};
}

}  // namespace autotune::tools
