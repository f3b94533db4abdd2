// For tests of the compiler: a real network, compiled once for all tests of a suite.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/choose.h"
#include "package/load.h"
#include "records/memory_store.h"
#include "runtime/compare.h"
#include "tuner/tune.h"

namespace autotune {

// Returns the tensor of a file of the example.
Tensor ExampleTensor(const std::string& file);

class CompileTest : public ::testing::Test {
 protected:
  // The network, its builder and its default package; loaded once for all tests.
  struct Shared {
    Target target = Target::Parse("cpu").value();
    std::unique_ptr<Builder> builder;
    Network network;
    std::vector<TuneTask> tasks;  // of the network
    CompileResult plain;
  };

  static void SetUpTestSuite();
  static void TearDownTestSuite() { delete shared_; }

  const Network& network() { return shared_->network; }
  const std::vector<TuneTask>& tasks() { return shared_->tasks; }
  const Target& target() { return shared_->target; }
  const Package& plain() { return shared_->plain.package; }
  Result<CompileResult> CompileWith(RecordStore* store);

  static Comparison Check(const Package& package, int threads = 2);

  // Returns a record of the task's schedule of rank `rank` by draft score, as if it had been measured.
  Record RecordOf(const TuneTask& task, int rank);

  // Returns a record of the task's default schedule.
  Record DefaultRecordOf(size_t task);

  static Shared* shared_;
};

// A builder that rejects the kernels for which `refuses` is true. `spills` tells how often each of them spills.
class Refusing : public Builder {
 public:
  Refusing(
      Builder& inner, std::function<bool(const BuildRequest&)> refuses,
      std::function<int64_t(const BuildRequest&)> spills = [](const auto&) { return 0; })
      : inner_(inner), refuses_(std::move(refuses)), spills_(std::move(spills)) {}
  std::vector<BuildResult> Build(const std::vector<BuildRequest>& requests,
                                 const std::function<void(const BuildResult&)>& on_result) override {
    return inner_.Build(requests, on_result);
  }
  std::vector<CompiledKernel> Compile(const std::vector<BuildRequest>& requests, Patience patience) override {
    std::vector<CompiledKernel> kernels = inner_.Compile(requests, patience);
    for (size_t i = 0; i < requests.size(); ++i) {
      if (!refuses_(requests[i])) continue;
      kernels[i].status = TrialStatus::kRejected;
      kernels[i].text = "of no use here";
      kernels[i].object.facts.spills_in_register_loops = spills_(requests[i]);
    }
    return kernels;
  }
  Result<BuiltLibrary> Link(const std::vector<const KernelObject*>& objects, const std::string& target) override {
    return inner_.Link(objects, target);
  }
  Status LinkWithData(const std::vector<Json::Bytes>& objects, const std::string& data,
                      const std::string& output) override {
    return inner_.LinkWithData(objects, data, output);
  }

 private:
  Builder& inner_;
  std::function<bool(const BuildRequest&)> refuses_;
  std::function<int64_t(const BuildRequest&)> spills_;
};

}  // namespace autotune
