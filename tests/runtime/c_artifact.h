// For tests: artifacts compiled from C by the system's compiler. They implement the ABI independently of our code
// generators.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/artifact.h"
#include "tests/read.h"

namespace autotune {

// Returns the temporary directory of this process, which the process removes when it exits. A killed process cannot do
// that, so a test that kills a child sets the child's TEST_TMPDIR to a folder that the test removes.
inline std::string TempDir() {
  struct Folder {
    std::string path = ::testing::TempDir() + "runtime_test_XXXXXX";
    Folder() { EXPECT_TRUE(mkdtemp(path.data())); }
    ~Folder() { std::filesystem::remove_all(path); }
  };
  static const Folder folder;
  return folder.path;
}

// Compiles `body` to a shared object with `metadata` (JSON, which may contain quotes) under autotune.metadata, and
// returns its bytes. Thread-safe; compiles each body once.
inline std::string CompileArtifact(const std::string& metadata, const std::string& body) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static std::map<std::string, std::string> made;
  std::string& bytes = made[metadata + "\n" + body];
  if (!bytes.empty()) return bytes;
  std::string base = TempDir() + "/artifact" + std::to_string(made.size());
  std::ofstream source(base + ".c");
  source << "#include <dlpack/dlpack.h>\n#include \"runtime/abi.h\"\n"
         << "#define ENTRY(name) __asm__(name)\n";
  if (!metadata.empty()) {
    source << "extern const char at_metadata[] __asm__(\"autotune.metadata\");\nconst char at_metadata[] = {";
    for (unsigned char c : metadata) source << static_cast<int>(c) << ",";
    source << "0};\n";
  }
  source << body;
  source.close();
  std::string command = "cc -O1 -shared -fPIC -nostdlib -fno-builtin -fno-tree-loop-distribute-patterns -I" +
                        std::string(AUTOTUNE_SOURCE_DIR) + " -o " + base + ".so " + base + ".c 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  bytes = test::ReadAll(base + ".so");
  return bytes;
}

// Metadata of five kernels: "shift" y = x + 2w, where 2w is prepared; "shift3" likewise with 3w; "copy" y = x; "fails";
// "range" y[i] = i, in parallel, through scratch memory.
inline std::string SampleMetadata(int abi_version = 1) {
  return R"({"abi_version":)" + std::to_string(abi_version) + R"(,"target":"test","kernels":[
  {"name":"shift","params":[{"name":"x","dtype":"f32","shape":[2,4],"kind":"input"},
    {"name":"w","dtype":"f32","shape":[8],"kind":"constant"},
    {"name":"y","dtype":"f32","shape":[2,4],"kind":"output"}],"prepared":[32],"prepare_only":[1],"flops":8},
  {"name":"shift3","params":[{"name":"x","dtype":"f32","shape":[2,4],"kind":"input"},
    {"name":"w","dtype":"f32","shape":[8],"kind":"constant"},
    {"name":"y","dtype":"f32","shape":[2,4],"kind":"output"}],"prepared":[32],"prepare_only":[1],"flops":8},
  {"name":"copy","params":[{"name":"x","dtype":"f32","shape":[2,4],"kind":"input"},
    {"name":"y","dtype":"f32","shape":[2,4],"kind":"output"}]},
  {"name":"fails","params":[{"name":"x","dtype":"f32","shape":[2,4],"kind":"input"},
    {"name":"y","dtype":"f32","shape":[2,4],"kind":"output"}]},
  {"name":"range","params":[{"name":"y","dtype":"i32","shape":[1000],"kind":"output"}]}]})";
}

inline std::string SampleBody() {
  return R"(
static int32_t check(AtContext* c, const DLTensor* t, int ndim, int code, int bits) {
  if (t->ndim != ndim || t->dtype.code != code || t->dtype.bits != bits || t->dtype.lanes != 1) {
    c->set_error(c, "wrong type or rank");
    return -1;
  }
  return 0;
}
int32_t shift_prepare(AtContext* c, void* const* a) ENTRY("shift.prepare");
int32_t shift_prepare(AtContext* c, void* const* a) {
  const float* w = a[0]; float* p = a[1];
  for (int i = 0; i < 8; ++i) p[i] = 2 * w[i];
  return 0;
}
int32_t shift_raw(AtContext* c, void* const* a) ENTRY("shift.raw");
int32_t shift_raw(AtContext* c, void* const* a) {
  const float *x = a[0], *p = a[3]; float* y = a[2];
  for (int i = 0; i < 8; ++i) y[i] = x[i] + p[i];
  return 0;
}
int32_t shift(AtContext* c, const DLTensor* const* a, int32_t n) {
  if (n != 4) { c->set_error(c, "expected 4 arguments"); return -1; }
  if (check(c, a[0], 2, kDLFloat, 32) || check(c, a[1], 1, kDLFloat, 32) || check(c, a[2], 2, kDLFloat, 32)) return -1;
  void* raw[4] = {a[0]->data, a[1]->data, a[2]->data, a[3]->data};
  return shift_raw(c, raw);
}
int32_t shift3_prepare(AtContext* c, void* const* a) ENTRY("shift3.prepare");
int32_t shift3_prepare(AtContext* c, void* const* a) {
  const float* w = a[0]; float* p = a[1];
  for (int i = 0; i < 8; ++i) p[i] = 3 * w[i];
  return 0;
}
int32_t shift3_raw(AtContext* c, void* const* a) ENTRY("shift3.raw");
int32_t shift3_raw(AtContext* c, void* const* a) { return shift_raw(c, a); }
int32_t shift3(AtContext* c, const DLTensor* const* a, int32_t n) { return shift(c, a, n); }
int32_t copy_raw(AtContext* c, void* const* a) ENTRY("copy.raw");
int32_t copy_raw(AtContext* c, void* const* a) {
  const float* x = a[0]; float* y = a[1];
  for (int i = 0; i < 8; ++i) y[i] = x[i];
  return 0;
}
int32_t copy(AtContext* c, const DLTensor* const* a, int32_t n) {
  void* raw[2] = {a[0]->data, a[1]->data};
  return copy_raw(c, raw);
}
int32_t fails_raw(AtContext* c, void* const* a) ENTRY("fails.raw");
int32_t fails_raw(AtContext* c, void* const* a) { c->set_error(c, "division by zero in tile 3"); return 7; }
int32_t fails(AtContext* c, const DLTensor* const* a, int32_t n) { return fails_raw(c, 0); }
static int32_t range_body(AtContext* c, void* closure, int32_t task) {
  int32_t* scratch = c->workspace_alloc(c, 400);
  if (!scratch || ((uintptr_t)scratch & 63)) { c->set_error(c, "no scratch memory"); return -1; }
  for (int i = 0; i < 100; ++i) scratch[i] = task * 100 + i;
  for (int i = 0; i < 100; ++i) ((int32_t*)closure)[task * 100 + i] = scratch[i];
  c->workspace_free(c, scratch);
  return 0;
}
int32_t range_raw(AtContext* c, void* const* a) ENTRY("range.raw");
int32_t range_raw(AtContext* c, void* const* a) { return c->parallel_for(c, 10, range_body, a[0]); }
int32_t range(AtContext* c, const DLTensor* const* a, int32_t n) {
  if (check(c, a[0], 1, kDLInt, 32)) return -1;
  void* raw[1] = {a[0]->data};
  return range_raw(c, raw);
}
)";
}

inline std::string SampleArtifact() { return CompileArtifact(SampleMetadata(), SampleBody()); }

inline std::shared_ptr<const Artifact> SampleLibrary() { return Artifact::FromBytes(SampleArtifact()).value(); }

}  // namespace autotune
