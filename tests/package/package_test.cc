// Packages on disk: a written package reads back equal, and any other file gives an error of one clear line.
#include "package/package.h"

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "package/load.h"
#include "package/tar_seal.h"
#include "support/rng.h"
#include "tests/read.h"

namespace autotune {
namespace {

using test::ReadAll;
using ::testing::HasSubstr;
using ::testing::Not;

Package Sample() {
  Package package;
  package.info.model_name = "a net/with ../odd: name";
  package.info.target = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2";
  package.info.inputs = {{"image", "f32", {1, 3, 32, 32}, ParamKind::kInput}};
  package.info.outputs = {{"p", "f32", {1, 10}, ParamKind::kOutput}};
  package.info.tasks = 3;
  package.info.tuned_tasks = 2;
  package.graph_json = "{\"nodes\": []}";
  package.params = std::string("\0\1\2 binary \xff", 12);
  package.library = std::string(5000, '\x7f');
  package.graph_text = "";
  package.objects = {"object 0", "object 1"};
  package.sources = {"int source;"};
  package.memory = {{.device = 1, .workspace_size_bytes = 1 << 20}};
  package.functions["k0"] = {{.device = 1, .workspace_size_bytes = 64}};
  return package;
}

using Members = std::vector<std::pair<std::string, std::string>>;

Members ReadTar(const std::string& path) {
  Members members;
  archive* in = archive_read_new();
  archive_read_support_format_all(in);
  EXPECT_EQ(archive_read_open_filename(in, path.c_str(), 10240), ARCHIVE_OK);
  for (archive_entry* entry; archive_read_next_header(in, &entry) == ARCHIVE_OK;) {
    std::string bytes(static_cast<size_t>(archive_entry_size(entry)), 0);
    EXPECT_EQ(archive_read_data(in, bytes.data(), bytes.size()), static_cast<la_ssize_t>(bytes.size()));
    members.emplace_back(archive_entry_pathname(entry), bytes);
  }
  archive_read_free(in);
  return members;
}
void WriteTarFile(const std::string& path, const Members& members) {
  archive* out = archive_write_new();
  archive_write_set_format_ustar(out);
  EXPECT_EQ(archive_write_open_filename(out, path.c_str()), ARCHIVE_OK);
  for (const auto& [name, bytes] : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<int64_t>(bytes.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    EXPECT_EQ(archive_write_header(out, entry), ARCHIVE_OK);
    archive_write_data(out, bytes.data(), bytes.size());
    archive_entry_free(entry);
  }
  archive_write_free(out);
}

// Returns the members of a package as another program would have written them: without a seal and our description.
Members Foreign(Members members) {
  std::erase_if(members, [](const auto& member) { return member.first == kSealMember; });
  for (auto& [name, bytes] : members) {
    if (name != "metadata.json") continue;
    Json metadata = Json::Parse(bytes).value();
    metadata["autotune"] = Json();
    bytes = metadata.Dump();
  }
  return members;
}

// Returns the members with a seal that fits them.
Members Sealed(Members members) {
  std::erase_if(members, [](const auto& member) { return member.first == kSealMember; });
  std::vector<std::pair<std::string, std::string_view>> listed(members.begin(), members.end());
  members.emplace_back(kSealMember, SealText(listed));
  return members;
}

class PackageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "package-XXXXXX";
    ASSERT_TRUE(mkdtemp(folder_.data()));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string File(const std::string& name) const { return folder_ + "/" + name; }

  // Checks that reading and loading refuse the file, in one line that names it.
  void ExpectRefused(const std::string& path, const std::string& word) {
    auto package = ReadPackage(path);
    ASSERT_FALSE(package.ok()) << path;
    std::string text = package.error().Text();
    EXPECT_THAT(text, HasSubstr(path));
    EXPECT_THAT(text, HasSubstr(word));
    EXPECT_THAT(text, Not(HasSubstr("\n")));
    EXPECT_FALSE(LoadModel(path, 1).ok());
  }

  std::string folder_;
};

TEST_F(PackageTest, IsReadAsWritten) {
  Package package = Sample();
  ASSERT_TRUE(WritePackage(package, File("p.tar")).ok());
  auto read = ReadPackage(File("p.tar"));
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(ToJson(read->info), ToJson(package.info));
  EXPECT_EQ(read->graph_json, package.graph_json);
  EXPECT_EQ(read->params, package.params);
  EXPECT_EQ(read->library, package.library);
  EXPECT_EQ(read->graph_text, package.graph_text);
  EXPECT_EQ(read->objects, package.objects);
  EXPECT_EQ(read->sources, package.sources);
  EXPECT_EQ(ToJson(read->memory), ToJson(package.memory));
  EXPECT_EQ(ToJson(read->functions), ToJson(package.functions));
  // No temporary file is left, and no member leaves the archive.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  for (const auto& [name, bytes] : ReadTar(File("p.tar"))) EXPECT_THAT(name, Not(HasSubstr("..")));
}

TEST_F(PackageTest, AFailedWriteLeavesTheOldOne) {
  ASSERT_TRUE(WritePackage(Sample(), File("p.tar")).ok());
  Status status = WritePackage(Sample(), "/no/such/folder/p.tar");
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().Text(), HasSubstr("/no/such/folder/p.tar"));
  std::filesystem::create_directory(File("taken.tar"));
  EXPECT_FALSE(WritePackage(Sample(), File("taken.tar")).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
}

TEST_F(PackageTest, MetadataGraphAndParametersAreNeeded) {
  ASSERT_TRUE(WritePackage(Sample(), File("p.tar")).ok());
  Members members = ReadTar(File("p.tar"));
  ASSERT_EQ(members.size(), 9u);
  WriteTarFile(File("same.tar"), members);
  EXPECT_TRUE(ReadPackage(File("same.tar")).ok()) << "a package from another tar program must be accepted";
  for (size_t i = 0; i < members.size(); ++i) {
    Members fewer = members;
    fewer.erase(fewer.begin() + static_cast<long>(i));
    WriteTarFile(File("fewer.tar"), fewer);
    const std::string& name = members[i].first;
    ExpectRefused(File("fewer.tar"), name == kSealMember ? "it has no autotune.seal" : "member " + name);
    if (name == kSealMember) continue;
    WriteTarFile(File("fewer.tar"), Sealed(fewer));
    if (name == "metadata.json" || name.ends_with("graph.json") || name.ends_with(".params")) {
      ExpectRefused(File("fewer.tar"), name.substr(0, name.rfind('/')));
    } else {
      EXPECT_TRUE(ReadPackage(File("fewer.tar")).ok()) << name;
    }
  }
  WriteTarFile(File("none.tar"), {});
  EXPECT_FALSE(ReadPackage(File("none.tar")).ok());
}

TEST_F(PackageTest, NamesMayBeginWithTheFolderItself) {
  ASSERT_TRUE(WritePackage(Sample(), File("p.tar")).ok());
  const Members members = ReadTar(File("p.tar"));
  Members dotted;
  for (const auto& [name, bytes] : members) dotted.emplace_back("./" + name, bytes);
  WriteTarFile(File("dotted.tar"), dotted);
  auto read = ReadPackage(File("dotted.tar"));
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(read->graph_json, Sample().graph_json);
  dotted.emplace_back("metadata.json", "{}");
  WriteTarFile(File("twice.tar"), dotted);
  ExpectRefused(File("twice.tar"), "member metadata.json occurs twice");
}

TEST_F(PackageTest, ForeignFilesAreRefused) {
  std::ofstream(File("empty")).flush();
  std::ofstream(File("text")) << "hello\nworld\n";
  std::ofstream(File("noise")) << std::string(20000, '\xc3');
  WriteTarFile(File("other.tar"), {{"README", "hello"}});
  ExpectRefused(File("empty"), "is not a package in Model Library Format");
  ExpectRefused(File("text"), "is not a package in Model Library Format");
  ExpectRefused(File("noise"), "is not a package in Model Library Format");
  ExpectRefused(File("other.tar"), "metadata.json");
  ExpectRefused(File("absent"), "no such file");
  ExpectRefused(folder_, "is not a package in Model Library Format");

  ASSERT_TRUE(WritePackage(Sample(), File("p.tar")).ok());
  Members members = ReadTar(File("p.tar"));
  for (const auto& [metadata, word] :
       std::map<std::string, std::string>{{"", "metadata.json"},
                                          {"{", "metadata.json"},
                                          {"[]", "its format"},
                                          {"{\"version\": 4}", "format"},
                                          {"{\"version\": \"5\"}", "format"},
                                          {"{\"version\": 5, \"autotune\": 3}", "metadata.json"}}) {
    for (auto& [name, bytes] : members) {
      if (name == "metadata.json") bytes = metadata;
    }
    WriteTarFile(File("odd.tar"), Sealed(members));
    ExpectRefused(File("odd.tar"), word);
  }
}

TEST_F(PackageTest, TruncatedAnywhere) {
  ASSERT_TRUE(WritePackage(Sample(), File("p.tar")).ok());
  std::string bytes = ReadAll(File("p.tar"));
  int refused = 0;
  for (size_t size = 0; size < bytes.size(); size += 97) {
    std::ofstream(File("cut.tar"), std::ios::binary) << bytes.substr(0, size);
    auto read = ReadPackage(File("cut.tar"));
    if (read.ok()) {  // only padding at the end is cut off
      EXPECT_EQ(read->params, Sample().params);
      EXPECT_EQ(read->library, Sample().library);
      continue;
    }
    ++refused;
    EXPECT_THAT(read.error().Text(), HasSubstr(File("cut.tar")));
    EXPECT_THAT(read.error().Text(), Not(HasSubstr("\n")));
  }
  EXPECT_GT(refused, 50);
}

// Every changed bit of a written file is noticed, or lies in padding.
TEST_F(PackageTest, ADamagedByteIsNoticed) {
  ASSERT_TRUE(WritePackage(Sample(), File("p.tar")).ok());
  const std::string bytes = ReadAll(File("p.tar"));
  Rng rng(1);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string flipped = bytes;
    const size_t at = rng.Below(bytes.size());
    flipped[at] = static_cast<char>(flipped[at] ^ (1 + rng.Below(255)));
    std::ofstream(File("flipped.tar"), std::ios::binary) << flipped;
    auto read = ReadPackage(File("flipped.tar"));
    if (!read.ok()) {
      ++refused;
      EXPECT_THAT(read.error().Text(), HasSubstr(File("flipped.tar")));
      EXPECT_THAT(read.error().Text(), Not(HasSubstr("\n")));
      continue;
    }
    EXPECT_EQ(ToJson(read->info), ToJson(Sample().info)) << at;
    EXPECT_EQ(read->graph_json, Sample().graph_json) << at;
    EXPECT_EQ(read->params, Sample().params) << at;
    EXPECT_EQ(read->library, Sample().library) << at;
    EXPECT_EQ(read->objects, Sample().objects) << at;
    EXPECT_EQ(read->sources, Sample().sources) << at;
  }
  EXPECT_GT(refused, 500);
}

TEST_F(PackageTest, TheSealNamesTheDamagedMember) {
  ASSERT_TRUE(WritePackage(Sample(), File("p.tar")).ok());
  const Members members = ReadTar(File("p.tar"));
  EXPECT_EQ(Sealed(members), members);
  for (size_t i = 0; i < members.size(); ++i) {
    Members damaged = members;
    if (damaged[i].second.empty()) continue;
    damaged[i].second.back() ^= 1;
    WriteTarFile(File("damaged.tar"), damaged);
    ExpectRefused(File("damaged.tar"), members[i].first == kSealMember ? "member parameters/" : members[i].first);
  }
  Members more = members;
  more.emplace_back("codegen/host/lib/lib2.o", "object 2");
  WriteTarFile(File("more.tar"), more);
  ExpectRefused(File("more.tar"), "lists 8 members, but it has 9");
  more = members;
  more.back().second = "autotune-seal 2\n";
  WriteTarFile(File("newer.tar"), more);
  ExpectRefused(File("newer.tar"), "newer version");
}

TEST_F(PackageTest, APackageOfAnOlderVersionIsRefused) {
  ASSERT_TRUE(WritePackage(Sample(), File("p.tar")).ok());
  Members members = ReadTar(File("p.tar"));
  WriteTarFile(File("foreign.tar"), Foreign(members));
  EXPECT_TRUE(ReadPackage(File("foreign.tar")).ok()) << "other programs write no seal";
  std::erase_if(members, [](const auto& member) { return member.first == kSealMember; });
  WriteTarFile(File("old.tar"), members);
  ExpectRefused(File("old.tar"), "an older version of autotune wrote it (hint: compile the model again)");
}

TEST_F(PackageTest, TheDateOfTheExportCanBeSet) {
  auto date_of = [&](const char* epoch) -> std::string {
    setenv("SOURCE_DATE_EPOCH", epoch, 1);
    Status written = WritePackage(Sample(), File("p.tar"));
    unsetenv("SOURCE_DATE_EPOCH");
    if (!written.ok()) return written.error().Text();
    return Json::Parse(ReadTar(File("p.tar"))[0].second).value()["export_datetime"].As<std::string>()[0];
  };
  EXPECT_EQ(date_of("1700000000"), "2023-11-14 22:13:20Z");
  const std::string bytes = ReadAll(File("p.tar"));
  EXPECT_EQ(date_of("0"), "1970-01-01 00:00:00Z");
  EXPECT_NE(ReadAll(File("p.tar")), bytes);
  date_of("1700000000");
  EXPECT_EQ(ReadAll(File("p.tar")), bytes);
  for (const char* bad : {"", "now", "-1", "12 ", "1e9", "99999999999999999999", "9223372036854775807"})
    EXPECT_THAT(date_of(bad), HasSubstr("SOURCE_DATE_EPOCH")) << bad;
}

// Appends a member of any type to a tar file.
void AppendMember(archive* out, const std::string& name, int type, const std::string& link, const std::string& bytes) {
  archive_entry* entry = archive_entry_new();
  archive_entry_set_pathname(entry, name.c_str());
  archive_entry_set_filetype(entry, type);
  archive_entry_set_perm(entry, 0644);
  archive_entry_set_size(entry, static_cast<int64_t>(bytes.size()));
  if (!link.empty() && type == AE_IFLNK) archive_entry_set_symlink(entry, link.c_str());
  if (!link.empty() && type == AE_IFREG) archive_entry_set_hardlink(entry, link.c_str());
  EXPECT_EQ(archive_write_header(out, entry), ARCHIVE_OK);
  archive_write_data(out, bytes.data(), bytes.size());
  archive_entry_free(entry);
}

TEST_F(PackageTest, HostileMembersAreRefused) {
  ASSERT_TRUE(WritePackage(Sample(), File("p.tar")).ok());
  struct Case {
    std::string name;
    int type;
    std::string link, bytes, error;  // an empty error means that the member is ignored
  };
  for (const Case& c : {
           Case{"../metadata.json", AE_IFREG, "", "{}", "member ../metadata.json lies outside the package"},
           Case{"/etc/passwd", AE_IFREG, "", "x", "member /etc/passwd lies outside the package"},
           Case{"a/../../b", AE_IFREG, "", "x", "member a/../../b lies outside the package"},
           Case{"a/..", AE_IFDIR, "", "", "member a/../ lies outside the package"},
           Case{"l.params", AE_IFLNK, "/etc/passwd", "",
                "member l.params is a link or a device; a package holds files only"},
           Case{"h.params", AE_IFREG, "metadata.json", "",
                "member h.params is a link or a device; a package holds files only"},
           Case{"fifo", AE_IFIFO, "", "", "member fifo is a link or a device; a package holds files only"},
           Case{"metadata.json", AE_IFREG, "", "{}", "member metadata.json occurs twice"},
           Case{"parameters/second.params", AE_IFREG, "", "x", "it has several parameters/*.params"},
           Case{"new\nline", AE_IFREG, "", "x", ""},
           Case{"..notes", AE_IFREG, "", "x", ""},
           Case{"folder", AE_IFDIR, "", "", ""},
       }) {
    archive* out = archive_write_new();
    archive_write_set_format_gnutar(out);
    ASSERT_EQ(archive_write_open_filename(out, File("odd.tar").c_str()), ARCHIVE_OK);
    for (const auto& [name, bytes] : Foreign(ReadTar(File("p.tar")))) AppendMember(out, name, AE_IFREG, "", bytes);
    AppendMember(out, c.name, c.type, c.link, c.bytes);
    archive_write_free(out);
    auto read = ReadPackage(File("odd.tar"));
    if (c.error.empty()) {
      EXPECT_TRUE(read.ok()) << c.name << ": " << read.error().Text();
      continue;
    }
    ASSERT_FALSE(read.ok()) << c.name;
    EXPECT_EQ(read.error().Text(), File("odd.tar") + " is not a package in Model Library Format: " + c.error);
  }
}

TEST_F(PackageTest, CompressedTarFilesAreRefused) {
  ASSERT_TRUE(WritePackage(Sample(), File("p.tar")).ok());
  const Members members = ReadTar(File("p.tar"));
  const std::map<std::string, int (*)(archive*)> filters = {{"gunzip", archive_write_add_filter_gzip},
                                                            {"bunzip2", archive_write_add_filter_bzip2},
                                                            {"unxz", archive_write_add_filter_xz},
                                                            {"unzstd", archive_write_add_filter_zstd}};
  for (const auto& [program, add_filter] : filters) {
    archive* out = archive_write_new();
    archive_write_set_format_gnutar(out);
    add_filter(out);
    ASSERT_EQ(archive_write_open_filename(out, File("p.packed").c_str()), ARCHIVE_OK);
    for (const auto& [name, bytes] : members) AppendMember(out, name, AE_IFREG, "", bytes);
    archive_write_free(out);
    ExpectRefused(File("p.packed"), "it is compressed (hint: decompress it first, with `" + program + "`)");
  }
}

}  // namespace
}  // namespace autotune
