#include "tuner/plugin_search.h"

#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "schedule/trace.h"
#include "support/number_text.h"
#include "tuner/points.h"

namespace autotune {
namespace {

// [chosen] Most requests for one batch. Points that were tried before or that the rules refuse are asked for again.
constexpr int kMostRequests = 8;
constexpr int64_t kSeedMask = (int64_t{1} << 53) - 1;  // JSON readers of all languages keep whole numbers of 53 bits

// What the process knows of a point.
struct Told {
  std::string_view status;
  double seconds = 0;
  bool operator==(const Told&) const = default;
};

// What the process knows, over all searches of a run.
struct Knowledge {
  std::unordered_set<Hash128> tasks;
  std::unordered_map<uint64_t, Told> points;  // by task and point
};

Json KnobJson(const Sketch& sketch, const Knob& knob) {
  Json json;
  const Step& step = sketch.trace[knob.step];
  if (const auto* tile = std::get_if<SampleTile>(&step)) {
    json["kind"] = "tile";
    json["name"] = tile->loop.str();
    json["extent"] = knob.extent;
    json["factors"] = tile->n;
    json["max_inner"] = tile->max_inner;
    json["multiple_of"] = tile->multiple_of;
    return json;
  }
  const auto* location = std::get_if<SampleComputeLocation>(&step);
  json["kind"] = location ? "location" : "choice";
  const auto* choice = std::get_if<SampleCategorical>(&step);
  json["name"] = location                                   ? location->block.str()
                 : choice && !choice->results.names.empty() ? choice->results.names[0].str()
                                                            : "";
  json["values"] = ToJson(knob.candidates);
  return json;
}

std::string TaskText(const TaskSpace& space) {
  Json task;
  task["method"] = "task";
  task["task"] = space.task->hash.Hex();
  task["label"] = space.task->label;
  task["flops"] = space.task->flops;
  task["calls"] = space.task->weight;
  task["target"] = space.target.Text();
  Json::Array sketches;
  for (const Sketch& sketch : space.sketches) {
    Json json;
    json["name"] = sketch.name;
    json["alternative"] = space.task->alternatives[sketch.alternative].name;
    Json::Array knobs;
    for (const Knob& knob : sketch.knobs) knobs.push_back(KnobJson(sketch, knob));
    json["knobs"] = std::move(knobs);
    sketches.push_back(std::move(json));
  }
  task["sketches"] = std::move(sketches);
  return task.Dump();
}

// One candidate in an answer.
struct PluginChoice {
  int64_t sketch = -1;
  std::vector<std::vector<int64_t>> decisions;
  AUTOTUNE_FIELDS(sketch, decisions)
};

struct PluginChoices {
  std::vector<PluginChoice> candidates;
  AUTOTUNE_FIELDS(candidates)
};

class PluginSearch : public SearchStrategy {
 public:
  PluginSearch(const TaskSpace& space, const CostModel* model, uint64_t seed, std::shared_ptr<Plugin> plugin,
               std::shared_ptr<Knowledge> knowledge)
      : space_(space),
        seed_(static_cast<int64_t>(seed) & kSeedMask),
        plugin_(std::move(plugin)),
        knowledge_(std::move(knowledge)),
        ours_(MakeEvolutionarySearch(space, model, seed)) {}

  Result<std::vector<Proposal>> Propose(int n) override {
    std::vector<Proposal> chosen;
    if (knowledge_->tasks.insert(space_.task->hash).second) plugin_->Tell(TaskText(space_));
    for (int request = 0; request < kMostRequests && static_cast<int>(chosen.size()) < n; ++request) {
      const int missing = n - static_cast<int>(chosen.size());
      TellResults();
      const std::optional<Json> answer = TRY(plugin_->Ask(RequestText(missing, request)));
      if (!answer) {
        for (Proposal& proposal : TRY(ours_->Propose(missing))) chosen.push_back(std::move(proposal));
        break;
      }
      const std::vector<Point> points = TRY(PointsOf(*answer, missing));
      if (points.empty()) break;
      for (const Point& point : points) Take(point, chosen);
    }
    return chosen;
  }

  void Observe(const Proposal& proposal, double seconds) override {
    const bool works = std::isfinite(seconds);
    Learn(proposal, {works ? "ok" : "failed", works ? seconds : 0});
    ours_->Observe(proposal, seconds);
  }
  void Exclude(const Proposal& proposal) override {
    Learn(proposal, {"closed", 0});
    ours_->Exclude(proposal);
  }

 private:
  // Adds what is new to the next message.
  void Learn(const Proposal& proposal, const Told& told) {
    const Point point = MakePoint(space_, proposal.sketch, proposal.decisions);
    closed_.Close(point.hash);
    Tell(point, told, plugin_->greeting().features ? &proposal.features : nullptr);
  }

  void Tell(const Point& point, const Told& told, const Features* features) {
    Told& known = knowledge_->points[HashCombine(space_.task->hash.low, point.hash)];
    if (known == told) return;
    known = told;
    results_ += results_.empty() ? "{\"sketch\":" : ",{\"sketch\":";
    results_ += std::to_string(point.sketch) + ",\"decisions\":[";
    for (size_t knob = 0; knob < point.decisions.size(); ++knob) {
      results_ += knob > 0 ? ",[" : "[";
      const std::vector<int64_t>& values = point.decisions[knob].values;
      for (size_t i = 0; i < values.size(); ++i) results_ += (i > 0 ? "," : "") + std::to_string(values[i]);
      results_ += ']';
    }
    results_ += "],\"status\":\"" + std::string(told.status) + '"';
    if (told.seconds > 0) AppendNumber(results_ += ",\"seconds\":", told.seconds);
    if (std::isfinite(point.draft)) AppendNumber(results_ += ",\"draft_seconds\":", point.draft);
    if (features) AppendNumbers(results_ += ",\"features\":", *features);
    results_ += '}';
  }

  void TellResults() {
    if (results_.empty()) return;
    plugin_->Tell("{\"method\":\"history\",\"task\":\"" + space_.task->hash.Hex() + "\",\"results\":[" + results_ +
                  "]}");
    results_.clear();
  }

  std::string RequestText(int count, int request) const {
    return "{\"method\":\"propose\",\"task\":\"" + space_.task->hash.Hex() + "\",\"count\":" + std::to_string(count) +
           ",\"seed\":" + std::to_string((seed_ + request) & kSeedMask) + "}";
  }

  // Returns the points of an answer. Error: it is none, it has too many, or one is not in the space.
  Result<std::vector<Point>> PointsOf(const Json& answer, int most) const {
    if (!answer["candidates"].As<Json::Array>()) return plugin_->Nonsense("there is no list \"candidates\"");
    Result<PluginChoices> choices = FromJson<PluginChoices>(answer);
    if (!choices.ok()) return plugin_->Nonsense(choices.error().message);
    const size_t count = choices->candidates.size();
    if (count > static_cast<size_t>(most))
      return plugin_->Nonsense(std::to_string(count) + " candidates, where " + std::to_string(most) +
                               " were asked for");
    std::vector<Point> points;
    for (size_t i = 0; i < count; ++i) {
      PluginChoice& choice = choices->candidates[i];
      const std::string where = "candidates[" + std::to_string(i) + "]";
      const auto sketches = static_cast<int64_t>(space_.sketches.size());
      if (choice.sketch < 0 || choice.sketch >= sketches) {
        return plugin_->Nonsense(where + ".sketch is " + std::to_string(choice.sketch) + "; the task has " +
                                 std::to_string(sketches));
      }
      const Sketch& sketch = space_.sketches[choice.sketch];
      if (choice.decisions.size() != sketch.knobs.size()) {
        return plugin_->Nonsense(where + " has " + std::to_string(choice.decisions.size()) + " decisions; sketch " +
                                 std::to_string(choice.sketch) + " has " + std::to_string(sketch.knobs.size()) +
                                 " knobs");
      }
      Decisions decisions(choice.decisions.begin(), choice.decisions.end());
      for (size_t knob = 0; knob < decisions.size(); ++knob) {
        if (Allows(sketch, static_cast<int>(knob), decisions[knob])) continue;
        return plugin_->Nonsense(where + ".decisions[" + std::to_string(knob) + "] is " +
                                 ToJson(decisions[knob].values).Dump() +
                                 ", which its knob does not allow: " + KnobJson(sketch, sketch.knobs[knob]).Dump());
      }
      points.push_back(MakePoint(space_, static_cast<int>(choice.sketch), std::move(decisions)));
    }
    return points;
  }

  void Take(const Point& point, std::vector<Proposal>& chosen) {
    if (!closed_.Close(point.hash)) return;
    std::optional<Proposal> proposal = Realize(space_, point, true);
    if (!proposal) return Tell(point, {"refused", 0}, nullptr);
    ours_->Exclude(*proposal);
    chosen.push_back(std::move(*proposal));
  }

  const TaskSpace& space_;
  const int64_t seed_;
  const std::shared_ptr<Plugin> plugin_;
  const std::shared_ptr<Knowledge> knowledge_;
  const std::unique_ptr<SearchStrategy> ours_;  // chooses batches for which the plug-in is too late
  ClosedPoints closed_;
  std::string results_;  // of the next message, separated by commas
};

}  // namespace

SearchFactory MakePluginSearch(std::shared_ptr<Plugin> plugin) {
  auto knowledge = std::make_shared<Knowledge>();
  return [plugin = std::move(plugin), knowledge = std::move(knowledge)](const TaskSpace& space, const CostModel* model,
                                                                        uint64_t seed) {
    return std::unique_ptr<SearchStrategy>(std::make_unique<PluginSearch>(space, model, seed, plugin, knowledge));
  };
}

}  // namespace autotune
