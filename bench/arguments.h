// The command line of a bench: options "--name VALUE" and words, in any order.
#pragma once
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/result.h"

namespace autotune::bench {

struct Arguments {
  std::map<std::string, std::string> options;  // name without dashes -> value
  std::vector<std::string> words;

  bool Has(const std::string& name) const { return options.contains(name); }
  std::string Text(const std::string& name, const std::string& otherwise) const {
    auto it = options.find(name);
    return it == options.end() ? otherwise : it->second;
  }
  double Number(const std::string& name, double otherwise) const {
    auto it = options.find(name);
    return it == options.end() ? otherwise : std::atof(it->second.c_str());
  }

  // Parses the command line. `numbers` is the subset of `names` whose values are numbers. Returns an error for an
  // option that is not one of `names`, for an option without a value, and for a value of `numbers` that is not a
  // number.
  static Result<Arguments> Parse(int argc, char** argv, const std::set<std::string>& names,
                                 const std::set<std::string>& numbers) {
    Arguments arguments;
    for (int i = 1; i < argc; ++i) {
      std::string word = argv[i];
      if (!word.starts_with("--")) {
        arguments.words.push_back(std::move(word));
        continue;
      }
      std::string name = word.substr(2);
      if (!names.contains(name)) return Err("unknown option ", word);
      if (i + 1 == argc) return Err(word, " needs a value");
      std::string value = argv[++i];
      char* end = nullptr;
      std::strtod(value.c_str(), &end);
      if (numbers.contains(name) && (value.empty() || *end)) return Err(word, " ", value, ": expected a number");
      arguments.options[name] = std::move(value);
    }
    return arguments;
  }
};

}  // namespace autotune::bench
