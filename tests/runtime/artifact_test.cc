#include "runtime/artifact.h"

#include <gmock/gmock.h>

#include <fstream>

#include "runtime/kernel_context.h"
#include "runtime/seal.h"
#include "runtime/tensor.h"
#include "support/cpu_features.h"
#include "tests/runtime/c_artifact.h"

namespace autotune {
namespace {

using testing::HasSubstr;

Tensor Floats(std::vector<int64_t> shape, std::vector<float> values) {
  return Tensor::FromBytes(std::move(shape), {kDLFloat, 32, 1},
                           {reinterpret_cast<const char*>(values.data()), values.size() * 4})
      .value();
}

TEST(Artifact, LoadsPreparesAndCalls) {
  auto artifact = Artifact::FromBytes(SampleArtifact());
  ASSERT_TRUE(artifact.ok()) << artifact.error().Text();
  KernelContext context(2);
  const Kernel* shift = (*artifact)->Find("shift").value();
  Tensor x = Floats({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}), w = Floats({8}, {1, 1, 1, 1, 2, 2, 2, 2});
  auto prepared = PrepareConstants(*shift, context, std::vector{w});
  ASSERT_TRUE(prepared.ok()) << prepared.error().Text();
  ASSERT_EQ(prepared->size(), 1u);
  Tensor y = Tensor::Zeros({2, 4}, "f32").value();
  Status status = CallKernel(*shift, context, std::vector{x, w, y}, *prepared);
  ASSERT_TRUE(status.ok()) << status.error().Text();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(y.Data<float>()[i], i + (i < 4 ? 2 : 4));
  EXPECT_EQ(shift->metadata.ParamsOfKind(ParamKind::kConstant), std::vector<int64_t>{1});
}

// Code of a stranger's artifact runs only when a kernel is called.
TEST(Artifact, RefusesAStrangersCodeThatRunsWhileItIsLoaded) {
  for (const char* code : {
           "__attribute__((constructor)) static void f(void) { __builtin_trap(); }",
           "__attribute__((destructor)) static void f(void) { __builtin_trap(); }",
           "static int one(void) { return 1; } static void* pick(void) { __builtin_trap(); return one; }\n"
           "static int f(void) __attribute__((ifunc(\"pick\"))); int g(void) { return f(); }",
       }) {
    const auto loaded = Artifact::FromStranger(CompileArtifact(SampleMetadata(), std::string(code) + SampleBody()));
    ASSERT_FALSE(loaded.ok()) << code;
    EXPECT_THAT(loaded.error().Text(), testing::HasSubstr("code that runs while it is loaded")) << code;
  }
  EXPECT_TRUE(
      Artifact::FromStranger(CompileArtifact(SampleMetadata(), "static int f(void) { return 1; }" + SampleBody()))
          .ok());
}

TEST(Artifact, ASealTellsDamage) {
  const std::string library = SampleArtifact(), sealed = library + SealOf(library);
  ASSERT_TRUE(Artifact::FromBytes(sealed).ok());
  const std::string path = TempDir() + "/damaged.so";
  // Begins after the ELF header, since damage there has its own messages.
  for (size_t at = 64; at < sealed.size(); at += 97) {
    std::string damaged = sealed;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    // If the seal's magic bytes are damaged, no seal is recognized, and nothing is checked.
    const bool in_magic = at >= library.size() && at < library.size() + 8;
    EXPECT_EQ(CheckSeal(damaged).ok(), in_magic) << at;
    if (at % 5 != 0 || in_magic) continue;
    auto from_bytes = Artifact::FromBytes(damaged);
    ASSERT_FALSE(from_bytes.ok()) << at;
    std::ofstream(path, std::ios::binary) << damaged;
    auto from_file = Artifact::FromFile(path);
    ASSERT_FALSE(from_file.ok()) << at;
    EXPECT_EQ(from_file.error().Text().find('\n'), std::string::npos);
  }
  std::string damaged = sealed;
  damaged[library.size() / 2] ^= 1;
  EXPECT_THAT(Artifact::FromBytes(damaged).error().Text(), HasSubstr("the file is damaged"));
  EXPECT_TRUE(Artifact::FromBytes(library).ok());  // libraries of other linkers have no seal
  EXPECT_TRUE(CheckSeal("").ok());
}

TEST(Artifact, AFileThatIsCutShortIsRefused) {
  const std::string library = SampleArtifact(), sealed = library + SealOf(library);
  constexpr size_t kStride = 61, kMagicBytes = 8;
  for (size_t size = 0; size < sealed.size(); size += size < library.size() - 200 ? kStride : 1) {
    // Without the seal's magic bytes, no seal is expected, and the library is whole.
    const bool whole = size >= library.size() && size < library.size() + kMagicBytes;
    const auto artifact = Artifact::FromBytes(sealed.substr(0, size));
    ASSERT_EQ(artifact.ok(), whole) << size << " of " << library.size();
    if (whole) continue;
    EXPECT_EQ(artifact.error().Text().find('\n'), std::string::npos) << size;
  }
}

TEST(Artifact, KernelErrorsCarryTheirText) {
  auto artifact = Artifact::FromBytes(SampleArtifact()).value();
  KernelContext context(1);
  Tensor x = Tensor::Zeros({2, 4}, "f32").value(), y = Tensor::Zeros({2, 4}, "f32").value();
  Status status = CallKernel(*artifact->Find("fails").value(), context, std::vector{x, y}, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().Text(), "kernel fails failed with code 7: division by zero in tile 3");
  // The second call must not report the first call's error.
  Tensor wrong = Tensor::Zeros({1000}, "f32").value();
  status = CallKernel(*artifact->Find("range").value(), context, std::vector{wrong}, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().Text(), "kernel range failed with code -1: wrong type or rank");
  EXPECT_FALSE(artifact->Find("nothing").ok());
}

TEST(Artifact, PrepareChecksItsConstants) {
  auto artifact = Artifact::FromBytes(SampleArtifact()).value();
  KernelContext context(1);
  const Kernel* shift = artifact->Find("shift").value();
  EXPECT_FALSE(PrepareConstants(*shift, context, {}).ok());
  auto wrong = PrepareConstants(*shift, context, std::vector{Tensor::Zeros({7}, "f32").value()});
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().Text(), HasSubstr("constant w is f32[8], got f32[7]"));
}

TEST(Artifact, ParallelKernelWithScratch) {
  auto artifact = Artifact::FromBytes(SampleArtifact()).value();
  for (int threads : {1, 2, 3}) {
    KernelContext context(threads);
    Tensor y = Tensor::Zeros({1000}, "i32").value();
    for (int round = 0; round < 20; ++round) {
      ASSERT_TRUE(CallKernel(*artifact->Find("range").value(), context, std::vector{y}, {}).ok());
    }
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(y.Data<int32_t>()[i], i);
  }
}

TEST(Artifact, ManyAtOnceStayDistinct) {
  std::vector<std::shared_ptr<const Artifact>> loaded;
  KernelContext context(1);
  for (int n = 0; n < 4; ++n) {
    std::string metadata =
        R"({"abi_version":1,"kernels":[{"name":"k","params":[{"name":"y","dtype":"i32","shape":[1],"kind":"output"}]}]})";
    std::string body =
        "int32_t raw(AtContext* c, void* const* a) ENTRY(\"k.raw\");\n"
        "int32_t raw(AtContext* c, void* const* a) { *(int32_t*)a[0] = " +
        std::to_string(n) +
        "; return 0; }\n"
        "int32_t k(AtContext* c, const DLTensor* const* a, int32_t n) { void* p = a[0]->data; return raw(c, &p); }\n";
    loaded.push_back(Artifact::FromBytes(CompileArtifact(metadata, body)).value());
    if (n == 1) loaded[0] = nullptr;  // frees its file descriptor for the next artifact
  }
  Tensor y = Tensor::Zeros({1}, "i32").value();
  for (int n = 1; n < 4; ++n) {
    ASSERT_TRUE(CallKernel(loaded[n]->kernels()[0], context, std::vector{y}, {}).ok());
    EXPECT_EQ(*y.Data<int32_t>(), n);
  }
}

TEST(Artifact, FromFile) {
  std::string path = TempDir() + "/file.so";
  std::ofstream(path, std::ios::binary) << SampleArtifact();
  EXPECT_TRUE(Artifact::FromFile(path).ok());
  auto missing = Artifact::FromFile(path + ".gone");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().Text(), HasSubstr("cannot open"));
}

std::string LoadError(const std::string& bytes) {
  auto artifact = Artifact::FromBytes(bytes);
  EXPECT_FALSE(artifact.ok());
  return artifact.ok() ? "" : artifact.error().Text();
}

TEST(Artifact, RefusesWhatIsNoArtifact) {
  EXPECT_THAT(LoadError(""), HasSubstr("not a shared object"));
  EXPECT_THAT(LoadError(std::string(1000, 'x')), HasSubstr("no ELF header"));
  std::string good = SampleArtifact();
  for (size_t size : {size_t{100}, good.size() / 4, good.size() / 2}) {
    EXPECT_FALSE(Artifact::FromBytes(good.substr(0, size)).ok()) << size;
  }
  std::string foreign = good;
  foreign[18] = 20;  // e_machine: PowerPC
  foreign[19] = 0;
  EXPECT_THAT(LoadError(foreign), HasSubstr("compiled for ELF machine 20"));
  EXPECT_THAT(LoadError(CompileArtifact("", SampleBody())), HasSubstr("no symbol autotune.metadata"));
  EXPECT_THAT(LoadError(CompileArtifact(SampleMetadata(2), SampleBody())),
              HasSubstr("artifact ABI version 2, but this runtime has 1"));
  EXPECT_THAT(LoadError(CompileArtifact(SampleMetadata(), "")), HasSubstr("kernel shift has no entry point shift"));
  EXPECT_THAT(LoadError(CompileArtifact("{", SampleBody())), HasSubstr("not valid JSON"));
  EXPECT_THAT(LoadError(CompileArtifact(SampleMetadata(), SampleBody() + "void gone(void); void f(void) { gone(); }")),
              HasSubstr("undefined symbol: gone"));
  std::string negative = SampleMetadata();
  negative.replace(negative.find("[32]"), 4, "[-1]");
  EXPECT_THAT(LoadError(CompileArtifact(negative, SampleBody())), HasSubstr("a prepared buffer cannot have -1 bytes"));
}

std::string MetadataFor(const std::string& cpu_feature) {
  std::string metadata = SampleMetadata();
  return metadata.insert(1, "\"cpu_features\":[\"" + cpu_feature + "\"],");
}

TEST(Artifact, RefusesCodeForOtherCpus) {
  std::string error = LoadError(CompileArtifact(MetadataFor("no-cpu-has-it"), SampleBody()));
  EXPECT_THAT(error, HasSubstr("its code needs no-cpu-has-it, which this CPU lacks; check the target"));
  if (HostCpuFeatures().empty()) return;
  auto fits = Artifact::FromBytes(CompileArtifact(MetadataFor(HostCpuFeatures()[0]), SampleBody()));
  EXPECT_TRUE(fits.ok()) << fits.error().Text();
}

}  // namespace
}  // namespace autotune
