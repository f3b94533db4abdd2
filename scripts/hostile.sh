#!/bin/sh
# Attacks a farm by candidates, system calls and local peers (tests/hostile), and prints a line for each attack. After
# each, another client's candidate must be ok within 5 s, no other lease lost, and no process grown by 32 MiB.
# scripts/strangers.sh has the attacks over TCP.
# scripts/hostile.sh [FILTER]
# Needs a built tree (build/, or BUILD=...). FILTER chooses tests as --gtest_filter does. Takes about two minutes.
set -eu
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
export AUTOTUNE_DRAWS=all
"${BUILD:-build}/tests/test_hostile" --gtest_filter="${1:--*Stranger*}" >"$log" 2>&1 || failed=1
if [ $failed -ne 0 ]; then
  cat "$log" >&2
else
  grep 'unharmed' "$log"
fi
echo "$(grep -c 'unharmed' "$log" || true) attacks, $([ $failed -eq 0 ] && echo 'none did harm' || echo 'FAILED, see above')"
exit $failed
