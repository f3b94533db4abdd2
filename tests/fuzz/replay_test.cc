// Runs every fuzz target on its corpus and on mutations of the corpus. The mutations depend only on a seed,
// AUTOTUNE_FUZZ_SEED; AUTOTUNE_FUZZ_RUNS is their number. An input that crashes a target, or exceeds its time or
// memory, is written to ./fuzz-crash.
#include <fcntl.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <set>
#include <vector>

#include "support/check.h"
#include "support/rng.h"
#include "support/sanitized.h"
#include "support/utf8.h"
#include "tests/fuzz/target.h"
#include "tests/read.h"

namespace autotune::fuzz {
namespace {

const std::filesystem::path kFolder = std::string(AUTOTUNE_SOURCE_DIR) + "/tests/fuzz";

std::vector<std::string> Corpus(const std::string& target) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder / "corpus" / target)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const auto& path : paths) {
    inputs.push_back(test::ReadAll(path));
  }
  return inputs;
}

// Makes one to four changes. Each replaces a byte, inserts a byte, flips a bit, removes or repeats a range of bytes, or
// inserts a range of another input.
std::string Mutated(std::string s, const std::vector<std::string>& corpus, Rng& rng) {
  static constexpr unsigned char kEdges[] = {0, 1, 0x7f, 0x80, 0xff, '0', '9', '-', '"', '[', '(', '\n'};
  for (uint64_t i = 0, n = 1 + rng.Below(4); i < n; ++i) {
    size_t at = rng.Below(s.size() + 1), length = 1 + rng.Below(16);
    auto c = static_cast<char>(rng.Below(2) ? kEdges[rng.Below(std::size(kEdges))] : rng.Below(256));
    const std::string& other = corpus[rng.Below(corpus.size())];
    switch (rng.Below(6)) {
      case 0:
        if (at < s.size()) s[at] = c;
        break;
      case 1:
        s.insert(at, 1, c);
        break;
      case 2:
        if (at < s.size()) s[at] ^= static_cast<char>(1 << rng.Below(8));
        break;
      case 3:
        s.erase(at, length);
        break;
      case 4:
        s.insert(at, s.substr(at, length));
        break;
      default:
        s.insert(at, other, rng.Below(other.size() + 1), length);
    }
  }
  return s;
}

// Limits for one input, in seconds and bytes. The slowest input takes milliseconds, tenths of a second on a busy
// machine. Memory is a few times the input's bytes, a thread pool, and the graph of 100,000 elements that onnx_fuzz.cc
// compiles.
constexpr unsigned kSeconds = kSanitized ? 200 : 10;
constexpr size_t kBytes = size_t{256} << 20;

std::string running;  // the input under test

// Writes the input to a file. A signal handler calls this function, so it makes only system calls.
void KeepInput(std::string_view why) {
  int fd = open("fuzz-crash", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  [[maybe_unused]] ssize_t written = write(fd, running.data(), running.size());
  for (std::string_view text : {why, std::string_view("the input is in ./fuzz-crash\n")}) {
    written = write(STDERR_FILENO, text.data(), text.size());
  }
}

void Die(int signal) {
  KeepInput(signal == SIGALRM ? "it took too long; " : "");
  std::signal(signal, SIG_DFL);
  raise(signal);
}

// Aborts when memory runs out. An exception could be caught by the code under test.
void DieOfHunger() {
  KeepInput("it asked for too much memory; ");
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

// During its lifetime, a crash leaves the input in a file, and the process may map only `bytes` more than at the start.
// The limit also counts memory that is never touched, so it catches sizes that the target takes unchecked from the
// input. It is off with sanitizers, which map terabytes.
class Watch {
 public:
  explicit Watch(size_t bytes = kBytes) {
    for (int signal : kDeaths) std::signal(signal, Die);
    if (kSanitized) return;
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    CHECK(pages > 0 && getrlimit(RLIMIT_AS, &before_) == 0);
    rlimit limit = {std::min<rlim_t>(pages * static_cast<size_t>(getpagesize()) + bytes, before_.rlim_max),
                    before_.rlim_max};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    std::set_new_handler(DieOfHunger);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    for (int signal : kDeaths) std::signal(signal, SIG_DFL);
    if (kSanitized) return;
    std::set_new_handler(nullptr);
    setrlimit(RLIMIT_AS, &before_);
  }

 private:
  static constexpr int kDeaths[] = {SIGABRT, SIGSEGV, SIGALRM};
  rlimit before_ = {};
};

void RunOn(Function target, std::string input, unsigned seconds = kSeconds) {
  running = std::move(input);
  alarm(seconds);
  try {
    target(running);
  } catch (const std::exception& e) {  // a failed CHECK
    ADD_FAILURE() << e.what() << "\nwith the input " << OneLine(running);
  }
  alarm(0);
}

int NumberFrom(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

class Replay : public ::testing::TestWithParam<std::string> {};

TEST_P(Replay, CorpusAndMutations) {
  std::vector<std::string> corpus = Corpus(GetParam());
  ASSERT_GE(corpus.size(), 3u) << "a fuzz target needs a corpus of three or more inputs";
  Function target = Targets().at(GetParam());
  Watch watch;
  for (const std::string& input : corpus) RunOn(target, input);
  Rng rng(static_cast<uint64_t>(NumberFrom("AUTOTUNE_FUZZ_SEED", 1)));
  // An input of farm_states is a sequence of hundreds of messages.
  const int messages = GetParam() == "farm_states" ? 100 : 1;
  for (int i = 0, n = NumberFrom("AUTOTUNE_FUZZ_RUNS", 25000) / messages; i < n; ++i) {
    RunOn(target, Mutated(corpus[rng.Below(corpus.size())], corpus, rng));
  }
}

// For each limit, one input exceeds it and another one does not.
class Limits : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "limits-XXXXXX";
    ASSERT_TRUE(mkdtemp(root_.data()));
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  // Ends its process, so it runs in a child (EXPECT_EXIT).
  void Run(Function target, const char* input) {
    std::filesystem::current_path(root_);
    Watch watch;
    RunOn(target, input, 1);
    std::_Exit(0);
  }
  std::string Kept() const { return test::ReadAll(root_ + "/fuzz-crash"); }
  std::string root_;
};

TEST_F(Limits, OfTime) {
  Function hangs = [](std::string_view input) {
    for (volatile bool hang = input == "hang"; hang;) {
    }
  };
  EXPECT_EXIT(Run(hangs, "swift"), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(Kept(), "");
  EXPECT_EXIT(Run(hangs, "hang"), ::testing::KilledBySignal(SIGALRM), "it took too long; the input is in ./fuzz-crash");
  EXPECT_EQ(Kept(), "hang");
}

TEST_F(Limits, OfMemory) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have their own limits";
  // Allocates as many megabytes as the input says, without touching them, and catches bad_alloc. The catch must not
  // hide the failure.
  Function trusts = [](std::string_view input) {
    try {
      std::vector<std::unique_ptr<char[]>> parts;
      for (int i = std::atoi(input.data()); i > 0; --i) parts.emplace_back(new char[1 << 20]);
    } catch (const std::bad_alloc&) {
    }
  };
  EXPECT_EXIT(Run(trusts, "16"), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(Kept(), "");
  EXPECT_EXIT(Run(trusts, "4096"), ::testing::KilledBySignal(SIGABRT), "it asked for too much memory; the input is in");
  EXPECT_EQ(Kept(), "4096");
}

// The value of a fuzz target depends on the mutations, so they must reach faults that a change of a few bytes triggers.
TEST(Fuzz, MutationsFindPlantedFaults) {
  static std::set<std::string> found;
  Function planted = [](std::string_view input) {
    if (input.find("]]") != std::string_view::npos) found.insert("a byte repeated");
    if (input.find('\xff') != std::string_view::npos) found.insert("a byte changed");
    if (input.starts_with("tail")) found.insert("a part of another input");
    if (input.empty()) found.insert("all taken away");
    CHECK(input != "[1]") << "planted";
  };
  std::vector<std::string> corpus = {"[1]", "a tail"};
  Rng rng(1);
  for (int i = 0; i < 5000; ++i) {
    std::string input = Mutated(corpus[rng.Below(2)], corpus, rng);
    if (input != "[1]") RunOn(planted, input);
  }
  EXPECT_EQ(found.size(), 4u);
  EXPECT_NONFATAL_FAILURE(RunOn(planted, "[1]"), "planted");
}

// A seal refuses every changed byte, so the parsers behind it see changed bytes only if the target renews the seal.
TEST(Fuzz, MutationsOfPackagesReachTheParsersBehindTheSeal) {
  const std::vector<std::string> corpus = Corpus("package");
  constexpr int kRuns = 1000, kLeast = kRuns / 20;
  Rng rng(1);
  Reached().clear();
  for (int i = 0; i < kRuns; ++i)
    RunOn(Targets().at("package"), Mutated(corpus[rng.Below(corpus.size())], corpus, rng));
  EXPECT_EQ(Reached().size(), 3u);
  for (const auto& [place, texts] : Reached()) EXPECT_GT(texts.size(), kLeast) << place;
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& [name, target] : Targets()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Target, Replay, ::testing::ValuesIn(Names()), [](const auto& info) { return info.param; });

TEST(Fuzz, EveryCorpusHasItsTarget) {
  std::set<std::string> folders, targets;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder / "corpus")) {
    folders.insert(entry.path().filename());
  }
  for (const std::string& name : Names()) targets.insert(name);
  EXPECT_EQ(folders, targets);
}

}  // namespace
}  // namespace autotune::fuzz
