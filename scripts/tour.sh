#!/usr/bin/env bash
# Runs the commands of README.md in the order in which they stand there, each as a reader would type it, and ends at the
# first one that fails: scripts/tour.sh [--list] [--skip COMMAND]... [SECTION...]
# SECTION is a heading of README.md; the default is "A first tour". A command is an indented line after "$ ", or each
# line of an indented block without "$ ". An id of a task, eight hexadecimal digits, is replaced by one that this
# machine has printed. --list prints the commands instead. The commands write files here and records to the default
# database, so scripts/fresh_machine.sh runs this script on a machine of its own.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

# commands SECTION: prints the commands of a section, one per line
commands() {
  awk -v section="$1" '
    function flush(  i) {
      for (i = 1; i <= lines; ++i) if (!prompts || line[i] ~ /^\$ /) { sub(/^\$ /, "", line[i]); print line[i] }
      lines = prompts = 0
    }
    /^## / { flush(); inside = $0 == "## " section; found += inside }
    inside && /^    / { line[++lines] = substr($0, 5); if (line[lines] ~ /^\$ /) prompts = 1; next }
    { flush() }
    END { flush(); if (!found) exit 1 }' README.md || { echo "tour: README.md has no section '$1'" >&2; exit 1; }
}

list=0 skipped=() sections=()
while [ $# -gt 0 ]; do
  case $1 in
    --list) list=1 ;;
    --skip) shift; skipped+=("${1:?--skip needs a command}") ;;
    -*) sed -n '2,7s/^# //p' "$0" >&2; exit 2 ;;
    *) sections+=("$1") ;;
  esac
  shift
done
[ ${#sections[@]} -gt 0 ] || sections=("A first tour")
all=
for section in "${sections[@]}"; do all+=$(commands "$section")$'\n' || exit 1; done
if [ $list = 1 ]; then printf '%s' "$all"; exit; fi

log=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$log"' EXIT
begin=$SECONDS count=0
while IFS= read -r command <&3; do
  [ -n "$command" ] || continue
  for skip in "${skipped[@]}"; do [[ $command != "$skip"* ]] || continue 2; done
  # An id that stands in README.md is one of the machine on which it was written.
  id=$(grep -ohE '^ *[0-9a-f]{8} ' "$log"/[0-9]* 2>/dev/null | head -n 1 | tr -d ' ')
  [ -z "$id" ] || command=$(sed -E "s/\b[0-9a-f]{8}\b/$id/g" <<<"$command")
  printf '$ %s\n' "$command"
  count=$((count + 1))
  TIMEFORMAT="  (%0R s; CPU %0U + %0S s)"
  { time eval "$command" >"$log/$count" 2>&1 3<&-; status=$?; } 2>"$log/time"
  cat "$log/$count" "$log/time"
  [ $status = 0 ] || { echo "tour: '$command' ended with status $status" >&2; exit 1; }
done 3<<<"$all"
[ $count -gt 0 ] || { echo "tour: found no commands" >&2; exit 1; }
echo "tour: $count commands, $((SECONDS - begin)) s"
