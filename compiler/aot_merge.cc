#include "compiler/aot_merge.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace autotune {
namespace {

// Splits a source into its declarations: at blank lines, behind the ends of functions (lines "}") and behind types of
// one line. A paragraph of preprocessor lines stays whole.
std::vector<std::string> DeclarationsOf(const std::string& source) {
  std::vector<std::string> list;
  std::string current;
  const auto end = [&] {
    if (!current.empty()) list.push_back(std::move(current));
    current.clear();
  };
  for (size_t at = 0; at < source.size();) {
    const size_t newline = std::min(source.find('\n', at), source.size());
    const std::string line = source.substr(at, newline - at);
    at = newline + 1;
    if (line.empty()) {
      end();
      continue;
    }
    current += line + "\n";
    if (line == "}" || (line.starts_with("typedef ") && line.ends_with(";"))) end();
  }
  end();
  return list;
}

// Makes an entry point "int32_t C_NAME(...) __asm__("SYMBOL");" with its definition static, and notes its names.
void MakeStatic(std::string& declaration, std::map<std::string, std::string>& functions) {
  constexpr std::string_view kResult = "\nint32_t ", kLabel = ") __asm__(\"";
  const size_t label = declaration.find(kLabel);
  const size_t begin = declaration.rfind(kResult, label);
  if (label == std::string::npos || begin == std::string::npos) return;
  const size_t name = begin + kResult.size(), symbol = label + kLabel.size();
  const size_t after = declaration.find('\n', symbol);
  functions[declaration.substr(symbol, declaration.find('"', symbol) - symbol)] =
      declaration.substr(name, declaration.find('(', name) - name);
  declaration.replace(begin + 1, after - begin, "static ");  // the definition follows
}

// Returns true for declarations that only the entry point that checks its arguments needs, and for the metadata.
bool IsForLoaders(const std::string& declaration) {
  for (std::string_view mark :
       {"const AtTensor* const* args", "at_check(", "typedef struct {\n  void* data;",
        "typedef struct {\n  const char* message;", "static const AtArgument ", "autotune_metadata"}) {
    if (declaration.find(mark) != std::string::npos) return true;
  }
  return false;
}

// Returns the declaration without the comment before it, which may belong to several declarations.
std::string WithoutComment(const std::string& declaration) {
  const size_t end = declaration.find("*/\n");
  return declaration.starts_with("/*") && end != std::string::npos ? declaration.substr(end + 3) : declaration;
}

}  // namespace

MergedSources MergeSources(const std::vector<std::string>& sources) {
  MergedSources merged;
  std::set<std::string> known;
  for (const std::string& source : sources) {
    for (std::string& declaration : DeclarationsOf(source)) {
      if (declaration.find("#pragma clang attribute pop") != std::string::npos) {
        merged.end = "\n" + declaration;
        continue;
      }
      if (IsForLoaders(declaration)) continue;
      if (declaration.starts_with("/* Kernel ")) declaration = WithoutComment(declaration);
      MakeStatic(declaration, merged.functions);
      if (known.insert(WithoutComment(declaration)).second) merged.text += "\n" + declaration;
    }
  }
  return merged;
}

}  // namespace autotune
