#!/bin/bash
# Tests with models that are made from valid ones by random changes. No model may end the program, and a model that is
# imported must compute the values that its graph defines (tests/compiler/mutated_models_test.cc). If Debian's
# libonnx-testdata is installed, its models are changed, too.
#   scripts/mutated_models.sh [--seed S] [--count N] [--compile N] [--first I]
# A mutant that fails is left in ./mutant-S-I.onnx; --first I --count 1 repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."
seed=1 count=20000 compile=1000 first=0
while [ $# -gt 1 ]; do
  case "$1" in
    --seed) seed=$2 ;;
    --count) count=$2 ;;
    --compile) compile=$2 ;;
    --first) first=$2 ;;
    *) echo "mutated_models.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
[ $# -eq 0 ] || { echo "mutated_models.sh: $1 needs a value" >&2; exit 2; }
models=/usr/share/libonnx-testdata/data/node
[ -d $models ] || { echo "mutated_models.sh: libonnx-testdata is not installed; its models are left out"; models=; }
ninja -C build test_compiler
export AUTOTUNE_MUTANTS=$count AUTOTUNE_MUTANTS_SEED=$seed AUTOTUNE_MUTANTS_COMPILED=$compile AUTOTUNE_MUTANTS_FIRST=$first
if [ "$models" ]; then export AUTOTUNE_MUTANTS_MODELS=$models; fi
exec build/tests/test_compiler --gtest_filter='MutatedModels.AreRefused*'
