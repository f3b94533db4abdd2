// Answers to requests for the status: fresh, shared, and no burden for the loop.
#include "tracker/status_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "support/clock.h"
#include "tracker/status_of_key.h"

namespace autotune {
namespace {

// A farm of devices of the keys "even" and "odd". Its epoch counts changes.
rpc::StatusReply FarmOf(int devices, int64_t epoch) {
  rpc::StatusReply status{.epoch = epoch};
  for (int i = 0; i < devices; ++i)
    status.devices.push_back({.server = "s" + std::to_string(i), .key = i % 2 ? "odd" : "even", .state = "free"});
  return status;
}

class StatusDesk : public testing::Test {
 protected:
  void Ask(const std::string& peer, const std::string& key = "", const std::string& member = "") {
    answers_.Ask({.peer = peer, .identity = member, .request = "of " + peer, .key = key});
  }
  void RunUntil(const std::function<bool()>& done) {
    const auto look = loop_.Every(1, [&] {
      if (done()) loop_.Stop();
    });
    const auto most = loop_.After(20000, [&] { loop_.Stop(); });
    loop_.Run();
    ASSERT_TRUE(done());
  }
  rpc::StatusReply Got(const std::string& peer) {
    auto message = rpc::Decode(got_.at(peer));
    EXPECT_EQ(std::get<rpc::Message>(message).request, "of " + peer);
    return *std::get<rpc::Message>(message).As<rpc::StatusReply>();
  }

  Loop loop_;
  int devices_ = 10, looks_ = 0, sent_ = 0;
  int64_t epoch_ = 1;
  double look_ms_ = 0;  // processor time that a copy takes
  std::map<std::string, rpc::Frames> got_;
  std::function<void()> on_answer_;
  StatusAnswers answers_{loop_,
                         {.look =
                              [this] {
                                ++looks_;
                                const double until = CpuMilliseconds() + look_ms_;
                                while (CpuMilliseconds() < until) {
                                }
                                return FarmOf(devices_, epoch_);
                              },
                          .send =
                              [this](const StatusQuestion& question, const rpc::Frames& answer) {
                                ++sent_;
                                got_[question.peer] = answer;
                                if (on_answer_) on_answer_();
                              }}};
};

TEST_F(StatusDesk, AllWhoAskShareOneAnswerForEachKey) {
  for (const char* peer : {"a", "b", "c"}) Ask(peer);
  Ask("d", "odd");
  Ask("e", "nobody has it");
  RunUntil([&] { return sent_ == 5; });
  EXPECT_EQ(looks_, 1);
  EXPECT_EQ(Got("a").devices.size(), 10u);
  EXPECT_EQ(got_["a"].at(1).get(), got_["b"].at(1).get()) << "the bytes are copied";
  EXPECT_EQ(got_["a"].at(1).get(), got_["c"].at(1).get()) << "the bytes are copied";
  EXPECT_NE(*got_["a"].at(0), *got_["b"].at(0)) << "each answer names its request";
  EXPECT_EQ(Got("b").devices.size(), 10u);
  EXPECT_EQ(Got("d").devices.size(), 5u);
  EXPECT_EQ(Got("d").devices.at(0).key, "odd");
  EXPECT_TRUE(Got("e").devices.empty());
  EXPECT_EQ(answers_.Memory(), 0);
}

// A request that comes while answers are being made gets a later copy.
TEST_F(StatusDesk, NoAnswerIsOlderThanItsRequest) {
  devices_ = 2000;
  int asked = 0;
  on_answer_ = [&] {
    EXPECT_GE(Got(std::to_string(asked)).epoch, epoch_) << "answer " << asked;
    if (asked == 5) return;
    ++epoch_;
    Ask(std::to_string(++asked));
  };
  Ask("0");
  RunUntil([&] { return looks_ == 1; });
  EXPECT_GT(answers_.Memory(), int64_t{2000} * 1000) << "while answers are made";
  RunUntil([&] { return sent_ == 6; });
  EXPECT_EQ(looks_, 6);
}

TEST_F(StatusDesk, AskingInALoopTakesASmallShareOfTheLoop) {
  look_ms_ = 4;
  int asked = 0;
  on_answer_ = [&] { Ask(std::to_string(++asked)); };
  for (int i = 0; i < 20; ++i) Ask("asker " + std::to_string(i));
  const double begin = SteadySeconds();
  RunUntil([&] { return SteadySeconds() - begin > 1.5; });
  // A copy each 200 ms at most, for all of them.
  EXPECT_GE(looks_, 2);
  EXPECT_LE(looks_, 9);
  EXPECT_GE(sent_, 20 * (looks_ - 1));
  on_answer_ = {};
}

TEST_F(StatusDesk, ACheapStatusIsAnsweredAtOnce) {
  const double begin = SteadySeconds();
  int asked = 0;
  on_answer_ = [&] {
    if (++asked < 50) Ask(std::to_string(asked));
  };
  Ask("0");
  RunUntil([&] { return asked == 50; });
  EXPECT_LT(SteadySeconds() - begin, 5);
}

TEST_F(StatusDesk, AFloodIsCutOff) {
  for (size_t i = 0; i < StatusAnswers::kMostWaiting + 1000; ++i) Ask(std::to_string(i));
  RunUntil([&] { return sent_ > 0; });
  EXPECT_EQ(static_cast<size_t>(sent_), StatusAnswers::kMostWaiting);
  Ask("later");
  RunUntil([&] { return got_.contains("later"); });
}

TEST(StatusOfKey, CountsWhatHasNoRoom) {
  rpc::StatusReply all = FarmOf(8000, 3);
  all.absent_keys["gone"] = 5;
  const rpc::StatusReply cut = StatusOfKey(all, "");
  EXPECT_EQ(cut.epoch, 3);
  EXPECT_GT(cut.devices.size(), 3000u);
  EXPECT_LT(cut.devices.size(), 5000u);
  EXPECT_EQ(static_cast<int64_t>(cut.devices.size()) + cut.omitted, 8001);
  const rpc::StatusReply whole = StatusOfKey(FarmOf(100, 3), "");
  EXPECT_EQ(whole.devices.size(), 100u);
  EXPECT_EQ(whole.omitted, 0);
}

}  // namespace
}  // namespace autotune
