// Compares the orders by the draft score and by the cost model with the measured order. Takes the candidates of a
// recording (docs/recordings.md) that ran, and prints for each task Spearman's rank correlation with the measured time
// - of the draft score, with its regret: the time of the candidate with the best score, over the least time;
// - of a model that was fitted to the other tasks only, as for a new task;
// - of a model that was also fitted to some of the task's candidates, on the task's other candidates.
//   bench_draft_order FILE [--own 64] [--others 200] [--seed 1]
// --own and --others are the numbers of candidates of the task itself, and of each other task, to which the model is
// fitted. Constants of the draft score were chosen by the times of tasks marked `fitted`; the last lines omit these
// tasks.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/arguments.h"
#include "bench/main.h"
#include "costmodel/cost_model.h"
#include "support/rng.h"
#include "support/statistics.h"
#include "tuner/located_recording.h"
#include "tuner/parallel.h"

namespace autotune::bench {
namespace {

constexpr size_t kFewest = DraftOrder::kFewest;

struct Orders {
  DraftOrder draft;
  double others = 0, own = 0;
};

bool Ran(const LocatedCandidate& candidate) {
  return candidate.status == TrialStatus::kOk && std::isfinite(candidate.proposal.draft_seconds);
}

// Returns the candidates that ran, in random order.
std::vector<const LocatedCandidate*> Shuffled(const LocatedTask& task, uint64_t seed) {
  std::vector<const LocatedCandidate*> list;
  for (const LocatedCandidate& candidate : task.candidates) {
    if (Ran(candidate)) list.push_back(&candidate);
  }
  Rng rng(seed);
  for (size_t i = list.size(); i > 1; --i)
    std::swap(list[i - 1], list[static_cast<size_t>(rng.Below(static_cast<int64_t>(i)))]);
  return list;
}

void Teach(CostModel& model, const std::vector<const LocatedCandidate*>& list, size_t count, uint64_t task) {
  std::vector<Sample> samples;
  for (size_t i = 0; i < std::min(count, list.size()); ++i)
    samples.push_back({task, list[i]->proposal.features, list[i]->proposal.draft_seconds, list[i]->seconds});
  model.Add(std::move(samples));
}

double OrderOf(const CostModel& model, const std::vector<const LocatedCandidate*>& list, size_t begin, uint64_t task) {
  std::vector<Candidate> candidates;
  std::vector<double> seconds, scores;
  for (size_t i = begin; i < list.size(); ++i) {
    candidates.push_back({&list[i]->proposal.features, list[i]->proposal.draft_seconds});
    seconds.push_back(list[i]->seconds);
  }
  for (float score : model.Predict(task, candidates).value()) scores.push_back(-score);
  return RankCorrelation(scores, seconds);
}

// Fits the models and adds their orders of the task's candidates to `orders`.
Status Judge(const std::vector<std::vector<const LocatedCandidate*>>& lists, size_t task, size_t own, size_t others,
             Orders& orders) {
  const std::vector<const LocatedCandidate*>& list = lists[task];
  if (list.size() < kFewest) return {};
  std::unique_ptr<CostModel> model = MakeXgboostModel();
  for (size_t other = 0; other < lists.size(); ++other) {
    if (other != task) Teach(*model, lists[other], others, other);
  }
  TRY(model->Train());
  orders.others = OrderOf(*model, list, own, task);
  Teach(*model, list, own, task);
  TRY(model->Train());
  orders.own = OrderOf(*model, list, own, task);
  return {};
}

Result<int> Print(const std::vector<LocatedTask>& tasks, const std::vector<Orders>& orders) {
  std::printf("Spearman's rank correlation with the measured time, of tasks with at least %zu candidates that ran\n",
              kFewest);
  std::printf("%-28s %9s %9s %9s %9s %9s %9s\n", "task", "recorded", "ran", "draft", "regret", "others", "own");
  std::vector<double> drafts, regrets, learned, own_too;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const auto& [draft, others, own] = orders[i];
    std::printf("%-28s %9zu %9zu", tasks[i].kind.c_str(), tasks[i].recorded, draft.ran);
    if (draft.ran >= kFewest) {
      std::printf(" %9.2f %9.2f %9.2f %9.2f%s", draft.rank_correlation, draft.regret, others, own,
                  tasks[i].fitted ? "  fitted" : "");
    }
    std::printf("%s\n", tasks[i].candidates.empty() ? "  the present rules make none of its schedules" : "");
    if (draft.ran < kFewest || tasks[i].fitted) continue;
    drafts.push_back(draft.rank_correlation);
    regrets.push_back(draft.regret);
    learned.push_back(others);
    own_too.push_back(own);
  }
  if (drafts.empty()) return Err("no task has ", kFewest, " candidates that ran");
  std::printf("%-48s %9.2f %9.2f %9.2f %9.2f\n", "median, without fitted ones", Median(drafts), Median(regrets),
              Median(learned), Median(own_too));
  std::printf("%-48s %9.2f %9.2f %9.2f %9.2f\n", "worst, without fitted ones", *std::ranges::min_element(drafts),
              *std::ranges::max_element(regrets), *std::ranges::min_element(learned),
              *std::ranges::min_element(own_too));
  return 0;
}

Result<int> Main(int argc, char** argv) {
  Arguments arguments = TRY(Arguments::Parse(argc, argv, {"own", "others", "seed"}, {"own", "others", "seed"}));
  if (arguments.words.size() != 1) {
    std::fprintf(stderr, "usage: bench_draft_order FILE [--own 64] [--others 200] [--seed 1]\n");
    return 2;
  }
  const size_t own = static_cast<size_t>(arguments.Number("own", 64));
  const size_t others = static_cast<size_t>(arguments.Number("others", 200));
  std::vector<LocatedTask> tasks = TRY(LocateRecording(TRY(ReadRecording(arguments.words[0]))));
  std::vector<std::vector<const LocatedCandidate*>> lists;
  for (const LocatedTask& task : tasks)
    lists.push_back(Shuffled(task, static_cast<uint64_t>(arguments.Number("seed", 1))));
  std::vector<Orders> orders(tasks.size());
  TRY(ForEachInParallel(tasks.size(), 0, [&](size_t i) -> Status {
    orders[i].draft = DraftOrderOf(tasks[i]);
    return Judge(lists, i, own, others, orders[i]);
  }));
  return Print(tasks, orders);
}

}  // namespace
}  // namespace autotune::bench

int main(int argc, char** argv) {
  return autotune::bench::ExitCode("bench_draft_order", autotune::bench::Main(argc, argv));
}
