#include "runtime/info_module.h"

namespace autotune {
namespace {

struct InfoModule : ModuleNode {
  std::string json;

  std::string_view TypeKey() const override { return kInfoModule; }
  std::vector<std::string> FunctionNames() const override { return {"get_info"}; }
  PackedFunc GetOwnFunction(std::string_view name, const Module&) override {
    if (name != "get_info") return {};
    return PackedFunc::Of([text = json] { return text; });
  }
  Status Save(ByteWriter& out) const override {
    out.Text(json);
    return {};
  }
};

}  // namespace

Module MakeInfoModule(std::string json) {
  auto module = std::make_shared<InfoModule>();
  module->json = std::move(json);
  return module;
}

Result<Module> LoadInfoModule(ByteReader& in) { return MakeInfoModule(std::string(TRY(in.Text()))); }

}  // namespace autotune
