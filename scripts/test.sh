#!/bin/sh
# Installs missing packages, builds everything and runs all tests. The last lines are the summary of ctest. The tests
# draw random cases from a seed of the commit, which is printed; SEED replaces it.
set -eu
cd "$(dirname "$0")/.."
scripts/install.sh
cmake --preset dev
cmake --build build
seed=${SEED:-$(scripts/seed.sh)}
echo "$(for t in build/tests/test_*; do if [ -x "$t" ]; then "$t" --gtest_list_tests; fi; done | grep -c '^  ') tests," \
  "in a process for each suite or share of a suite; seed of the random draws: $seed (SEED=$seed repeats them)"
export AUTOTUNE_SCHEDULE_SEED="$seed" AUTOTUNE_FUZZ_SEED="$seed" AUTOTUNE_MUTANTS_SEED="$seed"
# One more than the cores, since one of the tests at a time may be one that mostly waits (WAITING, tests/CMakeLists.txt).
exec ctest --test-dir build --output-on-failure -j "$(($(nproc) + 1))"
