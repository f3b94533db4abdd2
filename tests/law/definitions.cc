#include "tests/law/definitions.h"

#include <regex>

#include "tests/law/bare.h"
#include "tests/law/tree.h"

namespace autotune::law {

std::vector<Definition> DefinitionsOf(const std::string& text) {
  static const std::regex directive(R"(\n\s*#([^\n\\]|\\\n|\\.)*)");
  static const std::regex scope(R"((?:\bnamespace\b\s*([\w:]*)\s*|\bextern\s*)$)");
  const std::string code = std::regex_replace(Bare(text), directive, "\n");
  std::vector<Definition> definitions;
  Definition next;
  for (size_t i = 0; i < code.size();) {
    std::smatch match;
    if (code[i] == '(') {  // a parameter list, whose default arguments may contain braces
      const size_t end = Behind(code, i);
      next.head += code.substr(i, end - i);
      i = end;
      continue;
    }
    if (code[i] == '{' && std::regex_search(next.head, match, scope)) {
      next.namespaces.push_back(match[1].matched ? match.str(1) : "extern");
      ++i;
    } else if (code[i] == '{') {
      definitions.push_back(next);
      i = Behind(code, i);
    } else if (code[i] == '}' || code[i] == ';') {
      if (code[i] == '}' && !next.namespaces.empty()) next.namespaces.pop_back();
      ++i;
    } else {
      next.head += code[i++];
      continue;
    }
    next.head.clear();
  }
  return definitions;
}

std::set<std::string> NamesOf(const std::string& text, const NameOf& name_of) {
  std::set<std::string> names;
  for (const Definition& definition : DefinitionsOf(text)) {
    if (std::string name = name_of(definition); !name.empty()) names.insert(std::move(name));
  }
  return names;
}

Places PlacesOf(const std::vector<Source>& sources, const NameOf& name_of) {
  std::set<std::string> components;
  for (const std::vector<std::string>& layer : Layers()) components.insert(layer.begin(), layer.end());
  Places places;
  for (const Source& source : sources) {
    if (!source.path.ends_with(".cc") && !source.path.ends_with(".h")) continue;
    if (!components.contains(source.path.substr(0, source.path.find('/')))) continue;
    for (const std::string& name : NamesOf(source.text, name_of)) places[name].push_back(source.path);
  }
  return places;
}

Places PlacesInProject(const NameOf& name_of) {
  std::vector<Source> sources;
  for (const std::string& path : ProjectFiles()) {
    if (path.ends_with(".cc") || path.ends_with(".h")) sources.push_back({path, ReadProjectFile(path)});
  }
  return PlacesOf(sources, name_of);
}

std::vector<std::string> Twins(const Places& places) {
  std::vector<std::string> twins;
  for (const auto& [name, paths] : places) {
    if (paths.size() < 2) continue;
    std::string line = name + ":";
    for (const std::string& path : paths) line += " " + path;
    twins.push_back(line);
  }
  return twins;
}

}  // namespace autotune::law
