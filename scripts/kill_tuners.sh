#!/bin/sh
# Two tuners on one database for ten minutes (or SECONDS), one of them killed at random every few seconds, and build
# workers and runners of the other: scripts/kill_tuners.sh [SECONDS]
set -e
cd "$(dirname "$0")/.."
cmake --preset dev >/dev/null
cmake --build build --target test_tools
AUTOTUNE_KILL_SECONDS="${1:-600}" build/tests/test_tools --gtest_filter='TwoTuners.*'
