// For tests of targets of kind c: shell scripts that replace the C compiler, and a call of the real one.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "support/file.h"
#include "support/subprocess.h"

namespace autotune::test {

// A temporary folder that the destructor removes.
class Folder {
 public:
  Folder() : path_(::testing::TempDir() + "c-target-XXXXXX") { EXPECT_TRUE(mkdtemp(path_.data())); }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string Write(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(WriteFile(path_ + "/" + name, text).ok());
    return path_ + "/" + name;
  }
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Sets AUTOTUNE_CC to a shell script during its lifetime.
class CompilerIs {
 public:
  explicit CompilerIs(const std::string& script) {
    std::string path = folder_.Write("compiler", "#!/bin/sh\n" + script + "\n");
    chmod(path.c_str(), 0755);
    setenv("AUTOTUNE_CC", path.c_str(), 1);
  }
  ~CompilerIs() { unsetenv("AUTOTUNE_CC"); }

 private:
  Folder folder_;
};

// A script for CompilerIs. Undefined behaviour in the code that it compiles ends the process by SIGILL, as far as the
// sanitizer detects it.
inline constexpr const char* kTrapping =
    "exec cc -fsanitize=undefined -fsanitize-undefined-trap-on-error -fno-sanitize=alignment \"$@\"";

// Runs a command. Returns "" if it succeeds, and otherwise its output and how it ended.
inline std::string ComplaintOf(std::vector<std::string> command) {
  auto [out, in] = std::move(MakePipe()).value();
  auto process = Subprocess::Spawn({.argv = std::move(command), .fds = {{1, in.get()}, {2, in.get()}}});
  if (!process.ok()) return process.error().Text();
  in.Reset();
  std::string text;
  char bytes[4096];
  for (ssize_t n; (n = read(out.get(), bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<size_t>(n));
  auto status = process->Wait(60000);
  return status && status->ok() ? "" : text + (status ? status->Text() : "it did not end within 60 s");
}

}  // namespace autotune::test
