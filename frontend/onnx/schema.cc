#include "frontend/onnx/schema.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>

#include "support/edit_distance.h"
#include "support/utf8.h"

namespace autotune::onnx_import {
namespace {

struct Attribute {
  std::string name;
  char type = 'x';
  bool required = false;
};

// The inputs or the outputs of an operator.
struct Operands {
  struct One {
    std::string name;
    bool optional = false;
  };
  std::vector<One> list;
  bool variadic = false;  // the last one may be repeated
};

// A row of the table, parsed.
struct Schema {
  int since = 0, until = 0;  // the first operator set, and the last one before the next row; 0 for no end
  Operands inputs, outputs;
  std::vector<Attribute> attributes;

  const Attribute* Find(const std::string& name) const {
    auto it = std::find_if(attributes.begin(), attributes.end(), [&](const Attribute& a) { return a.name == name; });
    return it == attributes.end() ? nullptr : &*it;
  }
};
using Versions = std::vector<Schema>;  // of one operator, oldest first

bool DropEnd(std::string& word, const std::string& end) {
  if (!word.ends_with(end)) return false;
  word.resize(word.size() - end.size());
  return true;
}

Operands ParsedOperands(const char* text) {
  Operands operands;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool optional = DropEnd(word, "?");
    operands.variadic = DropEnd(word, "...");
    operands.list.push_back({word, optional});
  }
  return operands;
}

Schema Parsed(const SchemaRow& row) {
  Schema schema{.since = row.since, .inputs = ParsedOperands(row.inputs), .outputs = ParsedOperands(row.outputs)};
  std::istringstream attributes(row.attributes);
  for (std::string word; attributes >> word;) {
    const bool required = DropEnd(word, "!");
    const char type = word.back();
    word.resize(word.size() - 2);  // ":" and the type
    schema.attributes.push_back({word, type, required});
  }
  return schema;
}

std::map<std::string, Versions> ParsedAll(std::span<const SchemaRow> rows) {
  std::map<std::string, Versions> all;
  for (const SchemaRow& row : rows) {
    Versions& versions = all[row.op];
    if (!versions.empty()) versions.back().until = row.since - 1;
    versions.push_back(Parsed(row));
  }
  return all;
}

const Versions* FindVersions(const OnnxNode& node) {
  static const std::map<std::string, Versions> kOnnx = ParsedAll(OnnxSchemas());
  static const std::map<std::string, Versions> kMicrosoft = ParsedAll(MicrosoftSchemas());
  const auto& all = node.domain.empty() ? kOnnx : kMicrosoft;
  auto it = all.find(node.op_type);
  return it == all.end() ? nullptr : &it->second;
}

const char* TypeName(char type) {
  switch (type) {
    case 'i':
      return "an integer";
    case 'f':
      return "a float";
    case 's':
      return "a string";
    case 'I':
      return "a list of integers";
    case 'F':
      return "a list of floats";
    case 'S':
      return "a list of strings";
    case 't':
      return "a tensor";
    case 'g':
      return "a graph";
    default:
      return "of another type";
  }
}

char TypeOf(const OnnxAttr& attr) {
  return attr.i         ? 'i'
         : attr.f       ? 'f'
         : attr.s       ? 's'
         : attr.ints    ? 'I'
         : attr.floats  ? 'F'
         : attr.strings ? 'S'
         : attr.tensor  ? 't'
         : attr.graph   ? 'g'
                        : 'x';
}

bool SameLetters(const std::string& a, const std::string& b) {
  auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

bool HasInput(const Schema& schema, const std::string& name) {
  const auto& list = schema.inputs.list;
  return std::any_of(list.begin(), list.end(), [&](const auto& input) { return SameLetters(input.name, name); });
}

class Check {
 public:
  Check(const OnnxNode& node, int64_t opset, const Versions& versions) : node_(node), versions_(versions) {
    own_ = &versions.front();  // LayerNormalization is imported in older operator sets, too
    for (const Schema& schema : versions) {
      if (schema.since <= opset) own_ = &schema;
    }
    // Messages name the operator set of ONNX's own operators. Those of com.microsoft have one form only.
    if (node.domain.empty()) place_ = " in operator set " + std::to_string(opset);
  }

  std::vector<std::string> Run() {
    for (const auto& [name, attr] : node_.attrs) CheckAttribute(name, attr);
    for (const Attribute& attribute : own_->attributes) {
      if (attribute.required && !node_.attrs.count(attribute.name))
        faults_.push_back("lacks the attribute '" + attribute.name + "'");
    }
    CheckOperands(own_->inputs, node_.inputs, "input");
    CheckOperands(own_->outputs, node_.outputs, "output");
    return std::move(faults_);
  }

 private:
  // Returns the number of tensors without omitted ones at the end.
  static size_t Used(const std::vector<std::string>& names) {
    size_t n = names.size();
    while (n > 0 && names[n - 1].empty()) --n;
    return n;
  }

  void CheckAttribute(const std::string& name, const OnnxAttr& attr) {
    if (name.starts_with("__")) return;
    const Attribute* own = own_->Find(name);
    if (!own) return faults_.push_back(UnknownAttribute(name));
    if (own->type != TypeOf(attr) && own->type != 'x')
      faults_.push_back("attribute '" + name + "' must be " + TypeName(own->type) + ", but is " +
                        TypeName(TypeOf(attr)));
  }

  std::string UnknownAttribute(const std::string& name) const {
    if (HasInput(*own_, name) && OtherWithAttribute(name))
      return "has '" + name + "' as an attribute; it is an input since operator set " +
             std::to_string(FirstInput(name));
    std::string fault = "has no attribute '" + OneLine(name) + "'" + place_;
    if (const Schema* other = OtherWithAttribute(name)) {
      if (other->since > own_->since) return fault + "; it came with " + std::to_string(other->since);
      return fault + "; it was withdrawn after " + std::to_string(other->until);
    }
    std::vector<std::string> known;
    for (const Attribute& attribute : own_->attributes) known.push_back(attribute.name);
    return fault + Suggestion(name, known);
  }

  // Returns the nearest version that has the attribute; null if none has.
  const Schema* OtherWithAttribute(const std::string& name) const {
    const Schema* found = nullptr;
    for (const Schema& schema : versions_) {
      const bool later = schema.since > own_->since;
      if (schema.Find(name) && !(later && found)) found = &schema;
    }
    return found;
  }

  // Returns the operator set since which all versions up to the node's own one have the input.
  int FirstInput(const std::string& name) const {
    int since = own_->since;
    for (auto schema = versions_.rbegin(); schema != versions_.rend(); ++schema) {
      if (schema->since > own_->since) continue;
      if (!HasInput(*schema, name)) break;
      since = schema->since;
    }
    return since;
  }

  // `kind` is "input" or "output".
  void CheckOperands(const Operands& own, const std::vector<std::string>& names, const std::string& kind) {
    const size_t most = own.list.size(), given = Used(names);
    if (given > most && !own.variadic) {
      faults_.push_back("has " + std::to_string(given) + " " + kind + "s; the most are " + std::to_string(most) +
                        place_ + (&own == &own_->inputs ? WhySurplus(most) : ""));
    }
    for (size_t i = 0; i < most; ++i) {
      const bool repeated = own.variadic && i + 1 == most;  // single ones of these may be omitted
      if (!own.list[i].optional && (i >= names.size() || (names[i].empty() && !repeated)))
        faults_.push_back("lacks " + kind + " " + std::to_string(i) + ", '" + own.list[i].name + "'");
    }
  }

  // Says since when the operator has input number `index`, which it does not have in this operator set.
  std::string WhySurplus(size_t index) const {
    for (const Schema& schema : versions_) {
      if (schema.since <= own_->since || schema.inputs.list.size() <= index) continue;
      const std::string& name = schema.inputs.list[index].name;
      const bool attribute = std::any_of(own_->attributes.begin(), own_->attributes.end(),
                                         [&](const Attribute& a) { return SameLetters(a.name, name); });
      return "; '" + name + "' is an input since " + std::to_string(schema.since) +
             (attribute ? ", and an attribute before" : "");
    }
    return "";
  }

  const OnnxNode& node_;
  const Versions& versions_;
  const Schema* own_ = nullptr;
  std::string place_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> SchemaFaults(const OnnxNode& node, int64_t opset) {
  const Versions* versions = FindVersions(node);
  return versions ? Check(node, opset, *versions).Run() : std::vector<std::string>();
}

}  // namespace autotune::onnx_import
