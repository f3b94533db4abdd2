#!/usr/bin/env bash
# Compiles the kernels of networks and of random schedules of matrix products to PTX, and assembles them with ptxas, for
# each architecture; for sm_75 if ptxas has dropped the architecture. Fails if ptxas warns, or if a kernel that keeps a
# tile in registers uses local memory or spills. Prints the registers, static shared memory and spills of each kernel,
# then the maxima of each architecture. Needs ptxas on the PATH, but no GPU.
#   scripts/ptx.sh [MODEL.onnx ...]     default: examples/resnet20.onnx
# Environment: ARCHS (default: "sm_70 sm_75 sm_80 sm_86 sm_87 sm_89 sm_90 sm_100 sm_103 sm_120"), SCHEDULES (default 64)
# and OUT (default build/ptx).
# The programs autotune and bench_ptx_sketches must be built.
set -euo pipefail
cd "$(dirname "$0")/.."

archs=${ARCHS:-sm_70 sm_75 sm_80 sm_86 sm_87 sm_89 sm_90 sm_100 sm_103 sm_120}
schedules=${SCHEDULES:-64}
out=${OUT:-build/ptx}
models=("$@")
[ ${#models[@]} -gt 0 ] || models=(examples/resnet20.onnx)

command -v ptxas >/dev/null || { echo "ptx.sh: there is no ptxas on the PATH" >&2; exit 2; }

failed=0
# judge ARCH FILE: appends "ARCH SET KERNEL registers stack spills shared" to $out/table for each kernel of the file.
judge() {
  local arch=$1 file=$2 log=$out/ptxas.log set assembled=$1
  ptxas --help | grep "'$arch'" >/dev/null || assembled=sm_75
  set=$(basename "$(dirname "$file")")
  if ! ptxas -arch="$assembled" -v --warning-as-error -o /dev/null "$file" >"$log" 2>&1; then
    failed=1
    echo "FAILED: $file" && grep -v '^ptxas info' "$log" | head -n 5
    return
  fi
  awk -v arch="$arch" -v set="$set" '
    /Compiling entry function/ { split($0, part, "\x27"); kernel = part[2] }
    /bytes stack frame/ { stack = $1; spills = $5 + $9 }
    /Used [0-9]+ registers/ {
      match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5)
      shared = 0
      if (match($0, /[0-9]+ bytes smem/)) shared = substr($0, RSTART, RLENGTH) + 0
      print arch, set, kernel, registers, stack, spills, shared
    }' "$log" >"$out/rows"
  cat "$out/rows" >>"$out/table"
  # A kernel with a tile in registers may use neither local memory nor spills. Such a kernel is in a file named tile*,
  # or uses shared memory.
  case $(basename "$file") in tile*) tiled=1 ;; *) tiled=$(grep -c '\.shared \.align' "$file" || true) ;; esac
  if [ "$tiled" -gt 0 ] && awk '$5 > 0 || $6 > 0 { found = 1 } END { exit !found }' "$out/rows"; then
    failed=1
    echo "FAILED: local memory or spills: $(cat "$out/rows")"
  fi
}

rm -rf "$out"
mkdir -p "$out"
for arch in $archs; do
  for model in "${models[@]}"; do
    name=$(basename "$model" .onnx)
    [ "$name" != model ] || name=$(basename "$(dirname "$model")")
    build/tools/autotune compile --model "$model" --target "cuda -arch=$arch" --db :memory: -o "$out/$name.tar" >"$out/compile.log" 2>&1 ||
      { cat "$out/compile.log"; echo "FAILED: $model does not compile for $arch"; failed=1; continue; }
    mkdir -p "$out/$arch/$name"
    tar -xf "$out/$name.tar" -C "$out/$arch/$name" --strip-components=2 codegen/cuda
  done
  build/bench/bench_ptx_sketches "$out/$arch/sketches" "$arch" "$schedules" || failed=1
  for file in "$out/$arch"/*/*.ptx; do judge "$arch" "$file"; done
done

printf '%-6s %-12s %-44s %9s %6s %6s %7s\n' arch set kernel registers stack spills shared
while read -r arch set kernel registers stack spills shared; do
  printf '%-6s %-12s %-44s %9s %6s %6s %7s\n' "$arch" "$set" "$kernel" "$registers" "$stack" "$spills" "$shared"
done <"$out/table"
echo
awk '{ count[$1]++; if ($4 > most[$1]) most[$1] = $4; spills[$1] += $6; stack[$1] += $5 > 0 }
     END { for (a in count) printf "%s: %d kernels, at most %d registers, %d spilled bytes, %d with a stack\n", a, count[a], most[a], spills[a], stack[a] }' \
  "$out/table" | sort
exit $failed
