#include "service/plugins.h"

#include <utility>

#include "service/time_budget.h"
#include "support/hint.h"
#include "support/shell.h"
#include "support/subprocess.h"
#include "tuner/plugin_model.h"
#include "tuner/plugin_search.h"

namespace autotune {

Result<Plugins> Plugins::Start(const TuneRequest& request, uint64_t seed, const std::atomic<bool>* stop,
                               const EventSink& emit) {
  Plugins plugins;
  if (request.strategy.empty() && request.cost_model.empty()) return plugins;
  PluginOptions options{.seed = seed, .stop = stop};
  options.deadline = TRY(ParseSeconds("--plugin-deadline", request.plugin_deadline));
  options.on_note = [emit](const std::string& text) { emit(event::Note{text}); };
  const std::string& folder = request.model.programs;
  const std::string own = folder.empty() ? TRY(FindOwnExecutable("autotune")) : folder + "/autotune";
  options.guard = {own, "--guard"};
  const auto start = [&](const char* role, const std::string& command) -> Result<std::shared_ptr<Plugin>> {
    if (command.empty()) return std::shared_ptr<Plugin>();
    options.role = role;
    options.command = command;
    return Plugin::Start(options);
  };
  plugins.strategy_ = TRY(start("strategy", request.strategy));
  plugins.cost_model_ = TRY(start("cost model", request.cost_model));
  return plugins;
}

void Plugins::Use(TuneOptions& options) const {
  if (strategy_) {
    options.search = SearchKind::kRandom;  // which trains no cost model
    options.make_search = MakePluginSearch(strategy_);
  }
  if (cost_model_) options.make_model = [plugin = cost_model_](uint64_t seed) { return MakePluginModel(plugin, seed); };
}

std::vector<std::string> Plugins::Identities() const {
  std::vector<std::string> identities;
  for (const auto& plugin : {strategy_, cost_model_}) {
    if (plugin) identities.push_back(plugin->Identity());
  }
  return identities;
}

void Plugins::EmitLate(const EventSink& emit) const {
  for (const auto& plugin : {strategy_, cost_model_}) {
    if (plugin && plugin->late() > 0) emit(event::Note{plugin->LateText()});
  }
}

Error Plugins::Explain(Error error, bool in_memory) const {
  if (!strategy_ && !cost_model_) return error;
  return WithHint(std::move(error), in_memory ? "the database is in memory; with --db FILE the trials so far are kept"
                                              : "the trials so far are stored; the same command goes on there");
}

std::string PluginLine(const TuneRequest& request) {
  std::string line;
  if (!request.strategy.empty()) line += " --strategy " + ShellWord(request.strategy);
  if (!request.cost_model.empty()) line += " --cost-model " + ShellWord(request.cost_model);
  if (!line.empty() && request.plugin_deadline != TuneRequest::kPluginDeadline)
    line += " --plugin-deadline " + request.plugin_deadline;
  return line;
}

}  // namespace autotune
