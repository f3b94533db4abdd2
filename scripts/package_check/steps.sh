#!/bin/sh
# One step of scripts/package_check.sh, in the Debian whose /tmp/check has the packages: steps.sh NAME
set -e
cd /tmp/check
install() { apt-get install -y --no-install-recommends "$@"; }
nothing_left() {
  left=$(find /usr /etc /var/lib/dpkg/info -name '*autotune*' -o -name 'libLLVM*')
  [ -z "$left" ] || { echo "left: $left"; exit 1; }
}
resnet20() { python3 /tmp/check/resnet20.py "$@"; }
tune() {
  rm -f python.db ./*_by_python.tar
  python3 /tmp/check/tune.py resnet20.onnx
}

case $1 in
  update) apt-get update ;;
  install)
    install ./*.deb
    autotune --version
    ;;
  tools) install man-db bash-completion zsh fish gcc libc6-dev cmake make pkg-config ;;
  man)
    man autotune | grep SYNOPSIS
    man autotune-tune | grep -e --trials
    man rpc_server rpc_tracker >/dev/null
    whatis autotune
    ;;
  bash) bash complete.bash ;;
  zsh) zsh complete.zsh ;;
  fish) fish complete.fish ;;
  compile) autotune compile --model resnet20.onnx -o m.tar ;;
  tune) autotune --model resnet20.onnx --trials 4 -o tuned.tar ;;
  python) resnet20 m.tar ;;
  python-tune) tune ;;
  numpy)
    install python3-numpy
    resnet20 tuned.tar
    ;;
  cmake)
    cmake -S project -B built
    cmake --build built
    built/main m.tar
    ;;
  pkg-config)
    # shellcheck disable=SC2046 # one word per flag
    cc project/main.c -o /tmp/main $(pkg-config --cflags --libs autotune-runtime)
    /tmp/main m.tar
    ;;
  size) [ "$(dpkg-query -Wf '${Installed-Size}' libautotune-runtime0)" -le 3072 ] ;;
  farm) sh farm.sh ;;
  purge)
    apt-get purge -y autotune libautotune-runtime0 libautotune-dev python3-autotune
    apt-get autoremove --purge -y
    nothing_left
    ;;
  pip) install python3 python3-pip ;;
  runtime-wheel)
    pip install --break-system-packages --no-index ./autotune_runtime-*_"$(uname -m)".whl
    resnet20 m.tar
    ;;
  compiler-wheel)
    pip install --break-system-packages --no-index --find-links . autotune-compiler
    autotune compile --model resnet20.onnx -o wheel.tar
    autotune --model resnet20.onnx --trials 4
    resnet20 wheel.tar
    ;;
  compiler-wheel-python) tune ;;
  compiler-wheel-farm) sh farm.sh ;;
  uninstall)
    pip uninstall -y --break-system-packages autotune-compiler autotune-runtime
    nothing_left
    ;;
  *)
    echo "unknown step $1" >&2
    exit 2
    ;;
esac
