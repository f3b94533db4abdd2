// A child process that appends batches to a database until it is done or killed. For single-threaded use by one test.
#pragma once
#include <sys/types.h>

#include <string>

namespace autotune {

constexpr int kHelperBatch = 16;  // records of one batch

// PATH RUN BATCHES: appends batches 0, 1, … of kHelperBatch records each (status of record i of batch b in its facts)
// and prints one line "b" after each acknowledged one. A failure prints "error TEXT" and ends it with 1.
int AppendHelperMain(int argc, char** argv);

class Helper {
 public:
  Helper(const std::string& path, const std::string& run, int batches);
  ~Helper();
  std::string ReadLine();  // without its end; "" at the end of the output
  void Kill();             // SIGKILL
  int Wait();              // exit status, or -signal

 private:
  pid_t pid_ = -1;
  int out_ = -1;
};

}  // namespace autotune
