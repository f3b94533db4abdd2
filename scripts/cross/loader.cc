// Runs an unpacked package on a foreign machine. Links runtime/ only; scripts/cross.sh builds it for each machine.
//   loader run FOLDER PREFIX         runs the package unpacked in FOLDER; output i goes to PREFIX<i>.npy. Input i is
//                                    FOLDER/input<i>.npy or, if there is no such file, random numbers that are the same
//                                    on every machine, and is also written to FOLDER/in<i>.npy
//   loader compare FILE EXPECTED     compares within the tolerance of `autotune verify`
//   loader equal FILE EXPECTED       compares bytes
#include <cstdio>
#include <filesystem>
#include <string>

#include "runtime/compare.h"
#include "runtime/cpu_device.h"
#include "runtime/fill.h"
#include "runtime/graph_executor.h"
#include "runtime/npy.h"
#include "runtime/stored_params.h"
#include "support/file.h"

namespace autotune {
namespace {

// Returns the one file of the folder with this extension.
Result<std::string> Only(const std::filesystem::path& folder, const std::string& extension) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == extension) return entry.path().string();
  }
  return Err("no ", extension, " in ", folder.string());
}

Status Run(const std::string& folder, const std::string& prefix) {
  Graph graph = TRY(Graph::Parse(TRY(ReadFile(folder + "/executor-config/graph/graph.json"))));
  auto library = TRY(Artifact::FromFile(TRY(Only(folder + "/codegen/host/lib", ".so"))));
  Params params = TRY(Widened(graph, TRY(LoadParams(TRY(Only(folder + "/parameters", ".params"))))));
  auto context = std::make_shared<KernelContext>(2);
  auto executor = TRY(GraphExecutor::Create(std::move(graph), MakeLibraryModule(library, context), std::move(params),
                                            {std::make_shared<CpuDevice>(context)}));
  for (int64_t i = 0; i < executor->num_inputs(); ++i) {
    const std::string given = folder + "/input" + std::to_string(i) + ".npy";
    if (std::filesystem::exists(given)) {
      TRY(executor->SetInput(i, TRY(ReadNpy(given))));
    } else {
      FillRandom(executor->Input(i), static_cast<uint64_t>(i));
    }
    TRY(WriteNpy(folder + "/in" + std::to_string(i) + ".npy", executor->Input(i)));
  }
  TRY(executor->Run());
  for (int64_t i = 0; i < executor->num_outputs(); ++i) {
    TRY(WriteNpy(prefix + std::to_string(i) + ".npy", executor->Output(i)));
  }
  return {};
}

Status Compare(const std::string& path, const std::string& expected_path, bool exact) {
  Tensor actual = TRY(ReadNpy(path)), expected = TRY(ReadNpy(expected_path));
  Comparison result = TRY(CompareTensors(actual, expected, exact ? Tolerance{0, 0} : Tolerance{}));
  if (!result.ok) return Err(result.Text());
  std::printf("%lld elements %s\n", static_cast<long long>(result.elements),
              actual.bytes() == expected.bytes() ? "equal, bit for bit" : "within the tolerance");
  return {};
}

Status Main(const std::string& verb, const std::string& a, const std::string& b) {
  if (verb == "run") return Run(a, b);
  if (verb == "compare" || verb == "equal") return Compare(a, b, verb == "equal");
  return Err("run FOLDER PREFIX, or compare|equal FILE EXPECTED");
}

}  // namespace
}  // namespace autotune

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  auto status = autotune::Main(argv[1], argv[2], argv[3]);
  if (!status.ok()) std::fprintf(stderr, "loader: %s\n", status.error().Text().c_str());
  return status.ok() ? 0 : 1;
}
