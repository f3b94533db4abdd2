// ResNet-50's convolutions with bias and ReLU, as tasks: what benches build and search. Header-only; no model file.
#pragma once
#include <string>
#include <vector>

#include "te/create_prim_func.h"
#include "te/reference.h"
#include "topi/conv.h"
#include "topi/elementwise.h"
#include "tuner/task.h"

namespace autotune::bench {

struct ConvShape {
  int64_t size, ic, oc, kernel, stride, pad;
};

// Each distinct shape once.
inline std::vector<ConvShape> ResNet50Shapes() {
  return {{224, 3, 64, 7, 2, 3},    {56, 64, 64, 1, 1, 0},    {56, 64, 64, 3, 1, 1},     {56, 64, 256, 1, 1, 0},
          {56, 256, 64, 1, 1, 0},   {56, 256, 128, 1, 2, 0},  {28, 128, 128, 3, 1, 1},   {28, 128, 512, 1, 1, 0},
          {56, 256, 512, 1, 2, 0},  {28, 512, 128, 1, 1, 0},  {28, 512, 256, 1, 2, 0},   {14, 256, 256, 3, 1, 1},
          {14, 256, 1024, 1, 1, 0}, {28, 512, 1024, 1, 2, 0}, {14, 1024, 256, 1, 1, 0},  {14, 1024, 512, 1, 2, 0},
          {7, 512, 512, 3, 1, 1},   {7, 512, 2048, 1, 1, 0},  {14, 1024, 2048, 1, 2, 0}, {7, 2048, 512, 1, 1, 0}};
}

inline TuneTask ConvTask(const ConvShape& s) {
  topi::ConvAttrs attrs{.stride = {s.stride, s.stride}, .pad = {s.pad, s.pad, s.pad, s.pad}};
  te::Tensor data = te::Placeholder("data", {1, s.size, s.size, s.ic});
  te::Tensor weight = te::Placeholder("weight", {s.kernel, s.kernel, s.ic, s.oc});
  te::Tensor bias = te::Placeholder("bias", {s.oc});
  te::Tensor out = topi::Relu("relu", topi::Add("add", topi::Conv("conv", data, weight, attrs), bias));
  PrimFunc func = te::CreatePrimFunc("conv_bias_relu",
                                     {{data, ParamRole::kInput},
                                      {weight, ParamRole::kConstant},
                                      {bias, ParamRole::kConstant},
                                      {out, ParamRole::kOutput}},
                                     {.use_fma = true});
  std::string k = std::to_string(s.kernel), size = std::to_string(s.size);
  TuneTask task;
  task.label = "conv " + size + "x" + size + "x" + std::to_string(s.ic) + " -> " + std::to_string(s.oc) + ", " + k +
               "x" + k + " stride " + std::to_string(s.stride);
  task.hash = HashBytes128(task.label);
  task.reference = te::ToReference(func);
  task.alternatives.push_back({"direct", std::move(func)});
  return task;
}

}  // namespace autotune::bench
