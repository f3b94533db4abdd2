#include "service/text.h"

#include <algorithm>
#include <ctime>
#include <map>

#include "support/task_id.h"

namespace autotune {

std::string CountText(int64_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

std::string PlaceText(int threads) { return threads == 0 ? "the GPU" : CountText(threads, "thread"); }

std::string DurationText(double seconds) {
  const long s = static_cast<long>(seconds + 0.5);
  if (s < 60) return Format("%lds", s);
  return s < 3600 ? Format("%ldm%02lds", s / 60, s % 60) : Format("%ldh%02ldm", s / 3600, s / 60 % 60);
}

std::string TimeText(double seconds) {
  constexpr double kLeastMs = 1e-4;
  const bool is_long = seconds >= kLeastMs;
  const double value = seconds * (is_long ? 1e3 : 1e6);
  const int decimals = value < 10 ? 3 : value < 100 ? 2 : value < 1000 ? 1 : 0;
  return Format("%.*f %s", decimals, value, is_long ? "ms" : "us");
}

std::vector<std::string> WithoutRepeats(const std::vector<std::string>& texts) {
  std::vector<std::string> lines;
  for (auto text = texts.begin(); text != texts.end(); ++text) {
    if (std::find(texts.begin(), text, *text) != text) continue;
    auto times = std::count(text, texts.end(), *text);
    lines.push_back(*text + (times > 1 ? " (" + std::to_string(times) + " times)" : ""));
  }
  return lines;
}

std::vector<std::string> KernelNotes(const std::vector<KernelChoice>& choices) {
  constexpr size_t kNamed = 3;
  std::vector<std::string> order;
  std::map<std::string, std::vector<const NetworkTask*>> tasks_of;
  for (const KernelChoice& choice : choices) {
    if (choice.note.empty()) continue;
    std::vector<const NetworkTask*>& tasks = tasks_of[choice.note];
    if (tasks.empty()) order.push_back(choice.note);
    tasks.push_back(choice.task);
  }
  std::vector<std::string> notes;
  for (const std::string& note : order) {
    const std::vector<const NetworkTask*>& tasks = tasks_of[note];
    if (tasks.size() == 1) {
      notes.push_back(ShortTaskId(tasks[0]->hash) + " " + tasks[0]->label + ": " + note);
      continue;
    }
    std::string ids;
    for (size_t i = 0; i < std::min(kNamed, tasks.size()); ++i) ids += (i ? ", " : "") + ShortTaskId(tasks[i]->hash);
    notes.push_back(CountText(static_cast<int64_t>(tasks.size()), "kernel") + " (" + ids +
                    (tasks.size() > kNamed ? ", ..." : "") + "): " + note);
  }
  return notes;
}

std::vector<std::string> CompileNotes(const CompileResult& compiled) {
  std::vector<std::string> notes = KernelNotes(compiled.choices);
  if (!compiled.note.empty()) notes.push_back(compiled.note);
  if (compiled.followed_choice && compiled.package.info.tuned_tasks == 0)
    notes.push_back("tuning found no schedules that make this network faster; it keeps its default schedules");
  return notes;
}

}  // namespace autotune
