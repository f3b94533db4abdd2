#include "schedule/schedule.h"

#include "ir/watch.h"
#include "schedule/state.h"
#include "support/check.h"

namespace autotune {

using schedule::State;

Schedule::Schedule(PrimFunc func) : state_(std::make_unique<State>(std::move(func))) {}
Schedule::Schedule(std::unique_ptr<State> state, Trace trace) : state_(std::move(state)), trace_(std::move(trace)) {}
Schedule::Schedule(const Schedule& other) : state_(std::make_unique<State>(*other.state_)), trace_(other.trace_) {}
Schedule::Schedule(Schedule&&) noexcept = default;
Schedule& Schedule::operator=(Schedule other) noexcept {
  std::swap(state_, other.state_);
  std::swap(trace_, other.trace_);
  return *this;
}
Schedule::~Schedule() = default;

const PrimFunc& Schedule::func() const { return state_->func; }

Result<std::vector<Name>> Schedule::Apply(Step step, Rng* rng) {
  auto next = std::make_unique<State>(*state_);
  next->rng = rng;
  Status status = schedule::Apply(*next, step);
  if (!status.ok()) return std::move(status).error().Note("in the step " + ToText(step));
  next->rng = nullptr;
  ShowProgram(next->func, [&] { return "after the step " + ToText(step); });
  state_ = std::move(next);
  trace_.push_back(std::move(step));
  return std::visit(
      [](const auto& s) -> std::vector<Name> {
        if constexpr (requires { s.results; }) {
          return s.results.names;
        } else {
          return {};
        }
      },
      trace_.back());
}

Result<int64_t> Schedule::Value(const IntArg& arg) const { return state_->Value(arg); }

namespace schedule {
namespace {

// Checks that no step after a prefetch rewrites loops or buffers, since prefetches refer to them by name.
Status CheckMayFollow(const State& state, const Step& step) {
  bool harmless = DecisionOf(step) || std::holds_alternative<Prefetch>(step) ||
                  std::holds_alternative<Annotate>(step) || std::holds_alternative<Pipeline>(step) ||
                  std::holds_alternative<TensorCore>(step) || std::holds_alternative<Parallel>(step) ||
                  std::holds_alternative<Unroll>(step);
  if (state.prefetches && !harmless) return Err("this step cannot follow a prefetch: prefetches come last");
  return {};
}

}  // namespace

Status Apply(State& state, Step& step) {
  TRY(CheckMayFollow(state, step));
  TRY(std::visit([&](auto& s) { return ApplyStep(state, s); }, step));
  return state.has_threads ? CheckProgramOfThreads(state) : Status();
}

const std::vector<int64_t>* State::Sample(const Name& name) const {
  for (const auto& [key, values] : samples) {
    if (key == name) return &values;
  }
  return nullptr;
}

Result<int64_t> State::Value(const IntArg& arg) const {
  if (arg.sampled.empty()) return arg.value;
  const std::string& text = arg.sampled.str();
  size_t dot = text.rfind('.');
  if (dot == std::string::npos) {
    const std::vector<int64_t>* values = Sample(arg.sampled);
    if (!values) return Err("there is no sampled value '", text, "'");
    if (values->size() != 1) return Err("'", text, "' has ", values->size(), " elements; say which: ", text, ".0");
    return values->front();
  }
  const std::vector<int64_t>* values = Sample(Name(text.substr(0, dot)));
  if (!values) return Err("there is no sampled value '", text.substr(0, dot), "'");
  std::string digits = text.substr(dot + 1);
  bool is_number = !digits.empty() && digits.size() < 6 && digits.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number || std::stoul(digits) >= values->size()) {
    return Err("'", text, "': elements run from 0 to ", values->size() - 1);
  }
  return (*values)[std::stoul(digits)];
}

Status State::CheckNewSample(const Name& name) const {
  bool taken = Sample(name) != nullptr;
  for (const auto& [key, loop] : locations) taken |= key == name;
  if (taken) return Err("the sampled value '", name, "' exists already");
  if (name.str().find('.') != std::string::npos)
    return Err("the name of a sampled value must not contain a dot: '", name, "'");
  return {};
}

}  // namespace schedule
}  // namespace autotune
