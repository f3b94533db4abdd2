// The database file: invalid files are refused, each with a specific line.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "records/file_lock.h"
#include "records/open.h"
#include "records/sqlite.h"
#include "tests/read.h"
#include "tests/records/no_shared_memory.h"
#include "tests/records/sample.h"

namespace autotune {
namespace {

using testing::HasSubstr;

class File : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "/records_file_XXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
    directory_ = std::filesystem::canonical(directory_);
    path_ = directory_ + "/r.db";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // Makes a database of n records and closes it.
  void Fill(int n) {
    std::vector<Record> batch;
    for (int i = 0; i < n; ++i) batch.push_back(SampleRecord(i));
    auto store = OpenStore(path_);
    ASSERT_TRUE(store.ok()) << store.error().Text();
    ASSERT_TRUE((*store)->Append(batch).ok());
    ASSERT_EQ(*(*store)->Count({}), n);
  }
  std::string OpenError(const StoreOptions& options = {}) {
    auto store = OpenStore(path_, options);
    return store.ok() ? "opened" : store.error().Text();
  }
  void Patch(int64_t offset, const std::string& bytes) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset);
    file << bytes;
  }

  std::string directory_, path_;
};

TEST_F(File, OpensAgain) {
  Fill(3);
  EXPECT_EQ(OpenError(), "opened");
}

TEST_F(File, CreatesNothingUnlessItMay) {
  EXPECT_THAT(OpenError({.create = false}), HasSubstr("there is no record database " + path_));
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
  Fill(3);
  EXPECT_EQ(OpenError({.create = false}), "opened");
}

TEST_F(File, OpensAnEmptyFile) {
  std::ofstream(path_).close();
  Fill(3);
  EXPECT_EQ(OpenError(), "opened");
}

TEST_F(File, RefusesWhatIsNoDatabase) {
  std::ofstream(path_) << std::string(5000, 'x');
  EXPECT_THAT(OpenError(), HasSubstr("is not a record database"));
  std::ofstream(path_) << "x";
  EXPECT_THAT(OpenError(), HasSubstr("is not a record database"));
}

TEST_F(File, RefusesAnotherProgramsDatabaseAndLeavesItAlone) {
  Fill(3);
  Patch(68, std::string(4, '\0'));  // application id
  std::string before = test::ReadAll(path_);
  EXPECT_THAT(OpenError(), HasSubstr("is an SQLite database, but not a record database"));
  EXPECT_EQ(test::ReadAll(path_), before);
}

// Opens the file that remains if the first process dies after it has created the file and before it creates the tables.
TEST_F(File, FinishesADatabaseWithoutTables) {
  Fill(0);
  std::string page(4096, '\0');
  std::ifstream(path_, std::ios::binary).read(page.data(), 100);
  auto put = [&](int offset, const std::string& bytes) { page.replace(offset, bytes.size(), bytes); };
  put(28, std::string("\0\0\0\1", 4));             // pages
  put(60, std::string(12, '\0'));                  // user version, incremental vacuum, application id
  put(100, std::string("\x0d\0\0\0\0\x10\0", 7));  // an empty table of tables
  std::ofstream(path_, std::ios::binary) << page;
  Fill(3);
  EXPECT_EQ(OpenError(), "opened");
}

// Opens a database of format 1, which the test makes from a new one by removing what format 2 added.
TEST_F(File, BringsFormatOneUpToDate) {
  Fill(3);
  {
    Connection connection(path_);
    ASSERT_TRUE(connection.Open(1000).ok());
    Status back = connection.Run(R"(
      DROP TABLE claim;
      DROP VIEW records;
      DROP INDEX record_ranked;
      ALTER TABLE record DROP COLUMN confirmation;
      ALTER TABLE record DROP COLUMN disturbed;
      ALTER TABLE record DROP COLUMN server;
      CREATE INDEX record_ranked ON record(task, target, cost) WHERE status = 'ok' AND verified = 1;
      CREATE VIEW records AS SELECT seq FROM record;
      PRAGMA user_version = 1)");
    ASSERT_TRUE(back.ok()) << back.error().Text();
  }
  auto store = OpenStore(path_);
  ASSERT_TRUE(store.ok()) << store.error().Text();
  auto page = (*store)->Scan({}, 0, 10);
  ASSERT_TRUE(page.ok()) << page.error().Text();
  ASSERT_EQ(page->records.size(), 3u);
  for (const Record& record : page->records) {
    EXPECT_EQ(record.confirmation, 0);
    EXPECT_EQ(record.disturbed, "");
    EXPECT_EQ(record.server, "");
  }
  Record confirmed = SampleRecord(9, page->records[0].task, 1);
  confirmed.confirmation = 1;
  ASSERT_TRUE((*store)->Append(std::vector{confirmed}).ok());
  auto best = (*store)->Best(confirmed.task, confirmed.target);
  ASSERT_TRUE(best.ok() && *best);
  EXPECT_EQ((*best)->id, confirmed.id);
}

// Two stores of one file stand for two processes.
TEST_F(File, AnOwnerThatWasReplacedStoresNothing) {
  auto first = OpenStore(path_), second = OpenStore(path_);
  ASSERT_TRUE(first.ok() && second.ok());
  RunOwner replaced = NewRunOwner();
  replaced.processes = "another host";
  const RunOwner owner = NewRunOwner();
  ASSERT_TRUE((*first)->Claim("run0", replaced, 0).value().granted);
  ASSERT_TRUE((*first)->Append(std::vector{SampleRecord(0)}).ok());
  ASSERT_TRUE((*second)->Claim("run0", owner, 1000).value().granted);
  const Status late = (*first)->Append(std::vector{SampleRecord(1)});
  ASSERT_FALSE(late.ok());
  EXPECT_THAT(late.error().Text(), HasSubstr(owner.Text() + " has taken this run over"));
  EXPECT_TRUE((*second)->Append(std::vector{SampleRecord(2)}).ok());
  Record other = SampleRecord(3);
  other.run = "run1";
  EXPECT_TRUE((*first)->Append(std::vector{other}).ok()) << "records of other runs may be imported";
  EXPECT_EQ((*first)->Count({}).value(), 3);
}

TEST_F(File, RefusesANewerFormat) {
  Fill(3);
  Patch(60, std::string("\0\0\0\x63", 4));  // user version
  EXPECT_THAT(OpenError(), HasSubstr("was written by a newer autotune (format 99; this one knows " +
                                     std::to_string(StoreVersion()) + ")"));
}

TEST_F(File, RefusesATruncatedFile) {
  Fill(300);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  EXPECT_THAT(OpenError(), HasSubstr("is damaged: it was cut off after"));
  std::filesystem::resize_file(path_, 50);
  EXPECT_THAT(OpenError(), HasSubstr("is damaged: it was cut off after 50 of"));
}

TEST_F(File, CheckFindsDamage) {
  Fill(300);
  int64_t size = std::filesystem::file_size(path_);
  for (int64_t page = 4096; page + 4096 <= size; page += 4096) Patch(page + 1000, std::string(2000, '\x5a'));
  auto store = OpenStore(path_);
  if (!store.ok()) {
    EXPECT_THAT(store.error().Text(), HasSubstr("is damaged"));
  } else {
    Status status = (*store)->Check();
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().Text(), HasSubstr("is damaged"));
  }
}

TEST_F(File, NamesAMissingDirectoryAndADirectory) {
  path_ = directory_ + "/missing/r.db";
  EXPECT_THAT(OpenError(), HasSubstr("there is no directory " + directory_ + "/missing"));
  path_ = directory_;
  EXPECT_THAT(OpenError(), HasSubstr("it is a directory"));
}

TEST_F(File, SaysThatItIsReadOnly) {
  Fill(3);
  ASSERT_EQ(chmod(path_.c_str(), 0444), 0);
  ASSERT_EQ(chmod((path_ + ".lock").c_str(), 0666), 0);
  bool root = geteuid() == 0;
  int left = root ? seteuid(65534) : 0;  // root may write any file, so become another user
  std::string error = OpenError();
  int back = root ? seteuid(0) : 0;
  ASSERT_EQ(left + back, 0);
  EXPECT_THAT(error, HasSubstr("is read-only"));
}

TEST_F(File, WaitsForTheLockAndSaysWhoseItIs) {
  Fill(3);
  auto store = OpenStore(path_, {.lock_timeout_ms = 30});
  ASSERT_TRUE(store.ok());
  int fd = open((path_ + ".lock").c_str(), O_RDWR);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  std::vector<Record> batch = {SampleRecord(9)};
  Status status = (*store)->Append(batch);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().Text(), HasSubstr("another process has held " + path_ + ".lock"));
  EXPECT_THAT(OpenError({.lock_timeout_ms = 30}), HasSubstr("another process has held"));
  EXPECT_EQ(*(*store)->Count({}), 3) << "reading must not need the lock";
  close(fd);
  EXPECT_TRUE((*store)->Append(batch).ok());
  EXPECT_EQ(*(*store)->Count({}), 4);
}

TEST_F(File, OneLockForEveryNameOfTheFile) {
  Fill(1);
  std::string link = directory_ + "/link.db";
  std::filesystem::create_symlink(path_, link);
  int fd = open((path_ + ".lock").c_str(), O_RDWR);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_FALSE(OpenStore(link, {.lock_timeout_ms = 30}).ok());
  close(fd);
  EXPECT_TRUE(OpenStore(link, {.lock_timeout_ms = 30}).ok());
}

// Simulates a full disk by a limit on file sizes. A child process does this, since the limit cannot be lifted.
TEST_F(File, AFullDiskLosesOnlyTheBatch) {
  Fill(3);
  pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    auto store = OpenStore(path_);
    if (!store.ok()) _exit(10);
    rlimit limit{100000, 100000};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::vector<Record> batch;
    for (int i = 0; i < 50; ++i) batch.push_back(SampleRecord(i)), batch.back().trace = std::string(20000, 'x');
    Status status = (*store)->Append(batch);
    if (status.ok()) _exit(11);
    if (status.error().Text().find("cannot read or write") == std::string::npos) _exit(12);
    if (*(*store)->Count({}) != 3) _exit(13);
    std::vector<Record> small = {SampleRecord(7)};  // a batch that fits is still stored
    if (!(*store)->Append(small).ok()) _exit(14);
    if (*(*store)->Count({}) != 4) _exit(15);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  auto store = OpenStore(path_);
  ASSERT_TRUE(store.ok()) << store.error().Text();
  EXPECT_EQ(*(*store)->Count({}), 4);
  EXPECT_TRUE((*store)->Check().ok());
}

// Fills a small file system that only the child process sees. Skipped if the kernel forbids the mount.
TEST_F(File, AFullFileSystemIsCalledFull) {
  pid_t child = fork();
  if (child == 0) {
    std::string user = "0 " + std::to_string(getuid()) + " 1", group = "0 " + std::to_string(getgid()) + " 1";
    bool may = unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << user;
    std::ofstream("/proc/self/gid_map") << group;
    may = may && mount("none", directory_.c_str(), "tmpfs", 0, "size=400k") == 0;
    if (!may) _exit(77);
    auto store = OpenStore(path_);
    if (!store.ok()) fputs(store.error().Text().c_str(), stderr), _exit(10);
    std::vector<Record> batch;
    for (int i = 0; i < 50; ++i) batch.push_back(SampleRecord(i)), batch.back().trace = std::string(20000, 'x');
    Status status = (*store)->Append(batch);
    if (status.ok()) _exit(11);
    if (status.error().Text().find("the disk that holds " + path_ + " is full") == std::string::npos) _exit(12);
    std::vector<Record> small = {SampleRecord(7)};
    if (!(*store)->Append(small).ok() || *(*store)->Count({}) != 1) _exit(13);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "the kernel forbids users to mount file systems";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Uses the database in a child process without shared memory: expects `n` records, stores one more, and checks that
// there is no write-ahead log. Returns exit code 0 on success, 77 if the kernel cannot refuse shared memory.
int UseWithoutSharedMemory(const std::string& path, int n) {
  pid_t child = fork();
  if (child == 0) {
    if (!RefuseSharedMemory()) _exit(77);
    auto store = OpenStore(path);
    if (!store.ok()) fputs((store.error().Text() + "\n").c_str(), stderr), _exit(10);
    if (*(*store)->Count({}) != n) _exit(11);
    std::vector<Record> batch = {SampleRecord(1000 + n)};
    if (!(*store)->Append(batch).ok() || *(*store)->Count({}) != n + 1) _exit(12);
    if (std::filesystem::exists(path + "-wal")) _exit(13);
    auto second = OpenStore(path, {.lock_timeout_ms = 30});
    if (!second.ok()) fputs((second.error().Text() + "\n").c_str(), stderr), _exit(14);
    if (*(*second)->Count({}) != n + 1) _exit(15);
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// On a file system without shared memory, a rollback journal replaces the write-ahead log, for a new database and for a
// copied one that has a log. With shared memory, the database gets a log again.
TEST_F(File, WithoutSharedMemoryThereIsNoLog) {
  testing::internal::CaptureStderr();
  int code = UseWithoutSharedMemory(path_, 0);
  std::string said = testing::internal::GetCapturedStderr();
  if (code == 77) GTEST_SKIP() << "the kernel has no system call filters";
  EXPECT_EQ(code, 0) << said;
  EXPECT_THAT(said, HasSubstr(path_ + " is on a file system without shared memory"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  auto store = OpenStore(path_);
  ASSERT_TRUE(store.ok()) << store.error().Text();
  EXPECT_EQ(*(*store)->Count({}), 1);
  EXPECT_TRUE(std::filesystem::exists(path_ + "-wal"));
  std::vector<Record> batch = {SampleRecord(1)};
  ASSERT_TRUE((*store)->Append(batch).ok());

  // The second record is only in the log.
  std::string copy = directory_ + "/copy.db";
  for (const char* suffix : {"", "-wal"}) std::filesystem::copy_file(path_ + suffix, copy + suffix);
  ASSERT_GT(std::filesystem::file_size(copy + "-wal"), 0u);
  EXPECT_EQ(UseWithoutSharedMemory(copy, 2), 0);
  EXPECT_TRUE(OpenStore(copy).value()->Check().ok());
}

// A log that another program uses is not removed.
TEST_F(File, ALogInUseIsLeftAlone) {
  Fill(3);
  auto store = OpenStore(path_);
  ASSERT_TRUE(store.ok());
  ASSERT_EQ(*(*store)->Count({}), 3);
  EXPECT_THAT(OpenError({.lock_timeout_ms = 30, .wal = false}), HasSubstr("is locked by another program"));
  std::vector<Record> batch = {SampleRecord(9)};
  EXPECT_TRUE((*store)->Append(batch).ok());
  store->reset();
  EXPECT_EQ(OpenError({.lock_timeout_ms = 30, .wal = false}), "opened");
}

TEST(NetworkFileSystem, IsKnownByItsNumber) {
  for (unsigned long magic : {0x6969UL, 0xff534d42UL, 0xfe534d42UL, 0x01021997UL}) {
    EXPECT_TRUE(IsNetworkFileSystemType(magic)) << magic;
  }
  EXPECT_TRUE(IsNetworkFileSystemType(static_cast<unsigned long>(static_cast<int>(0xff534d42))))
      << "a sign-extended number must be recognized, too";
  for (unsigned long magic : {0xef53UL, 0x01021994UL, 0x58465342UL, 0x9123683eUL}) {  // ext4, tmpfs, xfs, btrfs
    EXPECT_FALSE(IsNetworkFileSystemType(magic)) << magic;
  }
}

TEST(DefaultStorePath, FollowsTheEnvironment) {
  auto get = [](const char* db, const char* data, const char* home) {
    auto set = [](const char* name, const char* value) { value ? setenv(name, value, 1) : unsetenv(name); };
    set("AUTOTUNE_DB", db);
    set("XDG_DATA_HOME", data);
    set("HOME", home);
    auto path = DefaultStorePath();
    return path.ok() ? *path : "error";
  };
  std::string home = getenv("HOME") ? getenv("HOME") : "";
  EXPECT_EQ(get("/x/y.db", "/data", "/home/me"), "/x/y.db");
  EXPECT_EQ(get(nullptr, "/data", "/home/me"), "/data/autotune/records.db");
  EXPECT_EQ(get("", nullptr, "/home/me"), "/home/me/.local/share/autotune/records.db");
  EXPECT_EQ(get(nullptr, nullptr, nullptr), "error");
  setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace autotune
