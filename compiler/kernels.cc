#include "compiler/kernels.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "ir/text.h"
#include "runtime/device.h"
#include "schedule/trace.h"
#include "tuner/defaults.h"

namespace autotune {
namespace {

constexpr int kRecordsTried = 3;  // best records of each task

// A task with its programs.
struct TaskPrograms {
  const NetworkTask* task = nullptr;
  TuneTask tune;
  std::vector<const TaskPrograms*> family;  // the tasks with the same family, itself first

  // Returns null if the task has no such alternative.
  const PrimFunc* Find(const std::string& alternative) const {
    const auto place = std::ranges::find(tune.alternatives, alternative, &TaskAlternative::name);
    return place == tune.alternatives.end() ? nullptr : &place->func;
  }
};

std::vector<TaskPrograms> ProgramsOf(const Network& network) {
  std::vector<TaskPrograms> tasks;
  for (const NetworkTask& task : network.tasks) tasks.push_back({&task, MakeTuneTask(network, task), {}});
  for (TaskPrograms& task : tasks) {
    task.family = {&task};
    for (const TaskPrograms& other : tasks)
      if (&other != &task && other.task->family == task.task->family) task.family.push_back(&other);
  }
  return tasks;
}

std::vector<std::string> NamesOf(const Network& network) {
  std::vector<std::string> names;
  for (const NetworkTask& task : network.tasks) names.push_back(task.function);
  return names;
}

struct Option {
  KernelChoice choice;
  const PrimFunc* func = nullptr;  // owned by the TaskPrograms
  bool unscheduled = false;        // true: the program without a schedule, which is tried last
  bool keep_spills = false;        // true: its innermost loops may spill registers
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
  // Targets with different vector types need different code, even on one processor.
  parts.processor += option(" -vectors=");
  parts.caches = option(" -caches=");
  parts.cores = std::atoi(option(" -num-cores=").c_str());
  return parts;
}

// Returns the target whose records serve this task: `target` itself if it has records, else the nearest target with the
// same processor, or an empty text if no such target has records. Targets with equal caches are nearer than all others;
// next, the number of cores decides. If the result is another target, sets `note` to the difference ("64 cores"). A
// program may depend on the caches, so OptionFrom compares the program of a record with the program for `target`.
Result<std::string> RecordsTarget(const NetworkTask& task, const Target& target, RecordStore& store,
                                  std::string& note) {
  const std::string own = target.Text();
  const TargetParts wanted = PartsOf(own);
  std::string nearest;
  std::pair<bool, int> least;
  for (const std::string& other : TRY(store.Targets(task.hash.Hex()))) {
    if (other == own) {
      note.clear();  // a target earlier in the list may have set a note
      return own;
    }
    TargetParts parts = PartsOf(other);
    if (parts.processor != wanted.processor) continue;
    std::pair<bool, int> distance(parts.caches != wanted.caches, std::abs(parts.cores - wanted.cores));
    if (!nearest.empty() && distance >= least) continue;
    nearest = other, least = distance;
    note = (least.first ? "caches of " + (parts.caches.empty() ? "unknown size" : parts.caches)
                        : std::to_string(parts.cores) + (parts.cores == 1 ? " core" : " cores"));
  }
  return nearest;
}

// Returns a stored schedule that was made for `source`, a task of the family of `task`. Returns nothing if a task lacks
// the alternative, or if the program of `source` has changed: `is_func` tells whether the schedule was made for a
// program with this text.
std::optional<Option> OptionFrom(const TaskPrograms& task, const TaskPrograms& source, const std::string& alternative,
                                 const std::string& trace, const std::function<bool(const std::string&)>& is_func) {
  const PrimFunc *func = task.Find(alternative), *made_for = source.Find(alternative);
  if (!func || !made_for || !is_func(ToText(*made_for))) return std::nullopt;
  return Option{{.task = task.task, .alternative = alternative, .trace = trace}, func};
}

// Adds the schedules of the `n` best records of `source` to `options`. Skips a record if its step language or its
// program is not that of this target and this version of autotune, and then sets `dropped` to a note.
Status AddRecords(const TaskPrograms& task, const TaskPrograms& source, const Target& target, RecordStore& store, int n,
                  std::vector<Option>& options, std::string& dropped) {
  std::string note;
  std::string where = TRY(RecordsTarget(*source.task, target, store, note));
  if (where.empty()) return {};
  for (const Record& record : TRY(store.Top(source.task->hash.Hex(), where, n))) {
    std::optional<Option> option;
    const bool same_language = record.versions.step_language == kStepLanguageVersion;
    if (same_language) {
      option = OptionFrom(task, source, record.alternative, record.trace,
                          [&](const std::string& func) { return func == record.func; });
    }
    if (!option) {
      dropped = same_language && !note.empty() ? "not tuned; its records for " + note + " are for another program"
                                               : "a record of another version of this program was skipped";
      continue;
    }
    option->choice.tuned = true;
    option->choice.seconds = record.cost;
    option->choice.note = note.empty() ? "" : "tuned for " + note;
    options.push_back(std::move(*option));
  }
  return {};
}

// Returns the schedules of the `n` best records of the task's family, the fastest first. Those for other targets are
// worse than they say, so they come last. The task's own are not preferred, since they may be of a time when another
// task of the family was not tuned for it yet.
Result<std::vector<Option>> RecordOptions(const TaskPrograms& task, const Target& target, RecordStore& store, int n,
                                          std::string& dropped) {
  std::vector<Option> options;
  for (const TaskPrograms* source : task.family) TRY(AddRecords(task, *source, target, store, n, options, dropped));
  std::ranges::stable_sort(
      options, {}, [](const Option& option) { return std::pair(!option.choice.note.empty(), option.choice.seconds); });
  options.resize(std::min(options.size(), static_cast<size_t>(n)));
  return options;
}

// Returns the task's default schedules, in the order in which the tuner also tries them.
Result<std::vector<Option>> DefaultOptions(const TaskPrograms& task, const Target& target) {
  std::vector<Option> options;
  TaskSpace space = TRY(TaskSpace::Make(task.tune, target));
  const std::vector<Proposal> candidates = DefaultCandidates(space);
  for (const Proposal& proposal : candidates) {
    const TaskAlternative& alternative = task.tune.alternatives[space.sketches[proposal.sketch].alternative];
    Option option{{.task = task.task, .alternative = alternative.name, .trace = ToText(proposal.trace)},
                  &alternative.func,
                  /*unscheduled=*/&proposal == &candidates.back()};
    if (option.unscheduled) option.choice.note = "none of its default schedules builds: compiled without a schedule";
    options.push_back(std::move(option));
  }
  return options;
}

// Returns the schedule that the network's choice has for the task, then those of the best `records` records.
Result<std::vector<Option>> TunedOptions(const TaskPrograms& task, const Target& target, const ScheduleSources& sources,
                                         int records, std::string& dropped) {
  std::vector<Option> options;
  if (const ChosenSchedule* chosen = sources.choice ? sources.choice->Find(task.task->hash.Hex()) : nullptr) {
    std::optional<Option> option =
        OptionFrom(task, task, chosen->alternative, chosen->trace,
                   [&](const std::string& func) { return HashBytes128(func).Hex() == chosen->func_hash; });
    if (option) {
      option->choice.tuned = chosen->seconds > 0;
      option->choice.seconds = chosen->seconds;
      options.push_back(std::move(*option));
    } else {
      dropped = "the chosen schedule was made by another version of this program";
    }
  }
  if (sources.store) {
    std::vector<Option> recorded = TRY(RecordOptions(task, target, *sources.store, records, dropped));
    options.insert(options.end(), recorded.begin(), recorded.end());
  }
  return options;
}

// Returns all schedules of a task, in the order in which BuildKernels tries them.
Result<std::vector<Option>> OptionsOf(const TaskPrograms& task, const Target& target, const ScheduleSources& sources) {
  std::string dropped;
  std::vector<Option> options = TRY(TunedOptions(task, target, sources, kRecordsTried, dropped));
  for (Option& option : TRY(DefaultOptions(task, target))) {
    if (option.choice.note.empty()) option.choice.note = dropped;
    options.push_back(std::move(option));
  }
  return options;
}

BuildRequest RequestOf(const Option& option, const std::string& name, const Target& target) {
  BuildRequest request;
  request.func = ToText(*option.func);
  request.trace = option.choice.trace;
  request.kernel = name;
  request.target = target.Text();
  request.options.keep_spills = option.keep_spills;
  return request;
}

// Puts the option of the fewest spills once more before the program without a schedule, which is slower. `results` are
// those of the options before that program.
void AcceptSpills(const std::vector<const CompiledKernel*>& results, std::vector<Option>& options) {
  const Option* best = nullptr;
  int64_t fewest = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const int64_t spills = results[i]->object.facts.spills_in_register_loops;
    if (spills == 0 || (best && spills >= fewest)) continue;
    best = &options[i], fewest = spills;
  }
  if (!best) return;
  Option spilling = *best;
  spilling.keep_spills = true;
  spilling.choice.tuned = false;
  spilling.choice.note = "each of its default schedules spills registers";
  options.insert(options.begin() + results.size(), std::move(spilling));
}

// The first option of each task that compiles. All members are parallel to the tasks.
struct FirstCompiled {
  std::vector<size_t> place;  // index of the option
  std::vector<const CompiledKernel*> kernels;
  std::vector<std::string> first_cause, last_cause;  // errors of the first and the last option that did not compile
};

// Compiles the first option of every task, then the second option of every task whose first did not compile, and so on.
// Adds the option of AcceptSpills to tasks that come to their last one.
Result<FirstCompiled> FindFirstCompiled(const std::vector<NetworkTask>& tasks, const std::vector<std::string>& names,
                                        std::vector<std::vector<Option>>& options, const Target& target,
                                        KernelCompiler& compiler) {
  const size_t n = tasks.size();
  FirstCompiled found{std::vector<size_t>(n, 0), std::vector<const CompiledKernel*>(n), std::vector<std::string>(n),
                      std::vector<std::string>(n)};
  std::vector<size_t> open(n);
  std::iota(open.begin(), open.end(), size_t{0});
  std::vector<std::vector<const CompiledKernel*>> rejected(n);  // results of the options before found.place
  while (!open.empty()) {
    std::vector<BuildRequest> requests;
    for (size_t i : open) {
      if (found.place[i] == options[i].size()) {
        return Err("no schedule of ", tasks[i].label,
                   " could be built: ", found.last_cause[i].empty() ? "none replays" : found.last_cause[i]);
      }
      requests.push_back(RequestOf(options[i][found.place[i]], names[i], target));
    }
    std::vector<const CompiledKernel*> kernels = compiler.Compile(requests);
    std::vector<size_t> failed;
    for (size_t k = 0; k < open.size(); ++k) {
      found.kernels[open[k]] = kernels[k];
      if (kernels[k]->status == TrialStatus::kOk) continue;
      std::string cause = std::string(ToText(kernels[k]->status)) + ": " + kernels[k]->text;
      if (found.place[open[k]]++ == 0) found.first_cause[open[k]] = cause;
      found.last_cause[open[k]] = std::move(cause);
      failed.push_back(open[k]);
      rejected[open[k]].push_back(kernels[k]);
      std::vector<Option>& left = options[open[k]];
      const size_t next = found.place[open[k]];
      if (next < left.size() && left[next].unscheduled && !left[next - 1].keep_spills)
        AcceptSpills(rejected[open[k]], left);
    }
    open = std::move(failed);
  }
  return found;
}

}  // namespace

std::vector<const CompiledKernel*> KernelCompiler::Compile(const std::vector<BuildRequest>& requests) {
  std::vector<std::string> keys;
  std::vector<BuildRequest> missing;
  for (const BuildRequest& request : requests) {
    keys.push_back(request.kernel + '\n' + request.target + '\n' + passes_.config().CodeKey() + '\n' +
                   ToJson(request.options).Dump() + '\n' + request.trace + '\n' + request.func);
    if (!kernels_.try_emplace(keys.back()).second) continue;
    missing.push_back(request);
    missing.back().passes = passes_.Within(request.kernel).config();
  }
  std::vector<CompiledKernel> compiled;
  if (!missing.empty()) compiled = builder_.Compile(missing, Patience::kCandidate);
  for (const CompiledKernel& kernel : compiled) passes_.AddTimes(kernel.object.facts.passes);
  std::vector<const CompiledKernel*> in_order;
  for (size_t i = 0, next = 0; i < requests.size(); ++i) {
    std::unique_ptr<const CompiledKernel>& kernel = kernels_[keys[i]];
    if (!kernel) kernel = std::make_unique<const CompiledKernel>(std::move(compiled[next++]));
    in_order.push_back(kernel.get());
  }
  return in_order;
}

Result<BuiltLibrary> KernelCompiler::Link(const std::vector<const CompiledKernel*>& kernels, const Target& target) {
  std::vector<const KernelObject*> objects;
  for (const CompiledKernel* kernel : kernels) objects.push_back(&kernel->object);
  return builder_.Link(objects, target.Text());
}

Result<KernelSet> BuildKernels(const Network& network, const Target& target, const ScheduleSources& sources,
                               KernelCompiler& compiler) {
  KernelSet set;
  const std::vector<TaskPrograms> tasks = ProgramsOf(network);
  set.names = NamesOf(network);
  std::vector<std::vector<Option>> options;
  for (size_t i = 0; i < tasks.size(); ++i) {
    options.push_back(TRY_NOTE(OptionsOf(tasks[i], target, sources), "while scheduling " + tasks[i].task->label));
  }
  FirstCompiled built = TRY(FindFirstCompiled(network.tasks, set.names, options, target, compiler));
  for (size_t i = 0; i < tasks.size(); ++i) {
    set.choices.push_back(options[i][built.place[i]].choice);
    std::string& note = set.choices.back().note;
    if (options[i][built.place[i]].unscheduled && !built.last_cause[i].empty()) {
      note += " (" + built.last_cause[i] + ")";
    }
    if (options[i][0].choice.tuned && built.place[i] > 0) {
      note += std::string(note.empty() ? "" : "; ") + "its best schedule does not build any more (" +
              built.first_cause[i] +
              "): " + (set.choices.back().tuned ? "the next one is used" : "its default schedule is used");
    }
  }
  BuiltLibrary linked = TRY_NOTE(compiler.Link(built.kernels, target), "while linking the kernels");
  set.library = std::move(linked.artifact.data);
  set.kernels = std::move(linked.kernels);
  for (const CompiledKernel* kernel : built.kernels) {
    set.uses_tiles |= kernel->object.uses_tiles;
    for (const Json::Bytes& object : kernel->object.objects) set.objects.push_back(object.data);
    if (kernel->object.source.empty()) continue;
    if (target.IsGpu()) {
      set.device_sources[std::string(ToText(target.kind)) + "/" + kernel->object.metadata.name + "." +
                         std::string(target.ImageFormat())] = kernel->object.source;
    } else {
      set.sources.push_back(kernel->object.source);
    }
  }
  if (!linked.support_source.empty()) set.sources.push_back(std::move(linked.support_source));
  for (Json::Bytes& object : linked.support) set.objects.push_back(std::move(object.data));
  set.device_blob = std::move(linked.device_blob.data);
  return set;
}

int64_t DeviceTypeOf(const Target& target) {
  return target.IsGpu() ? *DeviceTypeFromName(ToText(target.kind)) : kDLCPU;
}

std::vector<NodeCode> CodeOfNodes(const Network& network, const Target& target) {
  std::vector<NodeCode> code;
  for (int task : TaskOfNodes(network)) {
    code.push_back({.device = DeviceTypeOf(target)});
    if (task < 0) continue;
    code.back().kernel = network.tasks[task].function;
    code.back().hash = network.tasks[task].hash.Hex();
  }
  return code;
}

Result<KernelVariants> BuildVariants(const Network& network, const Target& target, const ScheduleSources& sources,
                                     int competitors, KernelCompiler& compiler) {
  const std::vector<TaskPrograms> tasks = ProgramsOf(network);
  const std::vector<std::string> names = NamesOf(network);
  std::vector<std::vector<Option>> defaults;
  for (const TaskPrograms& task : tasks) {
    defaults.push_back(TRY_NOTE(DefaultOptions(task, target), "while scheduling " + task.task->label));
  }
  FirstCompiled built = TRY(FindFirstCompiled(network.tasks, names, defaults, target, compiler));
  KernelVariants set;
  if (tasks.empty()) return set;
  std::vector<BuildRequest> requests;
  std::vector<std::pair<size_t, KernelChoice>> others;  // task and choice, parallel to `requests`
  for (size_t i = 0; i < tasks.size(); ++i) {
    const KernelChoice& untuned = defaults[i][built.place[i]].choice;
    set.names.push_back({names[i]});
    set.choices.push_back({untuned});
    std::set<std::pair<std::string, std::string>> known = {{untuned.alternative, untuned.trace}};
    std::string dropped;
    // Request one record more than can compete, since the default schedule may be among the records.
    for (Option& option : TRY(TunedOptions(tasks[i], target, sources, competitors + 1, dropped))) {
      if (static_cast<int>(known.size()) > competitors) break;
      if (!known.emplace(option.choice.alternative, option.choice.trace).second) continue;
      requests.push_back(RequestOf(option, names[i] + "_v" + std::to_string(known.size() - 1), target));
      others.emplace_back(i, std::move(option.choice));
    }
  }
  std::vector<const CompiledKernel*> linked = built.kernels, compiled = compiler.Compile(requests);
  for (size_t k = 0; k < compiled.size(); ++k) {
    if (compiled[k]->status != TrialStatus::kOk) continue;
    linked.push_back(compiled[k]);
    set.names[others[k].first].push_back(requests[k].kernel);
    set.choices[others[k].first].push_back(std::move(others[k].second));
  }
  set.library = TRY_NOTE(compiler.Link(linked, target), "while linking the kernels to be compared").artifact.data;
  return set;
}

}  // namespace autotune
