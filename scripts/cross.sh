#!/bin/sh
# Tests code for other machines without these machines. Compiles networks for AArch64 and RISC-V, with LLVM and as C,
# and for older and newer x86-64 CPUs. Runs the packages under qemu-user with a loader that is cross-compiled from
# runtime/, and compares the outputs with this machine's. ResNet-20 is also compiled ahead of time and linked into
# examples/aot/main.c, whose outputs must be those of the package. Then checks that the x86-64 code has only instructions
# of the target. Random products of 8-bit numbers must be exact there (tests/compiler/integer_conformance_test.cc).
# scripts/cross.sh [--strict] [MODEL.onnx ...]
# scripts/cross.sh --farm [--machine aarch64|riscv64] [--try] [FILE.tar.xz]
#   builds rpc_server for boards instead (AArch64 if no machine is given): see scripts/cross/farm.sh
# scripts/cross.sh --wheel [--try] [FOLDER]
#   makes the wheel of the runtime for AArch64 instead: see scripts/cross/wheel.sh
# Needs a built tree (build/, or BUILD=...) and qemu-user, g++-aarch64-linux-gnu, g++-riscv64-linux-gnu, which
# scripts/install.sh does not install. If the tools for a machine are missing, the script says so and skips the machine;
# with --strict, the exit code is then 1.
set -eu
cd "$(dirname "$0")/.."
case "${1-}" in
  --farm | --wheel)
    script=scripts/cross/${1#--}.sh
    shift
    exec "$script" "$@"
    ;;
esac
root=$PWD
build=${BUILD:-$root/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
strict=0
[ "${1-}" != --strict ] || { strict=1; shift; }
export AUTOTUNE_DB=$work/records.db

# The files of support/ that runtime/ needs.
support=$(for name in cpu_features cpus file half hash json statistics utf8; do echo "support/$name.cc"; done)

# build_loader NAME COMPILER: builds the loader from the sources that it needs. Links only the target's C++ library.
build_loader() {
  mkdir -p "$work/$1"
  for source in scripts/cross/loader.cc $support runtime/*.cc runtime/cuda/*.cc runtime/opencl/*.cc; do
    # -idirafter: searches this machine's header-only packages after the target's own headers
    echo "$source" | tr / _ | sed 's/cc$/o/' | xargs -I OBJECT echo "$source -o $work/$1/OBJECT"
  done | xargs -P "$(nproc)" -L 1 ${CCACHE-$(command -v ccache || true)} "$2" -std=gnu++20 -O1 -fvisibility=hidden \
    -ffp-contract=off -I"$root" -idirafter /usr/include -c
  "$2" -o "$work/$1/loader" "$work/$1"/*.o -ldl -lpthread
}

# unpack MODEL TARGET FOLDER: compiles the model for the target and unpacks the package into the folder
unpack() {
  mkdir -p "$3"
  "$build/tools/autotune" compile --model "$1" --target "$2" -o "$3/package.tar" >"$3/log" 2>&1 || {
    cat "$3/log" >&2
    return 1
  }
  tar -xf "$3/package.tar" -C "$3"
}

# on NAME TARGET EMULATOR...: compiles and runs every model, on the emulator or, if none is given, on this machine
on() {
  name=$1 target=$2
  shift 2
  loader=$work/$arch/loader
  for model in $models; do
    label=$(basename "$model" .onnx)
    [ "$label" != model ] || label=$(basename "$(dirname "$model")")
    folder=$work/$name-$label
    verb=compare
    case $label in test_relu | test_maxpool*) verb=equal ;; esac # exact, since the result has no sums
    unpack "$model" "$target" "$folder" && "$@" "$loader" run "$folder" "$folder/out" 2>"$folder/log" || {
      cat "$folder/log" >&2
      echo "$name $label: FAILED"
      failed=1
      continue
    }
    for expected in "$work/host-$label"/out*.npy; do
      [ "$name" != host ] || break
      result=$("$work/host/loader" $verb "$folder/$(basename "$expected")" "$expected" 2>&1) || failed=1
      echo "$name $label: $result"
    done
  done
}

# aot NAME TARGET COMPILER EMULATOR...: compiles ResNet-20 ahead of time after `on` has run it, runs the program, and
# compares its bytes with the package's
aot() {
  name=$1 target=$2 compiler=$3 folder=$work/$1-resnet20
  shift 3
  [ -f "$folder/in0.npy" ] || return 0 # other models were given
  tail -c 12288 "$folder/in0.npy" >"$folder/in.bin" # without the header
  tail -c 40 "$folder/out0.npy" >"$folder/expected.bin"
  if "$build/tools/autotune" compile --model examples/resnet20.onnx --target "$target" --executor aot -q \
      -o "$folder/resnet20.a" 2>/dev/null &&
    "$compiler" -std=c99 -static -I"$folder" examples/aot/main.c "$folder/resnet20.a" -o "$folder/classify" &&
    "$@" "$folder/classify" "$folder/in.bin" "$folder/aot.bin" >/dev/null && cmp "$folder/aot.bin" "$folder/expected.bin"
  then
    echo "$name resnet20, ahead of time: the package's bytes"
  else
    echo "$name resnet20, ahead of time: FAILED"
    failed=1
  fi
}

# none NAME PATTERN WHAT: fails if an instruction in the libraries made for NAME matches PATTERN
# some NAME PATTERN WHAT: fails if no instruction in the libraries made for NAME matches PATTERN
disassemble() { objdump -d --no-show-raw-insn "$work/$1"-*/codegen/host/lib/*.so | cut -f 2-; }
none() {
  found=$(disassemble "$1" | grep -E -m 1 "$2" || true)
  if [ -n "$found" ]; then
    echo "$1: FAILED, contains $found"
    failed=1
  else
    echo "$1: nothing like $3"
  fi
}
some() {
  [ -z "$given" ] || return 0 # a given model may have no products, and so no multiply-adds
  if disassemble "$1" | grep -q -E "$2"; then
    echo "$1: uses $3"
  else
    echo "$1: FAILED, makes no use of $3"
    failed=1
  fi
}

# integers NAME TARGET EMULATOR...: products of 8-bit numbers, compiled here and run on the emulator, are exact
integers() {
  name=$1 target=$2
  shift 2
  [ -z "$given" ] || return 0
  if [ ! -x "$build/tests/test_compiler" ]; then
    echo "skipped: $name integers: cmake --build $build --target test_compiler"
    failed=$((failed | strict))
  elif AUTOTUNE_CROSS_TARGET=$target AUTOTUNE_CROSS_LOADER="$* $work/$arch/loader" "$build/tests/test_compiler" \
    --gtest_filter='*IntegerConformance*AnotherMachine*' >"$work/integers" 2>&1; then
    echo "$name integers: exact"
  else
    cat "$work/integers" >&2
    echo "$name integers: FAILED"
    failed=1
  fi
}

have() {
  for tool in "$@"; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; failed=$((failed | strict)); return 1; }
  done
}

given=$*
if [ $# -gt 0 ]; then
  models=$*
else
  data=/usr/share/libonnx-testdata/data/node
  models="examples/resnet20.onnx $data/test_relu/model.onnx $data/test_maxpool_2d_pads/model.onnx $data/test_softmax_axis_1/model.onnx"
fi
host='llvm -mtriple=x86_64-linux-gnu'
arch=host
build_loader host g++
on host cpu
# Tests the comparison itself: it must refuse an output whose last value was replaced by about 50.
right=$(ls "$work"/host-*/out*.npy | head -n 1)
cp "$right" "$work/wrong.npy"
printf '\111\102' | dd of="$work/wrong.npy" bs=1 seek=$(($(wc -c <"$right") - 2)) conv=notrunc 2>/dev/null
if "$work/host/loader" compare "$work/wrong.npy" "$right" >/dev/null 2>&1; then
  echo "FAILED: the comparison accepts a wrong output"
  failed=1
fi
if have qemu-aarch64 aarch64-linux-gnu-g++; then
  arch=aarch64
  build_loader aarch64 aarch64-linux-gnu-g++
  on cortex-a72 'llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=2' qemu-aarch64 -L /usr/aarch64-linux-gnu
  aot cortex-a72 'llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=2' aarch64-linux-gnu-gcc qemu-aarch64
  for options in '' ' -vectors=none'; do # compiled by aarch64-linux-gnu-gcc
    on "cortex-a72-c${options# -vectors=}" "c -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=2$options" \
      qemu-aarch64 -L /usr/aarch64-linux-gnu
  done
  for cpu in cortex-a72 cortex-a76 neoverse-v1; do # without dot products; with sdot and udot; with usdot, too
    integers $cpu "llvm -mtriple=aarch64-linux-gnu -mcpu=$cpu -num-cores=2" \
      qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu
  done
fi
if have qemu-riscv64 riscv64-linux-gnu-g++; then
  arch=riscv64
  build_loader riscv64 riscv64-linux-gnu-g++
  on sifive-u74 'llvm -mtriple=riscv64-linux-gnu -mcpu=sifive-u74 -num-cores=2' qemu-riscv64 -L /usr/riscv64-linux-gnu
  aot sifive-u74 'llvm -mtriple=riscv64-linux-gnu -mcpu=sifive-u74 -num-cores=2' riscv64-linux-gnu-gcc qemu-riscv64
  on sifive-u74-c 'c -mtriple=riscv64-linux-gnu -mcpu=sifive-u74 -num-cores=2' qemu-riscv64 -L /usr/riscv64-linux-gnu
  on rv64gcv 'llvm -mtriple=riscv64-linux-gnu -mcpu=generic-rv64 -mattr=+v -num-cores=2' \
    qemu-riscv64 -cpu rv64,v=true,vext_spec=v1.0 -L /usr/riscv64-linux-gnu
  integers sifive-u74 'llvm -mtriple=riscv64-linux-gnu -mcpu=sifive-u74 -num-cores=2' \
    qemu-riscv64 -L /usr/riscv64-linux-gnu
fi
arch=host
# run_as CPU: prints the qemu command that emulates an older processor, which crashes at an instruction that it lacks.
# Without qemu, prints nothing, so the code runs on this machine itself.
run_as() { command -v qemu-x86_64 >/dev/null && echo "qemu-x86_64 -cpu $1" || true; }
on nehalem "$host -mcpu=nehalem -num-cores=2" $(run_as Nehalem)
none nehalem '%[yz]mm|^v[a-z0-9]+ ' AVX
some nehalem '%xmm' SSE
on haswell "$host -mcpu=haswell -num-cores=2" $(run_as Haswell)
none haswell '%zmm|%k[0-7]|%[xy]mm(1[6-9]|2[0-9]|3[01])' AVX-512
some haswell 'vfmadd.*%ymm' 'AVX2 and FMA'
if grep -q avx512vl /proc/cpuinfo; then
  on skylake-avx512 "$host -mcpu=skylake-avx512 -num-cores=2"
else
  echo "skylake-avx512: this machine has no AVX-512, so its code is inspected, not run"
  for model in $models; do unpack "$model" "$host -mcpu=skylake-avx512 -num-cores=2" "$work/skylake-avx512-$(basename "$(dirname "$model")")" || failed=1; done
fi
some skylake-avx512 '%zmm' AVX-512
# A CPU without AVX-512 must refuse the package in one line, instead of failing at the first unknown instruction.
if have qemu-x86_64; then
  for folder in "$work"/skylake-avx512-*; do
    code=0
    text=$(qemu-x86_64 -cpu Haswell "$work/host/loader" run "$folder" "$folder/refused" 2>&1 >/dev/null) || code=$?
    case "$code $text" in
      "1 "*"needs AVX-512 (avx512"*"which this CPU lacks"*) echo "skylake-avx512 $(basename "$folder"): refused by Haswell" ;;
      *) echo "skylake-avx512 $(basename "$folder"): FAILED, on Haswell: exit $code $text"; failed=1 ;;
    esac
  done
fi
none skylake-avx512 'vdpbf16|vp2intersect|tdpb' 'later extensions'
exit $failed
