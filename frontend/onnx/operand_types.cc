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

const OperandTypesRow* FindTypes(const OnnxNode& node, int64_t opset) {
  static const std::map<std::string, RowsOfOperator> kRows = [] {
    std::map<std::string, RowsOfOperator> rows;
    for (const OperandTypesRow& row : OperandTypes()) rows[row.op].push_back(&row);
    return rows;
  }();
  const auto rows = kRows.find(node.op_type);
  if (!node.domain.empty() || rows == kRows.end()) return nullptr;
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
      faults.push_back("input " + std::to_string(i) + " is " + OnnxTypeName(*type) + "; in operator set " +
                       std::to_string(opset) + " it may be " + TypeNames(allowed));
    const auto [first, is_new] = seen.try_emplace(variable, i, *type);
    if (!is_new && !variable.empty() && first->second.second != *type)
      faults.push_back("inputs " + std::to_string(first->second.first) + " and " + std::to_string(i) +
                       " must have one type, but are " + OnnxTypeName(first->second.second) + " and " +
                       OnnxTypeName(*type));
  }
  return faults;
}

}  // namespace autotune::onnx_import
