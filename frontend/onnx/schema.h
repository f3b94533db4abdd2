// The attributes, inputs and outputs that each operator has in each operator set, and a check of nodes against them.
// Internal to frontend/onnx; stateless, thread-safe.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontend/onnx/proto_reader.h"

namespace autotune::onnx_import {

// What an operator has in operator set `since` and in the later ones, up to the operator's next row.
struct SchemaRow {
  const char* op;
  int since;
  const char* inputs;   // names: "X W B?"; "?" marks an optional one, "..." the last one, which may be repeated
  const char* outputs;  // in the same form
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

// The types of an operator's inputs from operator set `since` on, up to the operator's next row.
struct OperandTypesRow {
  const char* op;
  int since;
  // For each input a variable, with its types where it first occurs: "T=fd T I=il". Inputs of one variable have one
  // type. The last word holds for further inputs. Types are f32 (f), f64 (d), f16 (h), bf16 (y), bool (b), i8 (c), i16
  // (s), i32 (i), i64 (l), and unsigned ones (C, S, I, L); "*" means all. Empty: the table does not know the types.
  const char* inputs;
};
std::span<const OperandTypesRow> OnnxOperandTypes();
std::span<const OperandTypesRow> MicrosoftOperandTypes();

// Returns what is wrong with the types of a node's inputs, in words as those of SchemaFaults. `type_of` gives the type
// of an input; nothing if the input is not known.
std::vector<std::string> TypeFaults(const OnnxNode& node, int64_t opset,
                                    const std::function<std::optional<DType>(const std::string& name)>& type_of);

}  // namespace autotune::onnx_import
