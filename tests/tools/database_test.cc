// Commands refuse an unusable database with one clear line and exit code 1, and do not change the file.
// tests/records/file_test.cc checks the errors of the store itself.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "records/open.h"
#include "tests/records/no_shared_memory.h"
#include "tests/records/sample.h"
#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using test::kExample;
using test::Lines;
using test::ReadAll;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class Database : public test::CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    std::vector<Record> batch;
    for (int i = 0; i < 300; ++i) batch.push_back(SampleRecord(i));
    ASSERT_TRUE(OpenStore(db_).value()->Append(batch).ok());
    whole_ = ReadAll(db_);
  }
  std::string Patched(int64_t offset, const std::string& bytes) const {
    std::string patched = whole_;
    return patched.replace(static_cast<size_t>(offset), bytes.size(), bytes);
  }
  std::vector<std::vector<std::string>> Commands(const std::string& db) const {
    return {{"--model", kExample, "--trials", "5", "--db", db}, {"records", "stats", "--db", db}};
  }
  // Expects that a command that writes and one that reads refuse `db` with these words.
  void ExpectRefused(const std::string& db, const std::string& words) {
    std::string before = ReadAll(db);
    for (const std::vector<std::string>& command : Commands(db)) {
      CliResult result = Run(command);
      EXPECT_EQ(result.code, 1) << command[0] << " " << result.Text();
      EXPECT_THAT(Lines(result.err),
                  ::testing::AnyOf(SizeIs(1), ::testing::ElementsAre(::testing::_, ::testing::StartsWith("hint: "))))
          << result.Text();
      EXPECT_THAT(result.err, HasSubstr(words));
    }
    EXPECT_EQ(ReadAll(db), before) << "the file was changed";
  }

  std::string whole_;
};

TEST_F(Database, CutOffOfAnotherVersionOrNone) {
  ExpectRefused(Write("cut.db", whole_.substr(0, whole_.size() / 2)), "is damaged: it was cut off");
  ExpectRefused(Write("newer.db", Patched(60, std::string("\0\0\0\x63", 4))), "written by a newer autotune");
  ExpectRefused(Write("other.db", Patched(68, std::string(4, '\0'))), "not a record database");
  ExpectRefused(Write("text.db", "once upon a time"), "is not a record database");
  ExpectRefused(folder_, "it is a directory");
}

TEST_F(Database, ReadOnly) {
  // Root may write any file, so run the command without that capability.
  if (geteuid() == 0) prefix_ = {"setpriv", "--bounding-set", "-dac_override,-dac_read_search"};
  std::filesystem::permissions(db_, std::filesystem::perms::owner_read);
  ExpectRefused(db_, "is read-only");
}

// A limit on file sizes simulates a full disk. The import fails with one line, and stores no part of the batch.
TEST_F(Database, OnAFullDisk) {
  std::string lines = File("all.jsonl");
  ASSERT_EQ(Run({"records", "export", "-o", lines}).code, 0);
  std::string target = File("small.db");
  ASSERT_TRUE(OpenStore(target).ok());
  auto limited = [&](const std::string& kilobytes) {
    UniqueFd err(open(File("limited.err").c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    auto child =
        Subprocess::Spawn({.argv = {"/bin/sh", "-c", "trap '' XFSZ; ulimit -f " + kilobytes + "; exec \"$@\"", "sh",
                                    test::kTools + "/autotune", "records", "import", lines, "--db", target},
                           .fds = {{2, err.get()}}});
    EXPECT_TRUE(child.ok());
    return child->Wait(60000)->code;
  };
  EXPECT_EQ(limited("100"), 1);  // blocks of 512 bytes
  std::string error = ReadAll(File("limited.err"));
  EXPECT_THAT(Lines(error),
              ::testing::AnyOf(SizeIs(1), ::testing::ElementsAre(::testing::_, ::testing::StartsWith("hint: "))))
      << error;
  EXPECT_THAT(error, HasSubstr("cannot read or write " + target));
  EXPECT_EQ(OpenStore(target).value()->Count({}).value(), 0) << "a part of a batch was stored";
  EXPECT_EQ(limited("unlimited"), 0) << ReadAll(File("limited.err"));
  EXPECT_EQ(OpenStore(target).value()->Count({}).value(), 300);
  EXPECT_TRUE(OpenStore(target).value()->Check().ok());
}

// On a file system that cannot have a write-ahead log, commands work, and print one line for each database.
TEST_F(Database, OnAFileSystemWithoutSharedMemory) {
  std::string err = File("apart.err"), program = test::kTools + "/autotune";
  pid_t child = fork();
  if (child == 0) {
    if (!RefuseSharedMemory()) _exit(77);
    dup2(open(err.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), 2);
    execl(program.c_str(), "autotune", "records", "merge", db_.c_str(), "--db", File("apart.db").c_str(), nullptr);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "the kernel has no system call filters";
  std::string said = ReadAll(err);
  EXPECT_EQ(status, 0) << said;
  for (const std::string& name : {db_, File("apart.db")})
    EXPECT_THAT(said, HasSubstr(name + " is on a file system without shared memory, so the record database works"));
  EXPECT_THAT(Lines(said), SizeIs(2)) << said;
  EXPECT_EQ(OpenStore(File("apart.db")).value()->Count({}).value(), 300);
}

// A command waits for a lock that another process holds.
TEST_F(Database, LockedByAnother) {
  UniqueFd lock(open((db_ + ".lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  Subprocess waiting = Start({"records", "stats"}, "waiting");
  EXPECT_FALSE(waiting.Wait(300)) << ReadAll(File("waiting.err"));
  lock.Reset();
  CliResult result = Finish(waiting, "waiting");
  EXPECT_EQ(result.code, 0) << result.Text();
  EXPECT_THAT(result.out, HasSubstr("300 records"));
}

}  // namespace
}  // namespace autotune
