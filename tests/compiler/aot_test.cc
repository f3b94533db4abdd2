// The parts of ahead-of-time output: names in objects, archives, and the merge of C sources.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "compiler/aot.h"
#include "compiler/aot_merge.h"
#include "compiler/aot_objects.h"
#include "compiler/aot_source.h"
#include "runtime/data_object.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Returns an object that defines the global symbol `name`.
std::string ObjectWith(const std::string& name) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_REL;
  ByteWriter out;
  EXPECT_TRUE(WriteDataObject({reinterpret_cast<const char*>(&header), sizeof header}, name, 4, out, [](ByteWriter& w) {
                w.Raw("data");
                return Status();
              }).ok());
  return out.Take();
}

TEST(AotObjects, GetPrefixesAndAreHidden) {
  const std::string object = PrefixSymbols(ObjectWith("k0.raw"), "net.").value();
  EXPECT_THAT(object, HasSubstr(std::string("\0net.k0.raw\0", 12)));
  EXPECT_THAT(PrefixSymbols(ObjectWith("memcpy"), "net.").value(), Not(HasSubstr("net.")));
}

TEST(AotObjects, DamagedOnesAreRefused) {
  EXPECT_THAT(PrefixSymbols("text", "net.").error().Text(), HasSubstr("truncated"));
  std::string object = ObjectWith("k0.raw");
  for (size_t size = 0; size < object.size(); ++size) EXPECT_FALSE(PrefixSymbols(object.substr(0, size), "net.").ok());
  object[0] = 'X';
  EXPECT_THAT(PrefixSymbols(object, "net.").error().Text(), HasSubstr("not a relocatable object"));
}

TEST(AotArchive, HasAnIndexAndOneMember) {
  const std::string archive = ArchiveOf("n.o", "abc", {"n_run", "n_metadata"});
  EXPECT_TRUE(archive.starts_with("!<arch>\n/               0 "));
  EXPECT_EQ(archive.size() % 2, 0u);
  EXPECT_THAT(archive, HasSubstr(std::string("n_run\0n_metadata\0", 17)));
  uint32_t at = 0;  // of the member, big-endian, after the number of symbols
  for (int i = 0; i < 4; ++i) at = at << 8 | static_cast<unsigned char>(archive[8 + 60 + 4 + i]);
  EXPECT_EQ(archive.substr(at, 3), "/0 ");
  EXPECT_EQ(archive.substr(at + 60, 3), "abc");
}

TEST(AotMerge, SharesDeclarationsAndKeepsDifferentOnes) {
  const auto source = [](const std::string& kernel, const std::string& body) {
    return "/* Kernel " + kernel + " */\n#include <stdint.h>\n\n/* Types. */\ntypedef int a;\n" + body +
           "\n/* Runs. */\nint32_t " + kernel + "_raw(AtContext* context) __asm__(\"" + kernel + ".raw\");\nint32_t " +
           kernel + "_raw(AtContext* context) {\n}\n";
  };
  const MergedSources merged = MergeSources({source("k0", ""), source("k1", "typedef int b;\n")});
  EXPECT_EQ(merged.functions, (std::map<std::string, std::string>{{"k0.raw", "k0_raw"}, {"k1.raw", "k1_raw"}}));
  EXPECT_EQ(merged.text.find("typedef int a;"), merged.text.rfind("typedef int a;"));
  EXPECT_THAT(merged.text, HasSubstr("typedef int b;"));
  EXPECT_THAT(merged.text, HasSubstr("static int32_t k0_raw("));
  EXPECT_THAT(merged.text, HasSubstr("static int32_t k1_raw("));
  EXPECT_THAT(merged.text, Not(HasSubstr("__asm__")));
}

TEST(AotNames, AreIdentifiers) {
  for (const char* name : {"net", "N_1", "resnet20"}) EXPECT_TRUE(IsCName(name)) << name;
  for (const char* name : {"", "1net", "_net", "my-net", "n\xc3\xa9t", "a b"}) EXPECT_FALSE(IsCName(name)) << name;
}

}  // namespace
}  // namespace autotune
