// A child process that appends batches to a database until it is done or killed. Not thread-safe.
#pragma once
#include <sys/types.h>

#include <string>

namespace autotune {

constexpr int kHelperBatch = 16;  // records of one batch

// Main program of the child, with arguments PATH RUN BATCHES. Appends batches 0, 1, … of kHelperBatch records each,
// with the batch's number in each record's facts. Prints the number of each acknowledged batch. On failure, prints
// "error TEXT" and returns 1.
int AppendHelperMain(int argc, char** argv);

class Helper {
 public:
  Helper(const std::string& path, const std::string& run, int batches);
  ~Helper();
  std::string ReadLine();  // without the newline; "" at the end of the output
  void Kill();             // sends SIGKILL
  int Wait();              // returns the exit status, or -signal

 private:
  pid_t pid_ = -1;
  int out_ = -1;
};

}  // namespace autotune
