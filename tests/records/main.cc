// The test binary is also the child process that the crash tests start and kill.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/records/helper.h"

int main(int argc, char** argv) {
  if (argc >= 2 && std::strcmp(argv[1], "--append-helper") == 0) return autotune::AppendHelperMain(argc - 2, argv + 2);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
