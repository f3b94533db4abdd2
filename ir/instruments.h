// The instruments that a PassConfig asks for by name. Not thread-safe.
#pragma once
#include <string>
#include <vector>

#include "ir/pass_context.h"

namespace autotune {

// Counts the runs of each pass and their wall time. The time of a pass excludes the passes that run inside it, such as
// those for the kernels that fold constants. So the times of all passes add up to the total time.
class TimePasses final : public PassInstrument {
 public:
  Status Before(std::string_view pass, const ProgramView& program) override;
  Status After(std::string_view pass, const ProgramView& program) override;
  const PassTimes& times() const { return times_; }
  void Add(const PassTimes& times);

 private:
  struct Running {
    double begin = 0, inner = 0;  // in seconds: the start, and the time of the passes inside
  };
  std::vector<Running> running_;  // outermost first
  PassTimes times_;
};

// Writes the program to FOLDER/00_input.txt, and after each pass to FOLDER/NN_PASS.txt. If passes run on one part of
// the program, such as a kernel, its files go to a subfolder for that part. The first write removes an earlier dump.
class DumpPasses final : public PassInstrument {
 public:
  explicit DumpPasses(std::string folder) : folder_(std::move(folder)) {}
  Status Before(std::string_view pass, const ProgramView& program) override;
  Status After(std::string_view pass, const ProgramView& program) override;

 private:
  Status Write(const std::string& pass, const ProgramView& program);

  std::string folder_;
  bool begun_ = false;
  std::map<std::string, int> written_;  // number of files written, by part
};

// Creates the folder and removes the files of an earlier dump from it, but no others. Returns an error if files cannot
// be written there.
Status BeginDump(const std::string& folder);

// Verifies the program before the first pass and after each.
class VerifyPasses final : public PassInstrument {
 public:
  Status Before(std::string_view pass, const ProgramView& program) override;
  Status After(std::string_view pass, const ProgramView& program) override;

 private:
  bool begun_ = false;
};

}  // namespace autotune
