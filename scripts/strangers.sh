#!/bin/sh
# Attacks a farm over TCP (tests/hostile/strangers_test.cc), and prints a line for each attack: without keys, with wrong
# keys, as a member who was revoked or has another role, with grants and keys of others, by handshakes and messages that
# never end, and by 5,000 idle connections. After each, the tracker and the servers must have closed all connections of
# the attack within 6 s, and a tuner must have worked on, with one lease. Wrong keys and idle connections may cost the
# tracker 5 % of a processor. Then most attacks are made where their rule is switched off, and must succeed.
# scripts/strangers.sh [FILTER]
# Needs a built tree (build/, or BUILD=...). FILTER chooses tests as --gtest_filter does. Takes about four minutes.
set -eu
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
export AUTOTUNE_DRAWS=all
"${BUILD:-build}/tests/test_hostile" --gtest_filter="${1:-HostileStrangers.*:StrangerTwins.*}" >"$log" 2>&1 || failed=1
if [ $failed -ne 0 ]; then
  cat "$log" >&2
else
  grep -E 'unharmed|of the tracker|skipped' "$log"
fi
echo "$(grep -c 'unharmed' "$log" || true) attacks, $(grep -c '   OK ] StrangerTwins' "$log" || true) farms without rules," \
  "$([ $failed -eq 0 ] && echo 'none did harm with them' || echo 'FAILED, see above')"
exit $failed
