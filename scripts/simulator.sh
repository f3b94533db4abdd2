#!/usr/bin/env bash
# Simulates many farms in virtual time (tests/simulator): scripts/simulator.sh [--seeds N] [--days N] [--first SEED]
# Runs N farms under frequent faults (default 10000), and farms of five leased device-days until N days are reached
# (default 1000). Their seeds begin with --first (default: the seed of the commit). Two processes run at a time. Prints
# what the farms did and the processor time; the exit status is 0 if no farm broke a promise.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
seeds=10000 days=1000 first=$(scripts/seed.sh)
while [ $# -gt 0 ]; do
  case $1 in
    --seeds | --days | --first)
      [[ ${2:-} =~ ^[0-9]+$ ]] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
      declare "${1#--}=$2"
      shift
      ;;
    *) sed -n '2,5s/^# //p' "$0" >&2; exit 2 ;;
  esac
  shift
done
export AUTOTUNE_SIMULATOR_PRINT=1 AUTOTUNE_SIMULATOR_FIRST=$first AUTOTUNE_SIMULATOR_SEEDS=$seeds
export AUTOTUNE_SIMULATOR_DAYS=$days
binary=${BUILD:-build}/tests/test_simulator
failed=0
for suite in Seeds Days; do
  for half in First Second; do
    (
      TIMEFORMAT="$suite.$half: %U s of processor time"
      time output=$("$binary" --gtest_filter="$suite.$half")
      status=$?
      [ $status -eq 0 ] || echo "$output"
      echo "$suite.$half, seeds from $first: $(grep 'leased device-days' <<<"$output")"
      exit $status
    ) &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job" || failed=1; done
  jobs=()
done
exit $failed
