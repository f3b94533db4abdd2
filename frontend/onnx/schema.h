// The attributes, inputs and outputs that each operator has in each operator set, and a check of nodes against them.
// Internal to frontend/onnx; stateless, thread-safe.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "frontend/onnx/proto_reader.h"

namespace autotune::onnx_import {

// What an operator has in operator set `since` and in the later ones, up to the operator's next row.
struct SchemaRow {
  const char* op;
  int since;
  const char* inputs;  // names: "X W B?"; "?" marks an optional one, "..." the last one, which may be repeated
  int outputs;         // greatest number; -1 for any number
  // Names and types: "axis:i perm:I! body:g". Types are int (i), float (f), string (s), lists of them (I, F, S), tensor
  // (t), graph (g) and others (x); "!" marks a required attribute.
  const char* attributes;
};
// The rows of ONNX's own domain and of com.microsoft, by operator and operator set.
std::span<const SchemaRow> OnnxSchemas();
std::span<const SchemaRow> MicrosoftSchemas();

// Returns what is wrong with a node's attributes and with its numbers of inputs and outputs, in words that follow the
// node's name: "has no attribute 'stride' in operator set 13; did you mean strides?". Returns nothing if all is right,
// or if the table does not have the operator. Attributes whose names begin with "__" are private to tools, and allowed.
std::vector<std::string> SchemaFaults(const OnnxNode& node, int64_t opset);

}  // namespace autotune::onnx_import
