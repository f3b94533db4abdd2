// A builder that forwards all calls to another one, which must outlive it. Tests derive from it and override methods.
// Its thread-safety is that of the other builder.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "codegen/builder.h"

namespace autotune::test {

class ForwardingBuilder : public Builder {
 public:
  explicit ForwardingBuilder(Builder& builder) : builder_(builder) {}
  std::vector<BuildResult> Build(const std::vector<BuildRequest>& requests,
                                 const std::function<void(const BuildResult&)>& on_result) override {
    return builder_.Build(requests, on_result);
  }
  std::vector<CompiledKernel> Compile(const std::vector<BuildRequest>& requests, Patience patience) override {
    return builder_.Compile(requests, patience);
  }
  Result<BuiltLibrary> Link(const std::vector<const KernelObject*>& objects, const std::string& target) override {
    return builder_.Link(objects, target);
  }
  Status LinkWithData(const std::vector<Json::Bytes>& objects, const std::string& data,
                      const std::string& output) override {
    return builder_.LinkWithData(objects, data, output);
  }

 private:
  Builder& builder_;
};

}  // namespace autotune::test
