#!/bin/sh
# Fuzzes one target with libFuzzer, AddressSanitizer and UBSan: scripts/fuzz.sh TARGET SECONDS [options of libFuzzer]
# Targets are tests/fuzz/TARGET_fuzz.cc. New inputs go to build-fuzz/corpus/TARGET. Inputs that crash, hang or take
# 2 GiB go to build-fuzz/findings/; after fixing the bug, keep them in tests/fuzz/corpus/TARGET. The tests
# LibFuzzer.TARGET (ctest -C night) run it. A target that names sources (`// Covers at least 95 % of the lines of`)
# ends with the share of their lines that ran, and fails if it is less; inputs that are kept from run to run count.
# PLAIN=1 runs it without sanitizers, some five times as fast: it finds failed checks, crashes and hangs.
# Environment: BUILD replaces build-fuzz (PLAIN=1: build-fuzz-plain); LEVEL=-O0 suits a short run; JOBS limits the jobs of the build; FRESH=1 first
# deletes the inputs that earlier runs have added; RUNS and FUZZ_SEED are the number of inputs and the seed.
set -eu
cd "$(dirname "$0")/.."
if [ $# -lt 2 ] || [ ! -f "tests/fuzz/$1_fuzz.cc" ]; then
  sed -n '2,10s/^# //p' "$0" >&2
  echo "targets: $(ls tests/fuzz/*_fuzz.cc | sed 's,.*/\(.*\)_fuzz.cc,\1,' | tr '\n' ' ')" >&2
  exit 2
fi
command -v clang++-19 >/dev/null || { echo "clang-19 is missing: run scripts/install.sh" >&2; exit 1; }
target=$1 seconds=$2
shift 2
if [ "${PLAIN:-0}" = 0 ]; then
  build=${BUILD:-build-fuzz} sanitizers=fuzzer-no-link,address,undefined level=${LEVEL:--O1}
else
  # Many inputs matter more here than rare ones: neither comparisons nor the frequencies of features guide the choice.
  build=${BUILD:-build-fuzz-plain} sanitizers=fuzzer-no-link level="${LEVEL:--O2};-fno-sanitize-coverage=trace-cmp"
  set -- -entropic=0 -reduce_inputs=0 "$@"
fi
mkdir -p "$build"
(
  flock 9 # another run of this script may build another target in this folder
  cmake --preset fuzz -B "$build" -DAUTOTUNE_SANITIZE="$sanitizers" -DAUTOTUNE_SANITIZE_LEVEL="$level" >/dev/null
  cmake --build "$build" -j "${JOBS:-$(nproc)}" --target "fuzz_$target"
) 9>"$build/lock"
[ "${FRESH:-0}" = 0 ] || rm -rf "$build/corpus/$target"
mkdir -p "$build/corpus/$target" "$build/findings"
counts=$build/$target
rm -f "$counts.profraw" # counts of lines
# Short stacks of allocations, and locals that are not watched after their function's return, double the speed. A finding
# is reported in full when its input is run alone.
ASAN_OPTIONS="malloc_context_size=1:detect_stack_use_after_return=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}" \
  LLVM_PROFILE_FILE="$counts.profraw" "$build/tests/fuzz_$target" "$build/corpus/$target" "tests/fuzz/corpus/$target" \
  -artifact_prefix="$build/findings/$target-" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 \
  -malloc_limit_mb=2048 -max_len=20000 -print_final_stats=1 "$@" ${RUNS:+-runs="$RUNS"} ${FUZZ_SEED:+-seed="$FUZZ_SEED"}

covers='Covers at least \([0-9]*\) % of the lines of '
least=$(sed -n "s,^// $covers.*,\1,p" "tests/fuzz/${target}_fuzz.cc")
[ -n "$least" ] || exit 0
# The names follow, up to the first line that is no comment.
sources=$(sed -n "/^[/][/] $covers/,/^[^/]/s,^[/][/] ,,p" "tests/fuzz/${target}_fuzz.cc" | tr ' ' '\n' | grep '^[a-z]*/')
llvm-profdata-19 merge -o "$counts.profdata" "$counts.profraw"
# shellcheck disable=SC2086 # one word per source
llvm-cov-19 report "$build/tests/fuzz_$target" -instr-profile="$counts.profdata" -show-region-summary=0 \
  -show-branch-summary=0 $sources | awk -v least="$least" '
    NF >= 7 && $NF ~ /%$/ { printf "%-32s %5d lines, %4d not run, %s\n", $1, $(NF - 2), $(NF - 1), $NF; all = $NF + 0 }
    END { if (all < least) { printf "less than %d %% of all lines ran\n", least; exit 1 } }'
