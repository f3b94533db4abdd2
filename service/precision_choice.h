// Chooses the precision of each product of an f32 network with constant weights: f32, bf16 or 8 bits. The network is to
// be as fast as possible under a bound on its error against f32. Times and errors are measured on this machine:
//
// 1. Calibration: the ranges of tensors (service/calibration.h), and the error of the network if one product alone is
//    rounded.
// 2. The networks of one precision run in turns with f32; the profiles of their kernels give the time of each product.
// 3. Mixtures are tried along a path from the fastest to f32 (service/precision_path.h), by bisection, until the border
//    of the bound is found.
// 4. The fastest mixture within the bound is taken if it is faster for sure than the fastest network of one precision
//    within the bound. Else that one is taken.
//
// All networks have default schedules here, so that they are compared on equal terms.
#pragma once
#include <atomic>
#include "codegen/builder.h"
#include "service/calibration.h"
#include "service/model.h"
#include "service/precisions.h"

namespace autotune {

// The network to compile instead of the request's.
struct ChosenModel {
  ModelRequest model;  // a model with a precision for each product, or the request's own one with another `precision`
  PrecisionChoice choice;
  bool known = false;  // the choice was made before, for the same model, inputs, bound and target
};

// What the choice works with. Borrowed.
struct PrecisionSetup {
  const Target& target;  // one that this machine's processor runs
  Builder& builder;
  StepObserver on_step = nullptr;
  const std::atomic<bool>* stop = nullptr;  // when it becomes true, the choice ends with an error of kind kStopped
};

// Chooses for a request with `precision` "auto". Takes a choice that was made before from the folder "precision" of
// UserCacheFolder(), and writes a new one there. Errors: those of ModelQuantizer and Calibration; an agreement that
// too few rows tell.
Result<ChosenModel> ChoosePrecision(const ModelRequest& request, const PrecisionSetup& setup);

}  // namespace autotune
