// Our tar files are those of other programs: libarchive reads what we write, and we read what it writes. Damaged and
// hostile files give errors, and take no more memory than they have bytes.
#include "package/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "support/rng.h"
#include "support/unique_fd.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

using Members = std::vector<std::pair<std::string, std::string>>;

UniqueFd FileOf(std::string_view bytes) {
  UniqueFd fd(memfd_create("tar-test", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(lseek(fd.get(), 0, SEEK_SET), 0);
  return fd;
}

std::string BytesOf(int fd) {
  std::string bytes(static_cast<size_t>(lseek(fd, 0, SEEK_END)), '\0');
  EXPECT_EQ(pread(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  return bytes;
}

Result<Members> ReadFrom(int fd) {
  TarReader in(fd);
  Members members;
  for (TarEntry entry; TRY(in.Next(entry));) {
    if (entry.type != TarType::kFile) continue;
    std::string bytes = TRY(in.Contents());
    members.emplace_back(entry.name, std::move(bytes));
  }
  return members;
}

Result<Members> ReadBytes(std::string_view bytes) { return ReadFrom(FileOf(bytes).get()); }

std::string ErrorOf(std::string_view bytes) {
  const Result<Members> read = ReadBytes(bytes);
  return read.ok() ? "" : read.error().Text();
}

std::string Written(const Members& members) {
  UniqueFd fd(memfd_create("tar-test", MFD_CLOEXEC));
  EXPECT_TRUE(WriteTar(fd.get(), {members.begin(), members.end()}, "a test").ok());
  return BytesOf(fd.get());
}

// Returns the archive that libarchive writes in one of its formats.
std::string WrittenByLibarchive(const Members& members, int (*set_format)(archive*)) {
  UniqueFd fd(memfd_create("tar-test", MFD_CLOEXEC));
  archive* out = archive_write_new();
  set_format(out);
  EXPECT_EQ(archive_write_open_fd(out, fd.get()), ARCHIVE_OK);
  for (const auto& [name, bytes] : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<int64_t>(bytes.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_mtime(entry, 1700000000, 123456789);  // pax writes a header for the fraction
    EXPECT_EQ(archive_write_header(out, entry), ARCHIVE_OK);
    EXPECT_EQ(archive_write_data(out, bytes.data(), bytes.size()), static_cast<la_ssize_t>(bytes.size()));
    archive_entry_free(entry);
  }
  archive_write_free(out);
  return BytesOf(fd.get());
}

Members ReadByLibarchive(const std::string& tar) {
  Members members;
  archive* in = archive_read_new();
  archive_read_support_format_tar(in);
  EXPECT_EQ(archive_read_open_memory(in, tar.data(), tar.size()), ARCHIVE_OK);
  for (archive_entry* entry; archive_read_next_header(in, &entry) == ARCHIVE_OK;) {
    std::string bytes(static_cast<size_t>(archive_entry_size(entry)), '\0');
    EXPECT_EQ(archive_read_data(in, bytes.data(), bytes.size()), static_cast<la_ssize_t>(bytes.size()));
    EXPECT_EQ(archive_entry_perm(entry), 0644u);
    members.emplace_back(archive_entry_pathname(entry), bytes);
  }
  archive_read_free(in);
  return members;
}

Members Samples() {
  return {{"empty", ""},
          {"block", std::string(512, 'b')},
          {"folder/more", std::string(513, 'm')},
          {std::string(100, 'n'), "a name that fills the field"},
          {std::string(60, 'p') + "/" + std::string(90, 'q'), "a name that ustar splits"},
          {std::string(300, 'l'), "a long name"},
          {"binary", std::string("\0\xff\n\0", 4)}};
}

TEST(Tar, LibarchiveReadsWhatWeWrite) {
  EXPECT_EQ(ReadByLibarchive(Written(Samples())), Samples());
  EXPECT_EQ(ReadByLibarchive(Written({})), Members());
}

TEST(Tar, ComesBack) {
  EXPECT_EQ(ReadBytes(Written(Samples())).value(), Samples());
  EXPECT_EQ(ReadBytes(Written({})).value(), Members());
}

TEST(Tar, FormatsOfOtherProgramsAreRead) {
  EXPECT_EQ(ReadBytes(WrittenByLibarchive(Samples(), archive_write_set_format_gnutar)).value(), Samples());
  EXPECT_EQ(ReadBytes(WrittenByLibarchive(Samples(), archive_write_set_format_pax)).value(), Samples());
  Members without_long = Samples();
  without_long.erase(without_long.begin() + 5);
  EXPECT_EQ(ReadBytes(WrittenByLibarchive(without_long, archive_write_set_format_ustar)).value(), without_long);
}

TEST(Tar, ReadsFromAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd in(ends[0]);
  const std::string tar = Written(Samples());  // less than a pipe holds
  {
    UniqueFd out(ends[1]);
    ASSERT_EQ(write(out.get(), tar.data(), tar.size()), static_cast<ssize_t>(tar.size()));
  }
  EXPECT_EQ(ReadFrom(in.get()).value(), Samples());
}

constexpr size_t kSizeAt = 124, kSumAt = 148;

// Returns the archive with another size in its first header, whose checksum stays right.
std::string WithSize(std::string tar, std::string_view field) {
  EXPECT_EQ(field.size(), 12u);
  tar.replace(kSizeAt, 12, field);
  std::memset(&tar[kSumAt], ' ', 8);
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(tar[i]);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  std::memcpy(&tar[kSumAt], text, 7);
  return tar;
}

TEST(Tar, SizesAreHeldAgainstTheFile) {
  const std::string tar = Written({{"m", "12345"}});
  EXPECT_EQ(ErrorOf(tar), "");
  const std::string five = std::string("\x80\0\0\0\0\0\0\0\0\0\0\5", 12);
  EXPECT_EQ(ErrorOf(WithSize(tar, five)), "") << "a size as a binary number";
  EXPECT_EQ(ErrorOf(WithSize(tar, "77777777777 ")),
            "member m claims 8589934591 bytes, but the file has only 1536 more");
  std::string huge(12, '\xff');
  huge[0] = '\x80';
  EXPECT_EQ(ErrorOf(WithSize(tar, huge)), "member m has no valid size") << "more than 2^63";
  EXPECT_EQ(ErrorOf(WithSize(tar, std::string(12, '\xff'))), "member m has no valid size") << "negative";
  EXPECT_EQ(ErrorOf(WithSize(tar, "0000000000z ")), "member m has no valid size");
}

TEST(Tar, ForeignAndCutFilesAreRefused) {
  const std::string tar = Written({{"m", "12345"}});
  EXPECT_EQ(ErrorOf(""), "it is empty");
  EXPECT_EQ(ErrorOf("short"), "it is no tar file");
  EXPECT_EQ(ErrorOf(std::string(2000, 'x')), "it is no tar file");
  EXPECT_EQ(ErrorOf(tar.substr(0, 512)), "member m claims 5 bytes, but the file has only 0 more");
  EXPECT_EQ(ErrorOf(tar.substr(0, 600)), "it is truncated") << "within the padding";
  EXPECT_EQ(ErrorOf(tar.substr(0, 1024)), "it is truncated, or was not written to its end");
  EXPECT_EQ(ErrorOf(tar.substr(0, 1100)), "a header is truncated");
  EXPECT_EQ(ErrorOf(tar.substr(0, 1024) + std::string(512, 'x')), "a header is damaged");
  std::string flipped = tar;
  flipped[0] ^= 1;
  EXPECT_EQ(ErrorOf(flipped), "it is no tar file");
  EXPECT_EQ(ErrorOf(Written({{std::string(4097, 'l'), ""}})), "a member has a name of 4097 bytes, which is too long");
  EXPECT_EQ(ErrorOf(Written({{std::string(4096, 'l'), ""}})), "");
}

TEST(Tar, LinksAndSparseFilesHaveTheirTypes) {
  struct Case {
    char type;
    TarType read;
  };
  for (const Case& c : {Case{'0', TarType::kFile}, Case{'\0', TarType::kFile}, Case{'1', TarType::kOther},
                        Case{'2', TarType::kOther}, Case{'3', TarType::kOther}, Case{'5', TarType::kFolder},
                        Case{'6', TarType::kOther}, Case{'S', TarType::kSparse}, Case{'Z', TarType::kOther}}) {
    std::string tar = Written({{"m", ""}});
    tar[156] = c.type;
    tar = WithSize(tar, "00000000000 ");
    const UniqueFd file = FileOf(tar);
    TarReader in(file.get());
    TarEntry entry;
    ASSERT_TRUE(in.Next(entry).value());
    EXPECT_EQ(entry.type, c.read) << c.type;
  }
}

// Every mutation gives members or an error; what is read never exceeds the file.
TEST(Tar, MutationsDoNoHarm) {
  Rng rng(1);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string tar = i % 2 ? Written(Samples()) : WrittenByLibarchive(Samples(), archive_write_set_format_pax);
    for (uint64_t n = 1 + rng.Below(4); n-- > 0;) {
      const size_t at = rng.Below(tar.size());
      switch (rng.Below(4)) {
        case 0:
          tar[at] = static_cast<char>(rng.Below(256));
          break;
        case 1:
          tar.resize(at);
          if (tar.empty()) tar = "x";
          break;
        case 2:
          tar.insert(at, tar, rng.Below(tar.size()), rng.Below(600));
          break;
        default:
          tar.erase(at, rng.Below(600));
          if (tar.empty()) tar = "x";
      }
    }
    // Half of them keep a right checksum in the first header, so that the fields behind it are read.
    if (i % 4 < 2 && tar.size() > 512) tar = WithSize(tar, tar.substr(kSizeAt, 12));
    const Result<Members> read = ReadBytes(tar);
    if (!read.ok()) {
      ++refused;
      continue;
    }
    size_t bytes = 0;
    for (const auto& [name, contents] : *read) bytes += contents.size();
    EXPECT_LE(bytes, tar.size());
  }
  EXPECT_GT(refused, 5000);
  EXPECT_LT(refused, 20000);
}

}  // namespace
}  // namespace autotune
