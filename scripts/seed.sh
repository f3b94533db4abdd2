#!/bin/sh
# Prints the seed of the random draws of this commit: the number that its first seven hexadecimal digits are. Tests of
# different commits draw different cases, and tests of one commit the same ones. Outside of a git repository it is 1.
cd "$(dirname "$0")/.." || exit 1
commit=$(git rev-parse HEAD 2>/dev/null) || commit=1
printf '%d\n' "0x$(printf %.7s "$commit")"
