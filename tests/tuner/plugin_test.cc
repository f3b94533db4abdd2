// Plug-ins, as Python programs, with the tune loop on a simulated device.
#include "tuner/plugin.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "records/memory_store.h"
#include "support/clock.h"
#include "support/integer.h"
#include "tests/tuner/simulated.h"
#include "tuner/plugin_model.h"
#include "tuner/plugin_search.h"
#include "tuner/points.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

using test::Simulated;
using test::TestTarget;
using testing::HasSubstr;

constexpr int64_t kMask = (int64_t{1} << 53) - 1;

// The strategy of this file's tests, as a plug-in. Its candidates follow from the seed and the best result.
constexpr char kMirror[] = R"(
import json, sys
class Rng:
    def __init__(self, seed): self.state = seed % 2147483648
    def below(self, n):
        self.state = (self.state * 1103515245 + 12345) % 2147483648
        return self.state // 65536 % n
def draw(rng, knob):
    if knob["kind"] != "tile": return [knob["values"][rng.below(len(knob["values"]))]]
    step, extent = knob["multiple_of"], knob["extent"]
    tile = [step * (1 + rng.below(max(1, min(extent, knob["max_inner"]) // step)))]
    for _ in range(knob["factors"] - 2): tile.insert(0, 1 << rng.below(3))
    covered = 1
    for factor in tile: covered *= factor
    return [-(-extent // covered)] + tile
tasks, best = {}, {}
for line in sys.stdin:
    m = json.loads(line)
    if m["method"] == "task": tasks[m["task"]] = m["sketches"]
    elif m["method"] == "history":
        for r in m["results"]:
            if r["status"] == "ok" and r["seconds"] < best.get(m["task"], (1e9, 0))[0]:
                best[m["task"]] = r["seconds"], r["sketch"]
    elif m["method"] == "hello": print(json.dumps({"id": m["id"], "name": "mirror", "version": "1"}), flush=True)
    elif m["method"] == "propose":
        rng, sketches, candidates = Rng(m["seed"]), tasks[m["task"]], []
        for _ in range(m["count"]):
            sketch = rng.below(len(sketches))
            if rng.below(2) == 0 and m["task"] in best: sketch = best[m["task"]][1]
            candidates.append({"sketch": sketch, "decisions": [draw(rng, k) for k in sketches[sketch]["knobs"]]})
        print(json.dumps({"id": m["id"], "candidates": candidates}), flush=True)
)";

// The same in this process.
class Mirror : public SearchStrategy {
 public:
  Mirror(const TaskSpace& space, uint64_t seed) : space_(space), seed_(static_cast<int64_t>(seed) & kMask) {}

  Result<std::vector<Proposal>> Propose(int n) override {
    std::vector<Proposal> chosen;
    for (int request = 0; request < 8 && static_cast<int>(chosen.size()) < n; ++request) {
      state_ = ((seed_ + request) & kMask) % 2147483648;
      for (int left = n - static_cast<int>(chosen.size()); left > 0; --left) {
        auto sketch = static_cast<int>(Below(static_cast<int64_t>(space_.sketches.size())));
        if (Below(2) == 0 && best_sketch_ >= 0) sketch = best_sketch_;
        Decisions decisions;
        for (const Knob& knob : space_.sketches[sketch].knobs)
          decisions.push_back(Draw(space_.sketches[sketch].trace[knob.step], knob));
        const Point point = MakePoint(space_, sketch, decisions);
        if (!closed_.Close(point.hash)) continue;
        if (auto proposal = Realize(space_, point, true)) chosen.push_back(std::move(*proposal));
      }
    }
    return chosen;
  }
  void Observe(const Proposal& proposal, double seconds) override {
    Exclude(proposal);
    if (seconds < best_seconds_) best_seconds_ = seconds, best_sketch_ = proposal.sketch;
  }
  void Exclude(const Proposal& proposal) override {
    closed_.Close(HashPoint(space_, proposal.sketch, proposal.decisions));
  }

 private:
  int64_t Below(int64_t n) {
    state_ = (state_ * 1103515245 + 12345) % 2147483648;
    return state_ / 65536 % n;
  }
  Decision Draw(const Step& step, const Knob& knob) {
    const auto* sample = std::get_if<SampleTile>(&step);
    if (!sample) return {knob.candidates[Below(static_cast<int64_t>(knob.candidates.size()))]};
    const int64_t most = std::min(knob.extent, sample->max_inner) / sample->multiple_of;
    std::vector<int64_t> tile = {sample->multiple_of * (1 + Below(std::max<int64_t>(1, most)))};
    int64_t covered = tile[0];
    for (int64_t i = 0; i < sample->n - 2; ++i) {
      tile.insert(tile.begin(), int64_t{1} << Below(3));
      covered *= tile[0];
    }
    tile.insert(tile.begin(), CeilDiv(knob.extent, covered));
    return tile;
  }

  const TaskSpace& space_;
  const int64_t seed_;
  int64_t state_ = 0;
  ClosedPoints closed_;
  double best_seconds_ = std::numeric_limits<double>::infinity();
  int best_sketch_ = -1;
};

// A cost model that trusts the draft score, in this process.
class DraftModel : public CostModel {
 public:
  void Add(std::vector<Sample> samples) override { ready_ |= !samples.empty(); }
  Status Train() override { return {}; }
  bool ready() const override { return ready_; }
  Result<std::vector<float>> Predict(uint64_t, std::span<const Candidate> candidates) const override {
    std::vector<float> scores;
    for (const Candidate& candidate : candidates) scores.push_back(static_cast<float>(-candidate.draft_seconds));
    return scores;
  }

 private:
  bool ready_ = false;
};

constexpr char kGreeting[] = R"(
import json, os, sys, time
def read(): return json.loads(sys.stdin.readline())
def say(**answer): print(json.dumps(answer), flush=True)
say(id=read()["id"], name="test", version="1")
def request(method="propose"):
    while True:
        m = read()
        if m["method"] == method: return m
)";

class PluginTest : public testing::Test {
 protected:
  PluginTest() : folder_(testing::TempDir() + "plugin_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~PluginTest() override { std::filesystem::remove_all(folder_); }

  // Returns the command of a plug-in with this program.
  std::string Program(const std::string& text) {
    const std::string path = folder_ + "/plugin" + std::to_string(++programs_) + ".py";
    std::ofstream(path) << text;
    return "exec python3 " + path;
  }
  PluginOptions Options(const std::string& command, const std::string& role = "strategy") {
    PluginOptions options{.role = role, .command = command, .stop = &stop_};
    options.on_note = [this](const std::string& text) {
      const std::lock_guard hold(mutex_);
      notes_.push_back(text);
    };
    return options;
  }
  TuneOptions WithStrategy(const std::string& command, double deadline = 60) {
    PluginOptions options = Options(command);
    options.deadline = deadline;
    plugin_ = Plugin::Start(options).value();
    return {.trials = 48,
            .seed = 3,
            .search = SearchKind::kRandom,
            .make_search = MakePluginSearch(plugin_),
            .run = "r",
            .lock_host = false};
  }
  Result<TuneReport> Run(const TuneOptions& options, RecordStore& store, const std::atomic<bool>* stop = nullptr) {
    Simulated device;
    return Tune(tasks_, TestTarget(), options, store, device, nullptr, stop);
  }
  // Returns the error of a run whose strategy is a program that begins with kGreeting.
  std::string ErrorOf(const std::string& program) {
    auto store = NewMemoryStore();
    Result<TuneReport> report = Run(WithStrategy(Program(std::string(kGreeting) + program)), *store);
    EXPECT_FALSE(report.ok());
    const size_t kept = store->Scan({}, 0, 100).value().records.size();
    EXPECT_GE(kept, tasks_.size()) << "the default schedules are measured before the strategy is asked";
    return report.ok() ? "" : report.error().message;
  }
  static std::vector<std::string> TracesIn(RecordStore& store) {
    std::vector<std::string> traces;
    for (const Record& record : store.Scan({}, 0, 1000).value().records)
      traces.push_back(record.task + record.trace + std::to_string(record.cost) + std::string(ToText(record.status)));
    return traces;
  }

  const std::vector<TuneTask> tasks_ = test::TwoTasks();
  std::string folder_;
  int programs_ = 0;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::vector<std::string> notes_;
  std::shared_ptr<Plugin> plugin_;  // ends before `notes_`, to which it adds
};

TEST_F(PluginTest, TheSameDecisionsInAndOutOfProcessGiveTheSameRun) {
  auto outside = NewMemoryStore(), inside = NewMemoryStore();
  TuneOptions options = WithStrategy(Program(kMirror));
  const TuneReport report = Run(options, *outside).value();
  EXPECT_EQ(report.trials, 48);
  options.make_search = [](const TaskSpace& space, const CostModel*, uint64_t seed) {
    return std::make_unique<Mirror>(space, seed);
  };
  const double inside_seconds = Run(options, *inside).value().search_seconds;
  EXPECT_EQ(TracesIn(*outside), TracesIn(*inside));
  EXPECT_GE(plugin_->asked(), 4);
  std::printf("the search took %.2f ms more for each of %d requests than in this process\n",
              1e3 * (report.search_seconds - inside_seconds) / plugin_->asked(), plugin_->asked());
  // Another seed makes other decisions, so the equality above says something.
  auto other = NewMemoryStore();
  options.seed = 4;
  Run(options, *other).value();
  EXPECT_NE(TracesIn(*other), TracesIn(*inside));
}

TEST_F(PluginTest, AResumedRunGoesOnAsIfItHadNeverStopped) {
  auto whole = NewMemoryStore(), parts = NewMemoryStore();
  const std::string command = Program(kMirror);
  Run(WithStrategy(command), *whole).value();
  Simulated device;
  int rounds = 0;
  std::atomic<bool> stop = false;
  const auto count = [&](const TuneReport&, const TaskReport&) { stop = ++rounds == 2; };
  EXPECT_TRUE(Tune(tasks_, TestTarget(), WithStrategy(command), *parts, device, count, &stop).value().interrupted);
  EXPECT_LT(TracesIn(*parts).size(), TracesIn(*whole).size());
  EXPECT_GT(Run(WithStrategy(command), *parts).value().resumed_trials, 0);  // by a new process
  EXPECT_EQ(TracesIn(*parts), TracesIn(*whole));
}

TEST_F(PluginTest, ACostModelOutOfProcessGivesTheSameRunAsInside) {
  const std::string command = Program(std::string(kGreeting) + R"(
samples = 0
while True:
    m = read()
    if m["method"] == "samples": samples += len(m["samples"]); continue
    assert samples > 0 and len(m["candidates"][0]["features"]) > 100
    say(id=m["id"], scores=[-c["draft_seconds"] for c in m["candidates"]])
)");
  TuneOptions options{.trials = 48, .seed = 3, .run = "r", .lock_host = false};
  auto outside = NewMemoryStore(), inside = NewMemoryStore(), ours = NewMemoryStore();
  options.make_model = [](uint64_t) { return std::make_unique<DraftModel>(); };
  Run(options, *inside).value();
  plugin_ = Plugin::Start(Options(command, "cost model")).value();
  options.make_model = [this](uint64_t seed) { return MakePluginModel(plugin_, seed); };
  Run(options, *outside).value();
  EXPECT_EQ(TracesIn(*outside), TracesIn(*inside));
  options.make_model = nullptr;
  Run(options, *ours).value();
  EXPECT_NE(TracesIn(*ours), TracesIn(*inside));
}

TEST_F(PluginTest, ScoresThatMakeNoSenseEndTheRun) {
  for (const auto& [answer, words] : std::vector<std::pair<std::string, std::string>>{
           {"scores=[1.0]", "1 scores for "},
           {"scores=[1e300] * len(m['candidates'])", "a score is no number of 32 bits"},
           {"scores=['fast'] * len(m['candidates'])", "expected a number"}}) {
    const std::string program = std::string(kGreeting) + "m = request('score')\nsay(id=m['id'], " + answer + ")\n";
    plugin_ = Plugin::Start(Options(Program(program), "cost model")).value();
    TuneOptions options{.trials = 48, .seed = 3, .lock_host = false};
    options.make_model = [this](uint64_t seed) { return MakePluginModel(plugin_, seed); };
    auto store = NewMemoryStore();
    const Result<TuneReport> report = Run(options, *store);
    ASSERT_FALSE(report.ok()) << answer;
    EXPECT_THAT(report.error().message, HasSubstr("answered nonsense: ")) << answer;
    EXPECT_THAT(report.error().message, HasSubstr(words)) << answer;
  }
}

TEST_F(PluginTest, ALateCostModelIsReplacedByOurs) {
  PluginOptions options = Options(Program(std::string(kGreeting) + "time.sleep(1000)\n"), "cost model");
  options.deadline = 1;
  plugin_ = Plugin::Start(options).value();
  TuneOptions tune{.trials = 32, .seed = 3, .lock_host = false};
  tune.make_model = [this](uint64_t seed) { return MakePluginModel(plugin_, seed); };
  auto store = NewMemoryStore();
  const double begin = SteadySeconds();
  EXPECT_EQ(Run(tune, *store).value().trials, 32);
  EXPECT_GT(plugin_->late(), 1);
  EXPECT_LT(SteadySeconds() - begin, 60) << "only the first request may wait for its deadline";
  EXPECT_THAT(notes_, testing::Contains(HasSubstr("did not answer within 1 s")));
}

TEST_F(PluginTest, APluginThatDiesEndsTheRunWithOneLine) {
  EXPECT_THAT(ErrorOf("request()\nsys.exit(3)\n"), HasSubstr("ended: it exited with code 3"));
  EXPECT_THAT(ErrorOf("request()\nos.kill(os.getpid(), 9)\n"), HasSubstr("ended: it was ended by signal 9"));
  EXPECT_THAT(ErrorOf("request()\nprint('sad', file=sys.stderr)\nraise ValueError('bad')\n"),
              HasSubstr("exited with code 1"));
  EXPECT_THAT(notes_, testing::Contains("strategy: sad"));
  EXPECT_THAT(notes_, testing::Contains("strategy: ValueError: bad"));
  EXPECT_THAT(ErrorOf("say(id=request()['id'], error='no more ideas')\n"), HasSubstr("gave up: no more ideas"));
}

TEST_F(PluginTest, APluginThatClosesItsStreamsEndsTheRun) {
  EXPECT_THAT(ErrorOf("request()\nos.close(1)\ntime.sleep(100)\n"), HasSubstr("closed its standard output"));
  EXPECT_THAT(ErrorOf("m = request()\nos.close(0)\nsay(id=m['id'], candidates=[])\ntime.sleep(100)\n"),
              HasSubstr("closed its standard input"));
}

TEST_F(PluginTest, NonsenseEndsTheRunAndIsQuoted) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"print('hello', flush=True)", "a line that is no JSON object: hello"},
      {"print('[1]', flush=True)", "a line that is no JSON object: [1]"},
      {"print('[' * 100000, flush=True)", "a line that is no JSON object: [["},
      {"say(candidates=[])", "a line without the id of a request"},
      {"say(id=m['id'] + 1, candidates=[])", "a line without the id of a request"},
      {"say(id='1', candidates=[])", "a line without the id of a request"},
      {"say(id=m['id'])", "there is no list \"candidates\""},
      {"say(id=m['id'], candidates=[7])", "nonsense: candidates[0]: expected an object"},
      {"say(id=m['id'], candidates=[{'decisions': []}])", "candidates[0].sketch is -1"},
      {"say(id=m['id'], candidates=[{'sketch': 99, 'decisions': []}])", "candidates[0].sketch is 99; the task has "},
      {"say(id=m['id'], candidates=[{'sketch': 0, 'decisions': []}])", "candidates[0] has 0 decisions; sketch 0 has "},
      {"say(id=m['id'], candidates=[{'sketch': 0, 'decisions': [[1]] * 99}])", "candidates[0] has 99 decisions"},
      {"say(id=m['id'], candidates=[{'sketch': 0, 'decisions': [[2**40]] * knobs}])", "which its knob does not allow"},
      {"say(id=m['id'], candidates=[{'sketch': 0, 'decisions': [[]] * knobs}])", "which its knob does not allow"},
      {"say(id=m['id'], candidates=[{'sketch': 0, 'decisions': [[0.5]] * knobs}])", "expected an integer"},
      {"say(id=m['id'], candidates=[{'sketch': 0, 'decisions': []}] * 99)", "99 candidates, where "},
      {"sys.stdout.buffer.write(b'\\xff\\xfe{}\\n'); sys.stdout.flush()", "a line that is no UTF-8"},
      {"sys.stdout.write('x' * (17 << 20)); sys.stdout.flush()", "a line of more than 16777216 bytes"}};
  for (const auto& [answer, words] : cases) {
    const std::string error = ErrorOf(
        "m = read()\nwhile m['method'] != 'propose':\n    if m['method'] == 'task': knobs = "
        "len(m['sketches'][0]['knobs'])\n    m = read()\n" +
        answer + "\ntime.sleep(100)\n");
    EXPECT_THAT(error, HasSubstr(words)) << answer;
    EXPECT_LT(error.size(), 500U) << answer;
    EXPECT_EQ(error.find('\n'), std::string::npos) << answer;
  }
}

TEST_F(PluginTest, AGreetingThatMakesNoSenseIsRefused) {
  const auto error_of = [&](const std::string& command) {
    PluginOptions options = Options(command);
    options.deadline = 2;
    const auto plugin = Plugin::Start(options);
    return plugin.ok() ? "" : plugin.error().Text();
  };
  EXPECT_EQ(error_of(Program(kGreeting)), "");
  EXPECT_THAT(error_of("exit 4"), HasSubstr("the strategy 'exit 4' ended: it exited with code 4"));
  EXPECT_THAT(error_of("no-such-program"), HasSubstr("exited with code 127"));
  EXPECT_THAT(error_of("sleep 100"), HasSubstr("did not answer the greeting within 2 s"));
  EXPECT_THAT(error_of("echo '{\"id\": 1, \"name\": 3}'; sleep 9"),
              HasSubstr("nonsense: its greeting: name: expected a string"));
}

TEST_F(PluginTest, OursGoesOnWhileAStrategyIsLateAndItsLateAnswerIsDropped) {
  auto store = NewMemoryStore();
  const std::string late = std::string(kGreeting) + R"(
m = request()
time.sleep(3)
say(id=m["id"], candidates=[{"sketch": 10**6}])
while True: say(id=request()["id"], candidates=[])
)";
  Result<TuneReport> report = Run(WithStrategy(Program(late), 1), *store);
  ASSERT_TRUE(report.ok()) << report.error().Text();
  EXPECT_GE(plugin_->late(), 1);
  EXPECT_THAT(notes_, testing::Contains(HasSubstr("did not answer within 1 s; autotune's own strategy goes on")));
  EXPECT_THAT(plugin_->LateText(), HasSubstr("was too late for "));
  EXPECT_GT(TracesIn(*store).size(), 2U);
  // A strategy that is in time is not called late.
  auto other = NewMemoryStore();
  Run(WithStrategy(Program(kMirror)), *other).value();
  EXPECT_EQ(plugin_->LateText(), "");
}

TEST_F(PluginTest, ATaskIsOverWhenTheStrategyHasNothingMore) {
  auto store = NewMemoryStore();
  const TuneReport report =
      Run(WithStrategy(Program(std::string(kGreeting) + "while True: say(id=request()['id'], candidates=[])\n")),
          *store)
          .value();
  EXPECT_LT(report.trials, 16);
  for (const TaskReport& task : report.tasks) EXPECT_TRUE(task.exhausted);
}

TEST_F(PluginTest, FeaturesAreSentIfAskedFor) {
  const std::string body = R"(
seen = 0
while True:
    m = read()
    if m["method"] == "history": seen += sum("features" in r for r in m["results"])
    if m["method"] == "propose": say(id=m["id"], error="saw %d" % (seen > 0))
)";
  std::string with = std::string(kGreeting);
  with.replace(with.find("version=\"1\""), 11, "version=\"1\", features=True");
  auto store = NewMemoryStore();
  EXPECT_THAT(Run(WithStrategy(Program(with + body)), *store).error().message, HasSubstr("gave up: saw 1"));
  auto other = NewMemoryStore();
  EXPECT_THAT(Run(WithStrategy(Program(kGreeting + body)), *other).error().message, HasSubstr("gave up: saw 0"));
}

TEST_F(PluginTest, AStopEndsTheWait) {
  auto store = NewMemoryStore();
  const TuneOptions options = WithStrategy(Program(std::string(kGreeting) + "time.sleep(1000)\n"), 500);
  std::jthread stopper([&] {
    usleep(300000);
    stop_ = true;
  });
  const double begin = SteadySeconds();
  EXPECT_TRUE(Run(options, *store, &stop_).value().interrupted);
  EXPECT_LT(SteadySeconds() - begin, 60);
}

// The least of many, since other processes only add time.
TEST_F(PluginTest, ARequestCostsLessThanAMillisecond) {
  const auto plugin =
      Plugin::Start(Options(Program(std::string(kGreeting) + "while True: say(id=read()['id'], candidates=[])\n")))
          .value();
  double least = 1;
  for (int i = 0; i < 100; ++i) {
    const double begin = SteadySeconds();
    ASSERT_TRUE(plugin->Ask("{\"method\":\"propose\",\"count\":8}").value().has_value());
    least = std::min(least, SteadySeconds() - begin);
  }
  RecordProperty("microseconds", static_cast<int>(1e6 * least));
  std::printf("a request takes %.0f us\n", 1e6 * least);
  EXPECT_LT(least, 1e-3);
}

TEST_F(PluginTest, TheIdentityHasCommandAndVersion) {
  const std::string command = Program(kGreeting);
  const auto a = Plugin::Start(Options(command)).value();
  std::string other = kGreeting;
  other.replace(other.find("version=\"1\""), 11, "version=\"2\"");
  std::ofstream(command.substr(command.rfind(' ') + 1)) << other;
  const auto b = Plugin::Start(Options(command)).value();
  EXPECT_NE(a->Identity(), b->Identity());
  EXPECT_NE(a->Identity(), Plugin::Start(Options(command, "cost model")).value()->Identity());
  EXPECT_THAT(a->Identity(), HasSubstr(command));
}

}  // namespace
}  // namespace autotune
