#!/usr/bin/env bash
# Checks the default schedules of matrix products, passes over rows and long sums for NVIDIA's GPUs, without a GPU.
# Prints a row for each program: the decisions, facts about the memory accesses of warps (computed from the lowered
# program), registers and spills (from ptxas), and the speed that the draft score predicts. Fails if a row misses a
# limit.
#   scripts/gpu_static.sh [SIZE ...]     sizes of the square matrix products, default: 1024 2048 4096 8192
# Limits of matrix products, one row for each type of the operands and each size:
#   all types: no bank conflicts, no sectors that are used in part, 1 barrier per iteration of the reduction loop, at
#   least 3 pipeline stages, no spilled bytes;
#   f32: at least 85 % of the main loop's instructions are fma, and at least 85 % of the peak is predicted;
#   other types, which tensor cores multiply: at least 64 mma instructions in the code. The predicted speed has no
#   limit, since the draft score does not model the second-level cache.
# Limits of passes over rows (PASSES; default: softmax, layer normalization and row sums of usual sizes):
#   loads of 16 bytes, no bank conflicts, no sectors used in part, no spills, at least 90 % of a copy's speed predicted
# Limits of long sums with few results (SUMS; default: column sums and products of one row): the same, but at least 70 %
# of a copy's speed, since a sum in parts takes a second kernel.
# Environment: PASSES, SUMS, ARCHS (default "sm_80 sm_90"), TYPES (default "f32 tf32 f16 bf16") and OUT (default
# build/gpu_static).
# Needs bench_gpu_static, and ptxas on the PATH; without ptxas, registers and spills are not checked.
set -euo pipefail
cd "$(dirname "$0")/.."

archs=${ARCHS:-sm_80 sm_90}
types=${TYPES:-f32 tf32 f16 bf16}
out=${OUT:-build/gpu_static}
passes=${PASSES:-softmax:16384x1024 softmax:16384x1000 softmax:4096x4096 layer_norm:16384x768 layer_norm:8192x4096 row_sums:65536x1024}
sums=${SUMS:-column_sums:16384x1024 column_sums:262144x64 one_row:4096x4096 one_row:4096x16384}
sizes=("$@")
[ ${#sizes[@]} -gt 0 ] || sizes=(1024 2048 4096 8192)
mkdir -p "$out"
command -v ptxas >/dev/null || echo "gpu_static.sh: no ptxas on the PATH: registers and spills are not checked" >&2

format='%-6s %-5s %6s  %-18s %6s %8s %9s %7s %9s %6s %5s %10s\n'
# shellcheck disable=SC2059
printf "$format" arch type size decisions stages barriers conflicts sectors registers spills work predicted
failed=0
# judge ARCH FILE: sets registers and spills to the numbers of ptxas, or to "-" without ptxas
judge() {
  registers=- spills=-
  command -v ptxas >/dev/null || return 0
  ptxas -arch="$1" -v --warning-as-error -o /dev/null "$2" >"$out/ptxas.log" 2>&1 || { cat "$out/ptxas.log"; failed=1; }
  registers=$(sed -n 's/.*Used \([0-9]*\) registers.*/\1/p' "$out/ptxas.log" | sort -n | tail -n 1)
  spills=$(awk '/bytes stack frame/ { bytes += $5 + $9 } END { print bytes }' "$out/ptxas.log")
}
# row ARCH TYPE SIZE: checks one matrix product and prints its row
row() {
  local arch=$1 type=$2 size=$3 file=$out/$1_$2_$3.ptx
  read -r _ _ _ decisions stages barriers conflicts sectors work predicted < <(build/bench/bench_gpu_static "$arch" "$type" "$size" "$file") ||
    { echo "FAILED: $arch $type $size" >&2; failed=1; return; }
  judge "$arch" "$file"
  # shellcheck disable=SC2059
  printf "$format" "$arch" "$type" "$size" "$decisions" "$stages" "$barriers" "$conflicts" "$sectors" "$registers" "$spills" "$work" "$predicted"
  awk -v stages="$stages" -v barriers="$barriers" -v conflicts="$conflicts" -v sectors="$sectors" -v spills="$spills" \
    -v type="$type" -v work="$work" -v predicted="$predicted" 'BEGIN {
      exit !(stages >= 3 && barriers == 1 && conflicts == 0 && sectors == 0 && (spills == "-" || spills == 0) &&
             (type == "f32" ? work >= 85 && predicted >= 85 : work >= 64)) }' || { echo "  ^ misses a limit"; failed=1; }
}
for arch in $archs; do
  for type in $types; do
    for size in "${sizes[@]}"; do row "$arch" "$type" "$size"; done
  done
done

format='%-6s %-11s %-10s  %-11s %7s %6s %7s %5s %9s %7s %5s %9s %6s %9s\n'
# shellcheck disable=SC2059
printf "\n$format" arch passes size decisions kernels blocks threads bytes conflicts sectors loads registers spills predicted
# pass ARCH PASSES SIZE LEAST: checks the kernels of passes over rows or of a sum, and prints their row. LEAST is the
# least predicted speed, in percent of a copy.
pass() {
  local arch=$1 name=$2 size=$3 least=$4 file=$out/$1_$2_$3.ptx
  read -r _ _ _ decisions kernels blocks threads bytes conflicts sectors loads predicted < <(build/bench/bench_gpu_static "$arch" "$name" "$size" "$file") ||
    { echo "FAILED: $arch $name $size" >&2; failed=1; return; }
  judge "$arch" "$file"
  # shellcheck disable=SC2059
  printf "$format" "$arch" "$name" "$size" "$decisions" "$kernels" "$blocks" "$threads" "$bytes" "$conflicts" "$sectors" "$loads" "$registers" "$spills" "$predicted"
  awk -v bytes="$bytes" -v conflicts="$conflicts" -v sectors="$sectors" -v spills="$spills" -v predicted="$predicted" \
    -v least="$least" 'BEGIN {
    exit !(bytes == 16 && conflicts == 0 && sectors == 0 && (spills == "-" || spills == 0) && predicted >= least) }' ||
    { echo "  ^ misses a limit"; failed=1; }
}
for arch in $archs; do
  for one in $passes; do pass "$arch" "${one%%:*}" "${one#*:}" 90; done
  for one in $sums; do pass "$arch" "${one%%:*}" "${one#*:}" 70; done
done
exit $failed
