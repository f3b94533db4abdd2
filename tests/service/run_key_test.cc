// What makes another tuning run: each part of its identity, and each version of the program.
#include "service/run_key.h"

#include <gmock/gmock.h>

#include <functional>
#include <set>

#include "costmodel/features.h"
#include "ir/text.h"
#include "schedule/trace.h"
#include "tuner/search.h"

namespace autotune {
namespace {

using ::testing::UnorderedElementsAre;

TEST(RunKeyOf, EveryPartMakesAnotherRun) {
  const RunIdentity run{.network = "net",
                        .target = "llvm",
                        .device = "pi",
                        .seed = 1,
                        .trials = 2,
                        .search = "evolution",
                        .tasks = {"a", "b"}};
  std::set<std::string> keys = {RunKeyOf(run)};
  auto expect_another = [&](const std::string& what, const std::function<void(RunIdentity&)>& change) {
    RunIdentity other = run;
    change(other);
    EXPECT_TRUE(keys.insert(RunKeyOf(other)).second) << what;
  };
  expect_another("network", [](RunIdentity& r) { r.network = "net2"; });
  expect_another("target", [](RunIdentity& r) { r.target = "c"; });
  expect_another("device", [](RunIdentity& r) { r.device = "pi2"; });
  expect_another("this machine", [](RunIdentity& r) { r.device = ""; });
  expect_another("seed", [](RunIdentity& r) { r.seed = 3; });
  expect_another("trials", [](RunIdentity& r) { r.trials = 4; });
  expect_another("search", [](RunIdentity& r) { r.search = "random"; });
  expect_another("a plug-in", [](RunIdentity& r) { r.plugins = {"strategy python3 mine.py 1"}; });
  expect_another("another version of it", [](RunIdentity& r) { r.plugins = {"strategy python3 mine.py 2"}; });
  expect_another("fewer tasks", [](RunIdentity& r) { r.tasks = {"a"}; });
  expect_another("other tasks", [](RunIdentity& r) { r.tasks = {"a", "c"}; });
  expect_another("all tasks", [](RunIdentity& r) { r.tasks = {}; });
  expect_another("a task of the device's name", [](RunIdentity& r) {
    r.device = "";
    r.tasks = {"pi", "a", "b"};
  });
  for (size_t i = 0; i < run.versions.size(); ++i)
    expect_another(run.versions[i], [i](RunIdentity& r) { r.versions[i] += "0"; });
  EXPECT_EQ(RunKeyOf(RunIdentity(run)), RunKeyOf(run));
}

TEST(RunKeyOf, TheVersionsAreThoseOfThisProgram) {
  EXPECT_THAT(RunIdentity{}.versions, UnorderedElementsAre("ir " + std::to_string(kIrTextVersion),
                                                           "steps " + std::to_string(kStepLanguageVersion),
                                                           "features " + std::to_string(kFeatureVersion),
                                                           "code generator " + std::to_string(kCodeGeneratorVersion),
                                                           "search " + std::to_string(kSearchVersion)));
}

}  // namespace
}  // namespace autotune
