// TuneRun: its events and their order, a stop and the resumption, and what goes wrong. The runs are real.
#include "service/tune.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "service/compile.h"
#include "service/event_json.h"
#include "service/named_options.h"

namespace autotune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kPrograms = AUTOTUNE_BINARY_DIR "/tools";

class TuneRuns : public testing::Test {
 protected:
  TuneRuns() {
    char name[] = "/tmp/autotune-service-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~TuneRuns() override { std::filesystem::remove_all(folder_); }

  TuneRequest Request(int trials) const {
    TuneRequest request;
    request.model = {.op = "matmul:16,64,64", .db = folder_ + "/records.db", .programs = kPrograms};
    request.trials = trials;
    return request;
  }
  static std::unique_ptr<TuneRun> Start(TuneRequest request) {
    auto run = TuneRun::Start(std::move(request));
    EXPECT_TRUE(run.ok()) << run.error().Text();
    return std::move(*run);
  }
  // Takes all events; returns their names, each once in a row.
  static std::vector<std::string> Names(TuneRun& run) {
    std::vector<std::string> names;
    while (const auto event = run.NextEvent()) {
      const std::string name = *EventJson(*event)["event"].As<std::string>();
      if (name != "note" && name != "waiting" && (names.empty() || names.back() != name)) names.push_back(name);
    }
    EXPECT_TRUE(run.has_ended());
    return names;
  }
  static std::string ErrorOf(TuneRequest request) {
    auto run = TuneRun::Start(std::move(request));
    if (!run.ok()) return run.error().Text();
    const Result<TuneEnd> end = (*run)->Finish();
    return end.ok() ? "" : end.error().Text();
  }

  std::string folder_;
};

TEST_F(TuneRuns, EmitEventsInTheirOrder) {
  TuneRequest request = Request(4);
  request.output = folder_ + "/m.tar";
  const auto run = Start(request);
  EXPECT_EQ(run->stage(), TuneStage::kOpening);
  const std::vector<std::string> names = Names(*run);
  ASSERT_GE(names.size(), 4u);
  EXPECT_EQ(names.front(), "begin");
  EXPECT_EQ(names[1], "round");
  EXPECT_EQ(names[names.size() - 2], "end");
  EXPECT_EQ(names.back(), "saved");
  EXPECT_EQ(run->Finish().value(), TuneEnd::kDone);
  EXPECT_EQ(run->stage(), TuneStage::kWriting);
  EXPECT_TRUE(std::filesystem::exists(request.output));
  EXPECT_FALSE(run->NextEvent());  // and so on for ever
}

TEST_F(TuneRuns, AreStoppedAndResumed) {
  auto run = Start(Request(12));
  std::optional<event::Interrupted> interrupted;
  while (const auto event = run->NextEvent()) {
    if (std::holds_alternative<event::Round>(*event)) run->Cancel();
    if (const auto* end = std::get_if<event::Interrupted>(&*event)) interrupted = *end;
  }
  ASSERT_TRUE(interrupted);
  EXPECT_EQ(run->Finish().value(), TuneEnd::kInterrupted);
  EXPECT_GT(interrupted->trials, 0);
  EXPECT_LT(interrupted->trials, 12);
  EXPECT_THAT(interrupted->resume, HasSubstr("autotune --op matmul:16,64,64 --db " + folder_));

  run = Start(Request(12));
  std::optional<event::End> end;
  while (const auto event = run->NextEvent()) {
    if (const auto* last = std::get_if<event::End>(&*event)) end = *last;
  }
  ASSERT_TRUE(end);
  EXPECT_EQ(end->resumed_trials, interrupted->trials);
  EXPECT_EQ(end->trials, 12);
}

TEST_F(TuneRuns, AreStoppedBeforeTheSearch) {
  const auto run = Start(Request(12));
  run->Cancel();
  const std::vector<std::string> names = Names(*run);
  EXPECT_EQ(names.back(), "interrupted");
  EXPECT_EQ(run->Finish().value(), TuneEnd::kInterrupted);
  { const auto dropped = Start(Request(12)); }  // ends by itself
  EXPECT_EQ(Start(Request(2))->Finish().value(), TuneEnd::kDone);
}

TEST_F(TuneRuns, WaitForEventsOnlyAsLongAsAsked) {
  const auto run = Start(Request(2));
  while (!run->has_ended()) (void)run->NextEvent(0.0);
  EXPECT_FALSE(run->NextEvent(0.0));
  EXPECT_EQ(run->Finish().value(), TuneEnd::kDone);
}

TEST_F(TuneRuns, TwoAtOnceInOneProcess) {
  TuneRequest other = Request(2);
  other.model.op = "matmul:8,32,32";
  const auto first = Start(Request(2)), second = Start(other);
  EXPECT_EQ(first->Finish().value(), TuneEnd::kDone);
  EXPECT_EQ(second->Finish().value(), TuneEnd::kDone);
}

TEST_F(TuneRuns, SayWhatIsWrong) {
  EXPECT_EQ(ErrorOf(Request(1)), "");
  TuneRequest wrong = Request(1);
  wrong.model.op = "";
  wrong.model.model = folder_ + "/none.onnx";
  EXPECT_THAT(ErrorOf(wrong), HasSubstr("none.onnx"));
  wrong = Request(1);
  wrong.model.target = "llvm -mcpu=nonsense";
  EXPECT_THAT(ErrorOf(wrong), HasSubstr("nonsense"));
  wrong = Request(1);
  wrong.model.programs = folder_;
  EXPECT_THAT(ErrorOf(wrong), HasSubstr(folder_ + "/autotune"));
  wrong = Request(0);
  EXPECT_THAT(ErrorOf(wrong), HasSubstr("1 or more"));
  wrong = Request(1);
  wrong.output = folder_ + "/no/m.tar";
  EXPECT_THAT(ErrorOf(wrong), HasSubstr("there is no folder"));
  wrong = Request(1);
  wrong.search = "luck";
  EXPECT_THAT(ErrorOf(wrong), HasSubstr("no search 'luck'"));
  wrong = Request(1);
  wrong.time_budget = "soon";
  EXPECT_THAT(ErrorOf(wrong), HasSubstr("is no duration"));
  wrong = Request(1);
  wrong.tracker.tracker = "ipc:///none";
  EXPECT_THAT(ErrorOf(wrong), HasSubstr("needs --key"));
}

TEST(NamedOptions, SetWhatTheyName) {
  NamedOptions options;
  EXPECT_TRUE(SetOption(options, "shape", "x:1,2").ok());
  EXPECT_TRUE(SetOption(options, "shape", "y:3").ok());
  EXPECT_TRUE(SetOption(options, "trials", "7").ok());
  EXPECT_TRUE(SetOption(options, "no-winograd", "1").ok());
  EXPECT_THAT(options.tune.model.shapes, ElementsAre("x:1,2", "y:3"));
  EXPECT_EQ(options.tune.trials, 7);
  EXPECT_TRUE(options.tune.model.no_winograd);
  EXPECT_THAT(SetOption(options, "trails", "7").error().Text(), HasSubstr("there is no option 'trails'"));
  EXPECT_THAT(SetOption(options, "trials", "7x").error().Text(), HasSubstr("whole number"));
  EXPECT_THAT(SetOption(options, "fresh", "yes").error().Text(), HasSubstr("say 1 or 0"));
}

}  // namespace
}  // namespace autotune
