#!/bin/sh
# Tests two tuners on one database for SECONDS (default 600). Every few seconds, at random times, kills one tuner, and
# kills build workers and runners of the other: scripts/kill_tuners.sh [SECONDS]
set -e
cd "$(dirname "$0")/.."
cmake --preset dev >/dev/null
cmake --build build --target test_tools
AUTOTUNE_KILL_SECONDS="${1:-600}" build/tests/test_tools --gtest_filter='TwoTuners.*'
