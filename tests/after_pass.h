// For tests of pipelines: shows a function the program that each pass has made.
#pragma once
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "ir/pass_context.h"

namespace autotune::test {

// Calls `see` after each pass with the pass's name and the program, for pipelines whose programs are of type View.
template <class View>
class AfterPass final : public PassInstrument {
 public:
  using See = std::function<void(std::string_view pass, const View&)>;
  explicit AfterPass(See see) : see_(std::move(see)) {}
  Status After(std::string_view pass, const ProgramView& program) override {
    see_(pass, dynamic_cast<const View&>(program));
    return {};
  }

 private:
  See see_;
};

// Returns a context of default passes that calls `see` after each lowering pass with the program that it has made.
inline PassContext SeeAfter(std::function<void(std::string_view pass, const PrimFunc&)> see) {
  PassContext context;
  context.Add(std::make_shared<AfterPass<PrimFuncView>>(
      [see = std::move(see)](std::string_view pass, const PrimFuncView& view) { see(pass, view.func); }));
  return context;
}

}  // namespace autotune::test
