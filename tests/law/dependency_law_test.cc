// Checks the dependency rules on the project itself, and each rule on a fabricated violation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/law/law.h"
#include "tests/law/tree.h"

namespace autotune::law {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Lines(const std::vector<std::string>& findings) {
  std::string text;
  for (const std::string& finding : findings) text += finding + "\n";
  return text;
}

TEST(Law, HoldsInThisProject) {
  std::vector<Source> lists, sources;
  for (const std::string& path : ProjectFiles()) {
    if (path.ends_with("CMakeLists.txt")) lists.push_back({path, ReadProjectFile(path)});
    if (path.ends_with(".cc") || path.ends_with(".h")) sources.push_back({path, ReadProjectFile(path)});
  }
  Components components;
  EXPECT_EQ(Lines(ParseComponents(lists, components)), "");
  EXPECT_GE(components.size(), 3u) << "found no components: is AUTOTUNE_SOURCE_DIR right?";
  EXPECT_GE(sources.size(), 20u);
  EXPECT_EQ(Lines(CheckLayers(components)), "");
  EXPECT_EQ(Lines(CheckIncludes(sources, components)), "");
}

Components Parsed(const std::vector<Source>& files) {
  Components components;
  EXPECT_THAT(ParseComponents(files, components), IsEmpty());
  return components;
}

const Components& Sample() {
  static const Components components = Parsed({{"support/CMakeLists.txt", "component(support DEPS LIBS fmt)"},
                                               {"ir/CMakeLists.txt", "component(ir DEPS support)"},
                                               {"rpc/CMakeLists.txt", "# wire\ncomponent(rpc DEPS support LIBS zmq)\n"},
                                               {"lower/CMakeLists.txt", "component(lower DEPS ir)"}});
  return components;
}

std::vector<std::string> Check(const std::string& path, const std::string& text) {
  return CheckIncludes({{path, text}}, Sample());
}

TEST(ParseComponents, ReadsDepsAndPlace) {
  EXPECT_EQ(Sample().at("rpc").deps, std::set<std::string>{"support"});
  EXPECT_EQ(Sample().at("rpc").line, 2);
  EXPECT_TRUE(Sample().at("support").deps.empty());
  EXPECT_THAT(CheckLayers(Sample()), IsEmpty());
}

TEST(ParseComponents, RefusesSeveralLinesOtherNamesAndSeconds) {
  Components components;
  EXPECT_THAT(ParseComponents({{"ir/CMakeLists.txt", "component(ir DEPS\n support)"}}, components),
              ElementsAre("ir/CMakeLists.txt:1: component(...) must be on one line"));
  EXPECT_THAT(ParseComponents({{"te/CMakeLists.txt", "component(tensor DEPS ir)"}}, components),
              ElementsAre(HasSubstr("must have its folder's name")));
  EXPECT_THAT(ParseComponents({{"te/sub/CMakeLists.txt", "component(te DEPS ir)"}}, components),
              ElementsAre(HasSubstr("a second component")));
}

TEST(CheckLayers, RefusesUpwardSidewardAndUnknown) {
  EXPECT_THAT(CheckLayers(Parsed({{"ir/CMakeLists.txt", "component(ir DEPS schedule)"}})),
              ElementsAre("ir/CMakeLists.txt:1: ir depends on schedule, which is not in a lower layer"));
  EXPECT_THAT(CheckLayers(Parsed({{"te/CMakeLists.txt", "component(te DEPS lower)"}})),
              ElementsAre(HasSubstr("not in a lower layer")));
  EXPECT_THAT(CheckLayers(Parsed({{"te/CMakeLists.txt", "component(te DEPS libfoo)"}})),
              ElementsAre(HasSubstr("which is no component")));
  EXPECT_THAT(CheckLayers(Parsed({{"misc/CMakeLists.txt", "component(misc DEPS support)"}})),
              ElementsAre(HasSubstr("is in no layer")));
}

TEST(CheckLayers, NamesACircle) {
  std::string text = Lines(CheckLayers(Parsed({{"ir/CMakeLists.txt", "component(ir DEPS te)"},
                                               {"te/CMakeLists.txt", "component(te DEPS arith)"},
                                               {"arith/CMakeLists.txt", "component(arith DEPS ir)"}})));
  EXPECT_THAT(text, HasSubstr("a cycle of dependencies: arith, ir, te, arith"));
}

TEST(CheckIncludes, AllowsOwnFolderDepsAndTheSystem) {
  EXPECT_THAT(Check("ir/expr.cc",
                    "#include \"ir/expr.h\"\n#include \"support/hash.h\"\n#include <vector>\n"
                    "#include <unistd.h>\n#include <sys/mman.h>\n"),
              IsEmpty());
  EXPECT_THAT(Check("tests/ir/a_test.cc", "#include \"rpc/wire.h\"\n#include <gtest/gtest.h>\n"), IsEmpty());
}

TEST(CheckIncludes, RefusesAFolderThatIsNotAmongTheDeps) {
  EXPECT_THAT(Check("ir/expr.cc", "// x\n\n#include \"rpc/wire.h\"\n"),
              ElementsAre("ir/expr.cc:3: \"rpc/wire.h\": ir may not include rpc, which is not among the DEPS of "
                          "ir/CMakeLists.txt"));
}

TEST(CheckIncludes, RefusesADependencyOfADependency) {
  EXPECT_THAT(Check("lower/a.cc", "#include \"support/hash.h\""), ElementsAre(HasSubstr("may not include support")));
}

TEST(CheckIncludes, RefusesWhatIsNotRelativeToTheRoot) {
  EXPECT_THAT(Check("ir/expr.cc", "#include \"expr.h\""), ElementsAre(HasSubstr("is not relative to the root")));
  EXPECT_THAT(Check("ir/expr.cc", "#include \"ir/../rpc/wire.h\""),
              ElementsAre(HasSubstr("is not relative to the root")));
  EXPECT_THAT(Check("ir/expr.cc", "#include \"misc/x.h\""), ElementsAre(HasSubstr("is in no component")));
}

TEST(CheckIncludes, RefusesAFolderWithoutComponent) {
  EXPECT_THAT(Check("te/a.cc", "#include \"ir/expr.h\""), ElementsAre(HasSubstr("has no component(...) line")));
}

TEST(CheckIncludes, EachPackageHasItsDoor) {
  const std::pair<const char*, const char*> doors[] = {
      {"llvm/IR/Module.h", "codegen/llvm/emit.cc"},
      {"lld/Common/Driver.h", "codegen/llvm/link.cc"},
      {"seccomp.h", "rpc/system_calls.cc"},
      {"zmq.h", "rpc/transport.cc"},
      {"zmq.hpp", "rpc/transport.cc"},
      {"xgboost/c_api.h", "costmodel/xgboost_model.cc"},
      {"sqlite3.h", "records/sqlite.cc"},
      {"nlohmann/json.hpp", "support/json.cc"},
      {"boost/asio.hpp", "support/loop.cc"},
      {"google/protobuf/message.h", "frontend/onnx/read.cc"},
      {"onnx/onnx_pb.h", "frontend/onnx/read.cc"},
      {"CLI/CLI.hpp", "tools/autotune.cc"},
      {"archive.h", "archives/npz.cc"},
      {"archive_entry.h", "archives/npz.cc"},
      {"spdlog/spdlog.h", "support/log.cc"},
      {"xxhash.h", "support/hash.cc"},
      {"gtest/gtest.h", "tests/ir/a_test.cc"},
      {"dlpack/dlpack.h", "runtime/tensor.h"},
  };
  for (auto [header, door] : doors) {
    std::string line = std::string("#include <") + header + ">\n";
    EXPECT_THAT(Check(door, line), IsEmpty()) << header;
    EXPECT_THAT(Check("ir/expr.cc", line), ElementsAre(HasSubstr("ir/expr.cc:1: "))) << header;
    EXPECT_THAT(Check("ir/expr.cc", line), ElementsAre(HasSubstr("third-party"))) << header;
  }
}

TEST(CheckIncludes, NoThirdPartyHeaderLeavesItsDoor) {
  Components components = Parsed({{"codegen/CMakeLists.txt", "component(codegen DEPS ir)"},
                                  {"compiler/CMakeLists.txt", "component(compiler DEPS codegen)"}});
  std::vector<Source> inside = {{"codegen/llvm/emit.h", "#include <llvm/IR/Module.h>\n"},
                                {"codegen/llvm/machine.h", "#include \"codegen/llvm/emit.h\"\n"},
                                {"codegen/llvm/codegen.h", "#include <string>\n"},
                                {"codegen/llvm/codegen.cc", "#include \"codegen/llvm/machine.h\"\n"},
                                {"codegen/build.cc", "#include \"codegen/llvm/codegen.h\"\n"}};
  EXPECT_THAT(CheckIncludes(inside, components), IsEmpty());
  auto with = [&](const char* path, const char* text) {
    std::vector<Source> sources = inside;
    sources.push_back({path, text});
    return CheckIncludes(sources, components);
  };
  EXPECT_THAT(with("codegen/client.cc", "#include \"codegen/llvm/machine.h\""),
              ElementsAre(HasSubstr("codegen/client.cc:1: \"codegen/llvm/machine.h\" brings in llvm/")));
  EXPECT_THAT(with("compiler/a.cc", "#include \"codegen/llvm/emit.h\""), ElementsAre(HasSubstr("brings in llvm/")));
  EXPECT_THAT(with("codegen/build.h", "#include <llvm/IR/Module.h>"), ElementsAre(HasSubstr("third-party")));
  EXPECT_THAT(Check("rpc/transport.h", "#include <zmq.h>"), ElementsAre(HasSubstr("third-party")));
  EXPECT_THAT(Check("runtime/tensor.h", "#include <dlpack/dlpack.h>"), IsEmpty());
  EXPECT_THAT(Check("tests/frontend/maker.h", "#include <onnx/onnx_pb.h>"), IsEmpty());
}

TEST(CheckIncludes, AnUnknownHeaderNeedsADoor) {
  EXPECT_THAT(Check("ir/expr.cc", "#  include  <Eigen/Dense>  // fast"), ElementsAre(HasSubstr("is unknown")));
  EXPECT_THAT(Check("ir/expr.cc", "#include <zlib.h>"), ElementsAre(HasSubstr("is unknown")));
}

}  // namespace
}  // namespace autotune::law
