#include "tuner/recording.h"

#include <gmock/gmock.h>

#include <functional>

#include "archives/compressed_file.h"
#include "tests/tuner/programs.h"
#include "tests/tuner/recorded.h"

namespace autotune {
namespace {

using test::Dense;
using test::MakeTask;
using test::TestTarget;
using testing::HasSubstr;

std::string Path() { return testing::TempDir() + "/recording_test_" + std::to_string(getpid()) + ".jsonl.zst"; }

Recording SampleRecording() {
  return test::RecordFormula({MakeTask("dense", Dense(16, 96, 64)), MakeTask("product", test::Product(32, 128, 64))},
                             TestTarget(), 20);
}

TEST(Recording, ComesBackFromItsFile) {
  Recording written = SampleRecording();
  written.tasks[0].candidates[0].confirmed = true;
  written.tasks[1].candidates[1] = {.alternative = "direct", .trace = "", .status = TrialStatus::kCutOff, .seconds = 2};
  ASSERT_TRUE(WriteRecording(written, Path()).ok());
  Result<Recording> read = ReadRecording(Path());
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(ToJson(read->header), ToJson(written.header));
  ASSERT_EQ(read->tasks.size(), 2u);
  for (size_t t = 0; t < 2; ++t) {
    EXPECT_EQ(ToJson(read->tasks[t]), ToJson(written.tasks[t]));
    ASSERT_EQ(read->tasks[t].candidates.size(), written.tasks[t].candidates.size());
    for (const RecordedCandidate& candidate : written.tasks[t].candidates) {
      auto same = [&](const RecordedCandidate& c) {
        return c.trace == candidate.trace && c.alternative == candidate.alternative && c.status == candidate.status &&
               c.seconds == candidate.seconds && c.confirmed == candidate.confirmed && c.features == candidate.features;
      };
      EXPECT_TRUE(std::any_of(read->tasks[t].candidates.begin(), read->tasks[t].candidates.end(), same));
    }
  }
}

TEST(Recording, ATaskIsTheProgramThatWasRecorded) {
  TuneTask task = MakeTask("dense", Dense(16, 96, 64));
  RecordedTask recorded = test::RecordTaskByFormula(task, TestTarget(), 5);
  TuneTask made = MakeTuneTask(recorded).value();
  EXPECT_EQ(ToText(made.alternatives[0].func), ToText(task.alternatives[0].func));
  EXPECT_EQ(made.label, task.label);
  recorded.alternatives[0].func = "no program";
  EXPECT_FALSE(MakeTuneTask(recorded).ok());
  recorded.alternatives.clear();
  EXPECT_FALSE(MakeTuneTask(recorded).ok());
}

TEST(Recording, TheBestTimeIsOneThatRan) {
  RecordedTask task;
  EXPECT_EQ(task.BestSeconds(), 0);
  task.candidates = {{.status = TrialStatus::kRejected},
                     {.status = TrialStatus::kCutOff, .seconds = 1},
                     {.status = TrialStatus::kOk, .seconds = 3},
                     {.status = TrialStatus::kOk, .seconds = 2}};
  EXPECT_EQ(task.BestSeconds(), 2);
}

// Writes a recording, changes the text of its file, and returns the error of reading it; empty if there is none.
std::string ErrorOf(const std::function<void(std::string& text)>& change) {
  EXPECT_TRUE(WriteRecording(SampleRecording(), Path()).ok());
  std::string text = ReadCompressedFile(Path()).value();
  change(text);
  EXPECT_TRUE(WriteCompressedFile(Path(), text).ok());
  Result<Recording> read = ReadRecording(Path());
  return read.ok() ? "" : read.error().Text();
}

void Replace(std::string& text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

TEST(Recording, WhatDoesNotFitIsRefusedWithItsPlace) {
  EXPECT_EQ(ErrorOf([](std::string&) {}), "");
  EXPECT_THAT(ErrorOf([](std::string& t) { Replace(t, "\"format\":1", "\"format\":99"); }),
              testing::AllOf(HasSubstr("line 1"), HasSubstr("format 99"), HasSubstr(Path())));
  EXPECT_THAT(ErrorOf([](std::string& t) { Replace(t, "\"step_language\":1", "\"step_language\":77"); }),
              HasSubstr("record it again"));
  EXPECT_THAT(ErrorOf([](std::string& t) { Replace(t, "\"task\":0", "\"task\":7"); }),
              testing::AllOf(HasSubstr("line 4"), HasSubstr("task 7")));
  EXPECT_THAT(ErrorOf([](std::string& t) { Replace(t, "\"features\":\"", "\"features\":\"x "); }),
              HasSubstr("features"));
  EXPECT_THAT(ErrorOf([](std::string& t) { t.resize(t.size() - 20); }), HasSubstr("line 43"));
  EXPECT_THAT(ErrorOf([](std::string& t) { t.clear(); }), HasSubstr("empty"));
}

}  // namespace
}  // namespace autotune
