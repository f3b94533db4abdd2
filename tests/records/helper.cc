#include "tests/records/helper.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "records/open.h"
#include "tests/records/sample.h"

namespace autotune {

int AppendHelperMain(int argc, char** argv) {
  if (argc != 3) return 2;
  auto fail = [](const Error& error) {
    printf("error %s\n", error.Text().c_str());
    return fflush(stdout), 1;
  };
  auto store = OpenStore(argv[0]);
  if (!store.ok()) return fail(store.error());
  for (int b = 0; b < atoi(argv[2]); ++b) {
    std::vector<Record> batch;
    for (int i = 0; i < kHelperBatch; ++i) {
      Record record = SampleRecord(i, "t" + std::to_string(i % 3), 1e-3 + 1e-6 * i);
      record.run = argv[1];
      record.facts["batch"] = b;
      record.trace = std::string(argv[1]) + "/" + std::to_string(b) + "/" + std::to_string(i) + std::string(500, 'x');
      batch.push_back(std::move(record));
    }
    RunState state{argv[1], Json(b), b};
    Status status = (*store)->Append(batch, &state);
    if (!status.ok()) return fail(status.error());
    printf("%d\n", b);
    fflush(stdout);
  }
  return 0;
}

Helper::Helper(const std::string& path, const std::string& run, int batches) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) abort();
  std::string count = std::to_string(batches);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(ends[1], 1);
    execl("/proc/self/exe", "test_records", "--append-helper", path.c_str(), run.c_str(), count.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  out_ = ends[0];
}

Helper::~Helper() {
  if (pid_ > 0) {
    Kill();
    Wait();
  }
  close(out_);
}

std::string Helper::ReadLine() {
  std::string line;
  char c;
  while (read(out_, &c, 1) == 1 && c != '\n') line += c;
  return line;
}

void Helper::Kill() { kill(pid_, SIGKILL); }

int Helper::Wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace autotune
