#include "tests/codegen/kernel.h"

#include <cmath>
#include <optional>

#include "ir/float_math.h"
#include "support/check.h"
#include "support/half.h"
#include "support/rng.h"

namespace autotune {

Result<KernelObject> Compile(const PrimFunc& f, const Target& target, CodegenOptions options,
                             const PassContext& context) {
  LoweredKernel lowered = TRY(Lower(f, target, context));
  return CompileKernel(lowered, target, options);
}

Result<Built> Build(const PrimFunc& f, const Target& target, CodegenOptions options, const PassContext& context) {
  Built built;
  built.object = TRY(Compile(f, target, options, context));
  if (!built.object.rejected.empty()) return Err("rejected: ", built.object.rejected);
  Json::Bytes elf = TRY(LinkKernels({&built.object}, target)).artifact;
  built.artifact = TRY(Artifact::FromBytes(elf.data));
  built.kernel = TRY(built.artifact->Find(f.name.str()));
  return built;
}

double ElementOf(const Tensor& t, int64_t i) {
  std::string type = DataTypeText(t.dtype());
  const void* p = t.data();
  if (type == "f32") return static_cast<const float*>(p)[i];
  if (type == "f64") return static_cast<const double*>(p)[i];
  if (type == "f16") return HalfFromBits(static_cast<const uint16_t*>(p)[i]);
  if (type == "bf16") return BFloatFromBits(static_cast<const uint16_t*>(p)[i]);
  if (type == "i64") return static_cast<double>(static_cast<const int64_t*>(p)[i]);
  if (type == "i32") return static_cast<const int32_t*>(p)[i];
  if (type == "i16") return static_cast<const int16_t*>(p)[i];
  if (type == "u16") return static_cast<const uint16_t*>(p)[i];
  if (type == "u32") return static_cast<const uint32_t*>(p)[i];
  if (type == "u64") return static_cast<double>(static_cast<const int64_t*>(p)[i]);  // as the interpreter stores it
  if (type == "i8") return static_cast<const int8_t*>(p)[i];
  CHECK(type == "u8" || type == "bool") << type;
  return static_cast<const uint8_t*>(p)[i];
}

void SetElement(const Tensor& t, int64_t i, double value) {
  std::string type = DataTypeText(t.dtype());
  void* p = t.data();
  if (type == "f32")
    static_cast<float*>(p)[i] = static_cast<float>(value);
  else if (type == "f64")
    static_cast<double*>(p)[i] = value;
  else if (type == "f16" || type == "bf16")
    static_cast<uint16_t*>(p)[i] = static_cast<uint16_t>(FloatToBits(value, *DType::Parse(type)));
  else if (type == "i64")
    static_cast<int64_t*>(p)[i] = static_cast<int64_t>(value);
  else if (type == "i32")
    static_cast<int32_t*>(p)[i] = static_cast<int32_t>(value);
  else if (type == "i16")
    static_cast<int16_t*>(p)[i] = static_cast<int16_t>(value);
  else if (type == "u16")
    static_cast<uint16_t*>(p)[i] = static_cast<uint16_t>(value);
  else if (type == "u32")
    static_cast<uint32_t*>(p)[i] = static_cast<uint32_t>(value);
  else if (type == "u64")
    static_cast<int64_t*>(p)[i] = static_cast<int64_t>(value);
  else if (type == "i8")
    static_cast<int8_t*>(p)[i] = static_cast<int8_t>(value);
  else
    static_cast<uint8_t*>(p)[i] = static_cast<uint8_t>(value);
}

std::vector<InterpArray> SmallIntegers(const PrimFunc& f, uint64_t seed) {
  Rng rng(seed);
  std::vector<InterpArray> args;
  for (const Param& p : f.params) {
    InterpArray array{p.buffer->dtype, ConstShape(p.buffer), {}};
    int64_t n = 1;
    for (int64_t extent : array.shape) n *= extent;
    bool is_signed = p.buffer->dtype.IsFloat() || p.buffer->dtype.code == TypeCode::kInt;
    for (int64_t i = 0; i < n; ++i) {
      array.data.push_back(p.buffer->dtype.IsBool() ? rng.Below(2) : rng.Below(9) - (is_signed ? 4 : 0));
    }
    args.push_back(std::move(array));
  }
  return args;
}

// Returns a tensor whose address is a multiple of the parameter's alignment, and of no greater power of two below 64.
static Result<Tensor> AtLeastAlignment(const TensorSpec& spec) {
  const Tensor t = TRY(Tensor::Empty(spec.shape, spec.dtype));
  if (spec.alignment == AT_ALIGNMENT) return t;
  std::shared_ptr<void> memory = AllocateAligned(t.num_bytes() + spec.alignment);
  return Tensor::View(static_cast<char*>(memory.get()) + spec.alignment, spec.shape, t.dtype(), memory);
}

Status Run(const Built& built, const PrimFunc& f, std::vector<InterpArray>& args, int threads) {
  KernelContext context(threads);
  std::vector<Tensor> tensors, constants;
  for (size_t i = 0; i < args.size(); ++i) {
    const Tensor t = TRY(AtLeastAlignment(built.kernel->metadata.params[i]));
    for (int64_t k = 0; k < t.num_elements(); ++k) {
      SetElement(t, k, f.params[i].role == ParamRole::kOutput ? -77 : args[i].data[k]);
    }
    tensors.push_back(t);
    if (f.params[i].role == ParamRole::kConstant) constants.push_back(t);
  }
  std::vector<Tensor> prepared = TRY(PrepareConstants(*built.kernel, context, constants));
  TRY(CallKernel(*built.kernel, context, tensors, prepared));
  for (size_t i = 0; i < args.size(); ++i) {
    for (int64_t k = 0; k < tensors[i].num_elements(); ++k) args[i].data[k] = ElementOf(tensors[i], k);
  }
  return {};
}

bool SameValue(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::isnan(a) && std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

void AgreesWithInterpreter(const PrimFunc& f, uint64_t seed, const Built& built, double relative) {
  std::vector<InterpArray> expected = SmallIntegers(f, seed), actual = expected;
  Status interpreted = Interpret(f, expected);
  ASSERT_TRUE(interpreted.ok()) << interpreted.error().Text();
  Status ran = Run(built, f, actual);
  ASSERT_TRUE(ran.ok()) << ran.error().Text();
  for (size_t i = 0; i < expected.size(); ++i) {
    if (f.params[i].role != ParamRole::kOutput) continue;
    for (size_t k = 0; k < expected[i].data.size(); ++k) {
      double want = expected[i].data[k], got = actual[i].data[k];
      bool near = std::fabs(want - got) <= relative * std::fabs(want);
      ASSERT_TRUE(want == got || near || (std::isnan(want) && std::isnan(got)))
          << f.params[i].buffer->name << "[" << k << "]: interpreted " << want << ", compiled " << got;
    }
  }
}

void AgreesWithInterpreter(const PrimFunc& f, uint64_t seed, const Target& target, double relative) {
  auto built = Build(f, target);
  ASSERT_TRUE(built.ok()) << built.error().Text();
  AgreesWithInterpreter(f, seed, *built, relative);
}

void AgreesWith(const PrimFunc& f, uint64_t seed, const Built& one, const Built& other) {
  std::vector<InterpArray> args = SmallIntegers(f, seed);
  Rng rng(seed);
  for (InterpArray& array : args) {
    for (double& value : array.data) value += array.dtype.IsFloat() ? static_cast<double>(rng.Below(1000)) / 1001 : 0;
  }
  std::vector<InterpArray> results[] = {args, args};
  const Built* both[] = {&one, &other};
  for (int i : {0, 1}) {
    Status ran = Run(*both[i], f, results[i]);
    ASSERT_TRUE(ran.ok()) << ran.error().Text();
  }
  for (size_t i = 0; i < args.size(); ++i) {
    for (size_t k = 0; k < args[i].data.size(); ++k) {
      ASSERT_TRUE(SameValue(results[0][i].data[k], results[1][i].data[k]))
          << f.params[i].buffer->name << "[" << k << "]: " << results[0][i].data[k] << " and " << results[1][i].data[k];
    }
  }
}

void AgreesWith(const PrimFunc& f, uint64_t seed, const Target& one, const Target& other) {
  auto first = Build(f, one), second = Build(f, other);
  ASSERT_TRUE(first.ok()) << first.error().Text();
  ASSERT_TRUE(second.ok()) << second.error().Text();
  AgreesWith(f, seed, *first, *second);
}

void AgreesWithInterpreter(const PrimFunc& f, uint64_t seed, const std::vector<Target>& targets, double relative) {
  std::optional<Built> first;
  for (const Target& target : targets) {
    SCOPED_TRACE(target.Text());
    auto built = Build(f, target);
    ASSERT_TRUE(built.ok()) << built.error().Text();
    AgreesWithInterpreter(f, seed, *built, relative);
    if (first) AgreesWith(f, seed, *first, *built);
    if (testing::Test::HasFatalFailure()) return;
    if (!first) first = std::move(*built);
  }
}

void AgreesWithInterpreter(const PrimFunc& f, uint64_t seed, double relative) {
  AgreesWithInterpreter(f, seed, Generators(), relative);
}

}  // namespace autotune
