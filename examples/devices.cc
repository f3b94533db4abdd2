// Runs a compiled network on this machine or on a device of a farm, by the same code:
//   devices m.tar image.bin scores.bin                    this machine
//   devices m.tar image.bin scores.bin alice.join rpi4    a device of a farm, by a join file and a key (docs/farm.md)
// The network has one input and one output. The files have their elements, without a header.
#include <cstdio>
#include <cstring>

#include "package/load.h"
#include "service/remote_module.h"
#include "support/file.h"
#include "support/json.h"

namespace {

using autotune::Module;
using autotune::Result;
using autotune::Status;
using autotune::Tensor;

struct Answer {
  Tensor output;
  double seconds = 0;  // median time of a run
};

// Runs a network on the machine that has its module. `elements` are those of the input.
Result<Answer> Run(const Module& factory, std::string_view elements) {
  const Module network = TRY(TRY(TRY(factory->GetFunction("default"))(DLDevice{kDLCPU, 0})).As<Module>());
  const auto call = [&](const char* name, auto... args) -> Result<autotune::Value> {
    return TRY(network->GetFunction(name))(args...);
  };
  const Tensor input = TRY(TRY(call("get_input", 0)).As<Tensor>());
  const Tensor image = TRY(Tensor::FromBytes(input.shape(), input.dtype(), elements));
  TRY(call("set_input", 0, image));
  TRY(call("run"));
  Answer answer;
  answer.output = TRY(TRY(call("get_output", 0)).As<Tensor>());
  const auto evaluate = TRY(TRY(call("time_evaluator", "run", 10, 5)).As<autotune::PackedFunc>());
  autotune::Json times = TRY(autotune::Json::Parse(TRY(TRY(evaluate()).As<std::string>())));
  const double* median = times["median"].As<double>();
  if (!median) return autotune::Err("the time evaluator gave no times");
  answer.seconds = *median;
  return answer;
}

// The module of a network here, or on a device of a farm if a key is given.
Result<Module> Load(const char* package, const char* join, const char* key) {
  if (!key) return autotune::LoadModuleTree(package, 0);
  return autotune::LoadRemoteModule(TRY(autotune::rpc::Connect(join, key)), package);
}

Status Main(const char* package, const char* input, const char* output, const char* join, const char* key) {
  const std::string elements = TRY(autotune::ReadFile(input));
  const Answer answer = TRY(Run(TRY(Load(package, join, key)), elements));
  TRY(autotune::WriteFile(output, std::string(answer.output.bytes())));
  std::printf("%.3f ms on %s\n", answer.seconds * 1e3, key ? key : "this machine");
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 6) {
    std::fprintf(stderr, "usage: devices PACKAGE INPUT OUTPUT [JOIN KEY]\n");
    return 2;
  }
  const Status status = Main(argv[1], argv[2], argv[3], argc == 6 ? argv[4] : nullptr, argc == 6 ? argv[5] : nullptr);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().Text().c_str());
  return status.ok() ? 0 : 1;
}
