#include "service/named_options.h"

#include <charconv>
#include <functional>
#include <map>

namespace autotune {
namespace {

using Setter = std::function<Status(NamedOptions&, const std::string& name, const std::string& value)>;

// `member` returns the text, the list, the flag or the number of the options that the value is for.
template <class Member>
Setter Text(Member member) {
  return [member](NamedOptions& options, const std::string&, const std::string& value) -> Status {
    member(options) = value;
    return {};
  };
}

template <class Member>
Setter List(Member member) {
  return [member](NamedOptions& options, const std::string&, const std::string& value) -> Status {
    member(options).push_back(value);
    return {};
  };
}

template <class Member>
Setter Flag(Member member) {
  return [member](NamedOptions& options, const std::string& name, const std::string& value) -> Status {
    if (value != "0" && value != "1") return Err(name, " is '", value, "'; say 1 or 0");
    member(options) = value == "1";
    return {};
  };
}

template <class Number, class Member>
Setter WholeNumber(Number least, Member member) {
  return [least, member](NamedOptions& options, const std::string& name, const std::string& value) -> Status {
    Number number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < least)
      return Err(name, " is '", value, "'; say a whole number of ", least, " or more");
    member(options) = number;
    return {};
  };
}

template <class Member>
Setter PositiveNumber(Member member) {
  return [member](NamedOptions& options, const std::string& name, const std::string& value) -> Status {
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || !(number > 0))
      return Err(name, " is '", value, "'; say a number above 0, such as 0.01");
    member(options) = number;
    return {};
  };
}

// Access to a member of the model, or of the tuning run.
template <class T>
auto OfModel(T ModelRequest::*member) {
  return [member](NamedOptions& options) -> T& { return options.tune.model.*member; };
}
template <class T>
auto OfTune(T TuneRequest::*member) {
  return [member](NamedOptions& options) -> T& { return options.tune.*member; };
}

const std::map<std::string, Setter>& Setters() {
  static const std::map<std::string, Setter> setters = {
      {"model", Text(OfModel(&ModelRequest::model))},
      {"op", Text(OfModel(&ModelRequest::op))},
      {"shape", List(OfModel(&ModelRequest::shapes))},
      {"dim", List(OfModel(&ModelRequest::dims))},
      {"bind", List(OfModel(&ModelRequest::bind))},
      {"target", Text(OfModel(&ModelRequest::target))},
      {"device", Text(OfModel(&ModelRequest::device))},
      {"db", Text(OfModel(&ModelRequest::db))},
      {"no-winograd", Flag(OfModel(&ModelRequest::no_winograd))},
      {"precision", Text(OfModel(&ModelRequest::precision))},
      {"max-error",
       PositiveNumber([](NamedOptions& options) -> double& { return options.tune.model.bound.max_error; })},
      {"min-agreement",
       PositiveNumber([](NamedOptions& options) -> double& { return options.tune.model.bound.min_agreement; })},
      {"calibrate", Text(OfModel(&ModelRequest::calibrate))},
      {"allow-tf32", Flag(OfModel(&ModelRequest::allow_tf32))},
      {"lenient", Flag(OfModel(&ModelRequest::lenient))},
      {"programs", Text(OfModel(&ModelRequest::programs))},
      {"trials", WholeNumber<int>(1, OfTune(&TuneRequest::trials))},
      {"trials-per-task", WholeNumber<int>(1, OfTune(&TuneRequest::trials_per_task))},
      {"time-budget", Text(OfTune(&TuneRequest::time_budget))},
      {"tasks", Text(OfTune(&TuneRequest::tasks))},
      {"tracker", Text([](NamedOptions& options) -> std::string& { return options.tune.tracker.tracker; })},
      {"join", Text([](NamedOptions& options) -> std::string& { return options.tune.tracker.join; })},
      {"key", Text(OfTune(&TuneRequest::key))},
      {"seed", WholeNumber<uint64_t>(0, OfTune(&TuneRequest::seed))},
      {"seeds", WholeNumber<int>(1, OfTune(&TuneRequest::seeds))},
      {"search", Text(OfTune(&TuneRequest::search))},
      {"strategy", Text(OfTune(&TuneRequest::strategy))},
      {"cost-model", Text(OfTune(&TuneRequest::cost_model))},
      {"plugin-deadline", Text(OfTune(&TuneRequest::plugin_deadline))},
      {"fresh", Flag(OfTune(&TuneRequest::fresh))},
      {"output", Text(OfTune(&TuneRequest::output))},
      {"schedules", Text([](NamedOptions& options) -> std::string& { return options.schedules; })},
  };
  return setters;
}

}  // namespace

Status SetOption(NamedOptions& options, const std::string& name, const std::string& value) {
  const auto setter = Setters().find(name);
  if (setter != Setters().end()) return setter->second(options, name, value);
  std::string names;
  for (const auto& [known, set] : Setters()) names += (names.empty() ? "" : ", ") + known;
  return Err("there is no option '", name, "'; there are ", names);
}

}  // namespace autotune
