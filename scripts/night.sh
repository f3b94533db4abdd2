#!/usr/bin/env bash
# Runs the checks that take too long for scripts/test.sh: scripts/night.sh [--seed S] [--scale N] [--dir FOLDER] [PART...]
# Without PART it runs all parts; --list prints them. All draws start from --seed (default: that of the commit).
# --scale multiplies the numbers of draws: 1 (the default) takes a night on two cores, 0.01 tries every part. A part
# that fails does not stop the others. Each part ends with a line, and its output is in a file in --dir (default
# build/night). The exit status is 0 only if all parts passed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

seed=$(scripts/seed.sh) scale=1 dir=build/night

# draws NUMBER: prints the number times --scale, at least 1
draws() { awk -v n="$1" -v scale="$scale" 'BEGIN { n = int(n * scale); print (n > 1 ? n : 1) }'; }
networks() {
  local target=$1 count
  count=$(draws "$2")
  /usr/bin/python3 scripts/fuzz_networks.py --seed "$seed" --count "$count" --target "$target" "${@:3}"
}

# Each part is a function part_NAME that ends with status 0 if nothing was found. The comment after its name is what
# --list prints.
part_benches() { # all programs of bench/ compile
  cmake --build build --target benches
}
part_libfuzzer() { # every fuzz target under libFuzzer and the sanitizers
  RUNS=$(draws 1000000) FUZZ_SEED=$((seed % 4294967295 + 1)) \
    ctest --test-dir build -C night -L night --output-on-failure --no-tests=error -j "$(nproc)"
}
part_farm_messages() { # 10^8 messages to the farm's state machines, without sanitizers
  # An input has some 430 messages.
  PLAIN=1 RUNS=$(draws 240000) FUZZ_SEED=$((seed % 4294967295 + 1)) scripts/fuzz.sh farm_states 7200
}
part_networks_cpu() { networks cpu 5000; }         # random networks by LLVM
part_networks_c() { networks c 500; }              # random networks by a compiler of C
part_networks_opencl() { networks opencl 500; }    # random networks on an OpenCL device
part_quantized() { # networks of 8-bit numbers in the three forms, layer by layer
  local nets
  nets=$(mktemp -d) || return 1
  # shellcheck disable=SC2086 # one word per network
  /usr/bin/python3 examples/make_nets.py "$nets" $(echo {mobilenet_v2,resnet50,bert2}_{qdq,qoperator,dynamic}) &&
    scripts/verify_layers.py "$nets"/*
  local status=$?
  rm -rf "$nets"
  return $status
}
part_networks_tuned() { networks cpu 100 --trials 24; } # random networks, tuned
part_operators() { # models of one operator: numbers of any magnitude, and faults that must be refused
  local target
  for target in cpu c opencl; do
    /usr/bin/python3 scripts/fuzz_operators.py --seed "$seed" --target "$target" \
      --count "$(draws $([ $target = cpu ] && echo 1000 || echo 100))" || return 1
  done
}
part_mutants() { # models made from valid ones by random changes
  scripts/mutated_models.sh --seed "$seed" --count "$(draws 20000)" --compile "$(draws 1000)"
}
part_schedules() { # random schedules, interpreted and compiled
  scripts/random_schedules.sh "$(draws 200000)" "$seed"
}
part_gpu_schedules() { # random schedules for GPUs, interpreted, and compiled for this machine
  export AUTOTUNE_GPU_SCHEDULES
  AUTOTUNE_GPU_SCHEDULES=$(draws 20000)
  build/tests/test_lower --gtest_filter='GpuLowering.*' && build/tests/test_codegen --gtest_filter='GpuOnHost.*'
}
part_whole_draws() { # the tests of which CI draws a part, whole: a model of 2 GiB, C compilers, sketches
  AUTOTUNE_DRAWS=all ctest --test-dir build --output-on-failure -j "$(nproc)" \
    -R '^(codegen|compiler|conformance|tuner)[.]|tools[.]Orphans'
}
part_simulator() { # the farm's state machines in virtual time: seeds and leased device-days
  scripts/simulator.sh --seeds "$(draws 10000)" --days "$(draws 1000)" --first "$seed" &&
    AUTOTUNE_SIMULATOR_HOLDERS=1000 build/tests/test_simulator --gtest_filter='*Frozen*'
}
part_old_peer() { # the farm's programs of an earlier commit beside those of today
  AUTOTUNE_OLD_PEER=1 build/tests/test_tracker --gtest_filter='OldPeer.*'
}
part_fuzz() { # mutations of the corpora without coverage
  AUTOTUNE_FUZZ_SEED=$seed AUTOTUNE_FUZZ_RUNS=$(draws 2000000) build/tests/test_fuzz
}
part_kill() { # two tuners that are killed again and again
  scripts/kill_tuners.sh "$(draws 600)"
}
part_verify() { # the preset verify: every program is checked, and each file is compiled alone
  cmake --workflow --preset verify
}
part_address() { # AddressSanitizer, LeakSanitizer and UBSan
  AUTOTUNE_SCHEDULES=$(draws 500) AUTOTUNE_FUZZ_RUNS=$(draws 500) scripts/sanitize.sh address
}
part_thread() { # ThreadSanitizer
  scripts/sanitize.sh thread
}

parts=$(declare -F | sed -n 's/^declare -f part_//p')
list() { sed -n 's/^part_\([a-z_]*\)() {.*# \(.*\)$/\1\t\2/p' "$0" | expand -t 20; }
usage() {
  sed -n '2,6s/^# //p' "$0" >&2
  exit 2
}

wanted=()
while [ $# -gt 0 ]; do
  case $1 in
    --list) list; exit 0 ;;
    --seed | --scale | --dir)
      [ $# -ge 2 ] || usage
      declare "${1#--}=$2"
      shift
      ;;
    -*) usage ;;
    *)
      grep -qxF "$1" <<<"$parts" || { echo "night: no part $1; the parts are:" $parts >&2; exit 2; }
      wanted+=("$1")
      ;;
  esac
  shift
done
[[ $seed =~ ^[0-9]+$ && $scale =~ ^[0-9]*\.?[0-9]+$ ]] || usage
# shellcheck disable=SC2206 # one word per part
[ ${#wanted[@]} -gt 0 ] || wanted=($parts)

mkdir -p "$dir" || exit 1
echo "night: seed $seed, scale $scale, output in $dir"
{ cmake --preset dev && cmake --build build; } >"$dir/build.log" 2>&1 || { tail -n 20 "$dir/build.log" >&2; echo "night: the build failed" >&2; exit 1; }
failed=0
for part in "${wanted[@]}"; do
  begin=$SECONDS
  ("part_$part") >"$dir/$part.log" 2>&1
  status=$?
  outcome=passed
  if [ $status -ne 0 ]; then
    outcome="FAILED with status $status, see $dir/$part.log"
    failed=$((failed + 1))
  fi
  printf '%-16s %6d s  %s\n' "$part" $((SECONDS - begin)) "$outcome"
done
echo "night: $failed of ${#wanted[@]} parts failed (seed $seed, scale $scale)"
exit $((failed > 0))
