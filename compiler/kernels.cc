#include "compiler/kernels.h"

#include <algorithm>

#include "ir/text.h"
#include "schedule/trace.h"
#include "tuner/search.h"

namespace autotune {
namespace {

constexpr int kRecordsTried = 3;
constexpr int kDefaultsTried = 8;

std::string KernelName(const TuneTask& task, size_t index) {
  std::string name = "k" + std::to_string(index) + "_";
  for (char c : task.label.substr(0, task.label.find(' ')))
    name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name.substr(0, 80);
}

struct Option {
  KernelChoice choice;
  const PrimFunc* func = nullptr;
  bool unscheduled = false;  // the last resort
};

// A target's text in parts: the processor, its caches and the number of cores. Old records state no caches.
struct TargetParts {
  std::string processor, caches;
  int cores = 1;
};

TargetParts PartsOf(const std::string& target) {
  auto option = [&](std::string_view name) {
    size_t begin = target.find(name);
    if (begin == std::string::npos) return std::string();
    begin += name.size();
    return target.substr(begin, target.find(' ', begin) - begin);
  };
  TargetParts parts;
  parts.processor = target.substr(0, std::min(target.find(" -caches="), target.find(" -num-cores=")));
  parts.caches = option(" -caches=");
  parts.cores = std::atoi(option(" -num-cores=").c_str());
  return parts;
}

// Where records for this task are: at this very target, else at the same processor with these caches, if there is one,
// and the nearest number of cores. Programs that depend on caches differ then, which shows when a record is looked at.
Result<std::string> RecordsTarget(const TuneTask& task, const Target& target, RecordStore& store, std::string& note) {
  const std::string own = target.Text();
  const TargetParts wanted = PartsOf(own);
  std::string nearest;
  std::pair<bool, int> least;
  for (const std::string& other : TRY(store.Targets(task.hash.Hex()))) {
    if (other == own) return own;
    TargetParts parts = PartsOf(other);
    if (parts.processor != wanted.processor) continue;
    std::pair<bool, int> distance(parts.caches != wanted.caches, std::abs(parts.cores - wanted.cores));
    if (!nearest.empty() && distance >= least) continue;
    nearest = other, least = distance;
    note = "tuned for " + (least.first ? "caches of " + (parts.caches.empty() ? "unknown size" : parts.caches)
                                       : std::to_string(parts.cores) + " cores");
  }
  return nearest;
}

// A task's schedules in the order in which they are to be tried.
Result<std::vector<Option>> OptionsOf(const TuneTask& task, const Target& target, RecordStore* store) {
  std::vector<Option> options;
  std::string dropped;
  if (store) {
    std::string note;
    std::string where = TRY(RecordsTarget(task, target, *store, note));
    if (!where.empty()) {
      for (const Record& record : TRY(store->Top(task.hash.Hex(), where, kRecordsTried))) {
        auto alternative = std::find_if(task.alternatives.begin(), task.alternatives.end(),
                                        [&](const TaskAlternative& a) { return a.name == record.alternative; });
        // A record replays on the very program it was made for.
        if (alternative == task.alternatives.end() || ToText(alternative->func) != record.func ||
            record.versions.step_language != kStepLanguageVersion) {
          dropped = "a record of another version of this program was passed over";
          continue;
        }
        options.push_back({{.task = &task,
                            .tuned = true,
                            .seconds = record.cost,
                            .alternative = record.alternative,
                            .trace = record.trace,
                            .note = note},
                           &alternative->func});
      }
    }
  }
  TaskSpace space = TRY(TaskSpace::Make(task, target));
  for (const Proposal& proposal : DefaultProposals(space, kDefaultsTried)) {
    const TaskAlternative& alternative = task.alternatives[space.sketches[proposal.sketch].alternative];
    options.push_back(
        {{.task = &task, .alternative = alternative.name, .trace = ToText(proposal.trace), .note = dropped},
         &alternative.func});
  }
  // A program that every sketch fails on still compiles, slowly.
  const TaskAlternative& plain = task.alternatives[0];
  options.push_back({{.task = &task,
                      .alternative = plain.name,
                      .note = "none of its default schedules builds: compiled without a schedule"},
                     &plain.func,
                     /*unscheduled=*/true});
  return options;
}

BuildRequest RequestOf(const Option& option, const std::string& name, const Target& target) {
  BuildRequest request;
  request.func = ToText(*option.func);
  request.trace = option.choice.trace;
  request.kernel = name;
  request.target = target.Text();
  return request;
}

}  // namespace

Result<KernelSet> BuildKernels(const std::vector<TuneTask>& tasks, const Target& target, RecordStore* store,
                               Builder& builder) {
  KernelSet set;
  if (tasks.empty()) return set;
  std::vector<std::vector<Option>> options;
  for (size_t i = 0; i < tasks.size(); ++i) {
    options.push_back(TRY_NOTE(OptionsOf(tasks[i], target, store), "while scheduling " + tasks[i].label));
    set.names.push_back(KernelName(tasks[i], i));
  }
  // Everybody's first choice; then the second of those whose first did not build; ...
  std::vector<size_t> chosen(tasks.size(), 0), open(tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) open[i] = i;
  std::vector<std::string> cause(tasks.size()), first_cause(tasks.size());  // why the last, the first did not build
  while (!open.empty()) {
    std::vector<BuildRequest> requests;
    for (size_t i : open) {
      if (chosen[i] == options[i].size())
        return Err("no schedule of ", tasks[i].label,
                   " could be built: ", cause[i].empty() ? "none replays" : cause[i]);
      requests.push_back(RequestOf(options[i][chosen[i]], set.names[i], target));
    }
    std::vector<BuildResult> results = builder.Build(requests);
    std::vector<size_t> failed;
    for (size_t k = 0; k < open.size(); ++k) {
      if (results[k].status == TrialStatus::kOk) continue;
      cause[open[k]] = std::string(ToText(results[k].status)) + ": " + results[k].text;
      if (chosen[open[k]] == 0) first_cause[open[k]] = cause[open[k]];
      ++chosen[open[k]];
      failed.push_back(open[k]);
    }
    open = std::move(failed);
  }
  std::vector<BuildRequest> requests;
  for (size_t i = 0; i < tasks.size(); ++i) {
    requests.push_back(RequestOf(options[i][chosen[i]], set.names[i], target));
    set.choices.push_back(options[i][chosen[i]].choice);
    std::string& note = set.choices.back().note;
    if (options[i][chosen[i]].unscheduled && !cause[i].empty()) note += " (" + cause[i] + ")";
    if (options[i][0].choice.tuned && chosen[i] > 0) {
      note += std::string(note.empty() ? "" : "; ") + "its best record does not build any more (" + first_cause[i] +
              "): " + (set.choices.back().tuned ? "the next one is used" : "its default schedule is used");
    }
  }
  set.library = TRY_NOTE(builder.BuildLibrary(requests), "while linking the kernels").artifact.data;
  return set;
}

}  // namespace autotune
