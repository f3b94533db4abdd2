// rpc_server must fit a board: checks which libraries it links, and the total size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <sstream>

#include "support/sanitized.h"

namespace autotune {
namespace {

std::string Output(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  char bytes[4096];
  for (size_t n; (n = fread(bytes, 1, sizeof bytes, pipe)) > 0;) text.append(bytes, n);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return text;
}
const std::string kServer = std::string(AUTOTUNE_BINARY_DIR) + "/tools/rpc_server";

TEST(Closure, NoCompilerNoLearnerNoDatabase) {
  std::string libraries = Output("ldd " + kServer);
  EXPECT_THAT(libraries, testing::HasSubstr("libc.so"));  // ldd has printed something
  for (const char* banned : {"LLVM", "lld", "xgboost", "sqlite", "protobuf", "onnx", "archive"}) {
    EXPECT_THAT(libraries, testing::Not(testing::HasSubstr(banned)));
  }
}

// The live pages are those of rpc_tracker.
TEST(Closure, NoServerOfPages) {
  const auto count = [](const std::string& program) {
    return Output("grep -c -a text/event-stream " + std::string(AUTOTUNE_BINARY_DIR) + "/tools/" + program +
                  " || true");
  };
  EXPECT_EQ(count("rpc_server"), "0\n");
  EXPECT_NE(count("rpc_tracker"), "0\n");
}

TEST(Closure, FitsABoard) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's library exceeds the limit";
  std::string stripped = testing::TempDir() + "rpc_server.stripped." + std::to_string(getpid());
  Output("strip -o " + stripped + " " + kServer);
  auto own = std::filesystem::file_size(stripped);
  std::filesystem::remove(stripped);
  EXPECT_LE(own, 3u << 20);
  // Adds the libraries that a board's system does not already have.
  uintmax_t total = own;
  std::istringstream lines(Output("ldd " + kServer));
  for (std::string line; std::getline(lines, line);) {
    size_t arrow = line.find("=> /");
    if (arrow == std::string::npos) continue;
    std::string path = line.substr(arrow + 3, line.find(" (") - arrow - 3);
    std::string name = std::filesystem::path(path).filename();
    bool system = false;
    for (const char* known :
         {"libc.so", "libm.so", "libstdc++", "libgcc_s", "libpthread", "librt", "libdl", "ld-linux"}) {
      system |= name.starts_with(known);
    }
    if (!system) total += std::filesystem::file_size(path);
  }
  EXPECT_LE(total, 8u << 20);
  RecordProperty("bytes_own", static_cast<int>(own));
  RecordProperty("bytes_total", static_cast<int>(total));
  printf("rpc_server: %ju bytes stripped, %ju with its libraries\n", own, total);
}

}  // namespace
}  // namespace autotune
