#!/bin/sh
# Tests random schedules on all cores, first interpreted, then compiled: scripts/random_schedules.sh [COUNT [SEED]]
# COUNT is a million by default, SEED is 0. On two cores, a million schedules take twenty minutes interpreted, and about
# three hours compiled. A wrong schedule is reduced and printed (docs/trace.md). Needs the tests built in build/.
set -eu
cd "$(dirname "$0")/.."
export AUTOTUNE_SCHEDULES="${1:-1000000}" AUTOTUNE_SCHEDULE_SEED="${2:-0}"
build/tests/test_schedule --gtest_filter='RandomSchedules.KeepTheMeaning'
exec build/tests/test_codegen --gtest_filter='CompiledRandomTraceParts.*'
