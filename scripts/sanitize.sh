#!/bin/sh
# Runs tests under the sanitizers: scripts/sanitize.sh address|thread|all [arguments of ctest, such as -R Import]
#   address: AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer, with all tests
#   thread:  ThreadSanitizer, with the tests of components that use threads: thread pool, rpc, farm, database, tuner
# Reports are collected in files, so that a finding in a child process of a test fails the run, too. Findings in
# third-party libraries are suppressed by the library's name, in scripts/sanitizers/. Environment: JOBS, jobs of the
# build; TESTS, the components to build and test, such as "runtime rpc"; AUTOTUNE_SCHEDULES, AUTOTUNE_FUZZ_RUNS (default
# 500), AUTOTUNE_SIMULATOR_SEEDS (20) and AUTOTUNE_SIMULATOR_DAYS (2), the numbers of random cases, since each takes
# twenty times as long here.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
jobs=${JOBS:-$(nproc)}
export AUTOTUNE_SCHEDULES="${AUTOTUNE_SCHEDULES:-500}" AUTOTUNE_FUZZ_RUNS="${AUTOTUNE_FUZZ_RUNS:-500}"
export AUTOTUNE_SIMULATOR_SEEDS="${AUTOTUNE_SIMULATOR_SEEDS:-20}" AUTOTUNE_SIMULATOR_DAYS="${AUTOTUNE_SIMULATOR_DAYS:-2}"

usage() {
  sed -n '2,9s/^# //p' "$0" >&2
  exit 2
}

# build PRESET [COMPONENT...]: builds the tests of these components, or everything
build() {
  preset=$1
  shift
  cmake --preset "$preset" >/dev/null
  for test; do
    shift
    set -- "$@" "test_$test"
  done
  cmake --build "build-$preset" -j "$jobs" --target "${@:-all}"
}

# run PRESET ENVIRONMENT-VARIABLE OPTIONS COMPONENTS [ctest arguments]: runs the tests of these components, or all
run() {
  preset=$1 variable=$2 options=$3
  labels=$(echo "$4" | tr ' ' '|')
  shift 4
  reports=$root/build-$preset/reports
  rm -rf "$reports"
  mkdir -p "$reports"
  failed=0
  env "$variable=$options:log_path=$reports/report" ctest --test-dir "build-$preset" --output-on-failure \
    --no-tests=error ${labels:+-L "^($labels)\$"} -j "$(nproc)" "$@" || failed=1
  # AddressSanitizer warns about fibers, which some tests use. A file with only this warning is no finding.
  find "$reports" -type f -exec grep -LvF "ASan doesn't fully support makecontext/swapcontext" {} + | xargs -r rm
  if [ -n "$(ls "$reports")" ]; then
    cat "$reports"/* >&2
    echo "$preset: $(find "$reports" -type f | wc -l) processes reported findings, in $reports" >&2
    failed=1
  fi
  return $failed
}

address() {
  tests=${TESTS-}
  # shellcheck disable=SC2086 # one word per component
  build asan $tests
  # handle_sigill: UndefinedBehaviorSanitizer's findings are traps, which AddressSanitizer reports as SIGILL
  LSAN_OPTIONS="suppressions=$root/scripts/sanitizers/leak.txt:print_suppressions=0" \
    run asan ASAN_OPTIONS detect_stack_use_after_return=1:allocator_may_return_null=1:handle_sigill=1 "$tests" "$@"
}

thread() {
  tests=${TESTS:-support records runtime rpc tracker simulator hostile tuner}
  # shellcheck disable=SC2086
  build tsan $tests
  run tsan TSAN_OPTIONS \
    "suppressions=$root/scripts/sanitizers/thread.txt:second_deadlock_stack=1:allocator_may_return_null=1" "$tests" "$@"
}

[ $# -ge 1 ] || usage
what=$1
shift
case $what in
  address) address "$@" ;;
  thread) thread "$@" ;;
  all)
    # Run each sanitizer in a shell of its own, since `set -e` has no effect in a function called in a condition.
    failed=0
    scripts/sanitize.sh address "$@" || failed=1
    scripts/sanitize.sh thread "$@" || failed=1
    exit $failed
    ;;
  *) usage ;;
esac
