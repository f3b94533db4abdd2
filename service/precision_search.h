// The measurements behind ChoosePrecision (service/precision_choice.h). Internal to service/.
#pragma once
#include <string>

#include "service/precision_choice.h"

namespace autotune {

struct SearchedPrecisions {
  PrecisionChoice choice;
  std::string model;  // the chosen form of the model; empty: its own, of f32, or with ModelRequest::precision "bf16"
};

// `quantizer` has the ranges of its tensors; `calibration` is of it.
Result<SearchedPrecisions> SearchPrecisions(const PrecisionBound& bound, const ModelQuantizer& quantizer,
                                            Calibration& calibration, const PrecisionSetup& setup);

}  // namespace autotune
