#!/bin/sh
# Random schedules, interpreted and then compiled, on all cores: scripts/random_schedules.sh [COUNT, a million] [SEED, 0]
# Interpreted, a million take twenty minutes of two cores; compiled, by the rate of smaller runs, three hours. What is wrong is shrunk and printed
# (docs/trace.md). Needs the tests built in build/.
set -eu
cd "$(dirname "$0")/.."
export AUTOTUNE_SCHEDULES="${1:-1000000}" AUTOTUNE_SCHEDULE_SEED="${2:-0}"
build/tests/test_schedule --gtest_filter='RandomSchedules.KeepTheMeaning'
exec build/tests/test_codegen --gtest_filter='CompiledRandomTraceParts.*'
