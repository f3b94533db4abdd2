// Every target on its corpus, and on mutations of it that depend on a seed alone. AUTOTUNE_FUZZ_RUNS sets how many. The
// input of a crash is left in a file.
#include <fcntl.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "support/check.h"
#include "support/rng.h"
#include "support/utf8.h"
#include "tests/fuzz/target.h"

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
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    inputs.push_back(bytes.str());
  }
  return inputs;
}

// One to four of: a byte changed, inserted or taken away, a stretch removed, repeated, or taken from another input.
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

std::string running;  // the input under test

void KeepInput(int signal) {
  int fd = open("fuzz-crash", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  [[maybe_unused]] ssize_t written = write(fd, running.data(), running.size());
  static const char kText[] = "the input is in ./fuzz-crash\n";
  written = write(STDERR_FILENO, kText, sizeof kText - 1);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void RunOn(Function target, std::string input) {
  running = std::move(input);
  try {
    target(running);
  } catch (const std::exception& e) {  // a failed CHECK
    ADD_FAILURE() << e.what() << "\nwith the input " << OneLine(running);
  }
}

class Replay : public ::testing::TestWithParam<std::string> {};

TEST_P(Replay, CorpusAndMutations) {
  std::vector<std::string> corpus = Corpus(GetParam());
  ASSERT_GE(corpus.size(), 3u) << "a target without inputs tests nothing";
  Function target = Targets().at(GetParam());
  for (int signal : {SIGABRT, SIGSEGV}) std::signal(signal, KeepInput);
  for (const std::string& input : corpus) RunOn(target, input);
  const char* runs = std::getenv("AUTOTUNE_FUZZ_RUNS");
  Rng rng(1);
  for (int i = 0, n = runs ? std::atoi(runs) : 5000; i < n; ++i) {
    RunOn(target, Mutated(corpus[rng.Below(corpus.size())], corpus, rng));
  }
  for (int signal : {SIGABRT, SIGSEGV}) std::signal(signal, SIG_DFL);
}

// What a target is worth rests on the mutations: they reach all that a few bytes' change decides.
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
