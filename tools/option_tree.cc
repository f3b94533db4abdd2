#include "tools/option_tree.h"

#include <iostream>
#include <set>
#include <string>

namespace autotune::tools {
namespace {

Json NamesOf(const std::set<CLI::Option*>& options) {
  std::set<std::string> names;  // in an order that does not depend on addresses
  for (const CLI::Option* option : options) names.insert(option->get_name());
  Json::Array sorted;
  for (const std::string& name : names) sorted.emplace_back(name);
  return sorted;
}

Json DescribeOption(const CLI::Option& option) {
  const bool positional = option.get_positional() && !option.nonpositional();
  Json::Array names;
  if (positional) names.emplace_back(option.get_name(true));
  for (const std::string& name : option.get_snames()) names.emplace_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.emplace_back("--" + name);
  Json json;
  json["names"] = std::move(names);
  json["help"] = option.get_description();
  const bool flag = option.get_type_size() == 0;
  const std::string& text = option.get_option_text();
  json["type"] = flag ? "" : text.empty() ? option.get_type_name() : text;
  json["default"] = flag ? "" : option.get_default_str();
  json["required"] = option.get_required();
  json["positional"] = positional;
  json["many"] = option.get_expected_max() == CLI::detail::expected_max_vector_size;
  json["needs"] = NamesOf(option.get_needs());
  json["excludes"] = NamesOf(option.get_excludes());
  return json;
}

}  // namespace

Json OptionTree(const CLI::App& app) {
  Json::Array options, commands;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) options.push_back(DescribeOption(*option));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) commands.push_back(OptionTree(*command));
  }
  Json json;
  json["name"] = app.get_name();
  json["help"] = app.get_description();
  json["footer"] = app.get_footer();
  json["options"] = std::move(options);
  json["commands"] = std::move(commands);
  return json;
}

void AddHelpJson(CLI::App& app) {
  app.add_flag_callback("--help-json",
                        [&app] {
                          std::cout << OptionTree(app).Dump(1) << "\n";
                          throw CLI::Success();
                        })
      ->group("");
}

}  // namespace autotune::tools
