#!/bin/sh
# Tests under the sanitizers: scripts/sanitize.sh address|thread|all [arguments of ctest, such as -R Import]
#   address: AddressSanitizer, LeakSanitizer, UndefinedBehaviorSanitizer, all tests, IR verified after every pass
#   thread:  ThreadSanitizer, the tests of what has threads: thread pool, wire, farm, database, tuner
# A finding fails the run even in a process that a test merely starts: reports are collected in files. What other
# people's libraries do is suppressed by the library's name alone, in scripts/sanitizers/. Environment: JOBS, of the build;
# TESTS, components to restrict both to, such as "runtime rpc".
set -eu
cd "$(dirname "$0")/.."
root=$PWD
jobs=${JOBS:-$(nproc)}

usage() {
  sed -n '2,7s/^# //p' "$0" >&2
  exit 2
}

# targets DEFAULT...: what to build
targets() {
  [ -z "${TESTS-}" ] && echo "$@" && return
  for test in $TESTS; do echo "test_$test"; done
}

# run PRESET ENVIRONMENT-VARIABLE OPTIONS [ctest arguments]
run() {
  preset=$1 variable=$2 options=$3
  shift 3
  reports=$root/build-$preset/reports
  rm -rf "$reports"
  mkdir -p "$reports"
  failed=0
  env "$variable=$options:log_path=$reports/report" ctest --test-dir "build-$preset" --output-on-failure \
    --no-tests=error -E _NOT_BUILT -j "$(nproc)" "$@" || failed=1
  if [ -n "$(ls "$reports")" ]; then
    cat "$reports"/* >&2
    echo "$preset: $(ls "$reports" | wc -l) processes reported findings, in $reports" >&2
    failed=1
  fi
  return $failed
}

address() {
  cmake --preset asan >/dev/null
  # shellcheck disable=SC2046 # one word per target
  cmake --build build-asan -j "$jobs" --target $(targets all)
  UBSAN_OPTIONS=print_stacktrace=1 LSAN_OPTIONS="suppressions=$root/scripts/sanitizers/leak.txt" \
    run asan ASAN_OPTIONS detect_stack_use_after_return=1:allocator_may_return_null=1 "$@"
}

thread() {
  cmake --preset tsan >/dev/null
  # shellcheck disable=SC2046
  cmake --build build-tsan -j "$jobs" --target $(targets test_support test_records test_runtime test_rpc test_tracker test_tuner)
  run tsan TSAN_OPTIONS "suppressions=$root/scripts/sanitizers/thread.txt:second_deadlock_stack=1:allocator_may_return_null=1" "$@"
}

[ $# -ge 1 ] || usage
what=$1
shift
case $what in
  address) address "$@" ;;
  thread) thread "$@" ;;
  all) address "$@" && thread "$@" ;;
  *) usage ;;
esac
