// For tests of codegen/: builds and runs kernels that are given as text, and compares them with the interpreter.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "ir/interp.h"
#include "ir/text.h"
#include "runtime/kernel_context.h"
#include "runtime/tensor.h"
#include "tests/ir/parse.h"

namespace autotune {

using test::Parse;

inline Target Cpu() { return Target::Parse("cpu").value(); }

// Returns targets for this machine: LLVM, generated C with vector types, and generated C without them, in this order.
inline const std::vector<Target>& Generators() {
  static const std::vector<Target> targets = {Cpu(), Target::Parse("c").value(),
                                              Target::Parse("c -vectors=none").value()};
  return targets;
}

// Returns these targets and, on x86-64, LLVM for CPUs with shorter vectors.
inline std::vector<Target> AllGenerators() {
  std::vector<Target> targets = Generators();
  for (const char* cpu : {"x86-64", "x86-64-v3"}) {
    if (Cpu().triple.starts_with("x86_64"))
      targets.push_back(Target::Parse(std::string("llvm -mtriple=x86_64-linux-gnu -mcpu=") + cpu).value());
  }
  return targets;
}

struct Built {
  KernelObject object;
  std::shared_ptr<const Artifact> artifact;
  const Kernel* kernel = nullptr;
};

Result<KernelObject> Compile(const PrimFunc& f, const Target& target = Cpu(), CodegenOptions options = {},
                             const PassContext& context = {});

Result<Built> Build(const PrimFunc& f, const Target& target = Cpu(), CodegenOptions options = {},
                    const PassContext& context = {});

double ElementOf(const Tensor& t, int64_t i);
void SetElement(const Tensor& t, int64_t i, double value);

// Returns arguments filled with small random integers. Run overwrites the outputs before the call.
std::vector<InterpArray> SmallIntegers(const PrimFunc& f, uint64_t seed);

// Runs a built kernel (prepare, then the checked entry) on copies of `args`, and stores the outputs in `args`. Before
// the call all elements of outputs are -77, so that a missing store is noticed.
Status Run(const Built& built, const PrimFunc& f, std::vector<InterpArray>& args, int threads = 2);

// Returns whether two values of an output are equal, including the sign of zero. Any two NaN are equal.
bool SameValue(double a, double b);

// Checks that a built kernel gives what the interpreter gives, at every element of every output. `relative` is the
// allowed relative error, for programs that call elementary functions.
void AgreesWithInterpreter(const PrimFunc& f, uint64_t seed, const Built& built, double relative = 0);
void AgreesWithInterpreter(const PrimFunc& f, uint64_t seed, const Target& target, double relative = 0);

// Checks that two built kernels of a program give the same bits, on numbers whose sums and products round.
void AgreesWith(const PrimFunc& f, uint64_t seed, const Built& one, const Built& other);
void AgreesWith(const PrimFunc& f, uint64_t seed, const Target& one, const Target& other);

// Checks that the kernels for all targets agree with the interpreter, and give the same bits as that for the first one.
void AgreesWithInterpreter(const PrimFunc& f, uint64_t seed, const std::vector<Target>& targets, double relative = 0);
void AgreesWithInterpreter(const PrimFunc& f, uint64_t seed = 1, double relative = 0);

}  // namespace autotune
