// Compares the types of a node's inputs with those that ONNX defines for its operator.
#include <map>
#include <sstream>

#include "frontend/onnx/schema.h"
#include "frontend/onnx/tensor_proto.h"
#include "support/join.h"

namespace autotune::onnx_import {
namespace {

struct TypeLetter {
  char letter;
  DType type;
};
constexpr TypeLetter kTypeLetters[] = {{'f', DType::Float(32)},  {'d', DType::Float(64)}, {'h', DType::Float(16)},
                                       {'y', DType::BFloat16()}, {'b', DType::Bool()},    {'c', DType::Int(8)},
                                       {'s', DType::Int(16)},    {'i', DType::Int(32)},   {'l', DType::Int(64)},
                                       {'C', DType::UInt(8)},    {'S', DType::UInt(16)},  {'I', DType::UInt(32)},
                                       {'L', DType::UInt(64)}};

bool Holds(const std::string& letters, DType type) {
  if (letters == "*") return true;
  for (const TypeLetter& known : kTypeLetters) {
    if (known.type == type) return letters.find(known.letter) != std::string::npos;
  }
  return true;  // the table does not speak of this type
}

std::string TypeNames(const std::string& letters) {
  std::vector<std::string> names;
  for (const TypeLetter& known : kTypeLetters) {
    if (letters.find(known.letter) != std::string::npos) names.push_back(OnnxTypeName(known.type));
  }
  return Joined(names, ", ");
}

using RowsOfOperator = std::vector<const OperandTypesRow*>;  // oldest first

std::map<std::string, RowsOfOperator> ByOperator(std::span<const OperandTypesRow> all) {
  std::map<std::string, RowsOfOperator> rows;
  for (const OperandTypesRow& row : all) rows[row.op].push_back(&row);
  return rows;
}

const OperandTypesRow* FindTypes(const OnnxNode& node, int64_t opset) {
  static const auto kOnnx = ByOperator(OnnxOperandTypes()), kMicrosoft = ByOperator(MicrosoftOperandTypes());
  const auto& all = node.domain.empty() ? kOnnx : kMicrosoft;
  const auto rows = all.find(node.op_type);
  if (rows == all.end()) return nullptr;
  const OperandTypesRow* own = nullptr;
  for (const OperandTypesRow* row : rows->second) {
    if (row->since <= opset) own = row;
  }
  return own;
}

}  // namespace

std::vector<std::string> TypeFaults(const OnnxNode& node, int64_t opset,
                                    const std::function<std::optional<DType>(const std::string& name)>& type_of) {
  const OperandTypesRow* row = FindTypes(node, opset);
  if (!row) return {};
  // Messages name the operator set of ONNX's own operators only.
  const std::string place = node.domain.empty() ? "in operator set " + std::to_string(opset) + " " : "";
  std::vector<std::string> faults;
  std::map<std::string, std::string> letters;            // of each variable
  std::map<std::string, std::pair<size_t, DType>> seen;  // the first input of each variable, and its type
  std::istringstream words(row->inputs);
  std::string variable;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (std::string word; words >> word) {
      const size_t equals = word.find('=');
      variable = word.substr(0, equals);
      if (equals != std::string::npos) letters[variable] = word.substr(equals + 1);
    }
    const std::optional<DType> type = node.inputs[i].empty() ? std::nullopt : type_of(node.inputs[i]);
    if (!type || letters.empty()) continue;
    const std::string& allowed = letters[variable];
    if (!Holds(allowed, *type))
      faults.push_back("input " + std::to_string(i) + " is " + OnnxTypeName(*type) + "; " + place + "it may be " +
                       TypeNames(allowed));
    const auto [first, is_new] = seen.try_emplace(variable, i, *type);
    if (!is_new && !variable.empty() && first->second.second != *type)
      faults.push_back("inputs " + std::to_string(first->second.first) + " and " + std::to_string(i) +
                       " must have one type, but are " + OnnxTypeName(first->second.second) + " and " +
                       OnnxTypeName(*type));
  }
  return faults;
}

}  // namespace autotune::onnx_import
