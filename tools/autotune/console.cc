#include "tools/autotune/console.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>

#include "service/event_json.h"
#include "support/log.h"
#include "support/terminal.h"
#include "tools/error_lines.h"

namespace autotune::tools {
namespace {

int64_t LineEndsIn(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

Console& Console::Get() {
  static Console* const console = new Console;  // never destroyed, since a thread of it uses it until the process ends
  return *console;
}

Console::Console() : colours_out_(ShowsColours(1)), colours_err_(ShowsColours(2)), live_(2) {
  if (live_.on_terminal()) FollowSize();
  SetLogGuard([this](const std::function<void()>& write) { live_.Beside(write); });
}

// Redraws the live line when the terminal has another size. A thread waits for the signal, since a handler may not
// lock. All other threads block the signal: they start later and inherit this.
void Console::FollowSize() {
  sigset_t resized;
  sigemptyset(&resized);
  sigaddset(&resized, SIGWINCH);
  if (pthread_sigmask(SIG_BLOCK, &resized, nullptr) != 0) return;
  std::thread([this, resized] {
    for (int signal = 0; sigwait(&resized, &signal) == 0;) live_.Redraw();
  }).detach();
}

void Console::Result(const std::string& text) {
  const auto print = [&] {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  live_.Beside(print, WidthOut() > 0 ? LineEndsIn(text) : 0);
}

void Console::Result(Json object) {
  if (const std::vector<std::string> notes = TakeNotes(); !notes.empty()) object["notes"] = ToJson(notes);
  Result(object.Dump() + "\n");
}

std::vector<std::string> Console::TakeNotes() {
  std::lock_guard lock(notes_mutex_);
  return std::exchange(notes_, {});
}

void Console::EndNotes() {
  for (const std::string& note : TakeNotes()) Result(EventJson(event::Note{note}));
}

void Console::Report(const std::string& text) {
  if (!quiet_ && !json_) Result(text);
}

void Console::ToError(const std::string& lines) {
  live_.Beside([&] { std::fputs(lines.c_str(), stderr); }, LineEndsIn(lines));
}

void Console::Status(const std::string& line) { Command(WrapWords(line, TerminalWidth(2))); }

void Console::Command(const std::string& line) {
  if (!quiet_) ToError(line + "\n");
}

void Console::Note(const std::string& text, const std::string& command) {
  if (quiet_) return;
  if (json_) {
    std::lock_guard lock(notes_mutex_);
    notes_.push_back(text + (command.empty() ? "" : " " + command));
  }
  PrintNote(text, command);
}

void Console::ShowNote(const std::string& text) {
  if (!quiet_) PrintNote(text, "");
}

void Console::PrintNote(const std::string& text, const std::string& command) {
  constexpr std::string_view kWord = "note:";
  const std::string lines = WrapWords(std::string(kWord) + " " + text, TerminalWidth(2));
  ToError(Painted(kWord, Colour::kRemark, colours_err_) + lines.substr(kWord.size()) + "\n" +
          (command.empty() ? "" : "  " + command + "\n"));
}

void Console::Failure(const Error& error, int code) {
  const ErrorParts parts = PartsOf(error);
  ErrorObject(parts.text, parts.hints, code);
  Live("");
  ToError(ErrorLines(error, colours_err_));
}

void Console::Alert(const std::string& line) {
  Live("");
  ToError(line + "\n");
}

// A reader of the results learns from this object why they end.
void Console::ErrorObject(const std::string& text, const std::vector<std::string>& hints, int code) {
  if (!json_) return;
  Json line;
  line["event"] = "error";
  line["text"] = text;
  line["hints"] = ToJson(hints);
  line["code"] = code;
  Result(line);
}

void Console::Ended(const std::string& line, int code) {
  ErrorObject(line, {}, code);
  Alert(line);
}

void Console::Live(const std::string& text) {
  if (!quiet_) live_.Show(text);
}

int Console::WidthOut() const { return TerminalWidth(1); }

}  // namespace autotune::tools
