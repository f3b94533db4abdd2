#include "tuner/plugin.h"

#include "costmodel/feature_names.h"
#include "support/clock.h"
#include "support/printf_text.h"
#include "support/utf8.h"

namespace autotune {
namespace {

constexpr size_t kShownBytes = 60;  // of a line that is no answer, in its error

// Returns the text of a JSON object with another member in front.
std::string WithId(int64_t id, const std::string& object) {
  return "{\"id\":" + std::to_string(id) + "," + object.substr(1);
}

Json FeatureNamesJson() {
  Json::Array names;
  for (const FeatureName& name : FeatureNames()) names.push_back(name.name);
  return names;
}

}  // namespace

Result<std::shared_ptr<Plugin>> Plugin::Start(PluginOptions options) {
  std::shared_ptr<Plugin> plugin(new Plugin(std::move(options)));
  LineProcess::Options process{
      .command = plugin->options_.command, .guard = plugin->options_.guard, .stop = plugin->options_.stop};
  if (plugin->options_.on_note) {
    process.on_error_line = [note = plugin->options_.on_note, role = plugin->options_.role](const std::string& line) {
      note(role + ": " + line);
    };
  }
  plugin->process_ = TRY_NOTE(LineProcess::Start(std::move(process)), "while starting " + plugin->Name());
  TRY(plugin->Greet());
  return plugin;
}

Status Plugin::Greet() {
  Json hello;
  hello["method"] = "hello";
  hello["protocol"] = kPluginProtocol;
  hello["role"] = options_.role;
  hello["seed"] = static_cast<int64_t>(options_.seed & ((uint64_t{1} << 53) - 1));
  hello["deadline_seconds"] = options_.deadline;
  hello["feature_names"] = FeatureNamesJson();
  process_->Send(WithId(++last_id_, hello.Dump()));
  const std::optional<Json> answer = TRY(Answer(last_id_, options_.deadline));
  if (!answer) return Err(Name(), " did not answer the greeting within ", options_.deadline, " s");
  Result<PluginGreeting> greeting = FromJson<PluginGreeting>(*answer);
  if (!greeting.ok()) return Nonsense("its greeting: " + greeting.error().message);
  greeting_ = std::move(*greeting);
  return {};
}

std::string Plugin::Name() const { return "the " + options_.role + " '" + OneLine(options_.command) + "'"; }

std::string Plugin::Identity() const {
  return options_.role + ' ' + options_.command + '\n' + greeting_.name + '\n' + greeting_.version;
}

Error Plugin::Nonsense(const std::string& what) const { return Err(Name(), " answered nonsense: ", OneLine(what)); }

Result<std::optional<Json>> Plugin::Ask(const std::string& object) {
  ++asked_;
  if (owes_answer_) owes_answer_ = !TRY(Answer(last_id_, 0));
  std::optional<Json> answer;
  if (!owes_answer_) {
    process_->Send(WithId(++last_id_, object));
    answer = TRY(Answer(last_id_, options_.deadline));
    owes_answer_ = !answer;
  }
  if (owes_answer_) CountLate();
  return answer;
}

void Plugin::CountLate() {
  if (++late_ == 1 && options_.on_note) {
    options_.on_note(Name() + " did not answer within " + Format("%g", options_.deadline) + " s; autotune's own " +
                     options_.role + " goes on meanwhile");
  }
}

Result<std::optional<Json>> Plugin::Answer(int64_t id, double seconds) {
  const double deadline = SteadySeconds() + seconds;
  while (true) {
    Result<std::optional<std::string>> line = process_->Receive(deadline);
    if (!line.ok() && line.error().kind == ErrorKind::kStopped) return line.error();
    if (!line.ok()) return Err(Name(), " ", line.error().message);
    if (!*line) return std::optional<Json>();
    Result<Json> parsed = Json::Parse(**line);
    const std::string shown = OneLine(CutText(**line, kShownBytes));
    if (!parsed.ok() || !parsed->As<Json::Object>()) return Nonsense("a line that is no JSON object: " + shown);
    const int64_t* answered = (*parsed)["id"].As<int64_t>();
    if (!answered || *answered < 1 || *answered > id) return Nonsense("a line without the id of a request: " + shown);
    if (*answered < id) continue;  // the late answer to an earlier request
    if (const std::string* error = (*parsed)["error"].As<std::string>())
      return Err(Name(), " gave up: ", OneLine(*error));
    return std::optional<Json>(std::move(*parsed));
  }
}

std::string Plugin::LateText() const {
  if (late_ == 0) return "";
  return Name() + " was too late for " + std::to_string(late_) + " of " + std::to_string(asked_) +
         " requests, which autotune's own " + options_.role + " answered";
}

}  // namespace autotune
