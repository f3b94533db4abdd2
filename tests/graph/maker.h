// Helpers for tests of graph passes: random constants, an evaluator of constants that counts its calls, and a check
// that passes keep a graph's meaning as the reference defines it.
#pragma once
#include <gtest/gtest.h>

#include "graph/pipeline.h"
#include "tests/graph/reference.h"

namespace autotune::graph {

inline TensorSpec F32(Shape shape) { return {DType::Float(32), std::move(shape)}; }

// Evaluates constants with the reference and counts the evaluations.
struct Counting {
  int calls = 0;
  PassEnv env;
  Counting() {
    env.evaluate = [this](const Graph& g) -> Result<std::vector<TensorValue>> {
      ++calls;
      std::vector<TensorValue> out;
      for (const auto& t : reference::Evaluate(g, {})) out.push_back(reference::ToValue(t));
      return out;
    };
  }
};

// softmax(q * k) * v in the forms that importers make: with or without scale and mask; with softmax as one operator, or
// as single nodes that give zeros for a row of minus infinities.
struct AttentionForm {
  Shape mask = {};       // shape of the mask; empty: neither mask nor scale
  bool by_node = false;  // softmax as single nodes
  // Numbers of queries, of keys, of heads of the queries, and of heads of the keys and values.
  int64_t queries = 12, keys = 10, heads = 2, shared = 2;
};

std::vector<AttentionForm> AttentionForms();

// Builds graphs with random constants from common groups of nodes.
class Maker {
 public:
  struct Attention {
    ValueId scores, weights, values;
  };
  Attention Attend(const AttentionForm& form);
  ValueId SoftmaxOrZero(ValueId x, int64_t axis);

  explicit Maker(uint64_t seed) : rng(seed) {}
  ValueId Random(Shape shape) { return b.AddConstant("", reference::ToValue(reference::Random(shape, rng))); }
  ValueId Positive(Shape shape);
  ValueId Conv(ValueId x, int64_t channels, int64_t kernel, int64_t groups = 1, int64_t stride = 1);
  ValueId Norm(ValueId x);
  ValueId Relu(ValueId x) { return b.Must(Op::kRelu, {x}, {}, "relu"); }
  ValueId Pool(Op op, ValueId x, int64_t kernel, int64_t stride);
  GraphBuilder b;
  Rng rng;
};

std::vector<reference::Tensor> RandomInputs(const Graph& g, uint64_t seed);

// Checks, after each pass, that the graph still computes the same outputs. Returns the last graph.
Graph ExpectKept(const Graph& g, const std::vector<Pass>& passes, PassEnv env);

int CountOps(const Graph& g, Op op);

// A small residual network.
Graph Residual(uint64_t seed);

// Layer normalization as exporters write it before operator set 17.
ValueId LayerNorm(Maker& m, ValueId x);

}  // namespace autotune::graph
