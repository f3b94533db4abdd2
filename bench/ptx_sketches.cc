// Writes the PTX of randomly drawn schedules of matrix products, for scripts/ptx.sh. Needs no GPU.
//   ptx_sketches FOLDER ARCH [schedules=64] [seed=1]
// Writes FOLDER/NAME.ptx for each schedule. NAME begins with `tile` if the schedule accumulates a tile in registers.
// Prints how many draws were refused, and why. Draws without a finite draft score are among them: only --search random
// measures such candidates, and ptxas may spill their registers.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>

#include "codegen/codegen.h"
#include "lower/lower.h"
#include "schedule/replay.h"
#include "support/file.h"
#include "te/create_prim_func.h"
#include "topi/matmul.h"
#include "tuner/rule/rule.h"

using namespace autotune;

namespace {

struct Shape {
  int64_t m, n, k;
};
// Square products, layers of BERT, ViT and ResNet-50, and extents that no tile divides.
constexpr Shape kShapes[] = {{1024, 1024, 1024}, {256, 256, 256}, {128, 3072, 768}, {197, 768, 768},
                             {49, 512, 4608},    {3136, 64, 64},  {100, 100, 100},  {37, 1000, 129}};
constexpr int kMostDraws = 100;  // attempts per accepted schedule

// Types of the operands, used in turn. Those for tensor cores are left out if the target has none.
constexpr const char* kTypes[] = {"f32", "f16", "tf32", "bf16"};

PrimFunc Product(const Shape& shape, const std::string& type) {
  const DType dtype = type == "tf32" ? DType::Float(32) : *DType::Parse(type);
  te::Tensor a = te::Placeholder("a", {shape.m, shape.k}, dtype), b = te::Placeholder("b", {shape.k, shape.n}, dtype);
  te::Tensor out = topi::MatMul("dense", a, b, type == "tf32" ? topi::Rounding::kTf32 : topi::Rounding::kNone);
  return te::CreatePrimFunc("dense", {{a, ParamRole::kInput}, {b, ParamRole::kInput}, {out, ParamRole::kOutput}},
                            {.use_fma = true});
}

// Compiles one draw. The error says whether the draft score, lowering or the code generator refuses it.
Result<KernelObject> CompileDraw(const PrimFunc& f, const Sketch& sketch, const Target& target, Rng& rng, bool& tiled) {
  const Decisions decisions = DrawDecisions(sketch, rng);
  if (!std::isfinite(DraftSeconds(sketch, decisions, target)))
    return Err("the draft score expects that a block exceeds the GPU's registers, threads or shared memory");
  Schedule schedule = TRY(Replay(f, Decide(sketch, decisions)));
  LoweredKernel lowered = TRY(Lower(schedule.func(), target));
  tiled = lowered.has_register_tile;
  KernelObject object = TRY(CompileKernel(lowered, target));
  if (!object.rejected.empty()) return Err(object.rejected);
  return object;
}

Status Run(const std::string& folder, const Target& target, int schedules, uint64_t seed) {
  std::map<std::string, int> refusals;
  Rng rng(seed);
  for (int i = 0; i < schedules; ++i) {
    const Shape& shape = kShapes[static_cast<size_t>(i) % std::size(kShapes)];
    const std::string type =
        target.has_mma ? kTypes[static_cast<size_t>(i) / std::size(kShapes) % std::size(kTypes)] : kTypes[0];
    const PrimFunc f = Product(shape, type);
    const std::vector<Sketch> sketches = TRY(GenerateSketches(f, target));
    bool tiled = false, written = false;
    for (int draw = 0; draw < kMostDraws && !written; ++draw) {
      Result<KernelObject> object =
          CompileDraw(f, sketches[static_cast<size_t>(i) % sketches.size()], target, rng, tiled);
      if (!object.ok()) {
        ++refusals[std::regex_replace(object.error().message, std::regex("[0-9]+"), "N")];
        continue;
      }
      const std::string name = std::string(tiled ? "tile" : "other") + std::to_string(i) + "_" + type + "_" +
                               std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k);
      TRY(WriteFile(folder + "/" + name + ".ptx", object->source));
      written = true;
    }
    if (!written) return Err("no draw of schedule ", i, " is accepted");
  }
  for (const auto& [reason, count] : refusals) std::printf("%4d draws refused: %s\n", count, reason.c_str());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fputs("ptx_sketches FOLDER ARCH [schedules=64] [seed=1]\n", stderr), 2;
  Result<Target> target = Target::Parse(std::string("cuda -arch=") + argv[2]);
  if (target.ok() && target->has_mma) target->tf32 = true;
  std::filesystem::create_directories(argv[1]);
  Status done = target.ok() ? Run(argv[1], *target, argc > 3 ? std::atoi(argv[3]) : 64,
                                  argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1)
                            : Status(target.error());
  if (!done.ok()) return std::fprintf(stderr, "ptx_sketches: %s\n", done.error().Text().c_str()), 1;
  return 0;
}
