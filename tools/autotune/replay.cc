// `autotune replay` shows the stages of a record, from its trace to its machine code.
#include "schedule/replay.h"
#include "codegen/codegen.h"
#include "costmodel/feature_names.h"
#include "costmodel/features.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "lower/lower.h"
#include "support/hint.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/pass_options.h"
#include "tools/autotune/records/records.h"
#include "tools/autotune/text.h"

namespace autotune::tools {
namespace {

struct ReplayCommandOptions {
  std::string record, db;
  std::string print = "ir";
  PassOptions passes{LoweringPassTables()};
};

// Returns true if --print with this stage accepts the options of passes.
bool IsLowered(const std::string& print) {
  return print == "lowered" || print == "llvm" || print == "c" || print == "asm";
}

// Returns a line for each feature that is not 0: its number, its value in the cost model, its name, and the quantity
// that the value encodes.
std::string FeatureTable(const Features& features) {
  const std::vector<FeatureName>& names = FeatureNames();
  std::string text = Format("%6s %10s  %-32s %s\n", "number", "value", "name", "stands for");
  for (size_t i = 0; i < features.size(); ++i) {
    const double value = static_cast<double>(features[i]);
    if (value == 0) continue;
    text += Format("%6zu %10.4f  %-32s %.6g%s%s\n", i, value, names[i].name.c_str(), names[i].QuantityOf(value),
                   names[i].unit.empty() ? "" : " ", names[i].unit.c_str());
  }
  return text + Format("%zu features of schema %d; those that are not shown are 0\n", features.size(), kFeatureVersion);
}

// Prints the stage that was asked for: its text or, with --json, {"record", "print", "text"}.
int Show(const ReplayCommandOptions& options, const Record& record, const std::string& text) {
  Console& console = Console::Get();
  if (!console.json()) {
    console.Result(text);
    return kExitOk;
  }
  Json line;
  line["record"] = record.id, line["print"] = options.print, line["text"] = text;
  console.Result(line);
  return kExitOk;
}

Result<int> ReplayRecord(const ReplayCommandOptions& options) {
  Record record = TRY(FindRecord(*TRY(OpenExistingStore(options.db)), options.record));
  if (options.print == "trace") return Show(options, record, record.trace);
  std::string where = "while replaying record " + record.id;
  if (record.versions.step_language != kStepLanguageVersion) {
    return WithHint(Err("record ", record.id, " was made with version ", record.versions.step_language,
                        " of the step language, this autotune knows ", kStepLanguageVersion),
                    "only --print trace shows it");
  }
  Target target = TRY_NOTE(Target::Parse(record.target), where);
  PrimFunc program = TRY_NOTE(ParsePrimFunc(record.func), where);
  TRY_NOTE(Verify(program, Dialect::kSchedulable), where);
  Trace trace = TRY_NOTE(ParseTrace(record.trace), where);
  PrimFunc func = TRY_NOTE(Replay(program, trace), where).func();
  if (options.print == "ir") return Show(options, record, ToText(func) + "\n");
  if (options.print == "features") return Show(options, record, FeatureTable(ExtractFeatures(NestOf(func), target)));
  const PassContext passes = TRY(options.passes.Context());
  LoweredKernel lowered = TRY_NOTE(Lower(func, target, passes), where);
  if (options.print == "lowered") {
    Show(options, record, (lowered.prepare ? ToText(*lowered.prepare) + "\n" : "") + ToText(lowered.run) + "\n");
    options.passes.PrintTimes(passes);
    return kExitOk;
  }
  // `--print c` shows C code even if the record's target uses LLVM, and `llvm` the other way round.
  if (options.print == "c") {
    if (!target.IsGpu()) target.kind = TargetKind::kC;
    Show(options, record, TRY_NOTE(SourceOf(lowered, target), where));
    options.passes.PrintTimes(passes);
    return kExitOk;
  }
  if (options.print == "llvm" && !target.IsGpu()) target.kind = TargetKind::kLlvm;
  KernelObject object = TRY_NOTE(CompileKernel(lowered, target, {.keep_spills = true, .keep_assembly = true}), where);
  if (!object.rejected.empty()) return Err("rejected: ", object.rejected);
  const std::string& text = options.print == "llvm" ? object.llvm_ir : object.assembly;
  if (text.empty())
    return WithHint(Err("--print ", options.print, " has nothing to show for target ", ToText(target.kind)),
                    "use --print c");
  Show(options, record, text);
  options.passes.PrintTimes(passes);
  return kExitOk;
}

}  // namespace

Command ReplayCommand(CLI::App& root) {
  auto options = std::make_shared<ReplayCommandOptions>();
  CLI::App* app =
      root.add_subcommand("replay", "Applies the schedule of a record to its program and prints the result.");
  app->add_option("record", options->record,
                  "the id of a record, or of a task for its best record (`autotune records show` lists them); a "
                  "beginning of the id is enough")
      ->required();
  app->add_option("--print", options->print, "trace, ir, lowered, llvm, c, asm or features")
      ->check(CLI::IsMember({"trace", "ir", "lowered", "llvm", "c", "asm", "features"}))
      ->capture_default_str();
  app->add_option("--db", options->db,
                  "the tuning database; default AUTOTUNE_DB, else autotune/records.db in your data directory");
  AddOutput(*app, "record, print, text");
  options->passes.Add(*app);
  app->footer("Example:\n  autotune replay 3f2a1b2c --print asm\n\n" + PassFooter(LoweringPassTables()));
  return {app, [options] { return ReplayRecord(*options); },
          [options]() -> Status {
            TRY(options->passes.Check());
            if (options->passes.IsGiven() && !IsLowered(options->print)) {
              return Err("--print ", options->print,
                         " runs no passes: options of passes need --print lowered, llvm, c or asm");
            }
            return {};
          }};
}

}  // namespace autotune::tools
