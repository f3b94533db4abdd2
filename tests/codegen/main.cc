// The test binary is its own build worker: `test_codegen --build-worker`. With --hanging-worker or --dying-worker it is
// a worker that hangs or dies.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "codegen/builder.h"
#include "support/subprocess.h"

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--build-worker") == 0) {
    autotune::EndWithParent();
    return autotune::BuildWorkerMain(autotune::kBuildWorkerFd);
  }
  if (argc == 2 && strcmp(argv[1], "--hanging-worker") == 0) {
    autotune::EndWithParent();
    for (;;) pause();
  }
  if (argc == 2 && strcmp(argv[1], "--dying-worker") == 0) {
    char byte;
    if (read(autotune::kBuildWorkerFd, &byte, 1) == 1) raise(SIGKILL);
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
