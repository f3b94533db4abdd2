#include "bench/recorded_tasks.h"

#include "tuner/parallel.h"

namespace autotune::bench {

Result<std::vector<LocatedTask>> LocateRecording(const std::string& path) {
  Recording recording = TRY(ReadRecording(path));
  const Target target = TRY(Target::Parse(recording.header.target));
  std::vector<LocatedTask> tasks(recording.tasks.size());
  TRY(ForEachInParallel(tasks.size(), 0, [&](size_t i) -> Status {
    const RecordedTask& recorded = recording.tasks[i];
    LocatedTask& task = tasks[i];
    task.kind = recorded.kind;
    task.task = std::make_unique<TuneTask>(TRY(MakeTuneTask(recorded)));
    task.space = TRY(TaskSpace::Make(*task.task, target));
    task.recorded = recorded.candidates.size();
    for (const RecordedCandidate& candidate : recorded.candidates) {
      std::optional<Proposal> proposal = Locate(task.space, candidate.alternative, TRY(ParseTrace(candidate.trace)));
      if (proposal) task.located.push_back({std::move(*proposal), candidate.status, candidate.seconds});
    }
    return {};
  }));
  return tasks;
}

}  // namespace autotune::bench
