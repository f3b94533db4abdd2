#!/bin/sh
# Installs what is missing, builds everything and runs all tests; ctest's closing lines come last.
set -eu
cd "$(dirname "$0")/.."
scripts/install.sh
cmake --preset dev
cmake --build build
exec ctest --test-dir build --output-on-failure -j "$(nproc)"
