// Serialized module trees: reading gives a tree, which is written and read back to the same bytes, or an error of one
// line.
#include "runtime/byte_stream.h"
#include "runtime/device_module.h"
#include "runtime/registry.h"
#include "support/check.h"
#include "tests/fuzz/target.h"
#include "tests/runtime/module_blob.h"

namespace autotune {

FUZZ_TARGET(module_blob) {
  static const bool registered = [] {
    auto load = PackedFunc::Of([](ObjectRef reader) { return LoadDeviceModule("ext_dev", **ReaderOf(reader)); });
    return Registry::Global().Add("runtime.module.loadbinary_ext_dev", load, /*replace=*/true).ok();
  }();
  CHECK(registered);
  auto tree = ParseModuleBlob(input, MakeUnlinkedLibrary());
  if (!tree.ok()) {
    CHECK(tree.error().Text().find('\n') == std::string::npos) << tree.error().Text();
    return;
  }
  std::string bytes = test::ModuleBlob(*tree).value();
  auto again = ParseModuleBlob(bytes, MakeUnlinkedLibrary());
  CHECK(again.ok()) << again.error().Text();
  CHECK(test::ModuleBlob(*again).value() == bytes);
}

}  // namespace autotune
