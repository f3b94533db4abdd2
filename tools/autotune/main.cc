// The command line of autotune: parses the arguments, runs the command, and reports a failed CHECK as a bug of
// autotune. The commands are in files of their own.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "codegen/builder.h"
#include "support/check.h"
#include "support/subprocess.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/usage.h"
#include "tools/autotune/version.h"
#include "tools/autotune/waits.h"
#include "tools/error_lines.h"
#include "tuner/line_process.h"

namespace autotune::tools {
namespace {

constexpr const char* kFooter =
    "`autotune --model M` and `autotune --op OPERATOR` are short for `autotune tune` with these options. `autotune "
    "COMMAND --help` lists the options of a command.\n"
    "\n"
    "Examples:\n"
    "  autotune --model m.onnx --trials 400 -o m.tar     tune and compile\n"
    "  autotune --op 'matmul:512,512,512' --trials 64    tune one operator\n"
    "  autotune compile --model m.onnx -o m.tar          use known schedules\n"
    "  autotune run m.tar --input data=x.npy             compute the outputs\n"
    "  autotune bench m.tar --threads 2                  measure the latency\n"
    "  autotune verify --model m.onnx --data test_data_set_0\n"
    "  autotune inspect m.onnx                           show what it contains\n"
    "  autotune quantize --model m.onnx --calibrate DIR -o q.onnx    weights of 8 bits\n"
    "  autotune records show                             show best schedules\n"
    "  autotune report m.tar -o report.html              draw where the time goes\n"
    "\n"
    "Environment: AUTOTUNE_DB (tuning database), AUTOTUNE_JOIN (join file of a farm), AUTOTUNE_LOG (debug, info, "
    "warning, "
    "error)\n"
    "Exit codes: 0 ok; 1 failed, the reason is on standard error; 2 wrong usage; 3 an output is wrong; 130 "
    "interrupted, complete batches are saved";

// The example at the end of a command's help. Commands with operators or passes have a footer of their own.
constexpr std::pair<const char*, const char*> kExamples[] = {
    {"run", "autotune run m.tar --input data=x.npy --output-dir outputs"},
    {"bench", "autotune bench m.tar --threads 2 --profile"},
    {"inspect", "autotune inspect m.onnx --dim batch=1"},
    {"records", "autotune records show"},
    {"devices", "autotune devices --tracker 127.0.0.1:9190"},
    {"doctor", "autotune doctor"},
    {"report", "autotune report m.tar -o report.html"},
    {"quantize", "autotune quantize --model m.onnx --calibrate samples -o q.onnx"},
    {"compare", "autotune compare untuned.tar tuned.tar -o comparison.html"},
};

// `autotune --model ...` is short for `autotune tune --model ...`.
bool IsTuneWithoutItsName(const std::string& first) {
  constexpr std::string_view kOwn[] = {"-h", "--help", "--help-all", "--help-json", "--version"};
  return first.starts_with("-") && std::ranges::find(kOwn, first) == std::end(kOwn);
}

int Fail(const Error& error, int code) {
  Console::Get().Failure(error, code);
  return code;
}

// `autotune help tune` is another way to write `autotune tune --help`. An unknown command stays an error.
void ReplaceHelp(const CLI::App& app, std::vector<std::string>& args) {
  if (args.empty() || args[0] != "help") return;
  args.erase(args.begin());
  const auto is_asked = [&](const CLI::App* command) { return command->get_name() == args[0]; };
  if (args.empty() || !app.get_subcommands(is_asked).empty()) args.push_back("--help");
}

int Main(int argc, char** argv) {
  Console::Get();  // before there are threads
  CLI::App app{"Tunes, compiles and runs neural networks: finds fast kernels for your machine by measuring them.",
               "autotune"};
  WrapHelp(app);
  app.require_subcommand(0, 1);
  app.set_help_all_flag("--help-all", "help of all commands");
  app.set_version_flag("--version", VersionText(), "the version of the program and of its formats");
  const std::vector<Command> commands = {
      TuneCommand(app),    CompileCommand(app), RunCommand(app),     BenchCommand(app),   VerifyCommand(app),
      RecordsCommand(app), ReplayCommand(app),  DevicesCommand(app), InspectCommand(app), DoctorCommand(app),
      ExplainCommand(app), ReportCommand(app),  CompareCommand(app), QuantizeCommand(app)};
  for (const auto& [name, example] : kExamples) app.get_subcommand(name)->footer(std::string("Example:\n  ") + example);
  app.footer(kFooter);  // last, since commands inherit the footer that the program has when they are added

  std::vector<std::string> args(argv + 1, argv + argc);
  ReplaceHelp(app, args);
  if (!args.empty() && IsTuneWithoutItsName(args[0])) args.insert(args.begin(), "tune");
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& e) {
    if (std::ranges::find(args, "--json") != args.end()) Console::Get().SetJson(true);  // not all options were read
    return EndParsing(app, e, [](const Error& error) { return Fail(error, kExitUsage); });
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    if (Status usage = command.check ? command.check() : Status(); !usage.ok()) return Fail(usage.error(), kExitUsage);
    HostWaitNotes notes;
    Result<int> code = command.action();
    if (!code.ok())
      return Fail(code.error(), code.error().kind == ErrorKind::kStopped ? kExitInterrupted : kExitFailed);
    Console::Get().EndNotes();
    return *code;
  }
  std::fputs(app.help().c_str(), stdout);
  return kExitUsage;
}

}  // namespace
}  // namespace autotune::tools

int main(int argc, char** argv) {
  autotune::tools::KeepStandardDescriptors();
  autotune::EndWithParent();
  signal(SIGXFSZ, SIG_IGN);  // makes a write beyond the limit of a file's size (ulimit -f) fail with an error
  if (argc > 1 && std::strcmp(argv[1], "--build-worker") == 0) {
    return autotune::BuildWorkerMain(autotune::kBuildWorkerFd);
  }
  if (argc == 3 && std::strcmp(argv[1], "--guard") == 0) return autotune::RunGuarded(argv[2]);
  try {
    return autotune::tools::WithOutput(autotune::tools::Main(argc, argv));
  } catch (const std::exception& e) {
    return autotune::tools::Fail(autotune::Err("a bug in autotune: ", e.what()), autotune::tools::kExitFailed);
  }
}
