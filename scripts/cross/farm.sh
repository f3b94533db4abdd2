#!/usr/bin/env bash
# Cross-builds rpc_server for AArch64 or 64-bit RISC-V, and packs it with its loader and its libraries into one archive
# of at most 12 MiB, for boards of any Linux. scripts/cross.sh --farm starts it.
#   scripts/cross.sh --farm [--machine aarch64|riscv64] [--try] [FILE.tar.xz]
# The default machine is aarch64, and the default file build/rpc_server-MACHINE.tar.xz.
# --try unpacks the archive and runs it under qemu-user: it joins a tracker here by a join file, a tuner measures 32
# candidates of ResNet-20 there, and the tuned network runs there. Its outputs must be those of this host, and its
# package must equal the one that `autotune compile --target` makes here. Needs a built tree (build/, or BUILD=...).
# scripts/cross/build.sh builds it.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD build=${BUILD:-$PWD/build}
fail() { printf 'cross: %s\n' "$*" >&2; exit 1; }
usage() { echo "usage: scripts/cross.sh --farm [--machine aarch64|riscv64] [--try] [FILE.tar.xz]" >&2; exit 2; }
machine=aarch64 try=0
while [ $# -gt 0 ]; do
  case $1 in
    --try) try=1 ;;
    --machine) machine=${2-} && shift $(($# > 1)) ;;
    -*) usage ;;
    *) break ;;
  esac
  shift
done
[ $# -le 1 ] || usage
most_bytes=$((12 << 20))

# All that differs between the machines:
#   loader                  the file name of the dynamic loader
#   record                  the recorded machine (tests/target/machines) that --try emulates
#   cpu                     the target for two cores of that machine
case $machine in
  aarch64)
    loader=ld-linux-aarch64.so.1 record=raspberry-pi-4
    cpu='-mcpu=cortex-a72 -caches=32K,1M,0'
    ;;
  riscv64)
    loader=ld-linux-riscv64-lp64d.so.1 record=visionfive-2
    cpu='-mcpu=generic-rv64 -mattr=+a,+c,+d,+f,+m -caches=32K,2M,0'
    ;;
  *) usage ;;
esac
target="llvm -mtriple=$machine-linux-gnu $cpu -num-cores=2"
out=${1:-$build/rpc_server-$machine.tar.xz}

needed=("$machine-linux-gnu-g++" xz)
[ $try = 0 ] || needed+=("qemu-$machine" g++)
for tool in "${needed[@]}"; do
  command -v "$tool" >/dev/null ||
    fail "$tool is missing: apt-get install g++-$machine-linux-gnu qemu-user xz-utils g++"
done
if [ $try = 1 ]; then
  for program in autotune rpc_tracker; do
    [ -x "$build/tools/$program" ] || fail "$build/tools/$program is missing: cmake --build build --target $program"
  done
fi

work=$(mktemp -d)
pids=()
release() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" || true; done
  rm -rf --one-file-system "$work"
}
trap release EXIT

# --- Build -----------------------------------------------------------------------------------------------------------

sysroot=$build/$machine-sysroot
scripts/cross/build.sh "$machine" "$build" rpc_server

# --- Pack ------------------------------------------------------------------------------------------------------------

bundle=$work/rpc_server-$machine
lib=$bundle/lib
mkdir -p "$lib"
cp "$build/$machine/tools/rpc_server" "$lib/"
# take FILE: copies the libraries that the file needs, and those that these need
take() {
  local name path
  for name in $("$machine-linux-gnu-readelf" -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p') $loader; do
    [ ! -e "$lib/$name" ] || continue
    path=$(find "$sysroot/root" -name "$name" | head -n 1)
    [ -n "$path" ] || fail "the packages of $machine lack $name"
    cp -L "$path" "$lib/$name"
    take "$lib/$name"
  done
}
take "$lib/rpc_server"
chmod 755 "$lib/$loader"
"$machine-linux-gnu-strip" --strip-unneeded "$lib"/*
cat >"$bundle/rpc_server" <<EOT
#!/bin/sh
# Starts rpc_server with the loader and the libraries of this folder, whatever those of this system are.
folder=\$(dirname "\$(readlink -f "\$0")")
export AUTOTUNE_LIBEXEC="\$folder" # the server starts its runners by this script, too
exec "\$folder/lib/$loader" --library-path "\$folder/lib" "\$folder/lib/rpc_server" "\$@"
EOT
chmod 755 "$bundle/rpc_server"
cp LICENSE "$bundle/"
tar -C "$work" --sort=name --owner=0 --group=0 --mtime=@0 -cf - "$(basename "$bundle")" | xz --lzma2=preset=9 >"$out.part"
mv "$out.part" "$out"
bytes=$(stat -c %s "$out")
printf '%s: rpc_server and %d libraries, %d.%d MiB (%d MiB unpacked)\n' "$out" "$(($(ls "$lib" | wc -l) - 1))" \
  $((bytes >> 20)) $((bytes % (1 << 20) * 10 >> 20)) "$(du -sm "$bundle" | cut -f1)"
[ "$bytes" -le $most_bytes ] || fail "$out is above $((most_bytes >> 20)) MiB"
[ $try = 1 ] || exit 0

# --- Try -------------------------------------------------------------------------------------------------------------

mkdir "$work/board"
xz -dc "$out" | tar -C "$work/board" -xf -
lib=$work/board/rpc_server-$machine/lib
export XDG_STATE_HOME=$work/state XDG_CONFIG_HOME=$work/config AUTOTUNE_DB=$work/records.db
export SOURCE_DATE_EPOCH=0 # the date in packages
# The system of this host cannot start the board's programs, so the server starts its runners by the emulator, too.
emulator="qemu-$machine $lib/$loader --library-path $lib"
# shellcheck disable=SC2206 # the emulator's words
board=(env "AUTOTUNE_LIBEXEC=$lib" $emulator "$lib/rpc_server" --runner-prefix "$emulator")

# What the board states of its first two cores. The emulator shows this host's files instead.
facts=$work/facts
write() { mkdir -p "$(dirname "$facts/$1")" && printf '%s\n' "$2" >"$facts/$1"; }
processor='' number=0
while read -r kind name value; do # tests/target/machines.h has the format
  case $kind in
    cpu) processor+="$name $value"$'\n' ;;
    cache)
      for core in 0 1; do
        folder=sys/devices/system/cpu/cpu$core/cache/index$number
        write "$folder/level" "$name"
        write "$folder/type" "${value% *}"
        write "$folder/size" "${value#* }"
      done
      number=$((number + 1))
      ;;
  esac
done <"tests/target/machines/$record.txt"
write proc/cpuinfo "$(for core in 0 1; do printf 'processor : %s\n%s\n' $core "$processor"; done)"

# Under the emulator, no filter of system calls and no restriction of files exists. The server must say so.
"${board[@]}" doctor >"$work/doctor.log" 2>&1 || { cat "$work/doctor.log" >&2; fail "rpc_server doctor failed"; }
for layer in files 'system calls'; do
  grep -q "^$layer *off" "$work/doctor.log" || { cat "$work/doctor.log" >&2; fail "doctor does not show: $layer off"; }
done
sed 's/^/  doctor: /' "$work/doctor.log"

address=127.0.0.1:$((20000 + RANDOM % 10000))
invite() { "$build/tools/rpc_tracker" invite "$1" --role "$2" --advertise "$address" >"$work/$1.join" 2>"$work/invite.log"; }
invite board server && invite alice client || { cat "$work/invite.log" >&2; fail "no join file could be made"; }
chmod 600 "$work"/*.join
"$build/tools/rpc_tracker" --listen "$address" >"$work/tracker.log" 2>&1 &
pids+=($!)
"${board[@]}" --join "$work/board.join" --key "$record" --machine "$facts" --listen 127.0.0.1:0 \
  2>"$work/server.log" >&2 &
pids+=($!)
show() { tail -n 20 "$work"/{tracker,server,tune,run}.log >&2 2>/dev/null || true; fail "$*"; }
# The emulated server takes seconds to start; a tuner waits for a device that has registered, and not for one to come.
ready() { "$build/tools/rpc_tracker" status --state "$XDG_STATE_HOME/autotune/tracker" --json 2>/dev/null | grep -q '"state":"free"'; }
for ((i = 0; i < 600; ++i)); do ready && break || sleep 0.1; done
ready || show "the emulated board does not register"
farm=(--join "$work/alice.join" --key "$record")
model=examples/resnet20.onnx input=image=examples/resnet20/test_data_set_0/input_0.pb
autotune=$build/tools/autotune

"$autotune" tune --model $model --trials 32 --seed 1 "${farm[@]}" -o "$work/tuned.tar" >"$work/tune.log" 2>&1 &&
  grep -q '^32 trials' "$work/tune.log" || show "tuning on the emulated board failed"
grep '^32 trials' "$work/tune.log"
"$autotune" compile --model $model --target "$target" -o "$work/compiled.tar" --quiet
cmp "$work/tuned.tar" "$work/compiled.tar" || show "the package differs from the one that is compiled for: $target"
echo "the package equals the one that is compiled for: $target"
"$autotune" run "$work/tuned.tar" --input $input --output-dir "$work/there" "${farm[@]}" >"$work/run.log" 2>&1 ||
  show "the network does not run on the emulated board"
"$autotune" compile --model $model -o "$work/here.tar" --quiet
"$autotune" run "$work/here.tar" --input $input --output-dir "$work/here" >"$work/run.log" 2>&1 || show "it does not run here"
g++ -std=gnu++20 -O1 -I"$root" scripts/cross/loader.cc "$build/runtime/libruntime.a" "$build/support/libsupport.a" \
  -ldl -lpthread -o "$work/loader"
for file in "$work"/here/*.npy; do
  "$work/loader" compare "$work/there/$(basename "$file")" "$file" || show "the board's outputs are not this host's"
done
# The comparison itself: it must refuse the outputs of another input.
"$autotune" run "$work/here.tar" --output-dir "$work/other" >/dev/null 2>&1
if "$work/loader" compare "$work"/other/*.npy "$work"/here/*.npy >/dev/null 2>&1; then
  fail "the comparison accepts wrong outputs"
fi
kill "${pids[1]}"
wait "${pids[1]}" || show "the server on the emulated board did not end with exit code 0"
unset 'pids[1]'
echo "rpc_server-$machine works under qemu-$machine"
