#include "ir/pass_context.h"

#include <algorithm>
#include <optional>

#include "ir/instruments.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "support/check.h"
#include "support/edit_distance.h"
#include "support/hint.h"
#include "support/integer.h"
#include "support/join.h"

namespace autotune {
namespace {

bool Takes(const PassOption& option, std::string_view value) {
  if (auto* number = std::get_if<const IntOption*>(&option)) {
    std::optional<int64_t> parsed = ParseInteger(value);
    return parsed && *parsed >= (*number)->least && *parsed <= (*number)->most;
  }
  const auto& choices = std::get<const TextOption*>(option)->choices;
  return std::find(choices.begin(), choices.end(), value) != choices.end();
}

}  // namespace

std::string_view NameOf(const PassOption& option) {
  return std::visit([](const auto* o) { return o->name; }, option);
}

std::string DefaultText(const PassOption& option) {
  std::string text = std::string(NameOf(option)) + "=";
  if (auto* number = std::get_if<const IntOption*>(&option)) return text + std::to_string((*number)->fallback);
  return text + std::string(std::get<const TextOption*>(option)->fallback);
}

std::string ValuesText(const PassOption& option) {
  if (auto* number = std::get_if<const IntOption*>(&option))
    return std::to_string((*number)->least) + " to " + std::to_string((*number)->most);
  const auto& choices = std::get<const TextOption*>(option)->choices;
  return Joined(choices, " or ");
}

Status PassConfig::SetOption(std::string_view assignment, std::span<const PassTable> tables) {
  const size_t equals = assignment.find('=');
  if (equals == 0 || equals == std::string_view::npos) return Err("pass option '", assignment, "': write NAME=VALUE");
  const std::string name(assignment.substr(0, equals)), value(assignment.substr(equals + 1));
  std::vector<std::string> known, defaults;
  for (const PassTable& table : tables) {
    for (const PassOption& option : table.options) {
      if (NameOf(option) == name) {
        if (!Takes(option, value))
          return Err("pass option ", name, " takes ", ValuesText(option), ", not '", value, "'");
        options[name] = value;
        return {};
      }
      known.emplace_back(NameOf(option));
      defaults.push_back(DefaultText(option));
    }
  }
  return WithHint(WithSuggestion(Err("unknown pass option '", name, "'"), name, known),
                  "the options and their defaults are " + Joined(defaults, ", "));
}

Status PassConfig::Disable(std::string_view pass, std::span<const PassTable> tables) {
  std::vector<std::string> known, all;
  for (const PassTable& table : tables) {
    std::vector<std::string> names;
    for (const PassRow& row : table.passes) {
      if (row.name == pass) {
        if (!row.needed.empty()) return Err("pass ", pass, " cannot be disabled: ", row.needed);
        auto place = std::lower_bound(disabled.begin(), disabled.end(), pass);
        if (place == disabled.end() || *place != pass) disabled.emplace(place, pass);
        return {};
      }
      known.emplace_back(row.name);
      if (row.needed.empty()) names.emplace_back(row.name);
    }
    if (!names.empty()) all.push_back(std::string(table.pipeline) + ": " + Joined(names, ", "));
  }
  return WithHint(WithSuggestion(Err("unknown pass '", pass, "'"), pass, known),
                  "the passes that can be disabled are " + Joined(all, "; "));
}

std::string PassConfig::CodeKey() const {
  std::string key;
  for (const auto& [name, value] : options) key += name + '=' + value + ' ';
  for (const std::string& pass : disabled) key += '-' + pass + ' ';
  return key;
}

std::string PrimFuncView::Text() const { return ToText(func); }
Status PrimFuncView::Verify() const { return autotune::Verify(func); }

Status PassInstrument::Before(std::string_view, const ProgramView&) { return {}; }
Status PassInstrument::After(std::string_view, const ProgramView&) { return {}; }

PassContext::PassContext(PassConfig config) : config_(std::move(config)) {
  // The dump is nested inside the verification. So after a pass it runs first, and also writes a malformed program.
  if (config_.verify) instruments_.push_back(std::make_shared<VerifyPasses>());
  if (!config_.dump.empty()) instruments_.push_back(std::make_shared<DumpPasses>(config_.dump));
  if (config_.time) times_ = std::make_shared<TimePasses>();
}

PassContext PassContext::Within(const std::string& folder) const {
  PassConfig config = config_;
  if (!config.dump.empty()) config.dump += "/" + folder;
  PassContext part(std::move(config));
  part.times_ = times_;
  return part;
}

void PassContext::Add(std::shared_ptr<PassInstrument> instrument) { instruments_.push_back(std::move(instrument)); }

bool PassContext::IsDisabled(std::string_view pass) const {
  return std::find(config_.disabled.begin(), config_.disabled.end(), pass) != config_.disabled.end();
}

int64_t PassContext::Get(const IntOption& option) const {
  auto it = config_.options.find(std::string(option.name));
  if (it == config_.options.end()) return option.fallback;
  std::optional<int64_t> value = ParseInteger(it->second);
  CHECK(value) << it->first << "=" << it->second << " was not set by SetOption";
  return *value;
}

std::string_view PassContext::Get(const TextOption& option) const {
  auto it = config_.options.find(std::string(option.name));
  return it == config_.options.end() ? option.fallback : std::string_view(it->second);
}

Status PassContext::Before(std::string_view pass, const ProgramView& program) const {
  for (const auto& instrument : instruments_) TRY(instrument->Before(pass, program));
  if (times_) TRY(times_->Before(pass, program));
  return {};
}

Status PassContext::After(std::string_view pass, const ProgramView& program) const {
  if (times_) TRY(times_->After(pass, program));
  for (size_t i = instruments_.size(); i-- > 0;) TRY(instruments_[i]->After(pass, program));
  return {};
}

PassTimes PassContext::Times() const { return times_ ? times_->times() : PassTimes(); }

void PassContext::AddTimes(const PassTimes& times) const {
  if (times_) times_->Add(times);
}

}  // namespace autotune
