#!/bin/sh
# Installs missing packages, builds everything and runs all tests. The last lines are the summary of ctest.
set -eu
cd "$(dirname "$0")/.."
scripts/install.sh
cmake --preset dev
cmake --build build
exec ctest --test-dir build --output-on-failure -j "$(nproc)"
