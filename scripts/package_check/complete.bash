# Completes command lines as an interactive bash does: with the file that bash-completion finds by the command's name.
source /usr/share/bash-completion/bash_completion
offers() { # EXPECTED WORD...: checks what is offered for the last word
  local expected=$1
  shift
  _completion_loader "$1"
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  "_$1"
  [ "${COMPREPLY[*]}" = "$expected" ] || { echo "$*: offered ${COMPREPLY[*]}, expected $expected"; exit 1; }
}
offers "tune" autotune tun
offers "evolution random" autotune tune --search ""
offers "drain" rpc_tracker dr
offers "strict" rpc_server --sandbox st
