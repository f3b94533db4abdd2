#include "records/choice.h"

#include <gtest/gtest.h>

#include "records/memory_store.h"

namespace autotune {
namespace {

NetworkChoice Sample() {
  return {.network = std::string(32, 'a'),
          .target = "llvm -num-cores=2",
          .schedules = {{.task = std::string(32, '1'), .alternative = "direct", .trace = "split(...)", .seconds = 0.1},
                        {.task = std::string(32, '2'), .alternative = "winograd"}},
          .comparisons = {{.threads = 2, .default_seconds = 2e-3, .chosen_seconds = 1e-3, .ratio = 0.5, .pairs = 30}},
          .versions = {.step_language = 3},
          .created_at = 1000};
}

TEST(NetworkChoice, IsFoundUnderItsNetworkAndTargetOnly) {
  auto store = NewMemoryStore();
  NetworkChoice sample = Sample();
  EXPECT_FALSE(FindChoice(*store, sample.network, sample.target).value().has_value());
  ASSERT_TRUE(StoreChoice(*store, sample).ok());
  std::optional<NetworkChoice> found = FindChoice(*store, sample.network, sample.target).value();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(ToJson(*found), ToJson(sample));
  EXPECT_EQ(found->Find(std::string(32, '1'))->seconds, 0.1);
  EXPECT_EQ(found->Find(std::string(32, '3')), nullptr);
  EXPECT_FALSE(FindChoice(*store, sample.network, "llvm -num-cores=4").value().has_value());
  EXPECT_FALSE(FindChoice(*store, std::string(32, 'b'), sample.target).value().has_value());
}

TEST(NetworkChoice, TheLastOneStoredReplacesTheOthers) {
  auto store = NewMemoryStore();
  NetworkChoice sample = Sample();
  ASSERT_TRUE(StoreChoice(*store, sample).ok());
  sample.schedules.pop_back();
  sample.created_at = 2000;
  ASSERT_TRUE(StoreChoice(*store, sample).ok());
  EXPECT_EQ(FindChoice(*store, sample.network, sample.target).value()->schedules.size(), 1u);
}

TEST(NetworkChoice, AllAreListedAndEachIsRemovedAlone) {
  auto store = NewMemoryStore();
  NetworkChoice first = Sample(), second = Sample();
  first.model = "a";
  second.model = "b";
  second.network = std::string(32, '0');
  for (const NetworkChoice* choice : {&second, &first}) ASSERT_TRUE(StoreChoice(*store, *choice).ok());
  ASSERT_TRUE(store->PutRun({"run", Json(Json::Object{{"round", 1}}), 5}).ok());
  std::vector<NetworkChoice> choices = ListChoices(*store).value();
  ASSERT_EQ(choices.size(), 2u) << "the state of a run is no choice";
  EXPECT_EQ(choices[0].model, "a");
  EXPECT_EQ(ToJson(choices[1]), ToJson(second));
  EXPECT_FALSE(RemoveChoice(*store, first.network, "another target").value());
  EXPECT_TRUE(RemoveChoice(*store, first.network, first.target).value());
  EXPECT_FALSE(RemoveChoice(*store, first.network, first.target).value());
  EXPECT_EQ(ListChoices(*store).value().size(), 1u);
  EXPECT_TRUE(FindChoice(*store, second.network, second.target).value().has_value());
  EXPECT_TRUE(store->GetRun("run").value().has_value());
}

TEST(NetworkChoice, OneThatCannotBeReadIsNone) {
  auto store = NewMemoryStore();
  NetworkChoice sample = Sample();
  ASSERT_TRUE(StoreChoice(*store, sample).ok());
  RunState state = store->Runs().value().at(0);
  state.state["schedules"] = "none";
  ASSERT_TRUE(store->PutRun(state).ok());
  EXPECT_FALSE(FindChoice(*store, sample.network, sample.target).value().has_value());
}

}  // namespace
}  // namespace autotune
