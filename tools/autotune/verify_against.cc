#include "tools/autotune/verify_against.h"

#include <cmath>

#include "service/calibration_data.h"
#include "service/network_error.h"
#include "support/hint.h"
#include "support/terminal.h"
#include "support/utf8.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/text.h"

namespace autotune::tools {
namespace {

// Checks that both packages are of networks with the same inputs and outputs, apart from the types of outputs.
Status CheckSame(const PackageInfo& one, const PackageInfo& other, const AgainstOptions& options) {
  const auto texts = [](const std::vector<TensorSpec>& specs, bool types) {
    std::vector<std::string> all;
    for (const TensorSpec& spec : specs)
      all.push_back(spec.name + " " + (types ? spec.dtype : "") + ShapeText(spec.shape));
    return all;
  };
  for (const bool inputs : {true, false}) {
    const auto a = texts(inputs ? one.inputs : one.outputs, inputs);
    const auto b = texts(inputs ? other.inputs : other.outputs, inputs);
    if (a == b) continue;
    return WithHint(Err(options.package, " and ", options.against, " have different ", inputs ? "inputs" : "outputs"),
                    "--against takes a package of the same network, such as the one of f32");
  }
  return {};
}

// Returns whether the error is within the bound. A NaN never is: an output has numbers that are infinite or NaN.
bool Holds(const NetworkError& error, const AgainstOptions& options) {
  return options.max_error == 0 ? !std::isnan(error.error) : error.error <= options.max_error;
}

void Print(const NetworkError& error, int64_t samples, const AgainstOptions& options) {
  Console& console = Console::Get();
  const bool holds = Holds(error, options);
  if (console.json()) {
    Json line;
    line["error"] = error.error;
    line["worst_output"] = error.output;
    line["samples"] = samples;
    line["rows"] = error.judged;
    line["agreeing_rows"] = error.same;
    line["verdict"] = holds ? "passed" : "failed";
    return console.Result(line);
  }
  const std::string text =
      Format("error %.4g of output '", error.error) + OneLine(error.output) + "', ||y - y32|| / ||y32|| over " +
      CountText(samples, "sample") +
      (holds                     ? ""
       : std::isnan(error.error) ? ", which has numbers that are infinite or NaN"
                                 : Format(", beyond --max-error %g", options.max_error)) +
      (error.judged > 0 ? Format("; the largest number of %d of %d rows is at the same place", error.same, error.judged)
                        : "");
  console.Result(Painted(holds ? "ok" : "WRONG", holds ? Colour::kGain : Colour::kFault, console.colours_out()) + ": " +
                 WrapWords(text, console.WidthOut()) + "\n");
}

}  // namespace

Result<int> VerifyAgainst(const AgainstOptions& options) {
  const RunnableModel model = TRY(RunnableModel::Open(options.package, options.place, "verify"));
  const RunnableModel exact = TRY(RunnableModel::Open(options.against, options.place, "verify"));
  TRY(CheckSame(model.info(), exact.info(), options));
  CalibrationData data = TRY(CalibrationData::Open(options.data, model.info().inputs, {}, "--data"));
  std::vector<std::string> names;
  for (const TensorSpec& output : model.info().outputs) names.push_back(output.name);
  ErrorSums sums(names);
  for (int64_t sample = 0; sample < data.size(); ++sample) {
    const std::vector<Tensor> inputs = TRY(data.Sample(sample));
    for (const RunnableModel* runs : {&model, &exact}) {
      for (size_t i = 0; i < inputs.size(); ++i) TRY(runs->SetInput(static_cast<int64_t>(i), inputs[i]));
      TRY(runs->RunOnce());
    }
    for (int64_t i = 0; i < sums.outputs(); ++i) sums.Add(i, TRY(model.Output(i)), TRY(exact.Output(i)));
  }
  const NetworkError error = sums.Total();
  Print(error, data.size(), options);
  return Holds(error, options) ? kExitOk : kExitWrong;
}

}  // namespace autotune::tools
