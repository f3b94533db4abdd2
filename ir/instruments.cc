#include "ir/instruments.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "support/check.h"
#include "support/clock.h"
#include "support/file.h"

namespace autotune {
namespace {

namespace fs = std::filesystem;

// The name of the file with the program before the first pass.
constexpr const char* kInput = "input";

std::string FileName(int number, const std::string& pass) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "%02d_", number);
  return digits + pass + ".txt";
}

// Returns whether a dump may have written a file of this name.
bool IsFileOfDump(const std::string& name) {
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  return digits >= 2 && name.substr(digits).starts_with("_") && name.ends_with(".txt");
}

// Removes the files of a dump from `folder`, and the folders of its parts if they are empty afterwards. A folder
// without 00_input.txt is not a dump and stays as it is.
void RemoveDump(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / FileName(0, kInput), error)) return;
  std::vector<fs::path> files, folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const fs::file_type type = entry.symlink_status(error).type();
    if (type == fs::file_type::directory) folders.push_back(entry.path());
    if (type == fs::file_type::regular && IsFileOfDump(entry.path().filename().string())) files.push_back(entry.path());
  }
  for (const fs::path& part : folders) {
    if (!fs::exists(part / FileName(0, kInput), error)) continue;
    RemoveDump(part);
    fs::remove(part, error);
  }
  for (const fs::path& file : files) fs::remove(file, error);
}

}  // namespace

Status TimePasses::Before(std::string_view, const ProgramView&) {
  running_.push_back({.begin = SteadySeconds()});
  return {};
}

Status TimePasses::After(std::string_view pass, const ProgramView&) {
  CHECK(!running_.empty()) << pass << " ends, but did not begin";
  const Running run = running_.back();
  running_.pop_back();
  const double seconds = SteadySeconds() - run.begin;
  if (!running_.empty()) running_.back().inner += seconds;
  PassTime& time = times_[std::string(pass)];
  ++time.runs;
  time.ms += (seconds - run.inner) * 1e3;
  return {};
}

void TimePasses::Add(const PassTimes& times) {
  for (const auto& [pass, more] : times) {
    PassTime& time = times_[pass];
    time.runs += more.runs;
    time.ms += more.ms;
  }
}

Status BeginDump(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Err("cannot write the programs to ", folder, ": ", error.message());
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return Err("cannot write the programs to ", folder, ": ", std::strerror(errno));
  RemoveDump(folder);
  return {};
}

Status DumpPasses::Before(std::string_view, const ProgramView& program) {
  if (written_.contains(std::string(program.Part()))) return {};
  return Write(kInput, program);
}

Status DumpPasses::After(std::string_view pass, const ProgramView& program) {
  return Write(std::string(pass), program);
}

Status DumpPasses::Write(const std::string& pass, const ProgramView& program) {
  if (!begun_) TRY(BeginDump(folder_));
  begun_ = true;
  fs::path folder = folder_;
  if (!program.Part().empty()) folder /= program.Part();
  int& number = written_[std::string(program.Part())];
  if (number == 0) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return Err("cannot write the programs to ", folder.string(), ": ", error.message());
  }
  return WriteFile((folder / FileName(number++, pass)).string(), program.Text());
}

Status VerifyPasses::Before(std::string_view, const ProgramView& program) {
  if (begun_) return {};
  begun_ = true;
  return program.Verify();
}

Status VerifyPasses::After(std::string_view, const ProgramView& program) { return program.Verify(); }

}  // namespace autotune
