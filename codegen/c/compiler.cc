#include "codegen/c/compiler.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "codegen/codegen.h"
#include "support/hint.h"
#include "support/subprocess.h"

namespace autotune {
namespace c {
namespace {

std::string CrossCompilerFor(const Target& target) { return target.triple + "-gcc"; }

std::string_view ArchitectureOf(std::string_view triple) { return triple.substr(0, triple.find('-')); }

// Returns true if `cc` can compile for the target. Emitted code uses no library and no system header but stdint.h, so
// an equal architecture suffices.
bool IsForThisMachine(const Target& target) {
  const Result<Target> host = Target::Parse("c");
  return host.ok() && ArchitectureOf(host->triple) == ArchitectureOf(target.triple);
}

std::vector<std::string> CommandFor(const std::string& compiler, const Target& target) {
  std::vector<std::string> argv = {compiler,          "-std=c99",           "-O3",  "-ffp-contract=off",
                                   "-fno-math-errno", "-fno-trapping-math", "-fPIC"};
  // A kernel may have the name of a function of the C library.
  argv.push_back("-fno-builtin");
  // Some distributions enable these features by default. Emitted code needs none of them.
  argv.insert(argv.end(), {"-fno-stack-protector", "-fcf-protection=none", "-fno-asynchronous-unwind-tables", "-w"});
  if (!target.triple.starts_with("x86_64")) std::erase(argv, "-fcf-protection=none");
  argv.insert(argv.end(), {"-x", "c", "-S", "-o", "-", "-"});
  return argv;
}

struct Output {
  std::string text, messages;
  std::optional<ExitStatus> status;  // empty: the compiler has closed its outputs but still runs
};

// Writes `source` to `to` and reads `from` and `messages` to their ends, concurrently, so that no pipe blocks.
Status Exchange(const std::string& source, UniqueFd to, UniqueFd from, UniqueFd messages, Output& output) {
  size_t written = 0;
  UniqueFd* ends[] = {&from, &messages};
  std::string* texts[] = {&output.text, &output.messages};
  for (UniqueFd* fd : {&to, &from, &messages}) fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  while (from || messages) {
    pollfd polled[] = {{to.get(), POLLOUT, 0}, {from.get(), POLLIN, 0}, {messages.get(), POLLIN, 0}};
    if (poll(polled, 3, -1) < 0 && errno != EINTR) return Err("waiting for the C compiler: ", strerror(errno));
    if (to && polled[0].revents) {
      const ssize_t n = send(to.get(), source.data() + written, source.size() - written, MSG_NOSIGNAL);
      if (n > 0) written += static_cast<size_t>(n);
      const bool broken = n < 0 && errno != EAGAIN && errno != EINTR;  // the compiler has closed its input
      if (broken || written == source.size()) to.Reset();
    }
    for (int i : {0, 1}) {
      if (!*ends[i] || !polled[1 + i].revents) continue;
      char bytes[1 << 16];
      const ssize_t n = read(ends[i]->get(), bytes, sizeof bytes);
      if (n > 0) texts[i]->append(bytes, static_cast<size_t>(n));
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) ends[i]->Reset();
    }
  }
  return {};
}

// Returns the first line with an error, else the first line.
std::string FirstMessage(const std::string& messages) {
  size_t at = messages.find("error: ");
  const size_t begin = at == std::string::npos ? 0 : messages.rfind('\n', at) + 1;
  return messages.substr(begin, messages.find('\n', begin) - begin);
}

// Runs a compiler with `source` as its input.
Result<Output> Run(std::vector<std::string> argv, const std::string& source) {
  // The input is a socket: writing to a pipe whose reader has ended raises SIGPIPE, which would end this process.
  auto [their_source, our_source] = TRY(MakeSocketPair());
  auto [our_text, their_text] = TRY(MakePipe());
  auto [our_messages, their_messages] = TRY(MakePipe());
  SpawnOptions spawn;
  spawn.argv = std::move(argv);
  spawn.fds = {{0, their_source.get()}, {1, their_text.get()}, {2, their_messages.get()}};
  spawn.environment = {"LC_ALL=C"};  // messages in one language
  spawn.own_group = false;
  Subprocess process = TRY(Subprocess::Spawn(spawn));
  their_source.Reset(), their_text.Reset(), their_messages.Reset();
  Output output;
  TRY(Exchange(source, std::move(our_source), std::move(our_text), std::move(our_messages), output));
  constexpr int64_t kForever = int64_t{1} << 40;  // milliseconds; the client of the worker limits the time of a build
  output.status = process.Wait(kForever);
  return output;
}

}  // namespace
}  // namespace c

std::string CCompilerOf(const Target& target) {
  if (const char* named = std::getenv("AUTOTUNE_CC"); named && *named) return named;
  return c::IsForThisMachine(target) ? "cc" : c::CrossCompilerFor(target);
}

namespace c {

std::string OtherMachine(const Target& target) {
  const std::string compiler = CCompilerOf(target);
  const Result<Output> output = Run({compiler, "-dumpmachine"}, "");
  if (!output.ok() || !output->status || !output->status->ok()) return "";
  const std::string machine = output->text.substr(0, output->text.find('\n'));
  if (machine.empty() || ArchitectureOf(machine) == ArchitectureOf(target.triple)) return "";
  return "; " + compiler + " compiles for " + machine + ": name a compiler for " + target.triple + " in AUTOTUNE_CC";
}

Result<std::string> CompileToAssembly(const std::string& source, const Target& target) {
  const std::string compiler = CCompilerOf(target);
  Result<Output> output = Run(CommandFor(compiler, target), source);
  if (!output.ok()) {
    return WithHint(Err("the target's kind 'c' needs a C compiler: ", output.error().Text()),
                    "install " + (IsForThisMachine(target) ? "gcc or clang (12 and newer)" : CrossCompilerFor(target)) +
                        ", or name one in AUTOTUNE_CC");
  }
  const std::optional<ExitStatus>& status = output->status;
  if (!status || !status->ok()) {
    const std::string message = FirstMessage(output->messages);
    return Err("the C compiler ", compiler, " ", status ? status->Text() : "does not end", message.empty() ? "" : ": ",
               message, OtherMachine(target));
  }
  if (output->text.empty()) return Err("the C compiler ", compiler, " gave no assembly");
  return std::move(output->text);
}

}  // namespace c
}  // namespace autotune
